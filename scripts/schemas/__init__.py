# SPDX-License-Identifier: Apache-2.0
"""Generate catalog/engines/: the arguments of each engine's own parser, extracted from the engine and never typed by
hand.

`inside.py` runs in an interpreter that can import the engine and inspects the real parser. For engines that cannot be
run, `python_source.py` and `click_source.py` read the source without executing it. `document.py` normalises both.
"""
