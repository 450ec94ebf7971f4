# SPDX-License-Identifier: Apache-2.0
"""Four nodes that serve, what can happen to them, and how it is seen that they serve again."""

from __future__ import annotations

import json
import os
import re
import shlex
import subprocess
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import datetime
from functools import cached_property
from pathlib import Path
from typing import Any

import openai

from firstlight_lab.cache import Cache, default_root
from firstlight_lab.cluster import Lab
from firstlight_lab.fabric import change_fabric
from firstlight_lab.incidents import play, power
from firstlight_lab.shell import LabError
from tests.suite.events import Event, note

from .asking import TOKENS, Answer, Endpoint
from .processes import kill_all_of, wait_for
from .records import Record, Records

NODES = ("spark0", "spark1", "spark2", "spark3")
HEAD = NODES[0]
STATE = "/run/firstlight/supervisor.json"
SUPERVISOR = "firstlight-supervisor.service"
RAY, SERVER = "firstlight-ray", "firstlight-server"
SERVED_WITHIN = 900
"""Seconds from a fault to a completion on a machine that does other things, too; usual is a third of that."""
FORGOTTEN_WITHIN = 30
"""Seconds for the supervisor of a busy machine to say what is due."""
SAID_WITHIN = 240
"""Seconds from a fault that stops the group to the words that say why."""
RECAP = re.compile(r"^(\S+)\s+: ok=\d+\s+changed=(\d+)\s", re.MULTILINE)


@dataclass(frozen=True)
class Run:
    """A finished, or killed, command."""

    command: str
    status: int
    output: str
    seconds: float

    @property
    def changed(self) -> dict[str, int]:
        """How much a playbook has changed on each host."""
        return {host: int(count) for host, count in RECAP.findall(self.output)}


@dataclass(frozen=True)
class Profile:
    """A way to serve: where its inventory is, who has the endpoint, and what the answers must show."""

    inventory: str
    head: str
    nodes: tuple[str, ...]
    fingerprint: str
    hardware: str = "gb10"


RAY_TP4 = Profile("tests/e2e/serving/inventory/ray", HEAD, NODES, "-tp4")
MULTINODE = Profile("tests/e2e/serving/inventory/multinode", HEAD, NODES[:2], "-tp2")
SINGLE = Profile("tests/e2e/serving/inventory/single", NODES[3], NODES[3:], "-tp2", "h100-sxm-4")
EXPOSED = Profile("tests/e2e/serving/inventory/exposed", HEAD, NODES[:2], "-tp2")
"""With endpoint, firewall and metrics, for which the fourth node is the monitoring host; the third is a stranger."""
REPLICAS = Profile("tests/e2e/serving/inventory/replicas", NODES[3], NODES[3:], "vllm-", "h100-sxm-4")


@dataclass
class Serving:
    """A checkout, a lab that runs, and what serves in it now."""

    checkout: Path
    name: str
    records: Records = field(default_factory=Records)
    profile: Profile = RAY_TP4
    stack: str = "lab"
    """Of the lab's stacks the one whose driver the nodes have."""
    serves: bool = False
    """Whether tests before have left something that serves."""

    @cached_property
    def lab(self) -> Lab:
        return Lab(Cache(default_root()), self.name, lambda _: None)

    # -- commands ---------------------------------------------------------------------------------------------

    @property
    def env(self) -> dict[str, str]:
        env = {key: value for key, value in os.environ.items() if key not in ("VIRTUAL_ENV", "PYTHONPATH")}
        path = os.pathsep.join([str(self.checkout / ".venv/bin"), env["PATH"]])
        # Keys for clients go with the lab, and never among the operator's own.
        own = {"FIRSTLIGHT_LAB": self.name, "XDG_STATE_HOME": str(self.lab.directory / "state")}
        return {**env, **own, "PATH": path, "ANSIBLE_NOCOLOR": "1", "COLUMNS": "400"}

    @contextmanager
    def started(self, *argv: str, log: Path) -> Iterator[subprocess.Popen[str]]:
        """A command that goes on while something happens; whatever is left of it at the end is killed."""
        with log.open("w") as output:
            process = subprocess.Popen(
                argv,
                cwd=self.checkout,
                env=self.env,
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                text=True,
                start_new_session=True,
            )
            try:
                yield process
            finally:
                kill_all_of(process)

    def command(
        self, *argv: str, fails: bool | None = False, timeout: float = 1200, env: Mapping[str, str] | None = None
    ) -> Run:
        """Run it to its end; `fails` is whether it has to, None where either may be."""
        began = time.monotonic()
        done = subprocess.run(
            argv,
            cwd=self.checkout,
            env={**self.env, **(env or {})},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            timeout=timeout,
            check=False,
        )
        run = Run(shlex.join(argv), done.returncode, done.stdout, time.monotonic() - began)
        print(f"{run.seconds:7.1f} s  {run.command}: status {run.status}", flush=True)
        assert fails is None or (run.status != 0) == fails, f"{run.command}\n{run.output[-8000:]}\n{self.diagnosis()}"
        return run

    def playbook(self, name: str, *arguments: str, fails: bool | None = False) -> Run:
        """A playbook on what serves now."""
        return self.command(*self.words(name), *arguments, fails=fails)

    def words(self, playbook: str) -> list[str]:
        """The command line of a playbook."""
        # Nodes that play a DGX Spark keep the factory's driver; another one is there because somebody asked for it.
        chosen = {"firstlight_stack": self.stack, "nvidia_driver_policy": "install"} if self.stack != "lab" else {}
        more = ["-e", json.dumps(chosen)] if chosen else []
        return ["ansible-playbook", playbook, "-i", self.profile.inventory, *more]

    def inside(self, node: str, script: str) -> str:
        """A script on a node by way of the engine: it needs neither sshd nor the product."""
        return self.lab.engine().docker("exec", self.lab.container(node), "sh", "-ec", script)

    def on_all(self, work: Callable[[str], Any], nodes: Sequence[str] = NODES) -> None:
        with ThreadPoolExecutor(len(nodes)) as pool:
            list(pool.map(work, nodes))

    # -- what happens to nodes --------------------------------------------------------------------------------

    def power(self, node: str, state: str) -> None:
        power(self.lab, node, state)

    def machine(self, node: str, hardware: str) -> None:
        """Let a node be this machine."""
        entries = {entry["name"]: entry["machine"]["profile"] for entry in self.lab.record()["nodes"]}
        if entries[node] != hardware:
            play(self.lab, node, hardware, ())

    def link(self, node: str, *, down: bool | None = None, rate: str | None = None) -> None:
        change_fabric(self.lab, node=node, down=down, rate=rate)

    def reboot(self, node: str) -> None:
        """Ask a node to reboot; back when its old self is gone."""
        before = self.booted(node)
        self.inside(node, "systemctl --no-block reboot")
        wait_for(lambda: self.booted(node) != before, 120, f"the reboot of {node}")

    def booted(self, node: str) -> str:
        """Which boot of a node this is; empty while it is down."""
        try:
            return self.inside(node, "stat -c %Y /proc/1").strip()
        except LabError:
            return ""

    # -- what serves ------------------------------------------------------------------------------------------

    def supervisor(self, node: str = "") -> dict[str, Any]:
        """The state that a node's supervisor writes; empty where it writes none."""
        try:
            found: dict[str, Any] = json.loads(self.inside(node or self.profile.head, f"cat {STATE}"))
        except (LabError, ValueError):
            return {}
        return found

    def groups(self) -> dict[str, dict[str, Any]]:
        groups: dict[str, dict[str, Any]] = self.supervisor().get("groups", {})
        return groups

    def group(self) -> dict[str, Any]:
        """The only group, or nothing."""
        return next(iter(self.groups().values()), {})

    def before_a_fault(self) -> float:
        """Wait until the group serves and has forgotten the fault before; the time from which the next one counts."""
        wait_for(lambda: self.group().get("phase") == "serving", SERVED_WITHIN, "that the group serves", self.diagnosis)
        settled = {"phase": "serving", "attempts": 0}
        wait_for(
            lambda: settled.items() <= self.group().items(),
            self.seconds_until_forgotten() + FORGOTTEN_WITHIN,
            "that earlier failures are forgotten",
            self.diagnosis,
        )
        return time.monotonic()

    def restore_service(self) -> None:
        """Let it serve, whatever an earlier test has left: nothing is done where it answers."""
        try:
            if self.group().get("phase") == "serving":
                self.endpoint.complete(30)
                return
        except (openai.OpenAIError, OSError, LabError, StopIteration):
            pass  # that it does not answer is why it is restored
        self.playbook("site.yml")

    def seconds_until_forgotten(self) -> float:
        """How long the group must go on serving for its failed starts to be forgotten, as its supervisor has it."""
        state = self.supervisor()
        groups: dict[str, dict[str, Any]] = state.get("groups", {})
        forgotten_at = next((group.get("forgotten_at") for group in groups.values()), None)
        if not forgotten_at:
            return 0.0
        left = datetime.fromisoformat(forgotten_at) - datetime.fromisoformat(state["written_at"])
        return max(0.0, left.total_seconds())

    @property
    def endpoint(self) -> Endpoint:
        text = self.inside(self.profile.head, "cat /etc/firstlight/server.env")
        key = next(line.partition("=")[2] for line in text.splitlines() if line.startswith("VLLM_API_KEY="))
        return Endpoint(self.lab.directory / "ssh_config", self.profile.head, key.strip())

    def assert_serves(self) -> tuple[Answer, Answer]:
        """It answers, and the same when it is streamed."""
        whole, streamed = self.endpoint.complete(), self.endpoint.stream()
        for answer in (whole, streamed):
            assert answer.tokens == TOKENS, answer
            assert self.profile.fingerprint in answer.fingerprint, answer
        # A server that lags behind its engine sends what has gathered, and half a character is no text yet.
        assert streamed.chunks >= TOKENS // 2, f"{streamed}: it did not come token by token"
        assert streamed.text == whole.text, (whole, streamed)
        return whole, streamed

    def served(self, since: float, seconds: float = SERVED_WITHIN, *, otherwise: str = "") -> float:
        """Wait for a completion; the seconds from `since` to it. Ends early when the supervisors have given up."""
        deadline = since + seconds
        while True:
            try:
                answer = self.endpoint.complete(30)
            except (openai.OpenAIError, OSError, LabError, StopIteration):
                phase = self.group().get("phase", "")
                given_up = phase == "failed" and time.monotonic() > since + 60  # not of the time before the fault
                assert not given_up, f"given up\n{self.diagnosis()}"
                assert time.monotonic() < deadline, f"no completion within {seconds} s. {otherwise}\n{self.diagnosis()}"
                time.sleep(1)
                continue
            assert self.profile.fingerprint in answer.fingerprint
            return time.monotonic() - since

    def stopped(self, *words: str, seconds: float = SAID_WITHIN) -> str:
        """Wait until the head's supervisor says all of these words about why it does not serve; what it says."""
        said = ""

        def says() -> bool:
            nonlocal said
            group = self.group()
            if group.get("phase") not in ("gathering", "failed", "drained"):
                return False
            said = str(group.get("why", ""))
            return all(word in said for word in words)

        wait_for(says, seconds, f"a stop that says {words}", lambda: f"{said}\n{self.diagnosis()}")
        return said

    def engine_seconds(self, since: float, seconds: float) -> float | None:
        """Of the seconds since the fault, those after the group's first unit started; None where nothing started anew.

        Nodes share this machine's clock, so that systemd's figures can be compared with our own.
        """
        asked = f"systemctl show -p ExecMainStartTimestampMonotonic --value {RAY}.service {SERVER}.service"
        starts = [int(word) / 1e6 for word in self.inside(self.profile.head, asked).split() if word != "0"]
        first = min((start for start in starts if start > since), default=None)
        return None if first is None else since + seconds - first

    def record(self, name: str, since: float, seconds: float, words: str = "", *, ended: str = "served") -> None:
        engine = self.engine_seconds(since, seconds)
        if engine is not None:
            note(Event("engine start", name, round(engine, 1)))
        self.records.add(Record(name, ended, round(seconds, 1), None if engine is None else round(engine, 1), words))

    def assert_clean(self, node: str) -> None:
        """Nothing of the engine is left: no container, no process, no segment of shared memory, no port."""
        assert self.inside(node, "docker ps -aq") == "", node
        assert self.inside(node, "ls -A /dev/shm") == "", node
        assert self.inside(node, "pgrep -ai '^(vllm|ray|gcs)' || true") == "", node
        assert self.inside(node, "ss -ltnH 'sport = :290 or sport = :6379'") == "", node

    # -- when something went wrong ----------------------------------------------------------------------------

    def diagnosis(self) -> str:
        """All that a person would look at."""
        parts = [json.dumps(self.supervisor(), indent=1)[-6000:]]
        for node in self.profile.nodes:
            for unit in ("firstlight-supervisor", RAY, SERVER):
                try:
                    said = self.inside(node, f"journalctl -q -o cat -n 25 -u {unit} | cut -c1-300")
                except LabError as error:
                    said = str(error)
                parts.append(f"--- {node} {unit}\n{said}")
        return "\n".join(parts)
