# SPDX-License-Identifier: Apache-2.0
"""Who is touched when hosts come or go, what restarts, and what is refused."""

from __future__ import annotations

from typing import Any

import pytest
from ansible_collections.firstlight.cluster.plugins.plugin_utils.plan.states import ROLES
from ansible_collections.firstlight.cluster.plugins.plugin_utils.scale.membership import PREPARING, evaluate
from hypothesis import given
from hypothesis import strategies as st

FILE = {"kind": "file", "key": "/etc/systemd/system/x.service"}
RECORD = {"kind": "file", "key": "/var/lib/firstlight/fabric.connectivity"}
RULES = {"kind": "file", "key": "/etc/firstlight/firewall.nft"}
LOADED = {"kind": "ruleset", "key": "/etc/firstlight/firewall.nft"}
PHASE = {"kind": "group", "key": "server"}
ARRIVES = {role: [FILE] for role in ROLES}
MEMBERSHIP = {"fabric_network": [RECORD], "firewall": [RULES, LOADED]}


def cluster(profile: str = "vllm-ray", **pending: dict[str, list[dict[str, Any]]]) -> dict[str, dict[str, Any]]:
    """Three hosts, of which c is new."""
    return {
        host: {
            "plan": {"cluster": {"profile": profile, "size": 3}, "host": {"is_head": host == "a"}, "roles": {}},
            "pending": pending.get(host, ARRIVES if host == "c" else {}),
        }
        for host in ("a", "b", "c")
    }


def test_one_service_over_all_hosts_restarts_only_when_that_is_said() -> None:
    found = evaluate(cluster(), ["c"])
    assert (found["serve"], found["restarts"], found["problems"]) == (False, ["a", "b", "c"], [])
    assert found["roles"] == list(PREPARING)
    assert "What serves is NOT restarted, and the new hosts are only prepared" in found["lines"][-1]
    assert "-e restart_serving=true" in found["lines"][-1]
    found = evaluate(cluster(), ["c"], restart=True)
    assert (found["serve"], found["roles"]) == (True, list(ROLES))
    assert found["lines"][-1].startswith("WHAT SERVES RESTARTS. vllm-ray over 3 hosts is one service")


def test_replicas_on_other_hosts_go_on_unless_the_heads_program_changes() -> None:
    found = evaluate(cluster("ray-serve"), ["c"])
    assert (found["serve"], found["restarts"]) == (True, [])
    assert "Serving continues" in found["lines"][-1]
    found = evaluate(cluster("ray-serve", a={"inference_server": [FILE]}), ["c"])
    assert (found["serve"], found["restarts"]) == (False, ["a", "b", "c"])


def test_others_are_touched_by_membership_alone_and_it_is_said() -> None:
    found = evaluate(cluster(a=MEMBERSHIP), ["c"])
    assert found["problems"] == []
    assert found["touched"] == {
        "a": ["fabric_network (the record of its connectivity test)", "firewall (the addresses of its nodes)"],
        "b": [],
    }
    assert "b: untouched" in found["lines"]
    assert found["lines"][0].startswith("c: new; nvidia_driver, cuda_toolkit,")


@pytest.mark.parametrize(
    ("role", "difference"),
    [
        ("host_tuning", FILE),
        ("nvidia_driver", FILE),
        ("fabric_network", FILE),
        ("fabric_network", {"kind": "link", "key": "enp1s0f1np1"}),
        ("firewall", {"kind": "package", "key": "nftables"}),
        ("gpu_verify", FILE),
    ],
)
def test_a_host_that_is_not_new_and_not_right_stops_the_run(role: str, difference: dict[str, Any]) -> None:
    found = evaluate(cluster(b={role: [difference]}), ["c"])
    assert found["problems"] == [
        (
            f"b differs from its plan in {role}, expected a host that this run leaves alone: run site.yml first, or, "
            "if it is new as well, name it too"
        )
    ]


def test_what_serves_is_not_evaluated_where_it_is_not_reached() -> None:
    lacking = cluster(b={"inference_image": [FILE], "model_weights": [FILE], "ray_cluster": [FILE]})
    assert evaluate(lacking, ["c"])["problems"] == []
    assert "inference_image, model_weights" in evaluate(lacking, ["c"], restart=True)["problems"][0]


def test_a_group_that_waits_for_a_host_is_no_work() -> None:
    found = evaluate(cluster(a={"supervisor": [PHASE]}, c={}), ["c"])
    assert (found["serve"], found["restarts"], found["touched"]["a"]) == (True, [], [])
    assert found["lines"][0] == "c: new; as planned already"


def test_a_rest_without_newcomers_is_told_so() -> None:
    found = evaluate(cluster(a=MEMBERSHIP, c={"supervisor": [FILE]}), [])
    assert "only addresses and connectivity tests are updated" in found["lines"][-1]


@given(
    st.dictionaries(
        st.sampled_from(ROLES), st.lists(st.sampled_from([FILE, RECORD, RULES, LOADED, PHASE]), max_size=3)
    ),
    st.booleans(),
    st.sampled_from(["vllm-ray", "ray-serve", "vllm-multinode", "sglang", "tensorrt-llm"]),
)
def test_whatever_differs_nobody_is_restarted_without_leave(
    pending: dict[str, Any], restart: bool, profile: str
) -> None:
    found = evaluate(cluster(profile, b=pending), ["c"], restart=restart)
    assert not found["serve"] or restart or not found["restarts"]
    named = {role for role in PREPARING if any(role in line for line in (*found["touched"]["b"], *found["problems"]))}
    assert named == {role for role in PREPARING if any(one is not PHASE for one in pending.get(role, ()))}
