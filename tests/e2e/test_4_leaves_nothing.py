# SPDX-License-Identifier: Apache-2.0
"""The lab goes without a trace, and says in one sentence what it lacks."""

from __future__ import annotations

import os
import subprocess
import tempfile
from pathlib import Path

from conftest import CHECKOUT, Cluster, machine_footprint


def test_two_labs_run_side_by_side_and_a_full_disk_is_named(cluster: Cluster) -> None:
    """The second lab has one node whose disk for Docker is smaller than the image."""
    try:
        up = cluster.run(".venv/bin/firstlight lab up --name beside --nodes 1 --docker-disk spark0=500m")
        assert up.status == 0, up.output
        mine, other = (cluster.run(f".venv/bin/firstlight lab status --name {name}") for name in ("e2e", "beside"))
        assert mine.output.count("running") == 4
        assert other.output.count("running") == 1
        load = cluster.run(
            ".venv/bin/ansible-playbook tests/e2e/load_image.yml -i inventory/lab --limit spark0",
            env={"FIRSTLIGHT_LAB": "beside"},
        )
        assert load.status != 0
        assert "disk" in load.output
        assert "full" in load.output
        assert load.recap["spark0"]["changed"] == 0
        images = cluster.run(".venv/bin/firstlight lab ssh --name beside spark0 docker image ls -q")
        assert images.output.split() == [], "no part of the image may be left in use"
    finally:
        assert cluster.run(".venv/bin/firstlight lab down --name beside").status == 0
    assert cluster.run(".venv/bin/firstlight lab status").output.count("running") == 4


def test_without_docker_and_without_root_there_is_one_clear_message() -> None:
    """As another user who has a home of his own and no engine."""
    code = (  # imported first: the other user may not be able to read where Python itself lives
        "import locale, os, sys, firstlight.commands.lab; from firstlight.cli import main; "
        "os.setgroups([]); os.setgid(65534); os.setuid(65534); "
        "sys.exit(main(['lab', 'up', '--name', 'nobody']))"
    )
    with tempfile.TemporaryDirectory(dir="/tmp") as home:
        Path(home).chmod(0o777)
        done = subprocess.run(
            [CHECKOUT / ".venv/bin/python", "-c", code],
            env={**os.environ, "FIRSTLIGHT_CACHE": f"{home}/cache", "DOCKER_HOST": "unix:///nonexistent.sock"},
            capture_output=True,
            text=True,
            check=False,
        )
        assert list(Path(home).iterdir()) == []
    assert done.returncode == 1
    assert done.stderr.count("\n") == 1
    assert "No Docker engine answers" in done.stderr
    assert "run the command as root" in done.stderr


def test_down_leaves_the_machine_as_it_was(cluster: Cluster, alone: None) -> None:
    for command in cluster.closing:
        outcome = cluster.run(command)
        assert outcome.status == 0, outcome.output
    assert machine_footprint() == cluster.before
    assert "There is no lab" in cluster.run(".venv/bin/firstlight lab status").output
