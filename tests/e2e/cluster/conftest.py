# SPDX-License-Identifier: Apache-2.0
"""A fresh clone, the README's own commands in it, and the cluster of four that they leave serving."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator

import pytest

from tests.e2e.serving.engine_starts import note_engine_starts
from tests.e2e.serving.lab import Profile, Serving
from tests.e2e.support import CHECKOUT, HOSTS, Checkout, readme_commands

LAB = "e2e"
README = Profile("inventory/lab", HOSTS[0], HOSTS, "-tp4")


@pytest.fixture(scope="session")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Checkout]:
    """Clone, run what the README says up to the command that stops the lab, and run that at the end."""
    clone = tmp_path_factory.mktemp("newcomer") / "firstlight"
    subprocess.run(["git", "clone", "--quiet", str(CHECKOUT), str(clone)], check=True)
    made = Checkout(clone, LAB)
    commands = readme_commands((clone / "README.md").read_text())
    down = next(command for command in commands if command.endswith("lab down"))
    try:
        for command in commands[: commands.index(down)]:
            outcome = made.run(command)
            made.outcomes.append(outcome)
            print(f"{outcome.seconds:7.1f} s  {command}")
            assert outcome.status == 0, f"{command}\n{outcome.output[-6000:]}"
        note_engine_starts("the demo", Serving(clone, LAB, profile=README).groups())
        yield made
    finally:
        ended = made.run(down)
        gone = made.run(".venv/bin/firstlight lab status")
    assert ended.status == 0, ended.output
    assert "There is no lab" in gone.output


@pytest.fixture
def serving(cluster: Checkout) -> Serving:
    """The README's cluster, for what happens to nodes that serve: it serves when a test begins."""
    made = Serving(cluster.clone, LAB, profile=README)
    made.restore_service()
    return made
