# SPDX-License-Identifier: Apache-2.0
"""Parses `fwupdmgr get-history --json`: the firmware updates that fwupd applied or staged for the next boot."""

from __future__ import annotations

import json
from collections.abc import Mapping
from datetime import datetime, timezone
from typing import Any

_STATES = {0: "unknown", 1: "pending", 2: "success", 3: "failed", 4: "needs-reboot", 5: "failed-transient"}
"""The meaning of fwupd's numbers; newer versions print the name."""


def parse_history(text: str) -> list[dict[str, Any]]:
    """Parse every update, oldest first: `device`, `before`, `after`, `at` in UTC, `state`; empty without a history.

    The device's version is the one before the update; its release is what was installed. Raises ValueError for text
    that is not fwupd's output.
    """
    try:
        found = json.loads(text)
    except ValueError as error:
        raise ValueError(f"fwupd's history is not JSON ({error})") from error
    if not isinstance(found, Mapping):
        raise ValueError("fwupd's history is not a JSON object")
    events = [_event(one) for one in found.get("Devices") or [] if isinstance(one, Mapping)]
    return sorted(events, key=lambda one: one["at"] or "")


def _event(device: Mapping[str, Any]) -> dict[str, Any]:
    releases = [one for one in device.get("Releases") or [] if isinstance(one, Mapping)]
    state = device.get("UpdateState", 0)
    return {
        "device": str(device.get("Name") or device.get("DeviceId") or "a device without a name"),
        "before": str(device.get("Version") or "an unknown version"),
        "after": str((releases[0] if releases else {}).get("Version") or "an unknown version"),
        "at": _moment(device.get("Modified") or device.get("Created")),
        "state": _STATES.get(state, str(state)) if isinstance(state, int) else str(state),
    }


def _moment(seconds: object) -> str | None:
    if not isinstance(seconds, int) or isinstance(seconds, bool):
        return None
    try:
        return datetime.fromtimestamp(seconds, tz=timezone.utc).strftime("%Y-%m-%dT%H:%M:%SZ")
    except (OverflowError, OSError, ValueError):
        return None
