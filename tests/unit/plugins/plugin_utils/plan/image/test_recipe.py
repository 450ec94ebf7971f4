# SPDX-License-Identifier: Apache-2.0
"""An image that is built instead of pinned: what the plan makes of it, and what it refuses."""

from __future__ import annotations

import copy
from pathlib import Path
from typing import Any

import pytest
from ansible_collections.firstlight.cluster.plugins.module_utils.image.image import DIGEST_TO_SUPPLY
from ansible_collections.firstlight.cluster.plugins.module_utils.image.recipe import (
    Recipe,
    Sources,
    recipe_dockerfile,
    recipe_of,
)
from ansible_collections.firstlight.cluster.plugins.plugin_utils.catalog.load import BUILT_IN, load_catalog
from ansible_collections.firstlight.cluster.plugins.plugin_utils.findings import PlanErrors
from ansible_collections.firstlight.cluster.plugins.plugin_utils.plan.image.intent import read_image
from ansible_collections.firstlight.cluster.plugins.plugin_utils.plan.image.recipe import chosen_recipe, wants_build

CATALOG = load_catalog([BUILT_IN])
STACKS, RECIPES, GB10 = CATALOG["stacks"], CATALOG["recipes"], CATALOG["hardware"]["gb10"]
NAME = "vllm-0.32.0-gb10"
LOCKS = {path.name: path.read_text() for path in Path(BUILT_IN / "locks").glob("*.txt")}
OTHER = "sha256:" + "7" * 64


class Read:
    """What an intent comes to."""

    def __init__(
        self, stack: Any = "spark-vllm-0.32", recipes: Any = RECIPES, hardware: Any = GB10, **intent: Any
    ) -> None:
        self.errors, self.missing_inputs = PlanErrors(), PlanErrors()
        chosen = STACKS[stack] if isinstance(stack, str) else stack
        wanted = {f"firstlight_{name}": value for name, value in intent.items()}
        self.recipe, self.told = chosen_recipe(
            wanted, chosen, recipes, hardware, LOCKS, self.errors, self.missing_inputs
        )
        self.image = read_image(wanted, chosen, self.recipe, self.errors, self.missing_inputs)

    @property
    def refused(self) -> list[str]:
        return [one["id"] for one in self.errors.found]


def changed(**changes: Any) -> dict[str, Any]:
    """The catalog's recipes with another one of this name."""
    entry = copy.deepcopy(RECIPES[NAME])
    for key, value in changes.items():
        entry[key] = {**entry[key], **value} if isinstance(value, dict) else value
    return {NAME: entry}


@pytest.mark.parametrize("stack", ["spark-vllm-0.32", "spark-vllm-0.32-multinode"])
def test_the_head_builds_what_nobody_gave_a_digest_of(stack: str) -> None:
    read = Read(stack, image_build=True)
    assert (read.refused, read.missing_inputs.found) == ([], [])
    assert recipe_of(read.image) == NAME
    assert "13.0.3-devel-ubuntu24.04), 200 wheels by hash, 4.1 GB, packages of 2026-11-01." in read.told
    assert "Nobody has reported this image on GB10 yet" in read.told


def test_without_it_the_plan_asks_and_says_that_one_can_be_built() -> None:
    (missing_input,) = Read().missing_inputs.found
    assert missing_input["id"] == "image.unpinned"
    assert f"or set firstlight_image_build to true: the head builds one from recipe {NAME}" in missing_input["remedy"]
    (plain,) = Read("h100-vllm-0.32").missing_inputs.found
    assert "firstlight_image_build" not in plain["remedy"]


@pytest.mark.parametrize(
    ("given", "wanted"),
    [(True, True), ("true", True), (None, False), (False, False), ("false", False), ({}, True), ({"base": "x"}, True)],
)
def test_it_is_wanted_or_not(given: Any, wanted: bool) -> None:
    errors = PlanErrors()
    assert wants_build({"firstlight_image_build": given}, errors) is wanted
    assert not errors.found


@pytest.mark.parametrize("given", [7, "please", ["base"], {"bases": "x"}, {"base": 7}])
def test_anything_else_is_refused(given: Any) -> None:
    assert "image.build" in Read(image_build=given).refused


def test_pinned_and_built_is_refused() -> None:
    assert Read(image_build=True, image=f"vllm/vllm-openai@{OTHER}").refused == ["image.build"]


@pytest.mark.parametrize("stack", ["h100-vllm-0.32", "spark-vllm-0.31-multinode", "spark-vllm-0.32-venv"])
def test_a_stack_without_a_recipe_is_refused(stack: str) -> None:
    read = Read(stack, image_build=True)
    assert read.refused == ["image.build"]
    assert f"stack {stack} has no image.build" in read.errors.found[0]["found"]
    assert read.missing_inputs.found == []


def test_a_recipe_that_the_catalog_has_not_is_refused() -> None:
    assert Read(recipes={}, image_build=True).refused == ["image.build"]


class TestBase:
    def test_one_that_is_not_known_is_to_be_supplied_with_how_to_find_it(self) -> None:
        recipes = changed(base={"digest": None})
        read = Read(recipes=recipes, image_build=True)
        (missing_input,) = read.missing_inputs.found
        assert (read.refused, missing_input["id"]) == ([], "image.base")
        assert (
            "imagetools inspect nvidia/cuda:13.0.3-devel-ubuntu24.04` lists one for linux/arm64"
            in missing_input["remedy"]
        )
        assert read.image.endswith(f"@{DIGEST_TO_SUPPLY}")
        supplied = Read(recipes=recipes, image_build={"base": f"nvidia/cuda@{OTHER}"})
        assert (supplied.refused, supplied.missing_inputs.found) == ([], [])
        assert supplied.image != Read(image_build=True).image

    def test_a_mirror_of_the_known_one_makes_the_same_image(self) -> None:
        digest = RECIPES[NAME]["base"]["digest"]
        read = Read(image_build={"base": f"mirror.example/cuda@{digest}"})
        assert read.refused == []
        assert read.image == Read(image_build=True).image
        assert read.recipe is not None
        assert read.recipe.base == f"mirror.example/cuda@{digest}"

    @pytest.mark.parametrize("base", [f"mirror.example/cuda@{OTHER}", "mirror.example/cuda:13.0.3"])
    def test_another_one_is_refused(self, base: str) -> None:
        assert Read(image_build={"base": base}).refused == ["image.base"]


class TestRecipe:
    @pytest.mark.parametrize(
        ("changes", "words"),
        [
            ({"lock": "vllm-0.32.0-aarch64-py312.txt"}, "its lock has nvidia-nccl-cu13 2.29.7, expected 2.30.7"),
            ({"lock": "vllm-0.32.0-x86_64-py312.txt"}, "its lock is for architecture x86_64, expected aarch64"),
            ({"python": "3.11"}, "its lock is for Python 3.12, expected 3.11"),
            ({"architecture": "x86_64"}, "it builds for x86_64, gb10 is aarch64"),
            ({"apt": {"snapshot": "today"}}, "apt.snapshot is 'today'"),
        ],
    )
    def test_one_that_does_not_fit_is_refused(self, changes: dict[str, Any], words: str) -> None:
        read = Read(recipes=changed(**changes), image_build=True)
        assert set(read.refused) == {"image.recipe"}
        assert any(words in one["found"] for one in read.errors.found)

    def test_so_is_one_of_another_engine(self) -> None:
        stack = copy.deepcopy(STACKS["spark-vllm-0.32"])
        stack["engine"]["version"] = stack["requires"]["vllm"] = "0.33.0"
        read = Read(stack, image_build=True)
        assert read.refused == ["image.recipe"]
        assert "its lock has vllm 0.32.0, expected 0.33.0 as in the stack" in read.errors.found[0]["found"]


@pytest.mark.parametrize("name", sorted(RECIPES))
def test_every_recipe_of_the_catalog_can_be_built(name: str) -> None:
    users = [stack for stack in STACKS.values() if (stack["image"] or {}).get("build") == name]
    assert users, "a recipe that no stack names is never built"
    for stack in users:
        for hardware in stack["hardware"]:
            read = Read(stack, hardware=CATALOG["hardware"][hardware], image_build=True)
            assert read.refused == []
            assert isinstance(read.recipe, Recipe)
            text = recipe_dockerfile(read.recipe, Sources())
            assert f"/ubuntu/{RECIPES[name]['apt']['snapshot']} " in text
            # A snapshot of the future is another one tomorrow.
            assert read.recipe.apt is not None
            assert read.recipe.apt.snapshot[:8] < str(RECIPES[name]["date"]).replace("-", "")
