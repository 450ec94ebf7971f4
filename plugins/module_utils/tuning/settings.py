# SPDX-License-Identifier: Apache-2.0
"""The former settings of a host: the ledger as plain data, and its presentation as a diff.

A ledger maps things ("file /etc/default/earlyoom", "sysctl vm.swappiness") to their state before the first change.
Entries never change until they are restored. Everything here is pure.
"""

from __future__ import annotations

import base64
import json
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from .clock import PACKAGE as CLOCK_PACKAGE

Ledger = dict[str, Any]
Entry = dict[str, Any]

HOME = "/var/lib/firstlight/host_tuning"
LEDGER = f"{HOME}/ledger.json"
VERSION = 1

ABSENT: Entry = {"kind": "absent"}
DEFAULT_TARGET = "default_target"
DEFAULT_TARGET_LINK = "/etc/systemd/system/default.target"
GOVERNOR = "governor"
SWAP = "swap"

_KINDS = {
    "packages": "package",
    "files": "file",
    "sysctl": "sysctl",
    "optional_sysctl": "sysctl",
    "units": "unit",
    "linger": "linger",
}
"""Maps the kinds of a desired state whose names are things of a ledger."""


def thing(kind: str, key: str) -> str:
    """Return the name of a thing in a ledger."""
    return kind if kind in (DEFAULT_TARGET, GOVERNOR, SWAP) else f"{kind} {key}"


def split(name: str) -> tuple[str, str]:
    """Return kind and key of a thing."""
    kind, _, key = name.partition(" ")
    return kind, key


def keeps(desired: Mapping[str, Any], clocks: Iterable[str] = ()) -> list[str]:
    """Return every thing that this state may have changed; anything else in a ledger is to be restored."""
    found = {thing(one, str(key)) for kind, one in _KINDS.items() for key in desired.get(kind) or {}}
    found |= {kind for kind in (DEFAULT_TARGET, GOVERNOR, SWAP) if desired.get(kind)}
    if desired.get("clock"):
        found |= {thing("unit", name) for name in clocks} | {thing("package", CLOCK_PACKAGE)}
    return sorted(found)


def new_ledger(made: Sequence[str] = ()) -> Ledger:
    """Return the ledger of a host without changes; `made` are the directories that were created for it."""
    return {"version": VERSION, "things": {}, "directories": [], "made": list(made)}


def parse_ledger(text: str) -> Ledger:
    """Parse a ledger; raises ValueError for an invalid one, from which nothing could be restored."""
    try:
        found = json.loads(text)
        if found["version"] != VERSION:
            raise ValueError(f"it is of version {found['version']}, expected {VERSION}")
        if not isinstance(found["things"], dict) or not isinstance(found["directories"], list):
            raise TypeError("things or directories are of the wrong type")
        return {**new_ledger(), **found}
    except (TypeError, KeyError, json.JSONDecodeError) as error:
        raise ValueError(f"it is not a ledger ({type(error).__name__}: {error})") from error


def rendered(ledger: Ledger) -> str:
    """Render the ledger's text."""
    return json.dumps(ledger, indent=1, sort_keys=True) + "\n"


def remembered(ledger: Ledger, things: Mapping[str, Any], directories: Iterable[str] = ()) -> Ledger:
    """Return the ledger with these things added; existing entries are older, and are kept."""
    return {
        **ledger,
        "things": {**things, **ledger["things"]},
        "directories": list(dict.fromkeys([*ledger["directories"], *directories])),
    }


def forgotten(ledger: Ledger, names: Iterable[str], directories: Iterable[str] = ()) -> Ledger:
    """Return the ledger without restored entries."""
    gone, removed = set(names), set(directories)
    return {
        **ledger,
        "things": {name: entry for name, entry in ledger["things"].items() if name not in gone},
        "directories": [path for path in ledger["directories"] if path not in removed],
    }


def file_entry(content: bytes, mode: str, uid: int, gid: int, mtime_ns: int) -> Entry:
    """Return the entry of a file, byte for byte."""
    return {
        "kind": "file",
        "content": base64.b64encode(content).decode("ascii"),
        "mode": mode,
        "uid": uid,
        "gid": gid,
        "mtime_ns": mtime_ns,
    }


def content_of(entry: Mapping[str, Any]) -> bytes:
    """Return the content of a file's entry."""
    return base64.b64decode(entry["content"])


def entry_words(entry: Mapping[str, Any]) -> tuple[str, str]:
    """Render a file for a diff: a description for its heading, and its text."""
    if entry["kind"] == "absent":
        return "absent", ""
    if entry["kind"] == "link":
        return "link", f"{entry['target']}\n"
    words = f"mode {entry['mode']}, owner {entry['uid']}:{entry['gid']}"
    return words, content_of(entry).decode("utf-8", errors="replace")


def file_diff(path: str, before: Mapping[str, Any], after: Mapping[str, Any]) -> dict[str, str]:
    """Return a file before and after in the format of Ansible's diffs."""
    (words_before, text_before), (words_after, text_after) = entry_words(before), entry_words(after)
    return {
        "before_header": f"{path} ({words_before})",
        "after_header": f"{path} ({words_after})",
        "before": text_before,
        "after": text_after,
    }


def value_diff(rows: Iterable[tuple[str, Any, Any]]) -> list[dict[str, str]]:
    """Return a diff of everything that is not a file, one line each: subject, before, after; empty without rows."""
    listed = list(rows)
    if not listed:
        return []
    return [
        {
            "before_header": "settings",
            "after_header": "settings",
            "before": "".join(f"{subject}: {_words(before)}\n" for subject, before, _ in listed),
            "after": "".join(f"{subject}: {_words(after)}\n" for subject, _, after in listed),
        }
    ]


def difference_rows(found: Iterable[Mapping[str, Any]]) -> list[tuple[str, Any, Any]]:
    """Convert differences other than files into rows of a diff."""
    rows = []
    for item in found:
        kind, key, expected, observed = (item[name] for name in ("kind", "key", "expected", "observed"))
        if kind in ("file", "ledger"):
            continue
        subject = kind if kind == key else f"{kind} {key}"
        if kind == "package":
            expected, observed = expected or "installed", observed or "not installed"
        rows.append((subject, observed, expected))
    return rows


def _words(value: Any) -> str:
    if value is None or value in ([], {}):
        return "none"
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, Mapping):
        return ", ".join(f"{field} {_words(one)}" for field, one in value.items())
    return " ".join(_words(one) for one in value) if isinstance(value, (list, tuple)) else str(value)
