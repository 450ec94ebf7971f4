# SPDX-License-Identifier: Apache-2.0
"""Read the journal of the serving units, and remove secrets before anything leaves the host."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ..engine_container import SERVER_ENVIRONMENT_PATH
from ..host import Host
from .journal_lines import FIELDS, cleaned, parse_entries

UNITS = ("firstlight-*",)
_DIRECTORY, _ENDING = "/etc/firstlight", ".token"
"""The tokens of Ray, the supervisors and the hub."""


_NOTHING = "No data available"
"""The error of journalctl if no unit matching a pattern has ever written anything."""


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
    """Return the last lines of these units, oldest first, and the cursor to continue from."""
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
    """Return the host's own secrets in every form in which a log line may contain them."""
    found: list[str] = []
    tokens = [f"{_DIRECTORY}/{name}" for name in host.names(_DIRECTORY) if name.endswith(_ENDING)]
    for path in (SERVER_ENVIRONMENT_PATH, *tokens):
        for line in (host.read_text(path) or "").splitlines():
            whole = line.strip()
            name, equals, value = whole.partition("=")
            found += [whole, value.strip("\"'")] if equals and name.isidentifier() else [whole]
    return [one for one in found if one]
