# SPDX-License-Identifier: Apache-2.0
"""Our settings in a JSON file that others write to as well: theirs are kept, ours take precedence.

Maps are merged key by key. A key named in `whole` is replaced as a whole, because its parts only make sense together.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

Settings = dict[str, Any]


class _Absent:
    """The marker of a missing key, as null is a value of its own."""

    def __repr__(self) -> str:
        return "absent"


ABSENT = _Absent()


def parse_settings(text: str | None) -> Settings:
    """Parse the settings; a missing or empty file has none. Raises ValueError with a message if they are invalid."""
    if text is None or not text.strip():
        return {}
    try:
        found = json.loads(text)
    except ValueError as error:
        raise ValueError(f"it is not JSON ({error})") from error
    if not isinstance(found, dict):
        raise ValueError(f"it holds a JSON {type(found).__name__}, not an object")
    return found


def merged(current: Mapping[str, Any], settings: Mapping[str, Any], whole: Iterable[str] = ()) -> Settings:
    """Return the desired settings: all of ours, and everything else that is already set."""
    result = dict(current)
    together = set(whole)
    for key, value in settings.items():
        former = result.get(key)
        if isinstance(value, Mapping) and isinstance(former, Mapping) and key not in together:
            result[key] = merged(former, value)
        else:
            result[key] = value
    return result


def rendered(settings: Mapping[str, Any]) -> str:
    """Render the file's text, sorted so that equal settings give equal bytes."""
    return json.dumps(settings, indent=2, sort_keys=True) + "\n"


def at_keys(current: Mapping[str, Any], settings: Mapping[str, Any], whole: Iterable[str] = ()) -> Settings:
    """Return the values at our keys, and nothing else of the file."""
    together = set(whole)
    found: Settings = {}
    for key, value in settings.items():
        if key not in current:
            continue
        former = current[key]
        if isinstance(value, Mapping) and value and isinstance(former, Mapping) and key not in together:
            found[key] = at_keys(former, value)
        else:
            found[key] = former
    return found


def lacking(
    current: Mapping[str, Any], settings: Mapping[str, Any], whole: Iterable[str] = ()
) -> list[tuple[str, Any, Any]]:
    """Return every setting that differs: its dotted name, our value, and the current value or ABSENT."""
    return list(_lacking("", current, settings, set(whole)))


def _lacking(
    prefix: str, current: Mapping[str, Any], settings: Mapping[str, Any], whole: set[str]
) -> Iterator[tuple[str, Any, Any]]:
    for key, value in settings.items():
        have = current.get(key, ABSENT)
        if isinstance(value, Mapping) and isinstance(have, Mapping) and key not in whole:
            yield from _lacking(f"{prefix}{key}.", have, value, set())
        elif have != value or isinstance(have, bool) is not isinstance(value, bool):
            yield f"{prefix}{key}", value, have


def wanted_settings(desired_by_role: Mapping[str, Mapping[str, Any]]) -> dict[str, dict[str, Any]]:
    """Merge the settings and whole keys of all roles by path: what has to be read from each file."""
    found: dict[str, dict[str, Any]] = {}
    for desired in desired_by_role.values():
        for path, want in (desired.get("json_files") or {}).items():
            entry = found.setdefault(str(path), {"settings": {}, "whole": []})
            entry["settings"] = merged(entry["settings"], want.get("settings") or {})
            entry["whole"] = sorted({*entry["whole"], *(want.get("whole") or ())})
    return found
