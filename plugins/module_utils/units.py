# SPDX-License-Identifier: Apache-2.0
"""Reads what systemd and its journal say of a unit on a target."""

from __future__ import annotations

import time
from collections.abc import Iterable

from ansible_collections.firstlight.cluster.plugins.module_utils.host import Host
from ansible_collections.firstlight.cluster.plugins.module_utils.systemd import (
    SHOW_PROPERTIES,
    START_PROPERTY,
    UnitState,
    parse_show,
    redact,
    started_at,
)


def unit_state(host: Host, name: str) -> UnitState:
    """The unit's state now; a systemd that does not answer reads as a unit that is not there."""
    return parse_show(host.run(["systemctl", "show", f"--property={SHOW_PROPERTIES}", name], timeout=15).stdout)


def last_lines(host: Host, name: str, count: int, secrets: Iterable[str] = ()) -> list[str]:
    """The last lines the unit wrote since it was started last, without these secrets."""
    shown = host.run(["systemctl", "show", f"--property={START_PROPERTY}", name], timeout=15).stdout
    start = started_at(shown, time.monotonic(), time.time())
    argv = ["journalctl", f"--unit={name}", f"--lines={count}", "--output=cat", "--no-pager", "--quiet"]
    argv += [] if start is None else [f"--since=@{start}"]
    lines = [line.rstrip() for line in host.run(argv, timeout=15).stdout.splitlines() if line.strip()]
    return redact(lines, secrets)
