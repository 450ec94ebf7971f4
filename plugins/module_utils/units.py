# SPDX-License-Identifier: Apache-2.0
"""Read the state of a unit on a target from systemd and its journal."""

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
    """Return the unit's current state; if systemd does not answer, the unit counts as not found."""
    return parse_show(host.run(["systemctl", "show", f"--property={SHOW_PROPERTIES}", name], timeout=15).stdout)


def last_lines(host: Host, name: str, count: int, secrets: Iterable[str] = ()) -> list[str]:
    """Return the unit's last log lines since its last start, without these secrets."""
    shown = host.run(["systemctl", "show", f"--property={START_PROPERTY}", name], timeout=15).stdout
    start = started_at(shown, time.monotonic(), time.time())
    argv = ["journalctl", f"--unit={name}", f"--lines={count}", "--output=cat", "--no-pager", "--quiet"]
    argv += [] if start is None else [f"--since=@{start}"]
    lines = [line.rstrip() for line in host.run(argv, timeout=15).stdout.splitlines() if line.strip()]
    return redact(lines, secrets)
