# SPDX-License-Identifier: Apache-2.0
"""A fresh clone, the README's own commands in it, and the cluster they leave up for the other tests.

Tests that have a lab of their own run beside those of the cluster, where there are workers for them (`make e2e`): nodes
that boot, drain and wait leave a machine idle. Those that look at the whole machine wait for the others to end.
"""

from __future__ import annotations

import fcntl
import json
import os
import re
import resource
import shutil
import signal
import subprocess
import tempfile
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from interruptions import interrupted_runs
from xdist.scheduler import LoadScopeScheduling

from tests.serving.lab import FACING, Serving
from tests.serving.secrets import Told

CHECKOUT = Path(__file__).resolve().parents[2]
LAB = "e2e"
HOSTS = ("spark0", "spark1", "spark2", "spark3")
BESIDE = {  # a lab of their own, nothing of the cluster's, and the group in which they follow each other
    "test_3_grow.py": "racks",
    "test_3_single_node.py": "others",
    "test_3_without_root.py": "others",
    "test_6_repin.py": "repin",
    "test_7_faults.py": "faults",
    "test_7_matrix.py": "faults",
    "test_8_arrive.py": "racks",
    "test_8_first_touch.py": "faults",
    "test_9_scale.py": "others",
}
CLUSTER = "cluster"
ORDER = (CLUSTER, "repin", "racks", "faults", "others")
"""The longest first: the last of them shall not be what everybody waits for."""
LATER = 5
"""How much lower the priority of what is not the longest is."""
BEFORE, SHARED = "FIRSTLIGHT_E2E_BEFORE", "FIRSTLIGHT_E2E_SHARED"
# What test_3_serving.py and test_4_facing.py take from there.
pytest.register_assert_rewrite(
    "tests.serving.test_1_recovery",
    "tests.serving.test_2_stops",
    "tests.serving.test_4_profiles",
    "tests.serving.test_5_ray_serve",
    "tests.serving.test_6_monitoring",
    "tests.serving.test_7_facing",
)
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


def machine_footprint() -> dict[str, list[str]]:
    """What a lab could leave behind on this machine."""
    links = [entry["ifname"] for entry in json.loads(subprocess.check_output(["ip", "-j", "link"], text=True))]
    mounts = [line.split()[1] for line in Path("/proc/mounts").read_text().splitlines()]
    daemons = []
    for directory in Path("/proc").glob("[0-9]*"):
        try:
            name = (directory / "comm").read_text().strip()
            state = (directory / "stat").read_text().rsplit(")", 1)[1].split()[0]
        except OSError:
            continue
        if state != "Z" and name in ("dockerd", "containerd", "containerd-shim", "mmdebstrap"):
            daemons.append(f"{name} {directory.name}")
    runtime = [
        path.name for path in Path("/run").iterdir() if path.name.startswith(("firstlight", "docker", "containerd"))
    ]
    return {
        "links": sorted(links),
        "mounts": sorted(m for m in mounts if "docker" in m or "firstlight" in m),
        "daemons": sorted(daemons),
        "runtime": sorted(runtime),
        "cgroups": sorted(str(path) for path in Path("/sys/fs/cgroup").glob("*/docker")),
        "swappiness": [Path("/proc/sys/vm/swappiness").read_text().strip()],
    }


def cpu_of_children() -> float:
    """Seconds of all that this process has started and seen the end of."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def pytest_configure(config: pytest.Config) -> None:
    """Before any worker starts a lab: note the machine as it is, and make what the workers share."""
    if not hasattr(config, "workerinput"):
        os.environ[BEFORE] = json.dumps(machine_footprint())
        os.environ[SHARED] = tempfile.mkdtemp(prefix="firstlight-e2e-")
        turn().touch()


def pytest_unconfigure(config: pytest.Config) -> None:
    if not hasattr(config, "workerinput"):
        shutil.rmtree(os.environ[SHARED], ignore_errors=True)


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Show the figures of all workers, which cannot print."""
    figures: dict[str, Any] = {}
    for path in sorted(Path(os.environ[SHARED]).glob("*.figures")):
        figures |= json.loads(path.read_text())
    if figures:
        terminalreporter.section("figures")
        terminalreporter.write_line(json.dumps(figures, indent=2))


def turn() -> Path:
    """The file by whose locks workers wait for each other."""
    return Path(os.environ[SHARED]) / "turn"


def group_of(path: str) -> str:
    return BESIDE.get(path.rpartition("/")[2], CLUSTER)


class Groups(LoadScopeScheduling):
    """One worker for the cluster's tests and one for each group beside them; in a group, the order of the files."""

    def _split_scope(self, nodeid: str) -> str:
        return group_of(nodeid.partition("::")[0])


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Groups in their order, files as they are, and the tests of test_4_facing.py as where they are from.

    Its own come first. Replicas come last: they take the place of what the others look at.
    """

    def place(item: pytest.Item) -> tuple[int, str, bool, bool, str, int]:
        group, file = ORDER.index(group_of(str(item.path))), item.path.name
        if file != "test_4_facing.py":
            return group, file, False, False, "", 0
        function: Any = getattr(item, "function", None)
        module = function.__module__
        return group, file, "." in module, module.endswith("ray_serve"), module, function.__code__.co_firstlineno

    items.sort(key=place)


def pytest_runtest_setup(item: pytest.Item) -> None:
    """The cluster's tests take longest: the others have what processor time they leave."""
    if group_of(str(item.path)) != CLUSTER and os.environ.get("PYTEST_XDIST_WORKER") and os.nice(0) == 0:
        os.nice(LATER)


def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> Groups:
    config.option.loadscopereorder = False  # by how many tests a group has, which says nothing of its length
    return Groups(config, log)


@pytest.fixture(scope="session")
def beside() -> Iterator[None]:
    """Held by workers whose labs are beside the cluster, until all of them are down."""
    with turn().open() as held:
        fcntl.flock(held, fcntl.LOCK_SH)
        yield


@pytest.fixture(scope="module", autouse=True)
def _beside(request: pytest.FixtureRequest) -> None:
    if request.path.name in BESIDE:
        request.getfixturevalue("beside")


@pytest.fixture(scope="session")
def alone() -> None:
    """Wait until nobody has a lab beside the cluster any more. A single worker has none there at this point."""
    if "PYTEST_XDIST_WORKER" in os.environ:
        with turn().open() as held:
            fcntl.flock(held, fcntl.LOCK_EX)


@dataclass
class Cluster:
    """The clone, and the lab that the README's commands started from it."""

    clone: Path
    before: dict[str, list[str]]
    outcomes: list[Outcome] = field(default_factory=list)
    closing: list[str] = field(default_factory=list)

    @property
    def env(self) -> dict[str, str]:
        env = {key: value for key, value in os.environ.items() if key not in ("VIRTUAL_ENV", "PYTHONPATH")}
        venv = str(CHECKOUT / ".venv")
        env["PATH"] = os.pathsep.join(part for part in env["PATH"].split(os.pathsep) if not part.startswith(venv))
        return {**env, "FIRSTLIGHT_LAB": LAB, "ANSIBLE_NOCOLOR": "1"}

    def run(self, command: str, timeout: float = 1500, env: dict[str, str] | None = None) -> Outcome:
        start, used = time.monotonic(), cpu_of_children()
        process = subprocess.Popen(
            ["bash", "-c", command],
            cwd=self.clone,
            env={**self.env, **(env or {})},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            start_new_session=True,
        )
        try:
            output, _ = process.communicate(timeout=timeout)
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)  # all of it: what it started would hold the lab
            output, _ = process.communicate()
            output += f"\nkilled after {timeout:.0f} s"
        return Outcome(
            command, process.returncode, output, time.monotonic() - start, round(cpu_of_children() - used, 2)
        )

    def site(self, *arguments: str, timeout: float = 1200) -> Outcome:
        return self.run(f".venv/bin/ansible-playbook site.yml -i inventory/lab {' '.join(arguments)}", timeout)

    def node(self, name: str, command: str) -> Outcome:
        return self.run(f".venv/bin/firstlight lab ssh {name} {command}", timeout=120)

    def inside(self, container: str, command: str) -> str:
        """A command in a container of the lab by way of the engine, for when a node lets nobody in."""
        code = (
            "import sys; from firstlight.lab.cache import Cache, default_root; "
            "from firstlight.lab.host import find_engine; engine = find_engine(Cache(default_root())); "
            f"print(engine.docker('exec', 'firstlight-{LAB}-{container}', 'sh', '-ec', sys.argv[1]))"
        )
        return subprocess.check_output([self.clone / ".venv/bin/python", "-c", code, command], env=self.env, text=True)


@pytest.fixture(scope="session")
def checkout() -> Cluster:
    """This checkout, for those who bring their own lab."""
    return Cluster(CHECKOUT, json.loads(os.environ[BEFORE]))


@pytest.fixture(scope="session")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    """Clone, run what the README says up to the last command that keeps the lab, and take it down at the end."""
    clone = tmp_path_factory.mktemp("newcomer") / "firstlight"
    subprocess.run(["git", "clone", "--quiet", str(CHECKOUT), str(clone)], check=True)
    made = Cluster(clone, json.loads(os.environ[BEFORE]))
    commands = readme_commands((clone / "README.md").read_text())
    made.closing = [command for command in commands if command.endswith("lab down")]
    try:
        for command in commands:
            if command in made.closing:
                break
            outcome = made.run(command)
            made.outcomes.append(outcome)
            print(f"{outcome.seconds:7.1f} s  {command}")
            assert outcome.status == 0, f"{command}\n{outcome.output[-6000:]}"
        yield made
    finally:
        made.run(".venv/bin/firstlight lab down")


@pytest.fixture(scope="session")
def serving(cluster: Cluster, results: dict[str, Any]) -> Iterator[Serving]:
    """The cluster, re-pinned by now, for the tests of serving, which `make test-serving` runs in a lab of their own."""
    made = Serving(cluster.clone, LAB, stack="lab-next")
    made.playbook("site.yml")
    made.serves = True
    yield made
    results["faults, seconds to the next completion (the engine's part)"] = {
        record.name: f"{record.seconds} ({record.engine})" for record in made.records.found
    }


@pytest.fixture(scope="session")
def rack(serving: Serving) -> Serving:
    """The same, whatever serves there."""
    return serving


@pytest.fixture(scope="session")
def told(rack: Serving, tmp_path_factory: pytest.TempPathFactory) -> Told:
    """The first runs that brought what faces others, to nodes as from the factory: some were killed, one has ended."""
    return interrupted_runs(rack, FACING, tmp_path_factory.mktemp("told"))


@pytest.fixture(scope="session")
def facing(rack: Serving, told: Told) -> Serving:
    """The same, with what faces others."""
    del told
    return rack


@pytest.fixture(scope="session")
def results() -> Iterator[dict[str, Any]]:
    """Figures worth keeping, as ratios measured side by side: shown at the end of the run."""
    figures: dict[str, Any] = {}
    yield figures
    worker = os.environ.get("PYTEST_XDIST_WORKER", "all")
    (Path(os.environ[SHARED]) / f"{worker}.figures").write_text(json.dumps(figures))
