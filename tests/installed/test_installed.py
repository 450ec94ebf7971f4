# SPDX-License-Identifier: Apache-2.0
"""The wheel and the collection's tarball, each in an environment that has nothing else, far from the checkout."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
import yaml

ROOT = Path(__file__).resolve().parents[2]
VERSION = yaml.safe_load((ROOT / "galaxy.yml").read_text(encoding="utf-8"))["version"]
LOCK = ROOT / "requirements.lock"


class Environment:
    """A virtual environment, and commands in it without any setting of Ansible or Python."""

    def __init__(self, directory: Path) -> None:
        self.directory, self.home = directory / "venv", directory / "home"
        self.home.mkdir(parents=True)
        subprocess.run([sys.executable, "-m", "venv", str(self.directory)], check=True)

    def run(self, program: str, *arguments: str, check: bool = True) -> subprocess.CompletedProcess[str]:
        unset = ("ANSIBLE_", "PYTHON", "VIRTUAL_ENV")
        environment = {name: value for name, value in os.environ.items() if not name.startswith(unset)}
        done = subprocess.run(
            [str(self.directory / "bin" / program), *arguments],
            cwd=self.home,
            env={**environment, "HOME": str(self.home), "PATH": f"{self.directory}/bin:/usr/bin:/bin"},
            check=False,
            capture_output=True,
            text=True,
            timeout=600,
        )
        assert "Traceback" not in done.stderr, done.stderr
        assert not check or done.returncode == 0, done.stdout + done.stderr
        return done

    def install(self, *wanted: str) -> None:
        """From this machine's package index, in the versions of the lock."""
        pins = [line.split(" ")[0] for line in LOCK.read_text(encoding="utf-8").splitlines() if "==" in line]
        (self.home / "pins.txt").write_text("\n".join(pins) + "\n", encoding="utf-8")
        self.run("python", "-m", "pip", "install", "--quiet", "--constraint", "pins.txt", *wanted)


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Environment:
    directory = tmp_path_factory.mktemp("wheel")
    build = [sys.executable, "-m", "pip", "wheel", "--quiet", "--no-deps", "--no-build-isolation", "-w", str(directory)]
    subprocess.run([*build, str(ROOT)], check=True)
    (built,) = directory.glob("firstlight-*.whl")
    made = Environment(directory)
    made.install(str(built))
    return made


@pytest.fixture(scope="module")
def tarball(tmp_path_factory: pytest.TempPathFactory) -> Environment:
    directory = tmp_path_factory.mktemp("tarball")
    galaxy = str(Path(sys.executable).with_name("ansible-galaxy"))
    subprocess.run([galaxy, "collection", "build", "--output-path", str(directory)], cwd=ROOT, check=True)
    (built,) = directory.glob("firstlight-cluster-*.tar.gz")
    made = Environment(directory)
    made.install("ansible-core")
    made.run("ansible-galaxy", "collection", "install", "--offline", str(built))
    return made


def test_the_wheel_plans_an_inventory_of_its_own(wheel: Environment) -> None:
    wheel.run("firstlight", "init", "spark4", "mine")
    document = json.loads(wheel.run("firstlight", "plan", "-i", "mine", "--json").stdout)
    assert (document["errors"], document["missing_inputs"], len(document["hosts"])) == ([], [], 4)


def test_the_wheel_has_the_collection_in_its_version(wheel: Environment) -> None:
    assert f"Version: {VERSION}" in wheel.run("python", "-m", "pip", "show", "firstlight").stdout
    wheel.run("firstlight", "init", "h100x8", "one")
    wheel.run("ansible-playbook", "firstlight.cluster.site", "-i", "one", "--syntax-check")


def test_the_command_says_its_version(wheel: Environment) -> None:
    assert VERSION in wheel.run("firstlight", "--version").stdout


def test_the_tarball_plans_with_nothing_but_ansible_core(tarball: Environment) -> None:
    written = tarball.home / "plan.json"
    inventory = str(ROOT / "inventory" / "spark4")
    tarball.run("ansible-playbook", "firstlight.cluster.plan", "-i", inventory, "-e", f"plan_document={written}")
    document = json.loads(written.read_text(encoding="utf-8"))
    assert (document["errors"], document["missing_inputs"], len(document["hosts"])) == ([], [], 4)


def test_the_tarball_has_every_playbook_and_its_version(tarball: Environment) -> None:
    assert VERSION in tarball.run("ansible-galaxy", "collection", "list", "firstlight.cluster").stdout
    inventory = str(ROOT / "inventory" / "spark4")
    for name in sorted(path.stem for path in (ROOT / "playbooks").glob("*.yml")):
        tarball.run("ansible-playbook", f"firstlight.cluster.{name}", "-i", inventory, "--syntax-check")
