# SPDX-License-Identifier: Apache-2.0
"""A connectivity test that is told to end leaves no server behind, and its ports are none that a kernel hands out."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import yaml
from ansible_collections.firstlight.cluster.plugins.module_utils.fabric.connectivity.ports import MEETING_PORT
from ansible_collections.firstlight.cluster.plugins.modules import fabric_connectivity

ROOT = Path(__file__).parents[4]
PACKAGE = "ansible_collections.firstlight.cluster.plugins"
SERVES = f"""
import time
from {PACKAGE}.module_utils.fabric.connectivity.bandwidth import _server
from {PACKAGE}.modules.fabric_connectivity import end_in_order
end_in_order()
with _server(["sleep", "60"]) as server:
    print(server.pid, flush=True)
    time.sleep(60)
"""


def test_sigterm_ends_the_servers_first() -> None:
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    with subprocess.Popen([sys.executable, "-c", SERVES], stdout=subprocess.PIPE, text=True, env=environment) as report:
        assert report.stdout is not None
        server = int(report.stdout.readline())
        report.send_signal(signal.SIGTERM)
        assert report.wait(60) == 128 + signal.SIGTERM
    assert not Path(f"/proc/{server}").exists()


def test_the_ports_are_below_the_ephemeral_ones_and_told_everywhere() -> None:
    documented = yaml.safe_load(fabric_connectivity.DOCUMENTATION)["options"]["port"]["default"]
    assert documented == MEETING_PORT
    assert MEETING_PORT + 2 < 32768
    told = (ROOT / "docs/fabric.md").read_text()
    assert all(str(MEETING_PORT + number) in told for number in range(3))


def test_rdma_is_measured_only_where_the_plan_has_it() -> None:
    """The variable goes from the role to the module."""
    assert yaml.safe_load(fabric_connectivity.DOCUMENTATION)["options"]["rdma"]["default"] is False
    tasks = yaml.safe_load((ROOT / "roles/fabric_network/tasks/measure.yml").read_text())
    asked = next(
        task["firstlight.cluster.fabric_connectivity"]
        for task in tasks
        if "firstlight.cluster.fabric_connectivity" in task
    )
    assert asked["rdma"] == "{{ fabric_network_rdma | length > 0 }}"
