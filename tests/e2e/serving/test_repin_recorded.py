# SPDX-License-Identifier: Apache-2.0
"""A re-pin of four nodes that serve: recorded, with a client that keeps asking."""

from __future__ import annotations

import datetime
import itertools
import json
import threading
import time
from pathlib import Path
from typing import Any

import yaml

from firstlight_lab.cluster import Lab
from firstlight_lab.shell import LabError
from tests.e2e.serving.lab import NODES, Serving
from tests.e2e.serving.processes import wait_for
from tests.e2e.support import CHECKOUT

STACKS = ("lab", "lab-next")
RECORD = CHECKOUT / "build" / "repin-record.json"
# Asks as a user of the head would; the key stays on the node.
ASK = r"""
import json, urllib.request
key = open("/etc/firstlight/server.env").read().split("VLLM_API_KEY=", 1)[1].split()[0]
body = {"model": "tiny", "messages": [{"role": "user", "content": "Hello"}], "max_tokens": 1}
request = urllib.request.Request(
    "http://127.0.0.1:290/v1/chat/completions", json.dumps(body).encode(),
    {"Content-Type": "application/json", "Authorization": "Bearer " + key})
print(json.load(urllib.request.urlopen(request, timeout=5))["choices"][0]["finish_reason"])
"""


class Client(threading.Thread):
    """Asks for a completion every second and notes when it got one."""

    def __init__(self, lab: Lab) -> None:
        super().__init__(daemon=True)
        self.lab, self.ended = lab, threading.Event()
        self.answers: list[tuple[float, bool]] = []

    def run(self) -> None:
        engine, container = self.lab.engine(), self.lab.container("spark0")
        while not self.ended.is_set():
            asked = time.time()
            try:
                said = engine.docker("exec", container, "python3", "-c", ASK, check=False, timeout=10)
            except LabError:
                said = ""
            # Docker says on standard output, too, why it could start nothing on a node that restarts.
            self.answers.append((asked, said.strip() in ("length", "stop")))
            self.ended.wait(max(0.0, asked + 1 - time.time()))

    def end(self) -> None:
        self.ended.set()
        self.join(timeout=30)

    def last_answer(self) -> float:
        return max((moment for moment, answered in self.answers if answered), default=0.0)

    def seen(self) -> dict[str, Any]:
        """What the client saw: how often it asked, and the longest time between two answers."""
        good = [moment for moment, answered in self.answers if answered]
        gaps = [(late - early, early, late) for early, late in itertools.pairwise(good)]
        seconds, last, first = max(gaps)
        return {
            "asked": len(self.answers),
            "answered": len(good),
            "last_answer_before": stamp(last),
            "first_answer_after": stamp(first),
            "down_seconds": round(seconds, 1),
        }


def stamp(moment: float) -> str:
    return datetime.datetime.fromtimestamp(moment, tz=datetime.UTC).isoformat(timespec="milliseconds")


def driver(serving: Serving, host: str) -> str:
    return serving.inside(host, "nvidia-smi --query-gpu=driver_version --format=csv,noheader").split()[-1]


def test_a_re_pin_of_four_nodes_that_serve(serving: Serving, results: dict[str, Any], tmp_path: Path) -> None:
    stack = next(name for name in STACKS if name != serving.stack)
    wanted = yaml.safe_load((serving.lab.directory / f"catalog/stacks/{stack}.yml").read_text())
    before = {host: driver(serving, host) for host in NODES}
    path = tmp_path / "report.json"
    # The nodes play DGX Sparks, whose drivers are the factory's: to change them is asked for.
    chosen = {"stack": stack, "nvidia_driver_policy": "install", "repin_report": str(path)}
    client = Client(serving.lab)
    client.start()
    try:
        run = serving.playbook("playbooks/repin.yml", "-e", json.dumps(chosen))
        serving.stack = stack
        ended = time.time()
        wait_for(lambda: client.last_answer() > ended, 60, "an answer after the re-pin", serving.diagnosis)
    finally:
        client.end()
    seen = client.seen()
    report = json.loads(path.read_text())
    after = {host: driver(serving, host) for host in NODES}
    record = {"report": report, "client": seen, "driver": {"before": before, "after": after}, "seconds": run.seconds}
    RECORD.parent.mkdir(exist_ok=True)
    RECORD.write_text(json.dumps(record, indent=2) + "\n")
    results["re-pin of four nodes"] = {"seconds": round(run.seconds, 1), "endpoint down, by a client": seen}

    assert (report["done"], report["problems"]) == (True, [])
    assert after == dict.fromkeys(NODES, wanted["driver"]["version"])
    assert set(before.values()).isdisjoint(after.values())
    for host in NODES:
        told = report["hosts"][host]
        states = [entry["state"] for entry in told["timeline"]]
        assert told["outcome"] == "moved"
        assert states[:7] == ["planned", "drained", "staged", "installed", "reboot-requested", "booted", "verified"]
        assert [entry["at"] for entry in told["timeline"]] == sorted(entry["at"] for entry in told["timeline"])
        assert told["verified"], "the report says what was verified"
    first, *others = sorted(NODES, key=lambda host: str(moment(report, host, "staged")))
    assert all(moment(report, first, "verified") < moment(report, host, "staged") for host in others), "one goes first"
    # Both clocks are this machine's: the client was without an answer while the report says that nothing answered.
    drained, answered = (
        datetime.datetime.fromisoformat(report["endpoint"][name]) for name in ("drained_at", "answered_at")
    )
    assert drained < answered
    assert datetime.datetime.fromisoformat(seen["last_answer_before"]) < answered
    assert datetime.datetime.fromisoformat(seen["first_answer_after"]) > drained

    settled = serving.playbook("site.yml")
    assert settled.changed == dict.fromkeys(NODES, 0), settled.output[-6000:]


def moment(report: dict[str, Any], host: str, state: str) -> datetime.datetime:
    """When a node reached a state."""
    times = [entry["at"] for entry in report["hosts"][host]["timeline"] if entry["state"] == state]
    return datetime.datetime.fromisoformat(times[0])
