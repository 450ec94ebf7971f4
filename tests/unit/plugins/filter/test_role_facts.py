# SPDX-License-Identifier: Apache-2.0
"""What follows from the variables of roles; what problems are is tested with the functions that tell them."""

from __future__ import annotations

from typing import Any

import pytest
from ansible.errors import AnsibleFilterError
from ansible_collections.firstlight.cluster.plugins.filter.role_facts import FilterModule

role_facts = FilterModule().filters()["role_facts"]
ENDPOINT = {"endpoint_listen": "0.0.0.0", "endpoint_port": 443, "endpoint_names": ["llm.example.org"]}
DRIVER = {"nvidia_driver_policy": "install"}
MOVED = [{"kind": "package", "key": "nvidia-utils-580", "expected": "2", "observed": "1"}]


def test_how_an_endpoint_is_reached() -> None:
    found = role_facts(ENDPOINT, "endpoint")
    assert found["url"] == "https://127.0.0.1:443"
    assert "llm.example.org" in found["names"]


@pytest.mark.parametrize(
    ("units", "left"),
    [
        (None, True),
        ({"docker.service": {"load": "not-found"}}, True),
        ({"firstlight-roce-qos@enp1.service": {"load": "not-found"}}, False),
        ({"firstlight-roce-qos@enp1.service": {"load": "loaded", "active": False}}, True),
        ({"firstlight-roce-qos@enp1.service": None}, True),
    ],
    ids=["not observed", "of others", "never set", "set", "not read"],
)
def test_whether_a_lossless_class_may_be_left(units: dict[str, Any] | None, left: bool) -> None:
    observation = {} if units is None else {"units": units}
    assert role_facts({}, "fabric_network", observation=observation) == {"class_left": left}


@pytest.mark.parametrize(
    ("profile", "field"),
    [("sglang", "ranked"), ("vllm-ray", "on_ray"), ("vllm-replicas", "replicated"), ("tensorrt-llm", "by_mpi")],
)
def test_what_a_profile_needs(profile: str, field: str) -> None:
    assert role_facts({"inference_server_profile": profile}, "inference_server")[field]
    assert role_facts({"inference_server_profile": "sglang"}, "inference_server")["engine"] == "sglang"


def test_units_of_other_profiles_are_all_but_ones_own_and_the_supervisor() -> None:
    own = ["firstlight-server-0.service", "firstlight-balancer.service"]
    variables = {"inference_server_profile": "vllm-replicas"}
    others = role_facts(variables, "inference_server", desired={"units": {name: {} for name in own}})["others"]
    assert {"firstlight-server.service", "firstlight-server-1.service", "firstlight-ray.service"} <= {*others}
    assert not {*own, "firstlight-supervisor.service"} & {*others}
    # Servers are stopped before the Ray that they drive.
    assert others.index("firstlight-server.service") < others.index("firstlight-ray.service")
    on_ray = role_facts({"inference_server_profile": "vllm-ray"}, "inference_server")["others"]
    assert "firstlight-ray.service" not in on_ray


@pytest.mark.parametrize("is_head", [True, False])
def test_a_server_belongs_to_the_head_of_ray_alone(is_head: bool) -> None:
    others = role_facts({"ray_cluster_is_head": is_head}, "ray_cluster")["others"]
    assert ("firstlight-server.service" in others) is not is_head
    assert "firstlight-ray.service" not in others


def test_what_stands_in_the_way_of_a_bring_up() -> None:
    seen = {"links": {"fab0": {"exists": False}}}
    (told,) = role_facts({}, "preflight", observation=seen, desired={"links": {"fab0": {}}})["problems"]
    assert told.startswith("link fab0 is missing")


def test_a_driver_that_must_not_be_touched() -> None:
    wanted = {"packages": {"nvidia-dkms-580": "1"}}
    on = {"driver": {"mig": {"current": True}}}
    assert "MIG is on" in role_facts(DRIVER, "nvidia_driver", observation=on, desired=wanted)["problems"][0]
    allowed = {**DRIVER, "nvidia_driver_mig_ok": True}
    assert role_facts(allowed, "nvidia_driver", observation=on, desired=wanted)["problems"] == []


@pytest.mark.parametrize(
    ("more", "refused"),
    [({}, True), ({"nvidia_driver_signing_ok": True}, False), ({"nvidia_driver_policy": "verify-and-hold"}, False)],
)
def test_secure_boot_forbids_to_install_what_nobody_signs(more: dict[str, Any], refused: bool) -> None:
    locked = {"driver": {"secure_boot": True, "signing": False}}
    wanted = {"packages": {"nvidia-dkms-580-open": "580.2-1"}, "driver": {"version": "580.2"}}
    found = role_facts({**DRIVER, **more}, "nvidia_driver", observation=locked, desired=wanted)["problems"]
    assert bool(found) is refused


def test_the_former_driver_goes() -> None:
    seen = {"driver": {"installed": "580.95.05", "related": ["nvidia-utils-580"], "mixed": []}}
    other = {"driver": {"version": "590.48.01"}}
    assert role_facts(DRIVER, "nvidia_driver", observation=seen, desired=other)["remove"] == ["nvidia-utils-580"]
    same = {"driver": {"branch": "580"}}
    assert role_facts(DRIVER, "nvidia_driver", observation=seen, desired=same)["remove"] == []


def test_a_driver_that_something_serves_with() -> None:
    serving = {"units": {"firstlight-ray.service": {"active": True}}}
    assert role_facts(DRIVER, "nvidia_driver", observation=serving, pending=MOVED) == {
        "in_use": ["package nvidia-utils-580 is version 1, expected version 2, while firstlight-ray.service runs"],
        "host": None,
        "answered": False,
    }
    assert role_facts(DRIVER, "nvidia_driver") == {"in_use": [], "host": None, "answered": False}


@pytest.mark.parametrize(
    ("observation", "answered"),
    [
        ({"driver": {"installed": "580.95.05", "silent": False}, "errors": {"gpus": "no GPU"}}, True),
        ({"driver": {"installed": "580.95.05", "silent": True}, "errors": {}}, False),
        ({"driver": {"installed": None, "silent": False}, "errors": {"packages": "no answer within 32 s"}}, False),
        ({"errors": {"driver": "no answer within 32 s"}}, False),
        ({}, False),
    ],
)
def test_an_observation_that_had_no_time_for_the_driver_is_no_answer(
    observation: dict[str, Any], answered: bool
) -> None:
    assert role_facts(DRIVER, "nvidia_driver", observation=observation)["answered"] is answered


@pytest.mark.parametrize(
    ("arguments", "more"),
    [
        ((None, "endpoint"), {}),
        (({}, "no_such_role"), {}),
        (({}, "preflight"), {"observation": ["x"]}),
        (({}, "preflight"), {"desired": "x"}),
        ((DRIVER, "nvidia_driver"), {"pending": "x"}),
        ((DRIVER, "nvidia_driver"), {"pending": [{}]}),
        (({}, "preflight"), {"desired": {"no such word": {}}}),
        (({"endpoint_listen": "0.0.0.0"}, "endpoint"), {}),
        (({"inference_server_profile": "vllm"}, "inference_server"), {}),
    ],
)
def test_what_it_cannot_use_is_refused(arguments: tuple[Any, ...], more: dict[str, Any]) -> None:
    with pytest.raises(AnsibleFilterError, match=r"role_facts (takes|cannot describe)"):
        role_facts(*arguments, **more)
