# SPDX-License-Identifier: Apache-2.0
"""Reads the journal of the units that serve, and takes secrets out before anything leaves the host."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ..engine_container import SERVER_ENVIRONMENT_PATH
from ..host import Host
from .journal_lines import FIELDS, cleaned, parse_entries

UNITS = ("firstlight-*",)
_DIRECTORY, _ENDING = "/etc/firstlight", ".token"
"""Ray's token, the supervisors' and that for the hub."""


_NOTHING = "No data available"
"""What journalctl complains with when no unit of a pattern ever wrote anything."""


class JournalReadError(Exception):
    """Why the journal could not be read."""


def read_journal(
    host: Host,
    *,
    units: Sequence[str] = UNITS,
    lines: int = 200,
    since: str = "",
    cursor: str = "",
    timeout: float = 60.0,
) -> tuple[list[dict[str, Any]], str]:
    """The last lines of these units, oldest first, and the cursor from which one can go on."""
    argv = ["journalctl", "--output=json", f"--output-fields={FIELDS}", "--no-pager", "--quiet", f"--lines={lines}"]
    argv += [f"--unit={unit}" for unit in units]
    if cursor:
        argv.append(f"--after-cursor={cursor}")
    elif since:
        argv.append(f"--since={since}")
    result = host.run(argv, timeout=timeout)
    if not result.ok and _NOTHING not in result.stderr:
        raise JournalReadError(
            f"The journal cannot be read ({result.summary}), expected journalctl to answer: run with become"
        )
    entries, last = parse_entries(result.stdout)
    return cleaned(entries, secrets_of(host)), last or cursor


def secrets_of(host: Host) -> list[str]:
    """The host's own secrets, each as a line may have it."""
    found: list[str] = []
    tokens = [f"{_DIRECTORY}/{name}" for name in host.names(_DIRECTORY) if name.endswith(_ENDING)]
    for path in (SERVER_ENVIRONMENT_PATH, *tokens):
        for line in (host.read_text(path) or "").splitlines():
            whole = line.strip()
            name, equals, value = whole.partition("=")
            found += [whole, value.strip("\"'")] if equals and name.isidentifier() else [whole]
    return [one for one in found if one]
