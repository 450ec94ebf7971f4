# SPDX-License-Identifier: Apache-2.0
"""The kind of state that only role supervisor has: whether a group serves, according to its supervisor.

    groups     {"server": {"phase": "serving"}}

Everything here is pure, including the parser of a supervisor's state file.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from ..state.vocabulary import UNKNOWN, Difference, difference, register
from .files import DRAINED, FAILED, STATE_PATH
from .phase import OLD_SECONDS

NO_SUPERVISOR = "no supervisor"
"""The phase of a group whose supervisor is not running or does not report it."""
PATIENCE = 3
"""The number of failed starts, while waiting for a server, after which it is considered unable to start."""


def _differences(desired: Mapping[str, Any], observed: Mapping[str, Any]) -> list[Difference]:
    """Return the groups whose phase differs from the desired one."""
    found = []
    for name, want in desired.items():
        have = observed.get(name) or {"phase": UNKNOWN}
        if have.get("phase") != want.get("phase"):
            seen = {"phase": have.get("phase"), **{key: have[key] for key in ("why", "missing") if have.get(key)}}
            found.append(difference("group", name, {"phase": want.get("phase")}, seen))
    return found


def read_groups(text: str | None, age: float | None, names: list[str]) -> dict[str, dict[str, Any]]:
    """Parse the groups from the supervisor's state file; `age` is the number of seconds since it was written."""
    if text is None or age is None:
        return {name: _silent("there is no state file: no supervisor has run since the host booted") for name in names}
    try:
        document = json.loads(text)
        groups = document["groups"]
        found = {name: _group(groups.get(name), document) for name in names}
    except (ValueError, TypeError, KeyError, AttributeError):
        return {name: _silent(f"{STATE_PATH} is not the state file of a supervisor") for name in names}
    return {name: _believed(one, age) for name, one in found.items()}


def _believed(group: dict[str, Any], age: float) -> dict[str, Any]:
    """Discard a state that is too old, unless it is `failed`: that stays true until another supervisor starts."""
    if age <= OLD_SECONDS or group["phase"] == FAILED:
        return group
    return _silent(f"it last wrote {age:.0f} s ago, when the group was {group['phase']}")


def _group(group: Mapping[str, Any] | None, document: Mapping[str, Any]) -> dict[str, Any]:
    if group is None:
        return _silent("the running supervisor has no such group")
    missing = {str(node): str(reason) for node, reason in (group.get("missing") or {}).items()}
    why = str(group.get("why") or document.get("problem") or "")
    return {"phase": str(group["phase"]), "why": why, "missing": missing}


def _silent(why: str) -> dict[str, Any]:
    return {"phase": NO_SUPERVISOR, "why": why, "missing": {}}


def group_of_unit(text: str | None, age: float | None, unit: str) -> dict[str, Any] | None:
    """Return the state of the group a unit of this host belongs to; None if no running supervisor knows it."""
    for group in _groups(text, age):
        if unit in group["units"]:
            return group
    return None


def supervisor_words(text: str | None, age: float | None) -> str:
    """Describe the groups of this host's supervisor; empty if none runs."""
    return "; ".join(f"group {group['name']} is {group_words(group)}" for group in _groups(text, age))


def _groups(text: str | None, age: float | None) -> list[dict[str, Any]]:
    """Return all groups with a valid, current state, each with its name, its units on this host and its attempts."""
    if text is None or age is None:
        return []
    found = []
    try:
        document = json.loads(text)
        for name, group in document["groups"].items():
            here = _believed(_group(group, document), age)
            if here["phase"] != NO_SUPERVISOR:
                units = (group["nodes"].get(document["node"]) or {}).get("units", {})
                found.append(
                    {**here, "name": str(name), "units": list(units), "attempts": int(group.get("attempts") or 0)}
                )
    except (ValueError, TypeError, KeyError, AttributeError):
        return []
    return found


def unrecoverable_reason(before: Mapping[str, Any] | None, now: Mapping[str, Any]) -> str | None:
    """Return why waiting for a managed server is pointless; None while its supervisor may still start it."""
    if now["phase"] == FAILED:
        return f"group {now['name']} {now['why'] or 'was given up by its supervisor'}"
    if now["phase"] == DRAINED:
        return f"group {now['name']} is {group_words(now)}: run uncordon.yml when it is to serve again"
    failed = now["attempts"] - (before or {"attempts": 0})["attempts"]
    if failed >= PATIENCE:
        return (
            f"group {now['name']} failed to start {failed} times during the wait, and is {group_words(now)}: "
            "fix what it reports; its supervisor keeps trying"
        )
    return None


def group_words(seen: Mapping[str, Any]) -> str:
    """Describe a group: its phase, the reason, and the nodes it waits for."""
    waits = "; ".join(f"{node}: {reason}" for node, reason in (seen.get("missing") or {}).items())
    why = str(seen.get("why") or "")
    # The nodes it waits for are often the reason itself.
    told = "; ".join(part for part in (why, "" if waits in why else waits) if part)
    return f"{seen.get('phase')} ({told})" if told else str(seen.get("phase"))


def _sentence_of_group(key: str, expected: Any, observed: Any) -> str:
    return f"group {key} is {group_words(observed)}, expected {expected['phase']}"


register(named={"groups": _differences}, sentences={"group": _sentence_of_group})


def group_remedy(host: str, item: Mapping[str, Any]) -> str | None:
    """Return what to do about a group that does not serve; None for another kind."""
    if item["kind"] != "group":
        return None
    phase = (item["observed"] or {}).get("phase")
    if phase == NO_SUPERVISOR:
        return "run site.yml"
    if phase == FAILED:
        return "fix what it reports (`journalctl -u firstlight-supervisor` on the head), then run playbooks/serve.yml"
    return (
        "wait, or fix what it reports: the supervisor continues by itself "
        f"(`journalctl -u firstlight-supervisor` on {host})"
    )
