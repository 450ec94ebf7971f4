# SPDX-License-Identifier: Apache-2.0
"""The last minutes of a server, without what its supervisor asked, and the share of requests that met their targets."""

from __future__ import annotations

import json

import pytest
from ansible_collections.firstlight.cluster.plugins.module_utils.parsers.histogram import quantile
from ansible_collections.firstlight.cluster.plugins.module_utils.parsers.service_metrics import (
    ServiceTotals,
    parse_service_metrics,
)
from ansible_collections.firstlight.cluster.plugins.module_utils.serving.recent import goodput, met, recent, times_of

from tests.unit.service_pages import sglang_page, vllm_page


def totals(page: str) -> ServiceTotals:
    found = parse_service_metrics(page)
    assert found is not None
    return found


def test_only_what_came_between_two_readings_counts() -> None:
    before = totals(vllm_page([9.0] * 50, [0.4] * 50, [90.0] * 50, queries=500, hits=0))
    now = totals(
        vllm_page([9.0] * 50 + [0.3] * 4, [0.4] * 50 + [0.03] * 4, [90.0] * 50 + [2.0] * 4, queries=900, hits=100)
    )
    found = recent(before, now, [])
    times = times_of([json.loads(json.dumps(found))])
    assert found["prefix"] == {"queries": 400, "hits": 100}
    assert {name: max(one.values()) for name, one in times.items()} == {"ttft": 4, "tpot": 4, "itl": 4, "e2e": 4}
    assert quantile(times["ttft"], 0.5) == pytest.approx(0.375)


def test_the_supervisors_own_questions_are_no_requests() -> None:
    before = totals(vllm_page())
    now = totals(vllm_page([0.03, 0.03, 0.3], [0, 0, 0.03], [0.03, 0.03, 2.0]))
    times = times_of([recent(before, now, [0.035, 0.033])])
    assert {name: max(one.values()) for name, one in times.items() if name != "itl"} == {"ttft": 1, "tpot": 1, "e2e": 1}
    assert (times["ttft"][0.25], times["tpot"][0.01]) == (0, 0)


def test_where_first_tokens_are_those_of_streams_the_supervisors_questions_are_not_among_them() -> None:
    now = totals(sglang_page([0.3], [0.03], [2.0], unstreamed=[0.03]))
    times = times_of([recent(totals(sglang_page()), now, [0.03])])
    assert (max(times["ttft"].values()), max(times["e2e"].values())) == (1, 1)


def test_counts_that_began_anew_are_left_out() -> None:
    found = recent(totals(vllm_page([0.3] * 4, queries=9, hits=9)), totals(vllm_page([0.3])), [])
    assert "ttft" not in found["times"]
    assert found["prefix"] is None
    unread = ServiceTotals({"ttft": {}})
    assert "ttft" not in recent(unread, totals(vllm_page([0.3])), [])["times"]
    assert recent(totals(vllm_page()), unread, [])["times"] == {}


def test_what_was_not_on_the_page_before_its_first_observation_began_at_zero() -> None:
    quiet = "\n".join(line for line in sglang_page().splitlines() if "time_to_first" not in line) + "\n"
    found = recent(totals(quiet), totals(sglang_page([0.3])), [])
    assert max(times_of([found])["ttft"].values()) == 1


def test_replicas_are_added_up() -> None:
    one = recent(totals(vllm_page()), totals(vllm_page([0.3] * 3)), [])
    other = recent(totals(vllm_page()), totals(vllm_page([4.0])), [])
    assert max(times_of([one, other])["ttft"].values()) == 4
    broken = {"times": {"ttft": {"0.1": 1}, "e2e": 7, "x": {}}}
    assert times_of([one, broken]).keys() == {"tpot", "itl", "e2e"}
    assert times_of([{}, {"times": 3}]) == {}


def test_goodput_is_no_more_than_the_share_of_each_target() -> None:
    times = times_of([recent(totals(vllm_page()), totals(vllm_page([0.3] * 9 + [4.0], [0.02] * 5 + [0.2] * 5)), [])])
    targets = {"ttft_p95_ms": 1000, "tpot_p95_ms": 50, "e2e_p95_ms": 1000, "queue": 3}
    assert met(times, targets) == {"ttft_p95_ms": 0.9, "tpot_p95_ms": 0.5}
    assert goodput(times, targets) == 0.5
    assert goodput(times, {"queue": 3}) is None
    assert goodput({}, targets) is None
