# SPDX-License-Identifier: Apache-2.0
"""JSON files that others write to as well: read for our settings alone, and merged with them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ..host import Host
from .json_settings import at_keys, merged, parse_settings, rendered
from .vocabulary import State


def read_json_file(host: Host, path: str, want: Mapping[str, Any]) -> State:
    """What the file has at our keys; the rest may hold secrets and stays where it is."""
    state = host.file_state(path)
    state.pop("sha256")
    try:
        settings = at_keys(parse_settings(host.read_text(path)), want["settings"], want.get("whole") or ())
    except ValueError as error:
        return {**state, "settings": {}, "error": str(error)}
    return {**state, "settings": settings, "error": None}


def merged_text(host: Host, path: str, want: Mapping[str, Any]) -> str:
    """The file's text with our settings in it; raises ValueError where it cannot be merged with."""
    try:
        current = parse_settings(host.read_text(path))
    except ValueError as error:
        raise ValueError(
            f"{path} cannot be merged with: {error}, expected a JSON object. Nothing was changed. Correct the file, or "
            "move it away to have a new one written"
        ) from error
    return rendered(merged(current, want["settings"], want.get("whole") or ()))


def settings_diff(path: str, seen: State, want: Mapping[str, Any]) -> dict[str, str]:
    """Our settings before and after, and nothing else of the file."""
    before = rendered(seen["settings"]) if seen["exists"] else ""
    return {"before_header": path, "after_header": path, "before": before, "after": rendered(want["settings"])}
