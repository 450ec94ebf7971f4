# SPDX-License-Identifier: Apache-2.0
"""What layouts come to: efficiency, communication, cost, and the figures that others have published."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

import pytest
from ansible_collections.firstlight.cluster.plugins.plugin_utils.bench.scaling import (
    BETTER,
    HEADINGS,
    NOT_MEASURED,
    UNPUBLISHED,
    WITHIN,
    WORSE,
    analyse,
    plot,
)
from ansible_collections.firstlight.cluster.plugins.plugin_utils.catalog.envelopes import load_envelopes
from ansible_collections.firstlight.cluster.plugins.plugin_utils.catalog.load import BUILT_IN
from hypothesis import given
from hypothesis import strategies as st

ENVELOPES, _ = load_envelopes([BUILT_IN])
WORKLOAD = {"name": "recipe-1024-256", "input": 1024, "output": 256, "streams": 32, "warmup": 20, "requests": 100}
PRICES = {"gpu_hour": 4.0, "currency": "USD"}
SPEEDS = {2: 500.0, 4: 900.0, 8: 1400.0}
SHARES = {2: 0.08, 4: 0.14, 8: 0.22}


def layout(size: int, speed: float | None, share: float | None = None, stages: int = 1) -> dict[str, Any]:
    return {
        "tensor_parallel": size,
        "pipeline_parallel": stages,
        "gpus": size * stages,
        "summary": None if speed is None else {"output_tokens_per_s": speed, "spread": {"output_tokens_per_s": 0.02}},
        "problem": "it does not fit" if speed is None else None,
        "communication": {"share": share, "source": None if share is None else "profiler"},
    }


def document(*layouts: dict[str, Any], model: str = "llama-3.3-70b", hardware: str = "h100-sxm-8") -> dict[str, Any]:
    configuration = {"model": model, "hardware": hardware, "profile": "vllm-single"}
    own = {"format": 1, "cluster": "lab", "run": "r", "started": "", "finished": ""}
    return {**own, "configuration": configuration, "workload": WORKLOAD, "layouts": [*layouts]}


def recipe(**speeds: float) -> dict[str, Any]:
    """The recipe's experiment, with other figures where they are given."""
    return document(
        layout(1, None), *(layout(size, speeds.get(f"tp{size}", speed), SHARES[size]) for size, speed in SPEEDS.items())
    )


def test_the_figures_of_each_layout() -> None:
    found = analyse(recipe(), PRICES, ENVELOPES)
    assert (found["reference"], found["fastest"], found["cheapest"]) == ("TP 2", "TP 8", "TP 2")
    one, two, four, eight = found["layouts"]
    assert (one["tokens_per_s"], one["speedup"], one["problem"]) == (None, None, "it does not fit")
    assert (two["speedup"], two["efficiency"]) == (1, 1)
    assert (four["tokens_per_s_per_gpu"], four["efficiency"]) == (225, pytest.approx(0.9))
    assert (eight["speedup"], eight["efficiency"]) == (pytest.approx(2.8), pytest.approx(0.7))
    # 8 GPUs at 4 an hour are 32, for 1400 x 3600 tokens.
    assert eight["cost_per_million_tokens"] == pytest.approx(32 / (1400 * 3600 / 1e6))
    assert [one["verdict"] for one in found["layouts"]] == [UNPUBLISHED, WITHIN, WITHIN, WITHIN]
    assert found["verdict"] == WITHIN


@pytest.mark.parametrize(
    ("speeds", "verdict"), [({"tp8": 1200.0}, WORSE), ({"tp8": 1240.0}, WITHIN), ({"tp8": 2000.0}, BETTER)]
)
def test_the_speedup_beside_the_recipe(speeds: dict[str, float], verdict: str) -> None:
    """2.5 to 3.5 times, and what is outside by less than the runs differ is within."""
    (speedup, _share) = analyse(recipe(**speeds), PRICES, ENVELOPES)["layouts"][3]["comparisons"]
    assert (speedup["low"], speedup["high"], speedup["from_tensor_parallel"]) == (2.5, 3.5, 2)
    assert speedup["verdict"] == verdict
    assert "lecture" in speedup["source"]


@pytest.mark.parametrize(("size", "most"), [(2, 0.10), (4, 0.15), (8, 0.25)])
def test_the_communication_beside_the_recipe(size: int, most: float) -> None:
    def verdict(share: float | None) -> str:
        found = analyse(document(layout(size, 900.0, share)), {}, ENVELOPES)
        (line,) = [one for one in found["layouts"][0]["comparisons"] if one["metric"] == "communication_share"]
        return str(line["verdict"])

    assert [verdict(share) for share in (None, most - 0.01, most + 0.01)] == [NOT_MEASURED, WITHIN, WORSE]


def test_a_speedup_without_its_base_is_not_measured() -> None:
    found = analyse(document(layout(4, 900.0), layout(8, 1400.0, 0.2)), {}, ENVELOPES)
    assert found["layouts"][1]["comparisons"][0]["verdict"] == NOT_MEASURED
    assert found["layouts"][1]["cost_per_million_tokens"] is None


@pytest.mark.parametrize("own", [{"model": "gpt-oss-120b"}, {"hardware": "gb10"}])
def test_nothing_is_published_of_others(own: dict[str, str]) -> None:
    found = analyse(document(layout(2, 500.0, 0.5), layout(8, 600.0, 0.9), **own), PRICES, ENVELOPES)
    assert found["verdict"] == UNPUBLISHED


def test_tensor_against_pipeline_parallel_on_sparks() -> None:
    found = analyse(
        document(layout(4, 90.0, 0.3), layout(1, 60.0, stages=4), layout(2, 70.0, stages=2), hardware="gb10"), PRICES
    )
    assert [one["name"] for one in found["layouts"]] == ["TP 4", "PP 4", "TP 2 x PP 2"]
    assert "On 4 GPUs TP 4 gives 1.50 times the tokens/s of PP 4." in found["lines"]
    assert found["reference"] == "TP 4"


def test_what_people_read_and_the_plot() -> None:
    found = analyse(recipe(), PRICES, ENVELOPES)
    assert tuple(re.split(" {2,}", found["lines"][0])) == HEADINGS
    text = "\n".join(found["lines"])
    assert "TP 1: not measured: it does not fit" in text
    assert "TP 8: speedup from TP 2 2.80x, as published; published: 2.5 to 3.5 times (TP lecture)" in text
    picture = plot(found)
    assert picture.startswith("<svg")
    assert "in proportion" in picture
    assert "pipeline parallel" not in picture


def test_nothing_measured_is_told_and_drawn() -> None:
    found = analyse(document(layout(1, None)), PRICES, ENVELOPES)
    assert (found["reference"], found["fastest"]) == (None, None)
    assert plot(found).startswith("<svg")


@given(st.lists(st.floats(1, 1e6), min_size=2, max_size=4), st.floats(0.01, 100))
def test_efficiency_and_cost_are_two_sides_of_one_thing(speeds: Sequence[float], price: float) -> None:
    """A layout of half the efficiency costs twice as much per token, whatever was measured."""
    layouts = [layout(2**power, speed) for power, speed in enumerate(speeds)]
    found = analyse(document(*layouts), {"gpu_hour": price, "currency": "EUR"})["layouts"]
    costs = [one["efficiency"] * one["cost_per_million_tokens"] for one in found]
    assert costs == [pytest.approx(costs[0])] * len(costs)
    assert found[0]["efficiency"] == 1
