# SPDX-License-Identifier: Apache-2.0
"""What the plan sets for the image."""

from __future__ import annotations

import json
from hashlib import sha256
from types import SimpleNamespace
from typing import Any

import pytest
from ansible_collections.firstlight.cluster.plugins.module_utils.engine_venv.lock import parse_lock
from ansible_collections.firstlight.cluster.plugins.module_utils.image.recipe import Apt, Recipe, read_recipe
from ansible_collections.firstlight.cluster.plugins.plugin_utils.catalog.load import BUILT_IN, load_catalog
from ansible_collections.firstlight.cluster.plugins.plugin_utils.findings import PlanErrors
from ansible_collections.firstlight.cluster.plugins.plugin_utils.inventory.inventory_hosts import HostIntent
from ansible_collections.firstlight.cluster.plugins.plugin_utils.plan.exposure.monitoring_intent import Monitoring
from ansible_collections.firstlight.cluster.plugins.plugin_utils.plan.image.intent import archive_of, check_archive
from ansible_collections.firstlight.cluster.plugins.plugin_utils.plan.image.variables import (
    check_ray_layer,
    image_name,
    image_variables,
    required_versions,
)

DIGEST = "sha256:" + "1" * 64
STACKS = load_catalog([BUILT_IN])["stacks"]
HEAD, WORKER = HostIntent("spark0", True), HostIntent("spark1", False)
LOCKS = {path.name: path.read_text() for path in (BUILT_IN / "locks").glob("ray-*.txt")}
ADDRESSES = {"spark0": "192.168.100.10", "spark1": "192.168.100.11"}


def choices(
    stack: str,
    profile: str = "vllm-ray",
    hosts: int = 2,
    monitoring: Any = None,
    recipe: Recipe | None = None,
    **intent: Any,
) -> Any:
    return SimpleNamespace(
        stack=STACKS[stack],
        serving=SimpleNamespace(profile=profile),
        hosts=(HEAD, WORKER)[:hosts],
        head=HEAD,
        fabric=SimpleNamespace(rails=["rail"]),
        image=f"vllm/vllm-openai@{DIGEST}",
        intent=intent,
        monitoring=monitoring,
        recipe=recipe,
        files=LOCKS,
        hardware={"architecture": "aarch64"},
    )


def test_ray_is_added_to_an_image_that_has_none() -> None:
    variables = image_variables(choices("spark-vllm-0.32"), WORKER, ADDRESSES)
    lock = LOCKS["ray-2.60.0-aarch64-py312.txt"]
    word = f"2.60.0_{sha256(lock.encode()).hexdigest()[:12]}"
    assert (variables["inference_image_ray"], variables["inference_image_ray_lock"]) == (word, lock)
    assert image_name(variables) == f"firstlight/engine:sha256-{'1' * 64}-ray-{word}"
    assert variables["inference_image_requires"] == {
        "vllm": "0.32.0",
        "nccl": "2.30.7",
        "cuda": "13.0.3",
        "python": "3.12",
        "ray": "2.60.0",
    }
    assert variables["inference_image_share_address"] == "192.168.100.10"
    assert variables["inference_image_share_peers"] == {"spark1": "192.168.100.11"}
    assert (variables["inference_image_is_head"], variables["inference_image_head_host"]) == (False, "spark0")


def test_ray_serve_is_added_with_pins_and_asked_for() -> None:
    variables = image_variables(choices("spark-vllm-0.32", "ray-serve"), WORKER, ADDRESSES)
    assert variables["inference_image_ray"].startswith("2.60.0_serve_")
    assert {"ray", "pyarrow"} <= parse_lock(variables["inference_image_ray_lock"]).packages.keys()
    assert variables["inference_image_requires"]["ray-serve"] == "2.60.0"
    assert "ray-serve" not in image_variables(choices("spark-vllm-0.32"), WORKER, ADDRESSES)["inference_image_requires"]


def test_ray_comes_with_its_agent_where_somebody_reads_its_metrics() -> None:
    read = image_variables(choices("spark-vllm-0.32", monitoring=Monitoring()), WORKER, ADDRESSES)
    assert read["inference_image_ray"].startswith("2.60.0_metrics_")
    assert "opencensus" in parse_lock(read["inference_image_ray_lock"]).packages
    assert read["inference_image_requires"]["ray"] == "2.60.0"
    unread = image_variables(choices("spark-vllm-0.32", monitoring=Monitoring(enabled=False)), WORKER, ADDRESSES)
    assert set(parse_lock(unread["inference_image_ray_lock"]).packages) == {"msgpack", "ray"}


def test_a_layer_replaces_nothing_that_the_engine_brings() -> None:
    engine = parse_lock((BUILT_IN / "locks" / "vllm-0.32.0-aarch64-py312.txt").read_text()).packages
    for name, lock in LOCKS.items():
        assert not engine.keys() & parse_lock(lock).packages.keys(), name


@pytest.mark.hostile
@pytest.mark.parametrize(
    ("locks", "files", "words"),
    [
        ({}, LOCKS, "has no ray.locks.alone"),
        ({"alone": "x"}, {"x": "ray==2.60.0\n"}, "has no hash"),
        ({"alone": "x"}, {"x": f"ray==2.59.0 --hash=sha256:{'0' * 64}\n"}, "pins ray 2.59.0, expected 2.60.0"),
        (
            {"alone": "x"},
            {"x": f"# architecture: x86_64\nray==2.60.0 --hash=sha256:{'0' * 64}\n"},
            "architecture x86_64",
        ),
        ({"alone": "x"}, {"x": f"# python: 3.10\nray==2.60.0 --hash=sha256:{'0' * 64}\n"}, "Python 3.10, where 3.12"),
        (STACKS["spark-vllm-0.32"]["ray"]["locks"], LOCKS, ""),
    ],
)
def test_a_layer_that_nobody_pinned_is_refused(locks: dict[str, str], files: dict[str, str], words: str) -> None:
    chosen = choices("spark-vllm-0.32")
    chosen.stack, chosen.files = {**chosen.stack, "ray": {**chosen.stack["ray"], "locks": locks}}, files
    errors = PlanErrors()
    check_ray_layer(chosen, errors)
    assert [one["id"] for one in errors.found] == (["stack.ray-lock"] if words else [])
    assert words in str(errors.found)


@pytest.mark.parametrize("monitoring", [None, Monitoring()])
def test_a_profile_moves_to_ray_and_back_without_another_image(monitoring: Any) -> None:
    on_ray, alone = (
        image_variables(choices("spark-vllm-0.32", profile, monitoring=monitoring), HEAD, ADDRESSES)
        for profile in ("vllm-ray", "vllm-multinode")
    )
    assert alone == on_ray
    assert alone["inference_image_ray"]


def test_no_ray_where_it_cannot_be_used() -> None:
    never = [
        choices("spark-vllm-0.32-multinode", "vllm-multinode"),
        choices("spark-vllm-0.32", "vllm-single", hosts=1),
        choices("spark-vllm-0.32", "vllm-replicas", hosts=1),
    ]
    for one in never:
        variables = image_variables(one, HEAD, ADDRESSES)
        assert variables["inference_image_ray"] == ""
        assert "ray" not in variables["inference_image_requires"]
        assert image_name(variables) == f"firstlight/engine:sha256-{'1' * 64}"


def test_a_recipe_comes_to_the_host_as_it_is() -> None:
    """Through JSON, as every variable does."""
    lock = f"vllm==0.32.0 --hash=sha256:{'1' * 64}\n"
    apt = Apt("https://snapshot.example/ubuntu", "20261101T000000Z", ("noble",), ("main",), "/usr/share/keyrings/a.gpg")
    for recipe in (
        Recipe("plain", f"cuda@{DIGEST}", "aarch64", "3.12", lock),
        Recipe("whole", f"cuda@{DIGEST}", "aarch64", "3.12", lock, ("g++",), apt, {"CUDA_HOME": "/usr/local/cuda"}),
    ):
        variables = image_variables(choices("spark-vllm-0.32", recipe=recipe), HEAD, ADDRESSES)
        assert read_recipe(json.loads(json.dumps(variables["inference_image_recipe"]))) == recipe
    assert image_variables(choices("spark-vllm-0.32"), HEAD, ADDRESSES)["inference_image_recipe"] == {}


@pytest.mark.parametrize("stack", sorted(name for name, stack in STACKS.items() if stack["image"]))
def test_every_stack_says_what_its_image_must_have(stack: str) -> None:
    wanted = required_versions(choices(stack))
    assert {"cuda", "python"} < set(wanted)
    assert STACKS[stack].get("engine", {}).get("name", "vllm") in wanted


def test_one_host_shares_with_nobody() -> None:
    variables = image_variables(choices("h100-vllm-0.32", "vllm-single", hosts=1), HEAD, ADDRESSES)
    assert variables["inference_image_share_address"] == ""


def test_a_name_for_what_is_not_pinned() -> None:
    assert image_name({"inference_image_reference": "", "inference_image_ray": ""}) == ""
    assert image_name({"inference_image_reference": "vllm:latest", "inference_image_ray": ""}) == "vllm:latest"


@pytest.mark.parametrize(
    ("given", "path", "place"),
    [
        (None, "", "head"),
        ("/srv/e.tar", "/srv/e.tar", "head"),
        ({"path": "/srv/e.tar", "on": "controller"}, "/srv/e.tar", "controller"),
    ],
)
def test_an_archive(given: Any, path: str, place: str) -> None:
    wanted, errors = {"firstlight_image_archive": given}, PlanErrors()
    check_archive(wanted, errors)
    assert not errors.found
    assert archive_of(wanted) == {"path": path, "on": place}
    variables = image_variables(choices("spark-vllm-0.32", **wanted), HEAD, ADDRESSES)
    assert (variables["inference_image_archive"], variables["inference_image_archive_location"]) == (path, place)


@pytest.mark.parametrize(
    "given", ["e.tar", 7, {"on": "head"}, {"path": "/e.tar", "on": "spark3"}, {"path": "/e", "x": 1}]
)
def test_a_strange_archive_is_refused(given: Any) -> None:
    errors = PlanErrors()
    check_archive({"firstlight_image_archive": given}, errors)
    assert [one["id"] for one in errors.found] == ["image.archive"]
