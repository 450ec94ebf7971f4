# SPDX-License-Identifier: Apache-2.0
"""Fill the disk at every write of a move: it says so, loses nothing, and the next run ends on exactly one set."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from ansible_collections.firstlight.cluster.plugins.module_utils.repin import journal as book
from ansible_collections.firstlight.cluster.plugins.module_utils.repin.machine import PROBLEMS
from ansible_collections.firstlight.cluster.plugins.plugin_utils.repin.mover import RefusedError

from tests.unit.examples import share_of_examples
from tests.unit.full_disk import FullDisk

pytestmark = [pytest.mark.hostile, pytest.mark.slow]  # a move for each of its writes

ENDED = (book.VERIFIED, book.ROLLED_BACK)


def drive(bench: Any) -> tuple[str, str]:
    """One run of the playbook: what came of it, and what it said."""
    real = bench.do

    def do(action: str, **arguments: Any) -> Any:
        try:
            return real(action, **arguments)
        except OSError as error:
            # As the module has it.
            raise RefusedError(f"The step {action} cannot be taken: {error}") from error

    bench.do = do
    try:
        bench.prepare()
        outcome = bench.move()
        return outcome.outcome, outcome.problem
    except (RefusedError, *PROBLEMS) as error:
        return "not begun", str(error)
    finally:
        bench.do = real


def test_a_full_disk_is_told_and_the_next_run_ends_on_one_set(
    new_bench: Callable[[], Any], monkeypatch: pytest.MonkeyPatch, tmp_path_factory: pytest.TempPathFactory
) -> None:
    """It stays full for the whole run, or, at every other write, until one has failed."""
    disk = FullDisk(monkeypatch, tmp_path_factory.getbasetemp())
    seen = set()
    # All writes in the profile `all`, and every third in the others: an odd step tries both ways of being full.
    for point in itertools.count(step=1 if share_of_examples() == 1 else 3):
        bench = new_bench()
        secret = Path(bench.root) / "etc" / "extra-secret.conf"
        secret.write_text("hunter2")
        secret.chmod(0o600)
        disk.points, disk.full_at, disk.lasting = 0, point, point % 2 == 0
        outcome, said = drive(bench)
        reached = disk.points > point
        disk.full_at = -1
        if not reached:
            assert (outcome, bench.on_new) == (book.VERIFIED, True)
            break
        seen.add(outcome)
        if outcome in (book.VERIFIED, book.ROLLED_BACK):
            # A way back, or a write that nothing depends on.
            assert bench.on_new if outcome == book.VERIFIED else bench.on_old
        else:
            assert "No space left on device" in said or "room" in said, (point, outcome, said)
        again, said = drive(bench)
        assert again in ENDED, (point, outcome, again, said)
        assert bench.on_new if again == book.VERIFIED else bench.on_old
        book.validated(bench.do("read")["journal"], "journal")
        assert secret.read_text() == "hunter2"
        bench.do("uncordon")
        bench.do("close")
    assert point > 20
    assert {"not begun", book.FAILED, book.ROLLED_BACK} <= seen
