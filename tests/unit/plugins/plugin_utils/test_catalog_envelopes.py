# SPDX-License-Identifier: Apache-2.0
"""What others say a machine reaches: the shipped figures, and what is refused of a site's own."""

from __future__ import annotations

import datetime as dt
from pathlib import Path
from typing import Any

import pytest
import yaml
from ansible_collections.firstlight.cluster.plugins.plugin_utils.catalog.check import check_catalog
from ansible_collections.firstlight.cluster.plugins.plugin_utils.catalog.envelopes import (
    envelopes_at,
    envelopes_for,
    load_envelopes,
)
from ansible_collections.firstlight.cluster.plugins.plugin_utils.catalog.load import (
    BUILT_IN,
    CatalogError,
    load_catalog,
)
from ansible_collections.firstlight.cluster.plugins.plugin_utils.plan.planner_context import load_planner_context

TODAY = dt.date(2026, 11, 17)
SHIPPED, _ = load_envelopes([BUILT_IN])
ONE: dict[str, Any] = {
    "name": "mine",
    "source": "measured here",
    "date": "2026-11-01",
    "whose": "our own",
    "hardware": ["gb10"],
    "models": ["tiny"],
    "tensor_parallel": 4,
    "streams": 1,
    "metric": "output_tokens_per_s",
    "low": 10,
    "high": None,
}


def site(directory: Path, *entries: Any) -> Path:
    (directory / "envelopes.yml").write_text(yaml.safe_dump([*entries]), encoding="utf-8")
    return directory


def test_the_shipped_ones_are_of_what_the_catalog_has() -> None:
    found, problems = load_envelopes([BUILT_IN])
    assert problems == []
    catalog = load_catalog([BUILT_IN])
    for one in found:
        assert set(one["hardware"]) <= set(catalog["hardware"])
        assert set(one["models"]) <= set(catalog["models"])


@pytest.mark.parametrize(
    ("cluster", "at", "figures"),
    [
        (("gb10", "qwen3.5-397b-a17b-fp8", 4), {"streams": 1}, [("decode_tokens_per_s", 25, 28)]),
        (
            ("h100-sxm-4-nvswitch", "qwen3-235b-a22b-fp8", 4),
            {"streams": 1},
            [("decode_tokens_per_s", 80, 150), ("ttft_ms.50", 80, 120)],
        ),
        (
            ("h100-sxm-4-nvswitch", "qwen3-235b-a22b-fp8", 4),
            {"streams": 16},
            [("output_tokens_per_s", 800, 1500)],
        ),
        (
            ("h100-sxm-8", "qwen2.5-72b-fp8-dynamic", 8),
            {"rate": 200.0, "prompts": "conversations"},
            [("output_tokens_per_s", 4500, None), ("ttft_ms.95", None, 800)],
        ),
        (("h100-sxm-8", "qwen2.5-72b-fp8-dynamic", 8), {"rate": 200.0}, []),
        (("h100-sxm-4-nvswitch", "qwen3-235b-a22b-fp8", 4), {"streams": 64}, []),
        (("h100-sxm-4-nvswitch", "qwen3-235b-a22b-fp8", 2), {"streams": 1}, []),
        (("gb10", "tiny", 4), {"streams": 1}, []),
        (
            ("h200-sxm-8", "llama-3.3-70b", 8),
            {"streams": 32},
            [("speedup", 2.5, 3.5), ("communication_share", None, 0.25)],
        ),
    ],
)
def test_a_cluster_is_held_against_the_figures_of_its_kind(
    cluster: tuple[str, str, int], at: dict[str, Any], figures: list[tuple[str, Any, Any]]
) -> None:
    hardware, model, size = cluster
    own = envelopes_for(SHIPPED, hardware=hardware, model=model, profile="vllm-single", tensor_parallel=size)
    workload = {"input": 1024, "prompts": at.get("prompts", "random")}
    found = envelopes_at(own, workload, at.get("streams"), at.get("rate"))
    assert [(one["metric"], one["low"], one["high"]) for one in found] == figures


def test_the_site_replaces_one_and_limits_it_to_a_profile(tmp_path: Path) -> None:
    own = {**ONE, "name": "spark4-one-stream", "profiles": ["vllm-multinode"], "models": ["qwen3.5-397b-a17b-fp8"]}
    found, problems = load_envelopes([site(tmp_path, own), BUILT_IN])
    assert problems == []
    for profile, count in (("vllm-multinode", 1), ("vllm-ray", 0)):
        model = own["models"][0]
        assert len(envelopes_for(found, hardware="gb10", model=model, profile=profile, tensor_parallel=4)) == count


@pytest.mark.parametrize(
    ("entry", "words"),
    [
        ("text", "not a mapping"),
        ({**ONE, "metrik": "x"}, "unknown field metrik"),
        ({key: value for key, value in ONE.items() if key != "whose"}, "lacks whose"),
        ({**ONE, "metric": "speed"}, "expected output_tokens_per_s or"),
        ({**ONE, "low": None}, "neither low nor high"),
        ({**ONE, "low": 30, "high": 20}, "low 30 above high 20"),
        ({**ONE, "low": -1}, "above 0"),
        ({**ONE, "rate": 4}, "either streams"),
        ({key: value for key, value in ONE.items() if key != "streams"}, "either streams"),
        ({**ONE, "models": [1]}, "a list of names"),
        ({**ONE, "metric": "speedup"}, "from_tensor_parallel goes with speedup only"),
        ({**ONE, "from_tensor_parallel": 2}, "from_tensor_parallel goes with speedup only"),
        ({**ONE, "input": {"more": 1}}, "unknown field input.more"),
    ],
)
def test_what_cannot_be_used_is_refused_with_the_catalog(tmp_path: Path, entry: Any, words: str) -> None:
    with pytest.raises(CatalogError) as caught:
        load_planner_context([site(tmp_path, entry), BUILT_IN], {})
    assert any(words in problem and "envelopes.yml item 1" in problem for problem in caught.value.problems)
    listed, _ = check_catalog([tmp_path], TODAY)
    assert [one.kind for one in listed] == ["unreadable"]


def test_the_catalog_is_checked_with_its_envelopes(tmp_path: Path) -> None:
    listed, entries = check_catalog([site(tmp_path, ONE)], TODAY)
    assert (listed, entries) == ([], 1)
    old, _ = check_catalog([site(tmp_path, {**ONE, "date": "2026-01-01"})], TODAY)
    assert [(one.kind, one.entry) for one in old] == [("age", "envelopes/mine")]


def test_a_file_that_is_no_list_is_refused(tmp_path: Path) -> None:
    (tmp_path / "envelopes.yml").write_text("name: mine\n", encoding="utf-8")
    assert "not a list of envelopes" in load_envelopes([tmp_path])[1][0]
    (tmp_path / "envelopes.yml").write_text("[", encoding="utf-8")
    assert "cannot be read" in load_envelopes([tmp_path])[1][0]
