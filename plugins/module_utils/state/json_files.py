# SPDX-License-Identifier: Apache-2.0
"""JSON files that others write to as well: read only our settings, and merge them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ..host import Host
from .json_settings import at_keys, merged, parse_settings, rendered
from .vocabulary import State


def read_json_file(host: Host, path: str, want: Mapping[str, Any]) -> State:
    """Return the file's values at our keys only, as the rest may contain secrets."""
    state = host.file_state(path)
    state.pop("sha256")
    try:
        settings = at_keys(parse_settings(host.read_text(path)), want["settings"], want.get("whole") or ())
    except ValueError as error:
        return {**state, "settings": {}, "error": str(error)}
    return {**state, "settings": settings, "error": None}


def merged_text(host: Host, path: str, want: Mapping[str, Any]) -> str:
    """Return the file's text with our settings merged in; raises ValueError if it is not a JSON object."""
    try:
        current = parse_settings(host.read_text(path))
    except ValueError as error:
        raise ValueError(
            f"{path} cannot be merged with: {error}, expected a JSON object. Nothing was changed. Correct the file, or "
            "move it away to have a new one written"
        ) from error
    return rendered(merged(current, want["settings"], want.get("whole") or ()))


def settings_diff(path: str, seen: State, want: Mapping[str, Any]) -> dict[str, str]:
    """Return a diff of our settings, without the rest of the file."""
    before = rendered(seen["settings"]) if seen["exists"] else ""
    return {"before_header": path, "after_header": path, "before": before, "after": rendered(want["settings"])}
