# SPDX-License-Identifier: Apache-2.0
"""A network change that is rolled back unless confirmed, and applied outside of the session that requests it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from ..confirmed_change.change import Change, ChangeError
from .undo_program import APPLY_UNIT, Former, render_apply, render_undo


class NetplanChange(Change):
    """The pending network change on this host, if any."""

    def applied(self) -> tuple[int, str] | None:
        """Return the exit status and output of the apply program; None while it is running."""
        code = (self.host.read_text(self._at("apply.rc")) or "").strip()
        if not code:
            return None
        return (int(code) if code.isdecimal() else 1), (self.host.read_text(self._at("apply.log")) or "").strip()

    def arm(
        self,
        journal: Mapping[str, Any],
        former: Former,
        timeout: int,
        tidy: Iterable[Sequence[str]] = (),
        keep: Mapping[str, bytes] | None = None,
    ) -> None:
        """Save the present state and start the timer; when this returns or raises, the network is still unchanged."""
        program = render_undo(self.places, former, str(journal["id"]), int(self.clock()), timeout)
        programs = {"apply.sh": render_apply(self.places, tidy, former.way), "undo.sh": program}
        self.prepare(journal, former.file.path, timeout, programs, keep)

    def start_apply(self) -> None:
        """Start applying the new file outside of this session, which may not survive it."""
        ran = self.host.run(
            [
                "systemd-run",
                "--quiet",
                "--collect",
                "--no-block",
                f"--unit={APPLY_UNIT}",
                "--property=TimeoutStopSec=5",
                "/bin/sh",
                self._at("apply.sh"),
            ],
            timeout=30,
        )
        if not ran.ok:
            raise ChangeError(f"{APPLY_UNIT} cannot be started ({ran.summary})")
