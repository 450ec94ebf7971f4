# SPDX-License-Identifier: Apache-2.0
"""Pure parsers of what tools on a host print. Each takes text and returns plain values; none raises for bad
text unless its docstring says so."""
