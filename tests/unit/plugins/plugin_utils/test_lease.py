# SPDX-License-Identifier: Apache-2.0
"""Whose lease may be taken over, and what is said where it may not."""

from __future__ import annotations

import os
import subprocess
from dataclasses import replace
from typing import Any

import pytest
from ansible_collections.firstlight.cluster.plugins.plugin_utils.lease import STALE_SECONDS, HeldError, takeover
from ansible_collections.firstlight.cluster.plugins.plugin_utils.operator import Run, exists, is_over

pytestmark = pytest.mark.hostile

MINE = Run.of(os.getpid())
OTHER = Run("bob@laptop", "f" * 16, 4711, "99")
STALE = STALE_SECONDS + 1


def ended() -> Run:
    """A run of this machine that is over."""
    process = subprocess.Popen(["true"])
    run = Run.of(process.pid)
    process.wait()
    return run


def lease(run: Run, **changes: Any) -> dict[str, Any]:
    return {
        "run": run.name,
        "owner": run.owner,
        "machine": run.machine,
        "pid": run.pid,
        "playbook": "site.yml",
        "since": "2026-11-15 09:00:04 UTC",
        **changes,
    }


def test_a_killed_run_of_this_machine_is_taken_over_at_once() -> None:
    assert "left by a run that was killed" in takeover(MINE, lease(ended()), 2.0, "")


def test_a_run_that_lives_is_not_whoever_asks() -> None:
    """As two windows of one operator, however long nothing was heard of it."""
    for age in (2.0, STALE, None):
        with pytest.raises(HeldError, match=r"process \d+\) since 2026-11-15 .*let that run end, or stop it"):
            takeover(MINE, lease(MINE), age, "")


def test_another_owners_lease_is_only_broken_by_name() -> None:
    with pytest.raises(
        HeldError, match=r"bob@laptop .*last heard from 12 s ago.* -e firstlight_break_lease=bob@laptop"
    ):
        takeover(MINE, lease(OTHER), 12.0, "")
    with pytest.raises(
        HeldError, match=r"last heard from 60 min ago.*seems dead: ask, then add -e firstlight_break_lease"
    ):
        takeover(MINE, lease(OTHER), 3600.0, "")
    with pytest.raises(HeldError, match=r"seems dead: ask, then add"):
        takeover(MINE, lease(OTHER), None, "")
    for age in (12.0, 3600.0, None):
        assert "was broken, as requested" in takeover(MINE, lease(OTHER), age, "bob@laptop")
        with pytest.raises(HeldError, match=r"bob@laptop .*Expected carol@x, whose lease you want to break"):
            takeover(MINE, lease(OTHER), age, "carol@x")


def test_the_same_owner_elsewhere_is_taken_over_when_it_is_silent() -> None:
    """As after a container was started anew: nobody can ask for the process any more."""
    elsewhere = replace(MINE, machine="f" * 16)
    assert "no heartbeat for 181 s" in takeover(MINE, lease(elsewhere), STALE, "")
    for age in (STALE - 2, None):
        with pytest.raises(HeldError):
            takeover(MINE, lease(elsewhere), age, "")


def test_what_a_head_says_cannot_steer_a_terminal() -> None:
    with pytest.raises(HeldError) as told:
        takeover(MINE, lease(OTHER, playbook="\x1b[2Jsite\n.yml" + "x" * 9999), 1.0, "")
    assert "\x1b" not in str(told.value)
    assert len(str(told.value)) < 800


def test_a_run_is_known_by_its_process_and_when_that_began() -> None:
    assert is_over(MINE.name, MINE.machine) is False
    assert is_over(replace(MINE, started="1").name, MINE.machine) is True, "the number was given out again"
    assert is_over(OTHER.name, MINE.machine) is None
    assert is_over("nonsense", MINE.machine) is None
    # Where no system tells when a process began.
    assert is_over(replace(MINE, started="").name, MINE.machine) is False
    assert is_over(replace(ended(), started="").name, MINE.machine) is True
    assert exists(1)
