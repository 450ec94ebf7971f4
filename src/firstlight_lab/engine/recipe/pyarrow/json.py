# SPDX-License-Identifier: Apache-2.0
"""The names of which Ray tells its serializer."""

from __future__ import annotations


class ReadOptions:
    """How a file is read."""


class ParseOptions:
    """How its text is understood."""
