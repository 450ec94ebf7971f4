# SPDX-License-Identifier: Apache-2.0
"""Which phases have something to do, and for whom."""

from __future__ import annotations

from typing import Any

import pytest
from ansible_collections.firstlight.cluster.plugins.plugin_utils.group_state import Run, is_busy
from ansible_collections.firstlight.cluster.plugins.plugin_utils.phases import (
    STEPS,
    has_step,
    host_steps,
    preflight_variables,
)

DIFFERENCE = {"kind": "file", "key": "/x"}
ROLES: dict[str, Any] = {
    "preflight": {"preflight_gpus": {"count": 1}, "preflight_disk": {"/models": 10}},
    "nvidia_driver": {"nvidia_driver_policy": "install"},
    "cuda_toolkit": None,
    "container_runtime": {},
    "host_tuning": {},
    "gpu_verify": {"gpu_verify_burn_in": False},
    "fabric_network": {},
    "firewall": {},
    "engine_venv": None,
    "inference_image": {},
    "model_weights": {"model_weights_source": "", "model_weights_share_address": "192.0.2.1"},
    "endpoint": None,
    "monitoring": {},
}
SEEN = {"gpus": {"count": 1}, "facts": {"disk_free": {"/models": 20}}, "disk_free": {"/models": 20}}
IDLE: dict[str, list[str]] = {"fetches": [], "receives": []}
STILL = {"stop": False, "ray": False, "any": False}


def plan(is_head: bool = False, leaving: tuple[str, ...] = (), **roles: Any) -> dict[str, Any]:
    host = {"is_head": is_head}
    return {"cluster": {"head": "a"}, "host": host, "leaving": list(leaving), "roles": {**ROLES, **roles}}


def steps(planned: dict[str, Any], *differing: str, seen: dict[str, Any] = SEEN, **options: bool) -> list[str]:
    pending = {role: [DIFFERENCE] for role in differing}
    return host_steps(planned, pending, seen, **{"full": False, "checking": False, **options})


def test_a_host_that_is_as_planned_has_nothing_to_do() -> None:
    assert steps(plan()) == []
    assert steps(plan(is_head=True)) == []


@pytest.mark.parametrize(
    ("role", "expected"),
    [
        ("nvidia_driver", ["nvidia_driver", "container_gpus"]),
        ("container_runtime", ["container_runtime", "container_gpus"]),
        ("inference_image", ["inference_image", "container_gpus"]),
        ("host_tuning", ["host_tuning"]),
        ("gpu_verify", ["gpu_verify"]),
        ("fabric_network", ["fabric_network"]),
        ("firewall", ["firewall"]),
        ("monitoring", ["monitoring"]),
        ("cuda_toolkit", []),  # not planned
        ("engine_venv", []),
    ],
)
def test_a_role_has_to_run_where_it_differs(role: str, expected: list[str]) -> None:
    assert steps(plan(), role) == expected


def test_a_full_run_has_every_role_that_is_planned() -> None:
    found = steps(plan(endpoint={}, is_head=True, gpu_verify={"gpu_verify_burn_in": True}), full=True)
    every = {step for listed in STEPS.values() for step in listed if not step.endswith("_absent")}
    assert every - set(found) == {"cuda_toolkit", "engine_venv", "gpu_count", "model_access"}


def test_what_needs_what_is_not_there_yet_is_left_out_in_check_mode() -> None:
    planned = plan(is_head=True, endpoint={}, gpu_verify={"gpu_verify_burn_in": True})
    assert steps(planned, "nvidia_driver", "gpu_verify", checking=True) == ["nvidia_driver", "endpoint"]
    assert steps(planned, "gpu_verify", checking=True) == ["gpu_verify", "endpoint"]
    assert "gpu_burn_in" in steps(planned)


def test_what_no_observation_tells_is_looked_at_on_every_run() -> None:
    assert steps(plan(is_head=True, endpoint={})) == ["endpoint", "client_help"]


def test_what_an_earlier_run_has_left_is_taken_away() -> None:
    found = steps(plan(leaving=("firewall", "endpoint", "monitoring"), firewall=None, monitoring=None))
    assert found == ["firewall_absent", "endpoint_absent", "monitoring_absent"]


@pytest.mark.parametrize(
    ("is_head", "share", "source", "asks"),
    [(True, "x", "", True), (False, "x", "", False), (False, "", "", True), (True, "x", "/mnt", False)],
)
def test_who_will_fetch_the_model_asks_the_hub(is_head: bool, share: str, source: str, asks: bool) -> None:
    role = {"model_weights_source": source, "model_weights_share_address": share}
    assert ("model_access" in steps(plan(is_head, model_weights=role), "model_weights")) is asks
    assert steps(plan(is_head, model_weights=role)) == []
    assert steps(plan(is_head, model_weights=None), "model_weights") == []


def test_a_host_that_cannot_be_brought_up_is_evaluated() -> None:
    assert steps(plan(), seen={**SEEN, "gpus": {"count": 0}}) == ["preflight"]
    assert steps(plan(), seen={**SEEN, "facts": {"repin": "drained"}}) == ["preflight"]


def test_gpus_that_no_driver_listed_are_counted_once_it_is_there() -> None:
    seen = {**SEEN, "gpus": {"error": "no driver"}, "driver": {"gpus": 1}}
    assert steps(plan(), "nvidia_driver", seen=seen) == ["nvidia_driver", "gpu_count", "container_gpus"]


def test_what_preflight_expects_follows_from_what_is_there() -> None:
    due = preflight_variables(plan(), {"nvidia_driver": [DIFFERENCE]}, {})
    assert due == {"preflight_driver_due": True, "preflight_disk": {}}
    held = plan(nvidia_driver={"nvidia_driver_policy": "verify-and-hold"})
    pending = {"nvidia_driver": [DIFFERENCE], "model_weights": [DIFFERENCE]}
    assert preflight_variables(held, pending, {}) == {
        "preflight_driver_due": False,
        "preflight_disk": {"/models": 10},
    }
    assert preflight_variables(held, pending, {"driver": {"reboot_required": True}})["preflight_driver_due"]


def test_one_host_makes_a_phase() -> None:
    assert has_step([["host_tuning"], [], ["client_help"]], "host_tuning")
    assert not has_step([["host_tuning"], [], ["client_help"]], "firewall")


def run(hostvars: dict[str, dict[str, Any]], **own: Any) -> Run:
    names = list(hostvars)
    return Run(hostvars, "localhost", {"cluster": names, "head": names[:1]}, names, names, own=own)


def busy(hostvars: dict[str, dict[str, Any]], **own: Any) -> list[str]:
    asked = run(hostvars, **own)
    return [phase for phase in (*STEPS, "weights", "ray", "serve") if is_busy(asked, phase)]


def test_nothing_is_known_before_there_is_a_plan() -> None:
    assert is_busy(run({"a": {}, "b": {}}), "fabric") is None


def test_what_was_kept_of_the_hosts_decides() -> None:
    right = {"firstlight_plan": plan(), "firstlight_pending": {}, "firstlight_steps": []}
    head = {**right, "firstlight_plan": plan(is_head=True)}
    assert busy({"a": head, "b": right}) == []
    assert busy({"a": head, "b": {**right, "firstlight_steps": ["host_tuning"]}}) == ["host_tuning"]
    assert busy({"a": head, "b": {**right, "firstlight_pending": {"model_weights": [DIFFERENCE]}}}) == ["weights"]
    assert busy({"a": head, "b": {**right, "firstlight_pending": {"supervisor": [DIFFERENCE]}}}) == ["ray", "serve"]
    assert busy({"a": {**head, "weights_rehash": "true"}, "b": right}) == ["weights"]
    assert busy({"a": {**head, "inference_server_api_key": "k"}, "b": right}) == ["ray"]
    assert busy({"a": head, "b": {**right, "inference_server_api_key": "k"}}) == [], "the server is the head's"
    assert busy({"a": {**head, "firstlight_full": "true"}, "b": right}) == ["weights", "serve"]
    assert busy({"a": {**head, "firstlight_full": "false"}, "b": right}) == []
    # One that was not compared, because it does not answer, has nothing to do.
    assert busy({"a": head, "b": {"firstlight_plan": plan()}}) == []


def test_what_the_play_was_given_asks_as_what_the_hosts_have() -> None:
    """Whoever imports a playbook may give it variables, which no host has."""
    right = {"firstlight_plan": plan(), "firstlight_pending": {}, "firstlight_steps": []}
    both = {"a": {**right, "firstlight_plan": plan(is_head=True)}, "b": right}
    assert busy(both, inference_server_api_key="k") == ["ray"]
    assert busy(both, ray_cluster_token="") == []
    assert busy(both, weights_rehash=True) == ["weights"]
    assert busy(both, firstlight_full="true") == ["weights", "serve"]


class Unread(dict[str, Any]):
    """Variables of a host whose plan is not to be read: Ansible looks through all of it each time."""

    def __getitem__(self, name: str) -> Any:
        assert name != "firstlight_plan"
        return super().__getitem__(name)


@pytest.mark.parametrize("phase", STEPS)
def test_a_phase_of_roles_reads_no_plan(phase: str) -> None:
    hosts = [Unread(firstlight_plan={}, firstlight_steps=list(one)) for one in ((), STEPS[phase])]
    assert is_busy(run({"a": hosts[0], "b": hosts[1]}), phase) is True
    assert is_busy(run({"a": hosts[0], "b": hosts[0]}), phase) is False
