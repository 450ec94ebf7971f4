# SPDX-License-Identifier: Apache-2.0
"""Render the common parts of the programs by which a host rolls back a change unattended, and their units.

The undo program is POSIX shell and needs only coreutils, systemd and the tools of what it restores: when it runs,
nobody can reach the host to help, and it must work even if the host's Python was just updated.
"""

from __future__ import annotations

import os
import shlex
from dataclasses import dataclass
from typing import Any

from ..parsers.systemd import parse_properties
from ..systemd import quote, render_unit

UNITS = "/etc/systemd/system"


@dataclass(frozen=True)
class Places:
    """Paths and names of one kind of change; `root` differs from "/" only in tests."""

    root: str
    home: str
    unit: str
    """Name of the timer and the service that roll a change back."""
    subject: str

    def _at(self, path: str) -> str:
        return os.path.join(self.root, path.lstrip("/"))

    @property
    def state(self) -> str:
        return self._at(self.home)

    @property
    def undo(self) -> str:
        return os.path.join(self.state, "undo")

    @property
    def outcome(self) -> str:
        return os.path.join(self.state, "outcome")

    @property
    def timer(self) -> str:
        return os.path.join(self._at(UNITS), f"{self.unit}.timer")

    @property
    def service(self) -> str:
        return os.path.join(self._at(UNITS), f"{self.unit}.service")


@dataclass(frozen=True)
class FormerFile:
    """Metadata of the file before the change; `mode` is None if there was no file."""

    path: str
    mode: int | None = None
    uid: int = 0
    gid: int = 0


def undo_head(places: Places, file: FormerFile, change: str, armed_at: int, timeout: int) -> list[str]:
    """Return the first lines of every undo program: the variables that describe the change and the file to restore."""
    return [
        "#!/bin/sh",
        f"# Written by Firstlight: takes a {places.subject} back, as nobody confirmed it or as it did not work.",
        "set -u",
        "export LC_ALL=C",
        "PATH=${PATH:+$PATH:}/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin",
        f"here={shlex.quote(places.undo)}",
        f"file={shlex.quote(file.path)}",
        f"outcome={shlex.quote(places.outcome)}",
        f"timer={shlex.quote(places.timer)}",
        f"service={shlex.quote(places.service)}",
        f"unit={shlex.quote(places.unit)}",
        f"change={shlex.quote(change)}",
        f"armed_at={int(armed_at)}",
        f"reason={shlex.quote(f'the controller did not come back within {int(timeout)} s')}",
        f"former={'yes' if file.mode is not None else 'no'}",
        f"mode={file.mode or 0:o} owner={int(file.uid)}:{int(file.gid)}",
    ]


UNDO_CLAIM = """\
# Whoever gets this name decides: a confirmation takes it in the same way. A second start after a power cut goes on.
mv "$here/armed" "$here/undoing" 2>/dev/null || [ -e "$here/undoing" ] || exit 0
problem=
readded=
kept=

"""

UNDO_FILE = """\
# The disk may be full. What only the way forward needs makes room, and a link needs none.
rm -rf "$here/apply.sh" "$here/keep"
if [ "$former" = yes ]; then
  scratch=$(dirname "$file")/.firstlight-undo.new
  { [ -e "$here/former" ] && { cp "$here/former" "$scratch" || ln -f "$here/former" "$scratch"; } &&
    chown "$owner" "$scratch" && chmod "$mode" "$scratch" && mv -f "$scratch" "$file"; } ||
    { rm -f "$scratch"; kept=yes; }
else
  rm -f "$file" || kept=yes
fi
sync

"""

UNDO_END = """\
by=timer
if [ -s "$here/reason" ]; then
  by=host
  reason=$(head -n 1 "$here/reason")
fi
{
  printf 'change=%s\\n' "$change"
  printf 'result=%s\\n' "$([ -z "$problem" ] && echo undone || echo failed)"
  printf 'by=%s\\n' "$by"
  printf 'reason=%s\\n' "$reason"
  printf 'problem=%s\\n' "$problem"
  printf 'readded=%s\\n' "$readded"
  printf 'seconds=%s\\n' "$(($(date +%s) - armed_at))"
} >"$outcome.new"
mv -f "$outcome.new" "$outcome"
sync

systemctl disable "$unit".timer 2>/dev/null
systemctl stop "$unit".timer 2>/dev/null
# The only copy of the former file stays, and the next run, or whoever runs this again, goes on from here.
[ -z "$kept" ] || exit 0
rm -f "$timer" "$service"
rm -rf "$here"
systemctl daemon-reload 2>/dev/null
exit 0
"""
"""Writes the outcome, then removes the program and the units that were waiting for it."""


def render_service(places: Places) -> str:
    """Render the service that runs the undo program."""
    return render_unit(
        [
            ("Unit", [("Description", f"Take back a {places.subject} that nobody confirmed (Firstlight)")]),
            (
                "Service",
                [
                    ("Type", "oneshot"),
                    ("ExecStart", f"/bin/sh {quote(os.path.join(places.undo, 'undo.sh'))}"),
                    ("TimeoutStartSec", "300"),
                ],
            ),
        ]
    )


def render_timer(timeout: int, subject: str) -> str:
    """Render the timer that waits for the confirmation. It is enabled, so that a reboot restarts the wait."""
    return render_unit(
        [
            ("Unit", [("Description", f"Wait for the confirmation of a {subject} (Firstlight)")]),
            ("Timer", [("OnActiveSec", f"{int(timeout)}s"), ("AccuracySec", "1s")]),
            ("Install", [("WantedBy", "timers.target")]),
        ]
    )


def parse_outcome(text: str | None) -> dict[str, Any] | None:
    """Parse the outcome of the undo program; None if it did not run or the outcome is unreadable.

    `alone` means that nobody requested the rollback: the controller did not come back, and the timer started it.
    """
    values = parse_properties(text or "")
    if not values.get("change") or values.get("result") not in ("undone", "failed"):
        return None
    seconds = values.get("seconds", "")
    return {
        "change": values["change"],
        "undone": values["result"] == "undone",
        "alone": values.get("by") == "timer",
        "reason": values.get("reason", ""),
        "problem": values.get("problem", ""),
        "readded": [item.strip() for item in values.get("readded", "").split(";") if item.strip()],
        "seconds": int(seconds) if seconds.lstrip("-").isdecimal() else None,
    }
