# SPDX-License-Identifier: Apache-2.0
"""What is left of a group, from what systemd, Docker and the kernel say."""

from __future__ import annotations

from typing import Any

from ansible_collections.firstlight.cluster.plugins.module_utils.serving.left import (
    is_segment,
    leftovers,
    listening_ports,
    parse_containers,
    parse_gpu_memory,
    parse_units,
    unit_words,
)

SHOWN = """Id=firstlight-supervisor.service
LoadState=loaded
ActiveState=active
SubState=running
Result=success

Id=firstlight-server.service
LoadState=loaded
ActiveState=failed
SubState=failed
Result=exit-code

Id=firstlight-server-0.service
LoadState=not-found
ActiveState=inactive
SubState=dead
Result=success

Id=firstlight-ray.service
LoadState=loaded
ActiveState=deactivating
SubState=stop-post
Result=success
"""
TCP = """  sl  local_address rem_address   st tx_queue rx_queue tr tm->when retrnsmt   uid  timeout inode
   0: 0100007F:1F40 00000000:0000 0A 00000000:00000000 00:00000000 00000000     0        0 1 1 0 100 0 0 10 0
   1: 0A64A8C0:18EB 00000000:0000 0A 00000000:00000000 00:00000000 00000000     0        0 1 1 0 100 0 0 10 0
   2: 0100007F:1F41 0100007F:C350 01 00000000:00000000 00:00000000 00000000     0        0 1 1 0 100 0 0 10 0
"""


def test_units_that_are_not_there_are_left_out() -> None:
    units = parse_units(SHOWN)
    assert list(units) == ["firstlight-supervisor.service", "firstlight-server.service", "firstlight-ray.service"]
    assert unit_words(units["firstlight-server.service"]) == "failed (failed), exit-code"
    assert unit_words(units["firstlight-supervisor.service"]) == "active (running)"
    assert unit_words(None) == "not there"
    assert unit_words({"load": "masked"}) == "masked"


def test_containers_of_others_are_not_looked_at() -> None:
    text = "firstlight-ray\tUp 2 hours\nmy-firstlight-copy\tUp 1 second\n\nbroken line\n"
    assert parse_containers(text) == {"firstlight-ray": "Up 2 hours"}


def test_a_connection_is_no_listener() -> None:
    assert listening_ports(TCP, "") == {8000, 6379}


def test_segments_are_known_by_name_or_owner() -> None:
    assert is_segment("psm_1a2b", "root")
    assert is_segment("anything", "firstlight")
    assert not is_segment("pulse-shm-1", "alice")
    assert is_segment("nccl-x", ""), "of a user whom only a container knows"
    assert not is_segment("psm_1a2b", "alice"), "her own program"


def test_a_gpu_without_memory_of_its_own_is_left_out() -> None:
    assert parse_gpu_memory("0, 81559, 80000\n1, [N/A], [N/A]\ngarbage\n") == [
        {"index": 0, "total": 81559 << 20, "free": 80000 << 20}
    ]


def look(**more: Any) -> dict[str, Any]:
    return {
        "units": {},
        "containers": {},
        "ports": [],
        "segments": [],
        "memory": {"share": 0.8, "parts": [{"name": "the memory", "total": 100_000_000_000, "free": 90_000_000_000}]},
        **more,
    }


def test_of_a_host_at_rest_nothing_is_left_and_its_supervisor_may_stay() -> None:
    supervisor = {"load": "loaded", "active": "active", "sub": "running", "result": "success"}
    assert leftovers(look(units={"firstlight-supervisor.service": supervisor})) == []


def test_everything_that_is_left_is_named() -> None:
    found = leftovers(
        look(
            units=parse_units(SHOWN),
            containers={"firstlight-ray": "Up 2 hours"},
            ports=[8000],
            segments=["psm_1", "psm_2", "psm_3", "psm_4"],
            memory={"share": 0.8, "parts": [{"name": "GPU 1", "total": 80_000_000_000, "free": 10_000_000_000}]},
        )
    )
    assert found == [
        "firstlight-ray.service is deactivating (stop-post)",
        "container firstlight-ray is still there (Up 2 hours)",
        "something listens on port 8000",
        "4 shared-memory segments are left in /dev/shm (psm_1, psm_2, psm_3 and more)",
        "GPU 1 has 10.0 GB of 80.0 GB free, expected 64.0 GB once nothing serves",
    ]


def test_without_a_share_no_memory_is_asked_for() -> None:
    assert leftovers(look(memory={"share": None, "parts": [{"name": "x", "total": 10, "free": 0}]})) == []
    assert leftovers({}) == []


def test_who_does_not_answer_is_no_proof_that_nothing_is_left() -> None:
    docker = {"problems": {"docker": "no answer within 20 s"}, "needs_docker": True}
    assert leftovers(docker) == ["Docker did not list its containers (no answer within 20 s)"]
    assert leftovers({**docker, "needs_docker": False}) == [], "a server of a virtual environment has no container"
    assert "systemd" in leftovers({"problems": {"systemd": "no answer"}})[0]
