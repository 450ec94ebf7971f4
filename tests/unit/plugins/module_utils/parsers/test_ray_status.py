# SPDX-License-Identifier: Apache-2.0
"""`ray status` of several releases, whole, cut off, and instead of it the errors of a cluster that is not there."""

from __future__ import annotations

from pathlib import Path

import pytest
from ansible_collections.firstlight.cluster.plugins.module_utils.parsers.ray_status import parse_ray_status
from hypothesis import given
from hypothesis import strategies as st

from tests.unit.examples import examples

FIXTURES = Path(__file__).resolve().parents[4] / "fixtures" / "ray"
WAITING = (FIXTURES / "status-2.60-waiting.txt").read_text()


def test_the_older_wording() -> None:
    data, problems = parse_ray_status((FIXTURES / "status-2.40-two-nodes.txt").read_text())
    assert problems == []
    assert (data["nodes"], data["pending"], data["failures"]) == (2, [], [])
    assert data["resources"]["GPU"] == {"used": 0, "total": 2}
    assert data["resources"]["memory"]["total"] == pytest.approx(180.21 * 2**30)


def test_what_waits_and_what_failed() -> None:
    data, _ = parse_ray_status(WAITING)
    assert data["nodes"] == 1
    assert data["pending"] == ["192.168.100.12: ray.worker, setting-up"]
    assert data["failures"] == ["192.168.100.13: ray.worker (ip: 192.168.100.13)"]
    assert data["demands"] == ["{'GPU': 1.0} * 4 (PACK): 1+ pending placement groups"]


def test_the_details_of_each_node_are_not_added_to_the_totals() -> None:
    text = (
        "======== Autoscaler status: 2026-11-15 10:11:12 ========\nGCS request time: 0.001s\n\nNode status\n-----\n"
        "Active:\n 1 node_a\nIdle:\n 1 node_b\nPending:\n (no pending nodes)\nRecent failures:\n (no failures)\n\n"
        "Resources\n-----\nTotal Usage:\n 1.0/2.0 GPU (1.0 used of 1.0 reserved in placement groups)\n"
        "Total Demands:\n (no resource demands)\n\nNode: node_a (head)\n Usage:\n  1.0/1.0 GPU\nNode: node_b\n Usage:\n"
        "  0.0/1.0 GPU\n"
    )
    data, problems = parse_ray_status(text)
    assert (data["nodes"], data["resources"]["GPU"], problems) == (2, {"used": 1, "total": 2}, [])
    assert data["demands"] == []


def test_the_wording_of_2020() -> None:
    data, problems = parse_ray_status(
        "======== Autoscaler status: 2020-12-28 01:02:03 ========\nHealthy:\n 2 p3.2xlarge\n 20 m4.4xlarge\n"
        "Pending:\n m4.4xlarge, 2 launching\nRecent failures:\n p3.2xlarge: RayletUnexpectedlyDied (ip: 1.2.3.6)\n"
        "Usage:\n 1/2 AcceleratorType:V100\n 2.00/8.000 GiB memory\nDemands:\n"
        " {'CPU': 16}: 100+ from request_resources()\n"
    )
    assert problems == []
    assert (data["nodes"], data["pending"]) == (22, ["m4.4xlarge, 2 launching"])
    assert data["resources"]["memory"] == {"used": 2 << 30, "total": 8 << 30}
    assert (data["demands"], len(data["requested"])) == ([], 1)


def test_printed_twice_the_last_one_counts() -> None:
    data, _ = parse_ray_status(WAITING + WAITING.replace(" 1 node_", " 3 node_"))
    assert data["nodes"] == 3


@pytest.mark.parametrize(
    "line",
    [
        "ConnectionError: Could not find any running Ray instance. Please specify the one to connect to.",
        "Ray cluster is not found at 192.168.100.10:6379",
        "Error response from daemon: No such container: firstlight-ray",
        "bash: ray: command not found",
    ],
)
def test_a_cluster_that_does_not_answer_is_trouble(line: str) -> None:
    data, _ = parse_ray_status(f"Traceback (most recent call last):\n{line}\n")
    assert data == {"trouble": [line]}


def test_a_cluster_that_is_starting() -> None:
    text = "No cluster status. It may take a few seconds for the Ray internal services to start up.\n"
    assert parse_ray_status(text)[0] == {"starting": True}


@pytest.mark.parametrize("text", ["", "\n", "hello\n", "GPU0\tGPU1\n"])
def test_other_text_is_not_understood(text: str) -> None:
    data, problems = parse_ray_status(text)
    assert data == {}
    assert len(problems) == 1


def test_an_amount_that_is_none_is_told() -> None:
    data, problems = parse_ray_status("Usage:\n 0.0/16..0.0 GPU\n x/2.0 CPU\n")
    assert data["resources"] == {}
    assert len(problems) == 2


@given(st.text(max_size=200), st.integers(0, len(WAITING)))
@examples(60)
def test_any_text_gives_an_answer(noise: str, end: int) -> None:
    data, problems = parse_ray_status(WAITING[:end] + noise)
    assert isinstance(data, dict)
    assert isinstance(problems, list)


@pytest.mark.parametrize("lead", ["    ", "# "])
def test_a_page_that_puts_something_in_front_of_every_line(lead: str) -> None:
    quoted = "".join((lead + line).rstrip() + "\n" for line in WAITING.splitlines())
    assert parse_ray_status(quoted) == parse_ray_status(WAITING)
