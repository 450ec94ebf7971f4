# SPDX-License-Identifier: Apache-2.0
"""Writes catalog/engines/: what each engine's own argument parser takes, read from the engine and never typed by hand.

`inside.py` runs in an interpreter where the engine can be imported and asks the real parser. Where an engine can not be
run, `python_source.py` and `click_source.py` read its source without executing it. `document.py` gives both one form.
"""
