# SPDX-License-Identifier: Apache-2.0
"""Pure parsers of the output of tools on a host.

Each takes text and returns plain values; none raises for invalid text unless its docstring says so.
"""
