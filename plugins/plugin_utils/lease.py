# SPDX-License-Identifier: Apache-2.0
"""Decide whether a run may take over another run's lease."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from .operator import Run, is_over

BEAT_SECONDS = 30.0
STALE_SECONDS = 180.0
"""Six heartbeats: a run without one for this long is presumed dead."""


class HeldError(Exception):
    """Another run holds the lease; the message is for the operator."""


def takeover(mine: Run, lease: Mapping[str, Any], age: float | None, break_owner: str) -> str:
    """Return the reason why the held lease may be taken over; raises HeldError if it may not."""
    owner = str(lease["owner"])
    if break_owner == owner:
        return f"The lease of {_who(lease)} was broken, as requested"
    over = is_over(str(lease["run"]), mine.machine)
    if over and not break_owner:
        return f"The lease of {_who(lease)} was left by a run that was killed; it was taken over"
    stale = age is not None and age > STALE_SECONDS
    if over is None and stale and owner == mine.owner and not break_owner:
        return f"The lease of {_who(lease)} had no heartbeat for {_time(age)}; it was taken over"
    told = f"Nothing was changed: the cluster is being changed by {_who(lease)}"
    told += "" if age is None else f", last heard from {_time(age)} ago"
    if break_owner:
        raise HeldError(f"{told}. Expected {break_owner}, whose lease you want to break: name the actual holder")
    if over is False:
        raise HeldError(f"{told}. Expected no other run: let that run end, or stop it, then run again")
    by_name = f"add -e firstlight_break_lease={owner}"
    if stale or age is None:
        raise HeldError(f"{told}. It should send two heartbeats a minute, so that run seems dead: ask, then {by_name}")
    raise HeldError(f"{told}. Expected no other run: let that run end; if you know that it is over, {by_name}")


def _who(lease: Mapping[str, Any]) -> str:
    told = f"{lease['owner']} ({lease['playbook']}, process {lease['pid']}) since {lease['since']}"
    # The text comes from another machine and is written to a terminal.
    return "".join(one for one in told if one.isprintable())[:300]


def _time(seconds: float | None) -> str:
    return f"{seconds or 0:.0f} s" if (seconds or 0) < 600 else f"{(seconds or 0) / 60:.0f} min"
