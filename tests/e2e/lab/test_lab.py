# SPDX-License-Identifier: Apache-2.0
"""Labs side by side, a disk that is too small, and what the lab says when it lacks something."""

from __future__ import annotations

import os
import shutil
import subprocess
import tempfile
from pathlib import Path

from tests.e2e.support import CHECKOUT, Checkout


def test_two_labs_run_side_by_side_and_a_full_disk_is_named() -> None:
    """The second lab has one node whose disk for Docker is smaller than the image."""
    one, other = Checkout(CHECKOUT, "side-a"), Checkout(CHECKOUT, "side-b")
    try:
        for lab, disk in ((one, ""), (other, "--docker-disk spark0=500m")):
            up = lab.run(f".venv/bin/firstlight lab up --nodes 1 {disk}")
            assert up.status == 0, up.output
        for lab in (one, other):
            assert lab.run(".venv/bin/firstlight lab status").output.count("running") == 1
        load = other.run(".venv/bin/ansible-playbook tests/e2e/load_image.yml -i inventory/lab --limit spark0")
        assert load.status != 0
        assert "disk" in load.output
        assert "full" in load.output
        assert load.recap["spark0"]["changed"] == 0
        images = other.run(".venv/bin/firstlight lab ssh spark0 docker image ls -q")
        assert images.output.split() == [], "no part of the image may be left in use"
        assert other.run(".venv/bin/firstlight lab down").status == 0
        assert one.run(".venv/bin/firstlight lab status").output.count("running") == 1
    finally:
        for lab in (one, other):
            assert lab.run(".venv/bin/firstlight lab down").status == 0


def test_without_docker_and_without_root_there_is_one_clear_message() -> None:
    """As another user who has a home of his own and no engine."""
    code = (  # imported first: the other user may not be able to read where Python itself lives
        "import locale, os, sys, firstlight_lab.command; from firstlight.cli import main; "
        "os.setgroups([]); os.setgid(65534); os.setuid(65534); "
        "sys.exit(main(['lab', 'up', '--name', 'nobody']))"
    )
    with tempfile.TemporaryDirectory(dir="/tmp") as home, tempfile.TemporaryDirectory(dir="/tmp") as source:
        Path(home).chmod(0o777)
        Path(source).chmod(0o755)  # a checkout may be where only root can read
        for package in ("firstlight", "firstlight_lab"):
            shutil.copytree(CHECKOUT / "src" / package, Path(source, package))
        own = {"FIRSTLIGHT_CACHE": f"{home}/cache", "DOCKER_HOST": "unix:///nonexistent.sock", "PYTHONPATH": source}
        done = subprocess.run(
            [CHECKOUT / ".venv/bin/python", "-c", code],
            env={**os.environ, **own},
            capture_output=True,
            text=True,
            check=False,
        )
        assert list(Path(home).iterdir()) == []
    assert done.returncode == 1
    assert done.stderr.count("\n") == 1
    assert "No Docker engine answers" in done.stderr
    assert "run the command as root" in done.stderr
