# SPDX-License-Identifier: Apache-2.0
"""What the end-to-end tests share: a checkout, commands that are run in it, and what came of them."""

from __future__ import annotations

import os
import re
import resource
import signal
import subprocess
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from ansible_collections.firstlight.cluster.plugins.module_utils.lease import PATH as LEASE

CHECKOUT = Path(__file__).resolve().parents[2]
HOSTS = ("spark0", "spark1", "spark2", "spark3")
RECAP = re.compile(r"^(\S+)\s+: ok=(\d+)\s+changed=(\d+)\s+unreachable=(\d+)\s+failed=(\d+)", re.MULTILINE)


@dataclass(frozen=True)
class Outcome:
    """What a command did."""

    command: str
    status: int
    output: str
    seconds: float
    cpu: float = 0.0  # of the command and what it started on this machine: the same however busy the machine is

    @property
    def recap(self) -> dict[str, dict[str, int]]:
        """The counts per host of an ansible-playbook run."""
        names = ("ok", "changed", "unreachable", "failed")
        return {
            match[1]: dict(zip(names, map(int, match.groups()[1:]), strict=True))
            for match in RECAP.finditer(self.output)
        }


def readme_commands(text: str) -> list[str]:
    """Every command of the console blocks, in the order of the page."""
    commands = []
    for block in re.findall(r"^ *```console\n(.*?)^ *```", text, re.MULTILINE | re.DOTALL):
        commands += [line.strip()[2:] for line in block.splitlines() if line.strip().startswith("$ ")]
    return commands


def cpu_of_children() -> float:
    """Seconds of all that this process has started and seen the end of."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def finished(argv: Sequence[str], cwd: Path, env: Mapping[str, str], timeout: float) -> Outcome:
    """Run a command to its end, or kill it with its children when its time is over: they would hold the lab."""
    start, used = time.monotonic(), cpu_of_children()
    process = subprocess.Popen(
        argv,
        cwd=cwd,
        env=dict(env),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        start_new_session=True,
    )
    try:
        output, _ = process.communicate(timeout=timeout)
    except subprocess.TimeoutExpired:
        os.killpg(process.pid, signal.SIGKILL)
        output, _ = process.communicate()
        output += f"\nkilled after {timeout:.0f} s"
    return Outcome(argv[-1], process.returncode, output, time.monotonic() - start, round(cpu_of_children() - used, 2))


@dataclass
class Checkout:
    """A checkout, a lab of this name, and the commands that were run for it."""

    clone: Path
    lab: str
    outcomes: list[Outcome] = field(default_factory=list)

    @property
    def env(self) -> dict[str, str]:
        env = {key: value for key, value in os.environ.items() if key not in ("VIRTUAL_ENV", "PYTHONPATH")}
        venv = str(CHECKOUT / ".venv")
        env["PATH"] = os.pathsep.join(part for part in env["PATH"].split(os.pathsep) if not part.startswith(venv))
        return {**env, "FIRSTLIGHT_LAB": self.lab, "ANSIBLE_NOCOLOR": "1"}

    def run(self, command: str, timeout: float = 1500, env: dict[str, str] | None = None) -> Outcome:
        return finished(["bash", "-c", command], self.clone, {**self.env, **(env or {})}, timeout)

    def site(self, *arguments: str, timeout: float = 1200) -> Outcome:
        return self.run(f".venv/bin/ansible-playbook site.yml -i inventory/lab {' '.join(arguments)}", timeout)

    def wait_for_lease(self) -> None:
        """Wait until the last run has given its lease back, which it does a moment after its end."""
        self.inside(HOSTS[0], f"for i in $(seq 300); do [ -e {LEASE} ] || exit 0; sleep 0.1; done; exit 1")

    def node(self, name: str, command: str) -> Outcome:
        return self.run(f".venv/bin/firstlight lab ssh {name} {command}", timeout=120)

    def inside(self, container: str, command: str) -> str:
        """A command in a container of the lab by way of the engine, for when a node lets nobody in."""
        code = (
            "import sys; from firstlight_lab.cache import Cache, default_root; "
            "from firstlight_lab.host import find_engine; engine = find_engine(Cache(default_root())); "
            f"print(engine.docker('exec', 'firstlight-{self.lab}-{container}', 'sh', '-ec', sys.argv[1]))"
        )
        return subprocess.check_output([self.clone / ".venv/bin/python", "-c", code, command], env=self.env, text=True)
