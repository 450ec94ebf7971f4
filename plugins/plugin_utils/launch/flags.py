# SPDX-License-Identifier: Apache-2.0
"""Flags of the engine's command line, as an operator may write them."""

from __future__ import annotations


def flag_name(word: str) -> str | None:
    """Return the normalised name of a flag, which may be written with _ or - and with a value; None for a value."""
    if not word.startswith("-") or word[1:2].isdigit():
        return None
    return word.split("=", 1)[0].replace("_", "-")
