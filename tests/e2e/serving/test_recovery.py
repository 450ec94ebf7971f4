# SPDX-License-Identifier: Apache-2.0
"""Faults after which four nodes serve again without a person."""

from __future__ import annotations

import time
import urllib.request
from pathlib import Path

from tests.e2e.serving.asking import forward
from tests.e2e.serving.lab import HEAD, NODES, RAY, STATE, SUPERVISOR, Serving
from tests.e2e.serving.processes import wait_for

MINUTE = 60


def test_vllm_ray_answers_from_four_nodes(serving: Serving) -> None:
    serving.assert_serves()


def test_a_worker_container_that_is_killed(serving: Serving) -> None:
    began = serving.before_a_fault()
    serving.inside("spark1", f"docker kill {RAY}")
    serving.record("worker container killed", began, serving.served(began))
    serving.assert_serves()


def test_a_worker_that_is_rebooted(serving: Serving) -> None:
    began = serving.before_a_fault()
    serving.reboot("spark2")
    serving.record("worker node rebooted", began, serving.served(began))
    serving.assert_serves()


def test_the_head_is_rebooted(serving: Serving) -> None:
    began = serving.before_a_fault()
    serving.reboot(HEAD)
    serving.record("head rebooted", began, serving.served(began))
    serving.assert_serves()


def test_a_node_whose_fabric_is_cut_for_a_minute(serving: Serving) -> None:
    """It stops what it runs by itself: nobody can tell it to."""
    began = serving.before_a_fault()
    serving.link("spark3", down=True)
    try:
        wait_for(
            lambda: serving.inside("spark3", "docker ps -q") == "", MINUTE, "that the lonely node stopped its rank"
        )
        time.sleep(max(0.0, began + MINUTE - time.monotonic()))
    finally:
        serving.link("spark3", down=False)
    serving.record("fabric link of one node cut for a minute", began, serving.served(began))
    serving.assert_serves()


# The kernel kills the largest process of a group that has come to its limit: the rank, not the one that asks for more.
FILL = "data = bytearray(300 << 20); data[::4096] = b'x' * len(data[::4096]); import time; time.sleep(60)"


def kernel_kills() -> int:
    """Processes that the kernel, which all nodes share, has killed for want of memory."""
    rows = (line.split() for line in Path("/proc/vmstat").read_text().splitlines())
    return int(dict(rows)["oom_kill"])


def test_the_kernel_kills_a_rank_that_is_out_of_memory(serving: Serving) -> None:
    """A real one: the container's memory is limited to what it has and a little more, and somebody in it wants more."""
    began = serving.before_a_fault()
    before = kernel_kills()
    serving.inside(
        "spark1",
        f"id=$(docker inspect -f '{{{{.Id}}}}' {RAY})\n"
        'used=$(cat $(find /sys/fs/cgroup -path "*memory*$id*" -name memory.usage_in_bytes | head -1))\n'
        f"docker update --memory $((used + (64 << 20))) --memory-swap $((used + (64 << 20))) {RAY} >/dev/null\n"
        f'docker exec -d {RAY} python3 -c "{FILL}"',
    )
    wait_for(lambda: kernel_kills() > before, MINUTE, "the kernel's kill")
    serving.record("out-of-memory kill of one rank", began, serving.served(began))
    serving.assert_serves()


def test_a_server_that_says_healthy_but_cannot_complete(serving: Serving) -> None:
    began = serving.before_a_fault()
    serving.inside(HEAD, "pkill -STOP ^VLLM::Engine")
    with forward(serving.endpoint.ssh_config, HEAD, 290) as port:
        health = urllib.request.urlopen(f"http://127.0.0.1:{port}/health", timeout=30)
        assert health.status == 200, "or this test would be another one"
    serving.record("healthy, but cannot complete", began, serving.served(began))
    serving.assert_serves()


def test_the_supervisors_are_started_anew_and_nobody_notices(serving: Serving) -> None:
    """An upgrade of the supervisor, or its crash, costs no request."""
    epoch, before = serving.group()["epoch"], {node: supervisor_process(serving, node) for node in NODES}
    serving.on_all(lambda node: serving.inside(node, f"systemctl kill -s KILL {SUPERVISOR}"))
    killed = time.time()

    def go_on() -> bool:
        """New ones run, and what the head's says is not what the one before had written."""
        started = all(supervisor_process(serving, node) not in ("0", before[node]) for node in NODES)
        written = float(serving.inside(HEAD, f"stat -c %.3Y {STATE} || echo 0"))
        return started and written > killed + 1 and serving.group().get("phase") == "serving"

    wait_for(go_on, MINUTE, "that the supervisors went on", serving.diagnosis)
    assert serving.group()["epoch"] == epoch
    serving.assert_serves()


def supervisor_process(serving: Serving, node: str) -> str:
    return serving.inside(node, f"systemctl show -p MainPID --value {SUPERVISOR}").strip()
