# SPDX-License-Identifier: Apache-2.0
"""A real Prometheus beside two nodes that serve: it reads them, nobody else does, and it tells what happens to them."""

from __future__ import annotations

import json
import math
import shlex
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest
from ansible_collections.firstlight.cluster.plugins.plugin_utils.monitoring.panels import questions

from firstlight_lab.containers import archive_of
from tests.e2e.exposed.secrets import Told
from tests.e2e.serving.lab import EXPOSED, SUPERVISOR, Serving
from tests.e2e.serving.places import take_place
from tests.e2e.serving.processes import wait_for

WORKER = EXPOSED.nodes[1]
STRANGER, MONITOR = "spark2", "spark3"
PAGE, PAGE_OF_RAY = 9410, 9420
NOT_HERE = {
    "GPUs: Memory in use": "a GB10 shares its memory with the machine, and nvidia-smi does not report it",
    "GPUs: NVLink traffic (DCGM)": "a GB10 has no NVLink, and NVIDIA's exporter needs a driver",
}
"""Questions of the dashboard that this hardware has no answer to, and why."""
RULES_TEST = Path("molecule/monitoring/files/rules_test.yml")
PARTS = {"host", "node", "ray", "supervisor", "pins", "certificates", "firewall", "gpu", "kernel_log"}
ASK = """
import sys
from urllib import error, request
try:
    print(request.urlopen(sys.argv[1], timeout=5).read().decode())
except error.HTTPError as other:
    print("answered", other.code)
except OSError as other:
    print("not answered", other)
"""
INSTALL = """
export DEBIAN_FRONTEND=noninteractive
printf '#!/bin/sh\\nexit 101\\n' > /usr/sbin/policy-rc.d
chmod +x /usr/sbin/policy-rc.d
apt-get -qq update
apt-get -qq install --no-install-recommends prometheus
rm /usr/sbin/policy-rc.d
echo 'ARGS="--web.listen-address=127.0.0.1:9090"' > /etc/default/prometheus
"""


@dataclass(frozen=True)
class Monitor:
    """The monitoring host, asked on its own loopback."""

    serving: Serving

    def page(self, node: str, url: str) -> str:
        """What a node gets for a URL: a page, or how it was turned away."""
        return self.serving.inside(node, shlex.join(["python3", "-c", ASK, url]))

    def answers(self, question: str) -> list[dict[str, Any]]:
        text = self.page(MONITOR, f"http://127.0.0.1:9090/api/v1/query?query={quote(question)}")
        found: list[dict[str, Any]] = json.loads(text)["data"]["result"]
        return found

    def has_data(self, question: str) -> bool:
        return any(not math.isnan(float(one["value"][1])) for one in self.answers(question))

    def firing(self) -> set[tuple[str, str]]:
        """Alerts that fire, each with the node that it is about."""
        alerts = self.answers('ALERTS{alertstate="firing"}')
        return {(one["metric"]["alertname"], one["metric"].get("member", one["metric"]["host"])) for one in alerts}

    def told(self) -> str:
        """All that a person would look at."""
        return f"firing: {self.firing()}; parts: {self.answers('firstlight_source_up')}\n{self.serving.diagnosis()}"

    def wait(self, condition: Callable[[], bool], what: str, seconds: float = 240) -> None:
        wait_for(condition, seconds, what, self.told)


@pytest.fixture(scope="module")
def monitor(rack: Serving, told: Told, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Monitor]:
    """A real Prometheus on the monitoring host, with the files that the product ships for it."""
    del told
    take_place(rack, EXPOSED)
    out = tmp_path_factory.mktemp("monitoring")
    rack.command("firstlight", "monitoring", "-i", EXPOSED.inventory, "--output", str(out))
    rack.inside(MONITOR, INSTALL)
    shipped = [*Path(out).glob("*.yml"), rack.checkout / RULES_TEST]
    files = {f"etc/prometheus/{path.name}": path.read_text() for path in shipped}
    engine = rack.lab.engine()
    engine.docker("cp", "-", f"{rack.lab.container(MONITOR)}:/", stdin=archive_of(files))
    rack.inside(MONITOR, "systemctl restart prometheus")
    made = Monitor(rack)
    ready = "http://127.0.0.1:9090/-/ready"
    made.wait(lambda: "Ready" in made.page(MONITOR, ready), "that Prometheus is ready", 60)
    yield made
    rack.inside(MONITOR, "systemctl disable --now prometheus")


def test_promtool_takes_what_is_shipped(monitor: Monitor) -> None:
    for words in ("check config prometheus.yml", "check rules firstlight-rules.yml", f"test rules {RULES_TEST.name}"):
        assert "SUCCESS" in monitor.serving.inside(MONITOR, f"cd /etc/prometheus && promtool {words}")


def test_every_node_and_every_part_of_it_is_read(monitor: Monitor) -> None:
    monitor.wait(lambda: monitor.answers("count(up == 1) == 2") != [], "that both nodes are up")
    wanted = {(node, part) for node in EXPOSED.nodes for part in PARTS} | {(EXPOSED.head, "engine")}
    # Only the head has the certificate of the endpoint.
    wanted -= {(WORKER, "certificates")}
    found: dict[tuple[str, str], str] = {}

    def all_up() -> bool:
        found.clear()
        for one in monitor.answers("firstlight_source_up"):
            found[one["metric"]["host"], one["metric"]["source"]] = one["value"][1]
        return found == dict.fromkeys(wanted, "1")

    wait_for(all_up, 90, "that every part can be read", lambda: f"{sorted(found.items())}\n{monitor.told()}")


def test_every_question_of_the_dashboard_has_an_answer(monitor: Monitor) -> None:
    left = {place: question for place, question in questions().items() if place not in NOT_HERE}

    def all_answered() -> bool:
        monitor.serving.endpoint.complete()  # latencies are those of requests
        for place, question in list(left.items()):
            if monitor.has_data(question):
                del left[place]
        return not left

    wait_for(all_answered, 240, "an answer to every question", lambda: f"{left}\n{monitor.told()}")
    for place in NOT_HERE:
        assert not monitor.has_data(questions()[place]), f"{place} has data: take it out of the list"


def test_nothing_is_wrong_while_nothing_is_wrong(monitor: Monitor) -> None:
    assert monitor.firing() == set()


def test_nobody_else_reads(monitor: Monitor) -> None:
    addresses = {one["name"]: one["address"] for one in monitor.serving.lab.record()["nodes"]}
    for node in EXPOSED.nodes:
        page = f"http://{addresses[node]}:{PAGE}/metrics"
        assert "firstlight_source_up" in monitor.page(MONITOR, page)
        assert monitor.page(STRANGER, page).startswith(("answered 403", "not answered"))
        # Ray's agent listens on every address: the firewall is what keeps others out.
        listening = monitor.serving.inside(node, f"ss -ltnH 'sport = :{PAGE_OF_RAY}'")
        assert listening.strip(), f"no agent of Ray on {node}"
        for other in (STRANGER, MONITOR):
            assert monitor.page(other, f"http://{addresses[node]}:{PAGE_OF_RAY}/metrics").startswith("not answered")


def test_a_lost_rank_is_told_and_told_no_more_when_it_is_back(monitor: Monitor) -> None:
    began = monitor.serving.before_a_fault()
    lost = ("FirstlightRankLost", WORKER)
    monitor.serving.inside(WORKER, f"systemctl stop {SUPERVISOR}")
    try:
        monitor.wait(lambda: lost in monitor.firing(), "the alert")
    finally:
        monitor.serving.inside(WORKER, f"systemctl start {SUPERVISOR}")
    monitor.serving.record("supervisor stopped until its alert", began, monitor.serving.served(began))
    monitor.wait(lambda: lost not in monitor.firing(), "that the alert is over")


def test_a_fault_of_a_gpu_is_told_with_its_node(monitor: Monitor) -> None:
    fault, name = ("FirstlightGpuFault", WORKER), monitor.serving.name
    monitor.serving.command("firstlight", "lab", "fault", "--name", name, WORKER, "xid:number=79")
    try:
        monitor.wait(lambda: fault in monitor.firing(), "the alert")
        assert monitor.answers(f'firstlight_gpu_xid_total{{host="{WORKER}", xid="79"}} == 1') != []
    finally:
        monitor.serving.command("firstlight", "lab", "fault", "--name", name, WORKER)
    monitor.wait(lambda: monitor.firing() == set(), "that no alert is left")
