# SPDX-License-Identifier: Apache-2.0
"""Parses `systemctl show A B C`: one block of properties per unit, separated by blank lines."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

SYSTEMD_PROPERTIES = "Id,Names,LoadState,UnitFileState,ActiveState,SubState"


def parse_properties(text: str) -> dict[str, str]:
    """Parse the properties of one unit."""
    pairs = (line.partition("=") for line in text.splitlines() if "=" in line)
    return {key.strip(): value.strip() for key, _, value in pairs}


def parse_systemctl_show(text: str, names: Sequence[str]) -> dict[str, dict[str, Any]]:
    """Parse the state of each named unit; a unit that the text does not mention is left out.

    An alias is reported under the name that was asked for (`Names` lists both).
    """
    blocks: list[dict[str, str]] = []
    for chunk in text.split("\n\n"):
        block = parse_properties(chunk)
        if block.get("Id"):
            blocks.append(block)
    known = {name: block for block in blocks for name in (block["Id"], *block.get("Names", "").split())}
    return {name: _unit(known[name]) for name in names if name in known}


def _unit(block: dict[str, str]) -> dict[str, Any]:
    return {
        "load": block.get("LoadState", ""),
        "enabled": block.get("UnitFileState", "") in ("enabled", "enabled-runtime"),
        "active": block.get("ActiveState", "") in ("active", "reloading"),
        "sub": block.get("SubState", ""),
    }
