# SPDX-License-Identifier: Apache-2.0
"""What a second run costs beside others: `make bench-rerun HOSTS="4 16 64"`. docs/scale.md has the figures.

For each number of hosts a lab is started and prepared. Then, in turn and three times, with nothing left to change:
prepare.yml, which is site.yml as far as hosts without an engine go; `firstlight verify` of the same roles; pyinfra and
plain Ansible with forty states. A run that fails, or changes anything, ends the benchmark. The commands that `verify`
has a host run are also run by themselves, over one SSH connection: less than they cost, nothing that asks this can.
"""

from __future__ import annotations

import argparse
import contextlib
import re
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from tests.e2e.racks.measure import Measured, changed_hosts, measured
from tests.e2e.racks.scale_lab import Floor, racks_of
from tests.e2e.support import CHECKOUT

HERE = Path(__file__).parent / "rerun"
RERUN = f"{__package__}.rerun"
RESULT = CHECKOUT / "build" / "bench-rerun.md"
PYINFRA = CHECKOUT / "build" / "bench-rerun" / "bin" / "pyinfra"
PREPARED = (
    *("preflight", "nvidia_driver", "cuda_toolkit", "container_runtime", "host_tuning", "gpu_verify", "firewall"),
    "fabric_network",
)
"""The roles of prepare.yml: what comes after them needs an engine."""
USAGES = ("cpuacct/docker/cpuacct.usage", "docker/cpu.stat")
"""Processor time of all containers of the lab, as the first and the second version of control groups tell it."""
TOTAL = re.compile(r"Grand total" + r"[^\d-]+(\d+|-)" * 4)
"""pyinfra's last line: states, changed, failed, not changed."""
STATES, ALWAYS_RUN = 40, 2
"""A unit's state is asked by a shell command, which pyinfra counts as a change."""
LONGEST = 1800
BASE = "pyinfra, 40 states"
ALONE = "the commands of verify alone"
PLAIN = "plain Ansible, tuned, 40 states"


@dataclass(frozen=True)
class Cost:
    """Seconds of a run."""

    wall: float
    controller: float
    hosts: float


class Designs:
    """The ways to find that nothing is to be done, on the hosts of one lab."""

    def __init__(self, floor: Floor, racks: dict[str, int]) -> None:
        self.floor, self.hosts = floor, sum(racks.values())
        self.inventory = floor.inventory(racks)
        roles = [word for role in PREPARED for word in ("--role", role)]
        verify = ["verify", "-i", self.inventory]
        prepare = ["ansible-playbook", str(CHECKOUT / "playbooks" / "prepare.yml"), "-i", self.inventory]
        plain = ["ansible-playbook", str(HERE / "forty.yml"), "-i", self.inventory, "-u", "root"]
        self.all: dict[str, Callable[[], Measured]] = {
            "prepare.yml, nothing to do": lambda: self.ansible(prepare),
            "firstlight verify": lambda: self.run(["firstlight", *verify, *roles]),
            "firstlight verify, without the fabric": lambda: self.run(["firstlight", *verify, *roles[:-2]]),
            ALONE: self.commands_alone,
            BASE: self.pyinfra_again,
            PLAIN: lambda: self.ansible(plain, self.tuned),
        }
        self.make: dict[str, Callable[[], Measured]] = {
            "prepare.yml, nothing to do": lambda: self.run(prepare),
            BASE: self.pyinfra,
            PLAIN: lambda: self.run(plain, self.tuned),
            ALONE: lambda: self.run([sys.executable, "-m", f"{RERUN}.record_commands", *verify, *roles[:-2]]),
        }
        """What makes that true which then is found to be so."""

    @property
    def tuned(self) -> dict[str, str]:
        return {"ANSIBLE_FORKS": str(self.hosts), "ANSIBLE_CONFIG": str(HERE / "ansible.cfg")}

    def run(self, argv: Sequence[str], settings: dict[str, str] | None = None) -> Measured:
        """It must end well."""
        done = measured(argv, CHECKOUT, {**self.floor.env, **(settings or {})}, LONGEST)
        if done.status:
            raise SystemExit(f"{' '.join(argv)} exited {done.status}, which measures nothing:\n{done.output[-4000:]}")
        return done

    def ansible(self, argv: Sequence[str], settings: dict[str, str] | None = None) -> Measured:
        done = self.run(argv, settings)
        if changed_hosts(done, self.hosts):
            raise SystemExit(f"{' '.join(argv)} was to change nothing on {self.hosts} hosts:\n{done.output[-4000:]}")
        return done

    def commands_alone(self) -> Measured:
        directory = self.floor.lab.directory
        addresses = [self.floor.addresses[host] for host in self.floor.hosts]
        files = (str(directory / "id_ed25519"), str(directory / "known_hosts"))
        return self.run([sys.executable, "-m", f"{RERUN}.commands_alone", *files, *addresses])

    def pyinfra(self) -> Measured:
        directory = self.floor.lab.directory
        data = {
            "ssh_user": "root",
            "ssh_key": str(directory / "id_ed25519"),
            "ssh_known_hosts_file": str(directory / "known_hosts"),
            "ssh_strict_host_key_checking": "yes",
        }
        inventory = self.floor.directory / "pyinfra_inventory.py"
        listed = [(self.floor.addresses[host], data) for host in self.floor.hosts]
        inventory.write_text(f"hosts = {listed!r}\n", encoding="utf-8")
        done = measured([str(PYINFRA), "-y", str(inventory), "forty.py"], HERE, self.floor.env, LONGEST)
        if done.status:
            raise SystemExit(f"pyinfra exited {done.status}, which measures nothing:\n{done.output[-4000:]}")
        return done

    def pyinfra_again(self) -> Measured:
        done = self.pyinfra()
        total = TOTAL.search(done.output)
        expected = tuple(str(count * self.hosts) for count in (STATES, ALWAYS_RUN, 0, STATES - ALWAYS_RUN))
        found = tuple("0" if word == "-" else word for word in total.groups()) if total else ()
        if found != expected:
            raise SystemExit(f"pyinfra was to find {expected}, and found {found}:\n{done.output[-4000:]}")
        return done


@contextlib.contextmanager
def cold(floor: Floor) -> Iterator[None]:
    """No connection is left of the run before."""
    for socket in floor.lab.directory.iterdir():
        if socket.is_socket():
            subprocess.run(["ssh", "-O", "exit", "-S", str(socket), "host"], capture_output=True, check=False)
    yield


def hosts_seconds() -> float:
    """Processor time of all nodes so far."""
    for name in USAGES:
        file = Path("/sys/fs/cgroup") / name
        if file.is_file():
            text = file.read_text(encoding="utf-8")
            return int(text) / 1e9 if name.endswith("usage") else int(text.split()[1]) / 1e6
    raise SystemExit(f"none of {', '.join(USAGES)} is there, expected the control group of the lab's containers")


def cost(floor: Floor, run: Callable[[], Measured]) -> Cost:
    with cold(floor):
        before = hosts_seconds()
        done = run()
        return Cost(done.seconds, done.cpu, hosts_seconds() - before)


def measure(hosts: int, repeats: int, left_out: Sequence[str]) -> dict[str, Cost]:
    """The median of each design."""
    racks = racks_of(hosts)
    with tempfile.TemporaryDirectory() as directory:
        floor = Floor("rerun", Path(directory), racks)
        with floor.running(*floor.lab_options):
            designs = Designs(floor, racks)
            chosen = {name: run for name, run in designs.all.items() if not any(word in name for word in left_out)}
            for name, make in designs.make.items():
                if name in chosen:
                    print(f"{make().seconds:6.1f} s to make {hosts} hosts right: {name}", flush=True)
            found: dict[str, list[Cost]] = {name: [] for name in chosen}
            for _ in range(repeats):
                for name, run in chosen.items():
                    found[name].append(cost(floor, run))
                    print(f"{hosts:3} hosts  {name}: {found[name][-1]}", flush=True)
    return {
        name: Cost(
            *(statistics.median(getattr(one, field) for one in costs) for field in ("wall", "controller", "hosts"))
        )
        for name, costs in found.items()
    }


def table(results: dict[int, dict[str, Cost]]) -> str:
    """For docs/scale.md; ratios are to pyinfra."""
    lines = [
        "| hosts | | wall s | of pyinfra's | controller's processor s | a host | hosts' processor s | a host |",
        "| --- | --- | --- | --- | --- | --- | --- | --- |",
    ]
    for hosts, costs in results.items():
        base = costs[BASE].wall
        for name, one in costs.items():
            lines.append(
                f"| {hosts} | {name} | {one.wall:.1f} | {one.wall / base:.2f} | {one.controller:.1f} | "
                f"{one.controller / hosts:.2f} | {one.hosts:.1f} | {one.hosts / hosts:.2f} |"
            )
    return "\n".join(lines) + "\n"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("hosts", nargs="*", type=int, default=[4, 16, 64])
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--without", action="append", default=[], help="leave designs out whose name has this word")
    arguments = parser.parse_args()
    if not PYINFRA.is_file():
        raise SystemExit(f"{PYINFRA} is missing: run `make bench-rerun`, which installs it")
    results: dict[int, dict[str, Cost]] = {}
    for hosts in arguments.hosts:
        results[hosts] = measure(hosts, arguments.repeats, arguments.without)
        RESULT.parent.mkdir(exist_ok=True)
        RESULT.write_text(table(results), encoding="utf-8")
        print(f"\n{table(results)}", flush=True)


if __name__ == "__main__":
    main()
