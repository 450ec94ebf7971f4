# SPDX-License-Identifier: Apache-2.0
"""What is evaluated before, and said after a switch to another model."""

from __future__ import annotations

from typing import Any

from ansible_collections.firstlight.cluster.plugins.plugin_utils.serving.switch import (
    group_state,
    other_model,
    resources,
)


def plan(model: str = "old", head: bool = True, **server: Any) -> dict[str, Any]:
    return {
        "cluster": {"model": model, "head": "spark0"},
        "host": {"is_head": head},
        "roles": {
            "ray_cluster": {"ray_cluster_port": 6379},
            "model_weights": {"model_weights_directory": f"/models/{model}", "model_weights_revision": "c" * 40},
            "inference_image": {"inference_image_reference": "x@sha256:1"},
            "inference_server": {
                "inference_server_profile": "vllm-ray",
                "inference_server_replicas": 1,
                "inference_server_port": 8000,
                "inference_server_served_name": model,
                **server,
            },
        },
    }


def facts(**more: Any) -> dict[str, Any]:
    return {
        "present": plan(),
        "wanted": plan("new"),
        "pending": {"model_weights": [{"kind": "snapshot"}], "host_tuning": []},
        "seen": {"serving": {"drained": None}},
        **more,
    }


def test_what_belongs_to_a_plan() -> None:
    found = resources(plan(inference_server_profile="vllm-replicas", inference_server_replicas=2))
    assert found == {"ports": [6379, 8000, 8001, 8002], "directories": ["/models/old"], "references": ["x@sha256:1"]}
    assert resources(plan(head=False))["ports"] == []
    assert resources({}) == {"ports": [], "directories": [], "references": []}


def test_another_model_alone_may_be_switched_to() -> None:
    found = group_state({"spark0": facts()}, ["spark0"], {"revision": "c" * 40, "serving": {"max_model_len": 4096}})
    assert found["problems"] == []
    assert found["pending"]
    assert found["verdict"] == ""
    assert found["lines"] == [
        "firstlight_model: new",
        f"firstlight_model_revision: {'c' * 40}",
        "firstlight_serving.max_model_len: 4096",
        "(clients now ask for the model new, not old)",
    ]


def test_where_nothing_differs_nothing_is_to_be_done() -> None:
    same = facts(pending={"supervisor": [], "host_tuning": []})
    assert not group_state({"spark0": same}, ["spark0"], {})["pending"]
    cut_off = facts(pending={"supervisor": [{"kind": "unit"}]})
    assert group_state({"spark0": same, "spark1": cut_off}, ["spark0", "spark1"], {})["pending"]


def test_a_head_that_was_set_up_for_another_model_is_known() -> None:
    seen = {"config": {"groups": {"server": {"model": "old"}}}}
    assert other_model(seen, plan("new")) == "old"
    assert other_model(seen, plan("old")) == ""
    assert other_model({"config": {}}, plan("new")) == ""
    assert other_model(seen, {"roles": {"inference_server": None}}) == ""


def test_nothing_is_begun_where_something_stands_against_it() -> None:
    hosts = {
        "spark0": facts(wanted=plan("new", inference_server_profile="vllm-multinode")),
        "spark1": facts(pending={"host_tuning": [{"kind": "sysctl"}]}),
        "spark2": facts(seen={"serving": {"drained": {"by": "alice"}}}),
        "spark3": {},
    }
    problems = group_state(hosts, ["spark0", "spark1", "spark2"], {})["problems"]
    assert [text.split()[0] for text in problems] == ["spark3", "spark0:", "spark1", "spark2"]
    assert "profile would change from 'vllm-ray' to 'vllm-multinode'" in problems[1]
    assert "run site.yml first" in problems[2]
    assert "uncordon.yml" in problems[3]


def test_what_went_wrong_is_told_with_what_serves_instead() -> None:
    hosts = {"spark0": facts(new={"problem": "no completion"}, old={}), "spark1": facts(new={}, old={})}
    found = group_state(hosts, list(hosts), {})
    assert found["failed"] == {"spark0": "no completion"}
    assert "old was restored and answers" in found["verdict"]
    hosts["spark0"]["old"] = {"problem": "no memory"}
    assert "old could not be restored (spark0: no memory)" in group_state(hosts, list(hosts), {})["verdict"]


def test_a_host_that_is_lost_in_the_middle_is_a_failure() -> None:
    hosts = {"spark0": facts(new={}), "spark1": facts()}
    found = group_state(hosts, ["spark0"], {})
    assert found["failed"] == {"spark1": "it no longer answers"}
