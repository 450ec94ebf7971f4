# SPDX-License-Identifier: Apache-2.0
"""Parses the logs of package changes: apt's history.log, and dpkg.log for changes that bypassed apt.

Both are written in the host's local time. They are truncated by rotation, full disks and power cuts, so every function
here parses what it can and skips the rest.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from datetime import datetime

ACTIONS = {
    "Install": "install",
    "Reinstall": "reinstall",
    "Upgrade": "upgrade",
    "Downgrade": "downgrade",
    "Remove": "remove",
    "Purge": "purge",
    "Disappeared": "disappear",
}
"""The names of history.log's package lists, and this module's names for them."""

GONE = frozenset({"remove", "purge", "disappear"})
"""Actions that leave the package absent."""

_ITEM = re.compile(r"([^\s,():]+)(?::[^\s,():]+)? \(([^()]*)\)")
_DPKG = re.compile(
    r"^(\d{4}-\d\d-\d\d \d\d:\d\d:\d\d) (install|upgrade|remove|purge|disappear) "
    r"([^\s:]+)(?::\S+)? (\S+) (\S+)[ \t\r]*$",
    re.MULTILINE | re.ASCII,
)
_NONE = "<none>"
_CREDENTIALS = re.compile(r"(?<=://)[^/\s]+@")
_LONGEST = 300


@dataclass(frozen=True)
class Change:
    """A change to one package; `before` and `after` are versions, None if there was or is none."""

    package: str
    action: str
    before: str | None
    after: str | None
    at: datetime | None = None


@dataclass(frozen=True)
class Transaction:
    """One run of apt. Without `end` it did not finish: it was killed, or the host lost power."""

    start: datetime | None
    end: datetime | None
    command: str
    requested_by: str
    error: str
    changes: tuple[Change, ...]


def parse_apt_history(text: str) -> list[Transaction]:
    """Parse the transactions of one history.log, in its order: oldest first.

    Lines before the first Start-Date belong to a transaction whose beginning was cut off, and are skipped.
    """
    transactions: list[Transaction] = []
    fields: dict[str, str] | None = None
    for line in text.replace("\0", "").splitlines():
        key, colon, value = line.partition(":")
        if colon and key == "Start-Date":
            if fields is not None:
                transactions.append(_transaction(fields))
            fields = {key: value.strip()}
        elif colon and fields is not None and (key in ACTIONS or key in _FIELDS):
            fields.setdefault(key, value.strip())
    if fields is not None:
        transactions.append(_transaction(fields))
    return transactions


_FIELDS = frozenset({"Commandline", "Requested-By", "Error", "End-Date", "Comment"})


def _transaction(fields: dict[str, str]) -> Transaction:
    return Transaction(
        start=parse_time(fields["Start-Date"]),
        end=parse_time(fields.get("End-Date", "")),
        command=shown(fields.get("Commandline") or fields.get("Comment") or ""),
        requested_by=shown(fields.get("Requested-By", "")),
        error=shown(fields.get("Error", "")),
        changes=tuple(
            change for heading, action in ACTIONS.items() for change in _changes(action, fields.get(heading, ""))
        ),
    )


def _changes(action: str, listed: str) -> list[Change]:
    """Parse `a:amd64 (1, 2), b:amd64 (3, automatic)`; the meaning of the versions depends on the list's action."""
    found = []
    for name, inner in _ITEM.findall(listed):
        versions = [word.strip() for word in inner.split(",")]
        versions = [word for word in versions if word and word != "automatic"]
        first, last = (versions[0], versions[-1]) if versions else (None, None)
        if action in GONE:
            found.append(Change(name, action, first, None))
        elif action in ("install", "reinstall"):
            found.append(Change(name, action, None if action == "install" else first, last))
        else:
            found.append(Change(name, action, first if len(versions) > 1 else None, last))
    return found


def parse_dpkg_log(text: str) -> list[Change]:
    """Parse what dpkg did to packages, oldest first. dpkg calls a downgrade an upgrade, too."""
    return [
        Change(
            package=name,
            action=action,
            before=None if before == _NONE else before,
            after=None if after == _NONE or action in GONE else after,
            at=parse_time(moment),
        )
        for moment, action, name, before, after in _DPKG.findall(text)
    ]


def parse_time(text: str) -> datetime | None:
    """Parse a local time as these logs write it, with one or two spaces; None for anything else."""
    try:
        return datetime.strptime(" ".join(text.split()), "%Y-%m-%d %H:%M:%S")  # noqa: DTZ007 - the log names no zone
    except ValueError:
        return None


def without_credentials(text: str) -> str:
    """Mask the user and password of every URL in the text."""
    return _CREDENTIALS.sub("***@", text)


def shown(text: str) -> str:
    """Sanitise a log line for display: no control characters, no proxy passwords, a limited length."""
    plain = " ".join("".join(char if char.isprintable() else " " for char in text).split())
    plain = without_credentials(plain)
    return plain if len(plain) <= _LONGEST else f"{plain[: _LONGEST - 3]}..."
