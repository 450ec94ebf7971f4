# SPDX-License-Identifier: Apache-2.0
"""Ladders as data: what a rung may change, what becomes of the flags, and whether the shipped ones are legal."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import yaml
from ansible_collections.firstlight.cluster.plugins.plugin_utils.bench.workloads import load_workloads
from ansible_collections.firstlight.cluster.plugins.plugin_utils.catalog.load import (
    BUILT_IN,
    CatalogError,
    load_catalog,
)
from ansible_collections.firstlight.cluster.plugins.plugin_utils.tune.rungs import (
    is_precision,
    load_ladder,
    merged,
    overrides,
    read_ladder,
    settings,
    tuned,
)

from firstlight.inventory import plan_inventory

SHIPPED = sorted(path.stem for path in (BUILT_IN / "ladders").glob("*.yml"))
SMALL: dict[str, Any] = {
    "name": "small",
    "source": "this test",
    "date": "2026-11-18",
    "stages": [{"name": "scheduler", "rungs": [{"name": "seqs", "change": {"max_num_seqs": 8}}]}],
}


def one_rung(change: object, **more: Any) -> dict[str, Any]:
    return {**SMALL, "stages": [{"name": "scheduler", "rungs": [{"name": "seqs", "change": change}]}], **more}


def test_a_ladder_has_its_rungs_in_order() -> None:
    ladder = load_ladder("recipe-003", [BUILT_IN])
    assert [rung.name for rung in ladder.rungs] == [
        *("chunked-prefill", "prefix-caching", "tokens-16384", "weights-fp8", "weights-fp8-tensor", "cache-fp8")
    ]
    assert [rung.stage for rung in ladder.rungs] == ["scheduler", "cache", "cache", *["precision"] * 3]
    assert [is_precision(rung.change) for rung in ladder.rungs] == [False] * 3 + [True] * 3
    assert ladder.workload == "recipe-ladder"


def test_the_sites_own_comes_first_and_a_file_needs_no_catalog(tmp_path: Path) -> None:
    (tmp_path / "ladders").mkdir()
    own = tmp_path / "ladders" / "default.yml"
    own.write_text(yaml.safe_dump({**SMALL, "name": "default"}))
    assert len(load_ladder("default", [tmp_path, BUILT_IN]).rungs) == 1
    assert load_ladder(str(own), []).rungs[0].change == {"max_num_seqs": 8}
    with pytest.raises(CatalogError, match="did you mean default"):
        load_ladder("defualt", [BUILT_IN])


def test_a_fixed_load_leaves_out_the_rungs_that_look_for_one() -> None:
    ladder = load_ladder("default", [BUILT_IN])
    assert {rung.stage for rung in ladder.rungs} - {rung.stage for rung in ladder.at_fixed_load().rungs} == {
        "concurrency"
    }


@pytest.mark.parametrize(
    ("entry", "words"),
    [
        ({**SMALL, "stage": []}, "unknown field stage"),
        ({**SMALL, "stages": []}, "has no rung"),
        (one_rung({}), "0 levers"),
        (one_rung({"max_num_seqs": 8, "prefix_caching": True}), "2 levers"),
        (one_rung({"max_seqs": 8}), "did you mean max_num_seqs"),
        (one_rung({"port": 8000}), "does not affect the speed"),
        (one_rung({"streams": 0}), "not a number of streams"),
        (one_rung({"flags.max-num-seqs": 8}), "written as flags.--NAME"),
        (one_rung({"flags.--max-num-seqs=8": True}), "written as flags.--NAME"),
        (one_rung({"flags.-q": "fp8"}), "written as flags.--NAME"),
        (one_rung({"flags.--tensor-parallel-size": 8}), "the plan writes it"),
        (one_rung({"flags.--max-num-seqs": [8]}), "one value"),
        (one_rung({"max_num_seqs": 8}, baseline={"prot": 1}), "has the baseline with 'prot'"),
        ({**SMALL, "stages": SMALL["stages"] * 2}, "twice"),
    ],
)
def test_what_is_wrong_is_said(entry: dict[str, Any], words: str) -> None:
    with pytest.raises(CatalogError, match=words):
        read_ladder(entry, "small.yml")


def test_a_layout_is_one_lever() -> None:
    change = {"profile": "vllm-replicas", "tensor_parallel": 4, "replicas": 2}
    assert read_ladder(one_rung(change), "small.yml").rungs[0].change == change


FORMER: dict[str, Any] = {
    "tensor_parallel": 4,
    "flags": ["--dtype", "float32", "--enforce-eager", "--max-num-seqs", "4"],
}


@pytest.mark.parametrize(
    ("change", "flags"),
    [
        ({"flags.--max-num-seqs": 8}, ["--dtype", "float32", "--enforce-eager", "--max-num-seqs=8"]),
        ({"flags.--max_num_seqs": None}, ["--dtype", "float32", "--enforce-eager"]),
        ({"flags.--enforce-eager": False}, ["--dtype", "float32", "--max-num-seqs", "4", "--no-enforce-eager"]),
        (
            {"flags.--no-enforce-eager": True, "flags.--enforce-eager": True},
            ["--dtype", "float32", "--max-num-seqs", "4", "--enforce-eager"],
        ),
        ({"flags.--quantization": "fp8"}, [*FORMER["flags"], "--quantization=fp8"]),
    ],
)
def test_a_flag_takes_the_place_of_the_inventorys(change: dict[str, Any], flags: list[str]) -> None:
    assert overrides(FORMER, change) == {"flags": flags}


def test_the_load_is_not_the_servers_and_null_is_the_default() -> None:
    change = merged({"streams": 8, "max_num_seqs": 8}, {"tensor_parallel": None})
    assert settings(change) == {"max_num_seqs": 8, "tensor_parallel": None}
    assert overrides(FORMER, change) == {"max_num_seqs": 8, "tensor_parallel": None}
    assert tuned(FORMER, change) == {"max_num_seqs": 8, "flags": FORMER["flags"]}


PLACES: list[tuple[str, str, dict[str, Any]]] = [
    ("h100-sxm-8", "inventory/h100x8", {}),
    ("h100-sxm-8", "inventory/h100x8", {"firstlight_model": "qwen2.5-72b", "firstlight_serving": {}}),
    ("h100-sxm-4", "inventory/h100x4", {"firstlight_model": "gpt-oss-120b", "firstlight_serving": {}}),
    ("gb10", "inventory/spark4", {}),
]
"""Clusters of each kind, with models that fit in several ways beside the inventories' own, which do not."""


@pytest.mark.slow  # a plan for each rung
@pytest.mark.parametrize("name", SHIPPED)
def test_the_shipped_ladders_are_legal_on_what_they_are_for(name: str) -> None:
    ladder = load_ladder(name, [BUILT_IN])
    known = load_workloads([BUILT_IN])
    assert ladder.workload in known
    assert set(ladder.hardware) <= set(load_catalog([BUILT_IN])["hardware"])
    places = [(where, more) for one, where, more in PLACES if not ladder.hardware or one in ladder.hardware]
    assert places
    for rung in ladder.rungs:
        change = settings(merged(ladder.baseline, rung.change))
        refused = []
        for inventory, more in places:
            serving = overrides({}, change)
            variables = {**more, "plan_serving": serving}
            plan = plan_inventory([inventory], extra_vars=[json.dumps(variables)])
            refused.append([one["found"] for one in plan.errors])
        assert [] in refused, (rung.name, refused)
