# SPDX-License-Identifier: Apache-2.0
"""Whether people use a server, and what of the prompts was in its cache."""

from __future__ import annotations

import datetime
import json
from typing import Any

import pytest
from ansible_collections.firstlight.cluster.plugins.module_utils.benchmark.usage import (
    hit_rate,
    read_page,
    servers,
    silent,
    supervisor_requests,
    used_words,
)
from ansible_collections.firstlight.cluster.plugins.module_utils.serving.files import CONFIG_PATH, STATE_PATH
from ansible_collections.firstlight.cluster.plugins.module_utils.supervisor.probe import Reply

from tests.unit.fake_host import FakeHost

NOW = datetime.datetime(2026, 11, 18, 12, tzinfo=datetime.UTC)
URL = "http://127.0.0.1:290"
VLLM = """\
vllm:num_requests_running{engine="0",model_name="tiny"} 3.0
vllm:num_requests_waiting{engine="0",model_name="tiny"} 1.0
vllm:prompt_tokens_total{engine="0",model_name="tiny"} 4096.0
vllm:generation_tokens_total{engine="0",model_name="tiny"} 512.0
vllm:request_success_total{engine="0",finished_reason="stop",model_name="tiny"} 7.0
vllm:request_success_total{engine="0",finished_reason="length",model_name="tiny"} 5.0
vllm:prefix_cache_queries_total{engine="0",model_name="tiny"} 4096.0
vllm:prefix_cache_hits_total{engine="0",model_name="tiny"} 1024.0
"""
SGLANG = """\
sglang:num_running_reqs{tp_rank="0"} 0.0
sglang:num_queue_reqs{tp_rank="0"} 0.0
sglang:prompt_tokens_total{tp_rank="0"} 2000.0
sglang:generation_tokens_total{tp_rank="0"} 100.0
sglang:cached_tokens_total{tp_rank="0"} 500.0
sglang:num_requests_total{tp_rank="0"} 9.0
"""


def server(**counts: Any) -> dict[str, Any]:
    quiet = {"problem": "", "running": 0, "waiting": 0, "finished": 0, "cache_queries": 0.0, "cache_hits": 0.0}
    return {"url": URL, **quiet, **counts}


def test_the_counters_of_both_engines() -> None:
    assert read_page(Reply(200, VLLM)) == {
        "problem": "",
        "running": 3,
        "waiting": 1,
        "finished": 12,
        "cache_queries": 4096.0,
        "cache_hits": 1024.0,
    }
    found = read_page(Reply(200, SGLANG))
    assert (found["finished"], found["cache_queries"], found["cache_hits"]) == (9, 2000.0, 500.0)


@pytest.mark.parametrize("reply", [Reply(problem="refused"), Reply(502, "<html>"), Reply(200, ""), Reply(200, "a 1\n")])
def test_a_server_that_tells_nothing_says_why(reply: Reply) -> None:
    assert read_page(reply)["problem"]


@pytest.mark.parametrize(
    ("before", "after", "words"),
    [
        ({}, {}, ""),
        ({}, {"finished": 1}, ""),  # a question of the supervisor's own
        ({"running": 1}, {}, ""),  # one more of them, on its way
        ({}, {"finished": 5}, "4 answered in 5 s"),
        ({"running": 2}, {"running": 3}, "2 running"),
        ({}, {"waiting": 4}, "4 waiting"),
        ({"problem": "x"}, {}, "does not report"),
        ({}, {"problem": "refused"}, "refused"),
    ],
)
def test_requests_of_others_are_counted(before: dict[str, Any], after: dict[str, Any], words: str) -> None:
    found = used_words([server(**before)], [server(**after)], 0)
    assert (words in found) if words else found == ""


@pytest.mark.parametrize(
    ("reply", "down"),
    [
        (Reply(problem="[Errno 111] Connection refused"), True),
        (Reply(problem="no answer within 5 s", timed_out=True), False),
        (Reply(503, ""), False),
        (Reply(200, ""), False),
    ],
)
def test_a_server_is_down_where_it_takes_no_connection(reply: Reply, down: bool) -> None:
    """One that is busy with the requests of others may have no time to tell its counters."""
    found = {"url": URL, **read_page(reply)}
    assert (used_words([found], [found], 0, down=True) == "") is down
    assert "does not report" in used_words([found], [server()], 0, down=True), "it came up between the looks"
    assert "does not report" in used_words([found], [found], 0)


def test_nobody_uses_a_server_that_may_be_down() -> None:
    silent_, busy = server(problem="refused", down=True), server(running=2)
    assert used_words([silent_], [silent_], 0, down=True) == ""
    assert "2 running" in used_words([silent_, busy], [silent_, busy], 0, down=True)
    assert "14 requests" in used_words([silent_], [silent_], 14, down=True)


def supervised(rate: float, seconds_ago: float) -> FakeHost:
    """A host whose supervisor wrote that many requests a second that long ago."""
    written = NOW - datetime.timedelta(seconds=seconds_ago)
    groups = {"server": {"load": {"requests_per_second": rate}}, "other": {"load": {}}}
    return FakeHost(files={STATE_PATH: json.dumps({"written_at": written.isoformat(), "groups": groups})})


def test_what_the_supervisor_saw_counts_too() -> None:
    assert supervisor_requests(supervised(0.5, 2), NOW) == 14
    assert "14 requests" in used_words([server()], [server()], 14)
    assert supervisor_requests(supervised(0.03, 2), NOW) == 0
    assert supervisor_requests(FakeHost(files={STATE_PATH: None}), NOW) == 0


def test_what_a_supervisor_saw_before_it_was_stopped_does_not() -> None:
    assert supervisor_requests(supervised(0.5, 300), NOW) == 0


def test_every_replica_is_a_server_of_its_own() -> None:
    groups = [
        {"name": f"server-{port}", "head": "a", "nodes": {"a": []}, "probe": {"url": f"http://127.0.0.1:{port}"}}
        for port in (291, 292)
    ]
    config = {"node": "a", "head": {"name": "a"}, "groups": groups}
    assert servers(FakeHost(files={CONFIG_PATH: json.dumps(config)}), URL) == [
        "http://127.0.0.1:291",
        "http://127.0.0.1:292",
    ]
    assert servers(FakeHost(files={CONFIG_PATH: None}), URL) == [URL]


@pytest.mark.parametrize(
    ("before", "after", "rate"),
    [
        ({}, {"cache_queries": 1000.0, "cache_hits": 250.0}, 0.25),
        ({"cache_queries": 10.0}, {"cache_queries": 10.0}, None),
        ({"cache_queries": None}, {"cache_queries": 10.0}, None),
        # SGLang shows the counter of hits from the first one on.
        ({"cache_queries": 6.0, "cache_hits": None}, {"cache_queries": 106.0, "cache_hits": 25.0}, 0.25),
        ({"cache_queries": 500.0, "cache_hits": 400.0}, {"cache_queries": 600.0}, None),  # started again
    ],
)
def test_the_share_of_prompts_in_the_cache(before: dict[str, Any], after: dict[str, Any], rate: float | None) -> None:
    assert hit_rate([server(**before)], [server(**after)], requests=10, warmups=0) == rate


@pytest.mark.parametrize(("requests", "warmups", "share"), [(96, 32, 0.2461), (96, 32, 0.249), (384, 64, 0.1406)])
def test_the_prompt_of_the_warm_up_is_no_hit(requests: int, warmups: int, share: float) -> None:
    """Counters of vLLM 0.26.0 on an H200, of which nobody had seen any other prompt before."""
    after = server(cache_queries=1e6, cache_hits=share * 1e6)
    assert hit_rate([server()], [after], requests, warmups) == 0
    half = server(cache_queries=1e6, cache_hits=1e6 * (warmups + requests / 2) / (requests + warmups))
    assert hit_rate([server()], [half], requests, warmups) == 0.5


def test_a_server_that_is_gone_is_named() -> None:
    gone = {"url": URL, "problem": "[Errno 111] Connection refused"}
    assert hit_rate([server()], [gone], requests=10, warmups=4) is None
    assert silent([server(), gone]) == f"{URL} gives no answer: [Errno 111] Connection refused"
