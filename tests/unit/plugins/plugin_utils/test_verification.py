# SPDX-License-Identifier: Apache-2.0
"""What verify.yml says in YAML, said in Python: who is asked what of the fabric, and what the server is asked."""

from __future__ import annotations

from typing import Any

import pytest
from ansible_collections.firstlight.cluster.plugins.plugin_utils.launch.description import PROFILES
from ansible_collections.firstlight.cluster.plugins.plugin_utils.verification import (
    completion_questions,
    connectivity_arguments,
    evaluated_fabric,
    has_fabric,
    host_records,
    suspects,
    topology_lines,
)


def fabric(*peers: str, port: str | None = "p0") -> dict[str, Any]:
    """The variables of role fabric_network on a host with these peers, on one rail."""
    return {
        "fabric_network_state": "present",
        "fabric_network_members": [],
        "fabric_network_ports": [{"port": port, "address": "10.0.0.1/24", "mtu": 9000}],
        "fabric_network_peers": [{"host": name, "port": port, "address": "10.0.0.2", "mtu": 9000} for name in peers],
        "fabric_network_rdma": ["rocep1"],
        "fabric_network_minimum_bandwidth": {},
    }


def test_a_host_is_asked_of_the_paths_whose_port_was_found() -> None:
    asked = connectivity_arguments("b", fabric("c", "a"), "7")
    assert asked is not None
    assert (asked["members"], asked["rdma"], asked["settle"], asked["run"]) == (["a", "b", "c"], True, 0, "7")
    assert "bandwidth" not in asked, "a look fills no fabric"
    assert connectivity_arguments("b", fabric("c", port=None), "7") is None


@pytest.mark.parametrize(
    ("variables", "expected"),
    [(fabric("a"), True), (fabric(), False), ({**fabric("a"), "fabric_network_state": "absent"}, False)],
)
def test_a_fabric_is_tested_where_there_is_one(variables: dict[str, Any], expected: bool) -> None:
    assert has_fabric({"roles": {"fabric_network": variables}}) is expected


def test_a_host_that_did_not_answer_is_absent_and_one_without_a_port_says_so() -> None:
    fabrics = {"a": fabric("b", "c"), "b": fabric("a", "c"), "c": fabric("a", "b", port=None)}
    report = {"report": {"host": "a", "paths": [], "ports": {}}}
    evaluated = evaluated_fabric(fabrics, {"a": report, "c": None})
    observed = {host: records[0]["observed"] for host, records in evaluated["records"].items() if host != "a"}
    assert observed == {"b": "it did not answer before", "c": "none of its rails has a port"}


@pytest.mark.parametrize(
    "said",
    [
        "Failed to connect to the host via ssh: ssh: no route",
        "Task failed: Failed to connect to the host via ssh: ssh: no route",
        'Task failed: Data could not be sent to remote host "a". Make sure it can be reached over ssh: ssh: no route',
        "ssh: no route",
    ],
)
def test_a_silent_host_has_one_record_in_the_words_of_ssh(said: str) -> None:
    plan = {"cluster": {"stack": "s"}}
    (record,) = host_records(plan, "a", {"msg": said}, {})
    assert (record["id"], record["verdict"], record["observed"]) == ("host.answer", "could_not_check", "ssh: no route")
    assert suspects(plan, {"msg": said}, [record]) == {}
    assert topology_lines({"msg": said}) == []


@pytest.mark.parametrize("name", sorted(PROFILES))
def test_the_server_is_asked_as_its_role_asks_it(name: str) -> None:
    role = {
        "inference_server_profile": name,
        "inference_server_port": 290,
        "inference_server_listen": "127.0.0.1",
        "inference_server_served_name": "tiny",
        "inference_server_tensor_parallel": 2,
        "inference_server_replicas": 3,
    }
    asked = completion_questions({"roles": {"inference_server": role}})
    replicated = PROFILES[name].replicated
    assert [one["url"].rpartition(":")[2] for one in asked] == (["291", "292", "293"] if replicated else []) + ["290"]
    assert asked[-1]["service"] == ("firstlight-balancer.service" if replicated else "firstlight-server.service")
    assert {one["engine"] for one in asked} == {PROFILES[name].engine}
    assert completion_questions({"roles": {"inference_server": None}}) == []
