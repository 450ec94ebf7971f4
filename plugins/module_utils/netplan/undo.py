# SPDX-License-Identifier: Apache-2.0
"""A network change that is taken back unless it is confirmed, put in force apart from the session that asks for it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from ..confirmed_change.change import Change, ChangeError
from .undo_program import APPLY_UNIT, Former, render_apply, render_undo


class NetplanChange(Change):
    """The network change that is under way on this host, or none."""

    def applied(self) -> tuple[int, str] | None:
        """How `netplan apply` ended and what it said; None as long as it has not."""
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
        """Keep what was and start the timer; nothing of the network has changed when this returns or raises."""
        program = render_undo(self.places, former, str(journal["id"]), int(self.clock()), timeout)
        programs = {"apply.sh": render_apply(self.places, tidy, former.way), "undo.sh": program}
        self.prepare(journal, former.file.path, timeout, programs, keep)

    def start_apply(self) -> None:
        """Have the new file put in force apart from this session, which may die of it."""
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
