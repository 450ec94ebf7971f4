# SPDX-License-Identifier: Apache-2.0
"""Workloads as data: those of the catalog, a site's own, and what is wrong in a file."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml
from ansible_collections.firstlight.cluster.plugins.plugin_utils.bench.workloads import (
    USUAL,
    Workload,
    WorkloadError,
    chosen,
    load_workloads,
)
from ansible_collections.firstlight.cluster.plugins.plugin_utils.catalog.load import BUILT_IN, CatalogError
from ansible_collections.firstlight.cluster.plugins.plugin_utils.plan.planner_context import load_planner_context

TINY: dict[str, Any] = {
    "name": "tiny",
    "source": "made here",
    "date": "2026-11-01",
    "prompts": "random",
    "input": 16,
    "output": 8,
    "streams": [2],
}


def site(directory: Path, *entries: Any) -> Path:
    (directory / "workloads.yml").write_text(yaml.safe_dump(list(entries)), encoding="utf-8")
    return directory


def test_the_catalog_has_those_that_people_ask_for() -> None:
    known = load_workloads([BUILT_IN])
    assert {"chat", "batch", "long-context", "latency", "recipe-1024-256", "conversations"} <= set(known)
    assert (known["chat"].input, known["chat"].output) == (1024, 256)
    assert known["latency"].streams == (1,)
    assert all(workload.repeats == 3 and workload.requests_per_stream >= 10 for workload in known.values())
    assert set(USUAL) <= set(known)


def test_a_site_adds_and_overrides(tmp_path: Path) -> None:
    known = load_workloads([site(tmp_path, TINY, {**TINY, "name": "chat"}), BUILT_IN])
    assert known["tiny"] == Workload("tiny", input=16, output=8, streams=(2,))
    assert known["chat"].input == 16
    assert known["batch"].input == 2048


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"stream": [1]}, "unknown field stream"),
        ({"streams": []}, "lacks streams and rates"),
        ({"streams": [0]}, "0 in streams"),
        ({"streams": ["many"]}, "'many' in streams"),
        ({"streams": [True]}, "True in streams"),
        ({"rates": [-1.0]}, "-1.0 in rates"),
        ({"prompts": "songs"}, "random or conversations"),
        ({"input": None}, "random prompts have a length"),
        ({"output": 0}, "output"),
        ({"repeats": 0}, "repeats"),
        ({"targets": {"ttft": 1}}, "unknown field targets.ttft"),
        ({"targets": {"ttft_ms": 0}}, "targets.ttft_ms"),
        ({"source": 3}, "source"),
    ],
)
def test_a_wrong_entry_is_named(tmp_path: Path, change: dict[str, Any], words: str) -> None:
    with pytest.raises(CatalogError, match=r"workloads\.yml item 1") as caught:
        load_workloads([site(tmp_path, {**TINY, **change})])
    assert words in str(caught.value)


@pytest.mark.hostile
@pytest.mark.parametrize("text", ["a: b", "- 1", "{", "- [", "\x00", "- &a [*a]"])
def test_a_file_that_is_no_list_of_workloads(tmp_path: Path, text: str) -> None:
    (tmp_path / "workloads.yml").write_text(text, encoding="utf-8")
    with pytest.raises(CatalogError):
        load_workloads([tmp_path])


def test_the_plan_refuses_it_too(tmp_path: Path) -> None:
    with pytest.raises(CatalogError, match="unknown field stream"):
        load_planner_context([site(tmp_path, {**TINY, "stream": 1}), BUILT_IN], {})
    assert "chat" in load_planner_context([BUILT_IN], {}).workloads


def test_what_is_asked_for_takes_the_place_of_its_own() -> None:
    known = load_workloads([BUILT_IN])
    (found,) = chosen(known, ["chat", "chat"], streams=[4], repeats=1)
    assert (found.streams, found.rates, found.repeats) == ((4,), (), 1)
    (found,) = chosen(known, ["chat"], rates=[2])
    assert (found.streams, found.rates) == ((), (2.0,))
    assert [one.name for one in chosen(known)] == list(USUAL)


@pytest.mark.parametrize(
    ("asked", "words"),
    [
        ({"names": ["chatt"]}, "did you mean chat"),
        ({"names": ["conversations"]}, "--conversations FILE"),
        ({"names": ["chat"], "context": 1000}, "expected at most 1000"),
        ({"context": 100}, "no usual workload"),
    ],
)
def test_what_cannot_be_measured_is_said(asked: dict[str, Any], words: str) -> None:
    with pytest.raises(WorkloadError, match=words):
        chosen(load_workloads([BUILT_IN]), **asked)
