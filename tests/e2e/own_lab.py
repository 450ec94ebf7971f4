# SPDX-License-Identifier: Apache-2.0
"""A lab of a test module's own: its commands and playbooks, and a way onto its nodes that is not the product's."""

from __future__ import annotations

import os
import re
import shlex
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from firstlight_lab.cache import Cache, default_root
from firstlight_lab.cluster import Lab
from tests.e2e.support import CHECKOUT, RECAP, finished

ESCAPES = re.compile(r"\x1b\[[0-9;]*m")


@dataclass(frozen=True)
class Run:
    """A finished command."""

    status: int
    output: str
    cpu: float = 0.0  # seconds of the command and of what it started here: the same however busy the machine is

    @property
    def changed(self) -> dict[str, int]:
        """How many tasks changed each host, by the recap of ansible-playbook."""
        return {match[1]: int(match[3]) for match in RECAP.finditer(self.output)}

    @property
    def text(self) -> str:
        """The output with every line break as a space."""
        return " ".join(self.output.split())

    def line(self, *fragments: str) -> str:
        """The first line that has all of these fragments."""
        plain = ESCAPES.sub("", self.output)
        found = [line for line in plain.splitlines() if all(fragment in line for fragment in fragments)]
        assert found, f"no line has {fragments}:\n{plain[-6000:]}"
        return found[0]


@dataclass
class OwnLab:
    """The lab by its name, and a directory for the operator's files."""

    name: str
    directory: Path
    lab: Lab = field(init=False)

    def __post_init__(self) -> None:
        self.lab = Lab(Cache(default_root()), self.name, lambda _: None)

    @property
    def env(self) -> dict[str, str]:
        path = os.pathsep.join([str(CHECKOUT / ".venv/bin"), os.environ["PATH"]])
        # An agent's keys would be offered before the lab's own.
        env = {key: value for key, value in os.environ.items() if key != "SSH_AUTH_SOCK"}
        return {**env, "PATH": path, "FIRSTLIGHT_LAB": self.name, "ANSIBLE_NOCOLOR": "1", "COLUMNS": "400"}

    @contextmanager
    def running(self, *options: str) -> Iterator[None]:
        """A new lab with these options of `firstlight lab up`, removed at the end."""
        if (self.lab.directory / "lab.json").exists():  # an interrupted run left it in an unknown state
            self.command("firstlight", "lab", "down", "--name", self.name)
        try:
            self.command("firstlight", "lab", "up", *options)
            yield
        finally:
            self.command("firstlight", "lab", "down", "--name", self.name)

    @property
    def addresses(self) -> dict[str, str]:
        """The management address of each node."""
        return {str(node["name"]): str(node["address"]) for node in self.lab.record()["nodes"]}

    def command(self, *argv: str, check: bool = True, timeout: float = 900) -> Run:
        """Run a command in the checkout; with `check` it must exit 0."""
        done = finished(argv, CHECKOUT, self.env, timeout)
        run = Run(done.status, done.output, done.cpu)
        shown = shlex.join(argv)
        print(f"{run.cpu:6.1f} s of processor time, status {run.status}: {shown[:200]}")
        assert not check or run.status == 0, f"{shown}\n{run.output[-8000:]}"
        return run

    def inside(self, node: str, script: str, stdin: str | None = None) -> str:
        """Run a script as root at the console of a node, whether or not it answers SSH."""
        words = ("exec", "-i", self.lab.container(node), "sh", "-ec", script)
        return self.lab.engine().docker(*words, stdin=stdin)
