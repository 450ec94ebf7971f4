# SPDX-License-Identifier: Apache-2.0
"""The small lab on which re-pins go wrong, and the truth about its nodes, read without the product's help."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import yaml

from firstlight_lab import snapshots
from firstlight_lab.cache import Cache, default_root
from firstlight_lab.cluster import Lab
from firstlight_lab.incidents import power, set_faults, set_repository
from tests.e2e.callbacks.crash import children
from tests.e2e.support import CHECKOUT

NAME = "repin"
CONVERGED = "converged"
PROFILE = "h100-sxm-4-nvswitch"
STACKS = ("lab", "lab-next")
NODES = ("gpu0", "gpu1", "gpu2")
HEAD, MIDDLE, FIRST = NODES
"""The last worker goes first and alone; the head and the other worker follow together."""
GPUS = 4
DRAINED = "/var/lib/firstlight/drained"
JOURNAL = "/var/lib/firstlight/repin/journal.json"
HISTORY = "/var/lib/firstlight/repin/history"
STORE = "/var/lib/firstlight/debs"
RAY, SERVER = "firstlight-ray.service", "firstlight-server.service"
SERVING = {HEAD: (RAY, SERVER), MIDDLE: (RAY,), FIRST: (RAY,)}
UNIT = f"""[Unit]
Description=Stands for what serves
ConditionPathExists=!{DRAINED}
[Service]
ExecStart=/usr/bin/sleep infinity
[Install]
WantedBy=multi-user.target
"""

# Everything about a node that decides on which set it is, asked of dpkg, apt, the kernel and systemd.
READ = r"""
import glob, json, os, subprocess, sys
def say(*words):
    done = subprocess.run(words, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, universal_newlines=True)
    return done.stdout if done.returncode == 0 else ""
def text(path):
    return open(path).read() if os.path.exists(path) else ""
patterns = ["nvidia-*", "libnvidia-*", "cuda-*", "docker.io", "containerd", "runc"]
rows = [row.split("\t") for row in subprocess.run(
    ["dpkg-query", "-W", "-f", "${Package}\t${Version}\t${db:Status-Status}\n", *patterns],
    stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, universal_newlines=True).stdout.splitlines()]
journal, drained, history = sys.argv[1:4]
json.dump({
    "installed": {row[0]: row[1] for row in rows if row[2] == "installed"},
    "half_done": [row[0] for row in rows if row[2] not in ("installed", "config-files", "not-installed")],
    "audit": say("dpkg", "--audit"),
    "holds": say("apt-mark", "showhold").split(),
    "loaded": text("/proc/driver/nvidia/version"),
    "answers": say("nvidia-smi", "--query-gpu=driver_version", "--format=csv,noheader").split(),
    "running": [unit for unit in sys.argv[4:] if say("systemctl", "is-active", unit).strip() == "active"],
    "boot": text("/proc/sys/kernel/random/boot_id").strip(),
    "drained": text(drained),
    "journal": json.loads(text(journal) or "null"),
    "history": [json.loads(text(path)) for path in sorted(glob.glob(history + "/*.json"), key=os.path.getmtime)],
}, sys.stdout)
"""
DRIVER, FABRIC_MANAGER = "firstlight-lab-nvidia-load.service", "nvidia-fabricmanager.service"


@dataclass(frozen=True)
class Truth:
    """What a node is, by its own tools."""

    installed: dict[str, str]
    half_done: list[str]
    audit: str
    holds: list[str]
    loaded: str
    answers: list[str]
    running: list[str]
    boot: str
    drained: str
    journal: dict[str, Any] | None
    history: list[dict[str, Any]]

    @property
    def states(self) -> list[str]:
        """The entries of the journal that is open, else of the last one, as `direction:state`."""
        journal = self.journal or (self.history[-1] if self.history else {"entries": []})
        return [f"{entry['direction']}:{entry['state']}" for entry in journal["entries"]]

    def of(self, names: Sequence[str]) -> dict[str, str]:
        return {name: self.installed[name] for name in names if name in self.installed}


@dataclass(frozen=True)
class Run:
    """A finished, or killed, ansible-playbook."""

    status: int
    output: str
    report: dict[str, Any]
    seconds: float

    def outcome(self, node: str) -> str:
        return str(self.report["hosts"][node]["outcome"])

    @property
    def problems(self) -> str:
        return "\n".join(self.report["problems"])


def pins(stack: Mapping[str, Any]) -> dict[str, str]:
    """Every package that a stack pins on a machine with NVSwitches."""
    driver = stack["driver"]
    manager = driver["fabric_manager"]
    return {**stack["packages"], **driver["packages"], manager["package"]: manager["revision"]}


@dataclass
class FaultLab:
    """Three nodes without a model, and the re-pin of them."""

    directory: Path
    """For logs and reports."""
    lab: Lab = field(default_factory=lambda: Lab(Cache(default_root()), NAME, lambda _: None))
    runs: list[tuple[str, float]] = field(default_factory=list)
    untouched: bool = False
    """Whether no test has had the nodes since they were brought up."""

    # -- the lab ----------------------------------------------------------------------------------------------

    @property
    def env(self) -> dict[str, str]:
        path = os.pathsep.join([str(CHECKOUT / ".venv/bin"), os.environ["PATH"]])
        return {**os.environ, "PATH": path, "FIRSTLIGHT_LAB": NAME, "ANSIBLE_NOCOLOR": "1"}

    def command(self, *words: str) -> None:
        done = subprocess.run(
            words, cwd=CHECKOUT, env=self.env, capture_output=True, text=True, check=False, timeout=900
        )
        assert done.returncode == 0, f"{' '.join(words)}\n{done.stdout[-6000:]}{done.stderr[-3000:]}"

    def bring_up(self) -> None:
        """Three nodes on the stack `lab`, in service, and a snapshot of that."""
        self.command("firstlight", "lab", "up", "--nodes", str(len(NODES)), "--profile", PROFILE)
        phases = ("--tags", "driver,container_runtime")
        self.command("ansible-playbook", "tests/e2e/repin/bring_up.yml", "-i", "tests/e2e/repin/inventory", *phases)
        self.serve()
        self.check_on("lab", *NODES)
        snapshots.take(self.lab, CONVERGED)
        self.untouched = True

    def restore(self) -> None:
        """The nodes as they were brought up; nothing is done where nobody has asked for them since."""
        if not self.untouched:
            snapshots.restore(self.lab, CONVERGED)
        self.untouched = False

    def inside(self, node: str, script: str) -> str:
        """A script on a node by way of the engine: it needs neither sshd nor the product."""
        return self.lab.engine().docker("exec", self.lab.container(node), "sh", "-ec", script)

    def serve(self) -> None:
        """Give every node units that keep running as the real ones do; they stay down while the node is drained."""
        for node, units in SERVING.items():
            script = [f"printf '%s' '{UNIT}' > /etc/systemd/system/{unit}" for unit in units]
            script += ["systemctl daemon-reload", f"systemctl enable --now {' '.join(units)}"]
            self.inside(node, "\n".join(script))

    def power(self, node: str, state: str) -> None:
        power(self.lab, node, state)

    def fault(self, node: str, *faults: str) -> None:
        set_faults(self.lab, node, faults)

    def repository(self, state: str, at: str = "") -> None:
        set_repository(self.lab, state, at)

    # -- the re-pin -------------------------------------------------------------------------------------------

    def start(
        self, stack: str, name: str, variables: Mapping[str, Any], env: Mapping[str, str]
    ) -> subprocess.Popen[str]:
        report = self.directory / f"{name}.json"
        report.unlink(missing_ok=True)
        extra = {
            "stack": stack,
            "repin_report": str(report),
            # The stack that the inventory names, as whoever changed it last would have written down.
            "firstlight_stack": next(name for name in STACKS if name != stack),
            # Nobody serves a model here.
            "repin_serve": False,
            # Tests reboot more often than machines should be.
            "repin_max_reboots": 99,
            "repin_reboot_timeout": 180,
            "repin_unreachable_timeout": 5,
            **variables,
        }
        callbacks = ["firstlight.cluster.preload", "gate", *(["crash"] if "FIRSTLIGHT_CRASH_AFTER" in env else [])]
        settings = {
            "ANSIBLE_CALLBACK_PLUGINS": str(CHECKOUT / "tests/e2e/callbacks"),
            "ANSIBLE_CALLBACKS_ENABLED": ",".join(callbacks),
            # A driver that does not load and a fabric manager that does not start need not be waited for.
            "FIRSTLIGHT_GATE_UNITS": f"{DRIVER} {FABRIC_MANAGER}",
        }
        with (self.directory / f"{name}.log").open("w") as log:
            return subprocess.Popen(
                ["ansible-playbook", "playbooks/repin.yml", "-i", "tests/e2e/repin/inventory", "-e", json.dumps(extra)],
                cwd=CHECKOUT,
                env={**self.env, **settings, **env},
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                text=True,
                start_new_session=True,
            )

    def finish(self, process: subprocess.Popen[str], name: str, started: float) -> Run:
        try:
            process.wait(timeout=900)
        except subprocess.TimeoutExpired:
            for worker in children(process.pid):  # they lead sessions of their own and would go on
                os.kill(worker, signal.SIGKILL)
            process.kill()
            process.wait()
        seconds = time.monotonic() - started
        self.runs.append((name, round(seconds, 1)))
        report = self.directory / f"{name}.json"
        document = json.loads(report.read_text()) if report.exists() else {}
        output = (self.directory / f"{name}.log").read_text()
        print(f"{seconds:7.1f} s  {name}: status {process.returncode}")
        return Run(process.returncode, output, document, seconds)

    def repin(self, stack: str, name: str, **variables: Any) -> Run:
        """Run the playbook to its end."""
        started = time.monotonic()
        return self.finish(self.start(stack, name, variables, {}), name, started)

    def repin_killed_after(self, entry: str, stack: str, name: str, **variables: Any) -> str:
        """Run the playbook until a journal received this entry (`forward:staged`); the host it was of."""
        note = self.directory / f"{name}.crash"
        crash = {"FIRSTLIGHT_CRASH_AFTER": entry, "FIRSTLIGHT_CRASH_NOTE": str(note)}
        started = time.monotonic()
        run = self.finish(self.start(stack, name, variables, crash), name, started)
        assert note.exists(), f"{entry} was never reached:\n{run.output[-4000:]}"
        assert run.status == -signal.SIGKILL, run.output[-4000:]
        return note.read_text()

    # -- the truth --------------------------------------------------------------------------------------------

    def truth(self, node: str) -> Truth:
        units = [*SERVING[node], FABRIC_MANAGER]
        command = ["python3", "-c", READ, JOURNAL, DRAINED, HISTORY, *units]
        return Truth(**json.loads(self.lab.engine().docker("exec", self.lab.container(node), *command)))

    def truths(self) -> dict[str, Truth]:
        return {node: self.truth(node) for node in NODES}

    def stack(self, name: str) -> dict[str, Any]:
        document: dict[str, Any] = yaml.safe_load((self.lab.directory / f"catalog/stacks/{name}.yml").read_text())
        return document

    def check_on(self, stack: str, *nodes: str, serving: bool = True) -> None:
        """Each of these nodes is on this stack's set, complete, and on nothing of the other's."""
        mine = pins(self.stack(stack))
        either = {name for one in STACKS for name in pins(self.stack(one))}
        version, other = (
            self.stack(one)["driver"]["version"] for one in (stack, next(name for name in STACKS if name != stack))
        )
        for node in nodes:
            found = self.truth(node)
            assert (found.half_done, found.audit) == ([], ""), node
            assert found.of(sorted(either)) == mine, node
            assert [name for name, one in found.installed.items() if one.startswith(f"{other}-")] == [], node
            assert set(mine) <= set(found.holds), node
            assert f" {version} " in found.loaded, node
            assert found.answers == [version] * GPUS, node
            assert FABRIC_MANAGER in found.running, node
            assert found.journal is None, f"{node} is still on its way: {found.states}"
            assert (found.drained == "") is serving, node
            if serving:
                assert set(SERVING[node]) <= set(found.running), node
