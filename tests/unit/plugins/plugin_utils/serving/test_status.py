# SPDX-License-Identifier: Apache-2.0
"""How a cluster serves, from what its hosts answered."""

from __future__ import annotations

import copy
from typing import Any

import pytest
from ansible_collections.firstlight.cluster.plugins.plugin_utils.serving.status import (
    exit_status,
    lines,
    loading_words,
    started_words,
    status_document,
    why_silent,
)
from hypothesis import given
from hypothesis import strategies as st

from tests.unit.examples import examples
from tests.unit.hostile import documents

RUNS = {"load": "loaded", "active": "active", "sub": "running", "result": "success"}
UNREACHABLE = {
    "unreachable": True,
    "msg": "Task failed: Data could not be sent. ssh: connect to host 10.0.0.2: No route",
}
GROUP = {
    "phase": "serving",
    "why": "",
    "since": "2026-11-15T08:00:00+00:00",
    "epoch": "e1",
    "attempts": 0,
    "next_start": None,
    "forgotten_at": "2026-11-15T09:05:00+00:00",
    "missing": {},
    "nodes": {
        "spark0": {"heard_seconds": 0.1, "units": {"firstlight-ray.service": "active (running)"}, "ready": True},
        "spark1": {"heard_seconds": 1.2, "units": {"firstlight-ray.service": "active (running)"}, "ready": True},
    },
    "probe": {"answered_at": "2026-11-15T08:59:50+00:00", "seconds": 0.4, "words": "answered", "model": "tiny"},
    "load": {"requests_per_second": 1.5, "tokens_per_second": 120.0, "running": 2, "waiting": 0, "kv_cache_used": 0.3},
    "history": [{"at": "2026-11-15T08:00:00+00:00", "event": "serving"}],
}


def answer(name: str, phase: str = "serving", **more: Any) -> dict[str, Any]:
    group = {**copy.deepcopy(GROUP), "phase": phase, **more.pop("group", {})}
    units = {"firstlight-supervisor.service": dict(RUNS), "firstlight-ray.service": dict(RUNS)}
    look = {
        "time": "2026-11-15T09:00:00+00:00",
        "config": {
            "node": name,
            "head": "spark0",
            "groups": {
                "server": {
                    "head": "spark0",
                    "nodes": ["spark0", "spark1"],
                    "url": "http://127.0.0.1:8000",
                    "model": "tiny",
                    "tensor_parallel": 2,
                }
            },
        },
        "state": {"written_at": "2026-11-15T08:59:58+00:00", "problem": "", "groups": {"server": group}},
        "supervisor": "active (running)",
        "supervisor_active": "active",
        "units": units,
        "planned_units": ["firstlight-ray.service"],
        "memory": {"kind": "unified", "machine": {"total": 128_000_000_000, "free": 18_000_000_000}, "gpus": []},
        "drained": None,
        "repin": False,
        "problems": {},
    }
    return {"serving": {**look, **more}}


def document(**answers: Any) -> dict[str, Any]:
    return status_document(answers, at="2026-11-15T09:00:00Z")


def test_a_cluster_that_serves() -> None:
    found = document(spark0=answer("spark0"), spark1=answer("spark1"))
    assert (found["verdict"], exit_status(found)) == ("serving", 0)
    assert (found["head"], found["model"]) == ("spark0", "tiny")
    assert found["groups"]["server"]["load"]["requests_per_second"] == 1.5
    assert found["groups"]["server"]["forgotten_at"] == "2026-11-15T09:05:00+00:00"
    head, worker = found["nodes"]
    assert head["is_head"]
    assert worker["heard_seconds"] == 1.2
    assert worker["memory"] == {"kind": "unified", "total": 128_000_000_000, "used": 110_000_000_000}
    assert head["units"] == {"firstlight-ray.service": "active (running)"}


RECENT = {
    "window_s": 300.0,
    "requests": 20,
    "times": {"ttft": {"0.5": 0, "1.0": 20, "inf": 20}},
    "prefix": {"queries": 100, "hits": 40},
}


def test_the_last_minutes_beside_their_targets_do_not_change_the_verdict() -> None:
    load = {"waiting": 3, "recent": RECENT}
    answers = {"spark0": answer("spark0", group={"load": load}), "spark1": answer("spark1")}
    found = status_document(answers, targets={"ttft_p95_ms": 800, "queue": "16"})
    assert (found["verdict"], exit_status(found)) == ("serving", 0)
    assert "recent" not in found["groups"]["server"]["load"]
    service = found["service"]
    assert service["ttft_ms"] == {"50": 750.0, "95": 975.0, "99": 995.0}
    assert (service["prefix_hit_rate"], service["queue"], service["goodput"]) == (0.4, 3, 0.6)
    assert service["missed"] == ["P95 first token is 975.0 ms, target 800 ms (ttft_p95_ms)"]
    assert service["problems"] == [
        "firstlight_targets.queue is '16': write a whole number, as queue: 16, or leave it out"
    ]
    told = lines(found)
    assert "20 requests in the last 5 min, P95 first token 975 ms, prefix hits 40%, goodput 60%" in told
    assert "warning: P95 first token is 975.0 ms, target 800 ms (ttft_p95_ms)" in told


def test_the_last_minutes_of_a_supervisor_that_has_stopped_are_not_shown() -> None:
    load = {"recent": RECENT, "waiting": 3}
    stale = answer("spark0", group={"load": load}, time="2026-11-15T09:30:00+00:00")
    found = status_document({"spark0": stale}, targets={"ttft_p95_ms": 800})
    assert (found["service"]["requests"], found["service"]["missed"]) == (None, [])


def test_a_worker_that_does_not_answer_us_is_shown_as_its_head_hears_it() -> None:
    found = document(spark0=answer("spark0"), spark1=UNREACHABLE)
    assert exit_status(found) == 0
    worker = found["nodes"][1]
    assert not worker["reachable"]
    assert worker["problems"] == ["unreachable: connect to host 10.0.0.2: No route"]
    assert worker["units"] == {"firstlight-ray.service": "active (running)"}


def test_without_the_head_nobody_can_tell() -> None:
    found = document(spark0=UNREACHABLE, spark1=answer("spark1"))
    assert (found["verdict"], exit_status(found)) == ("unknown", 3)
    assert "spark0" in found["why"]
    assert exit_status(document()) == 3
    assert exit_status(status_document({"spark0": UNREACHABLE}, head="spark0")) == 3


def test_a_group_that_starts_says_why_it_does_not_serve() -> None:
    waits = {"why": "spark1 is not ready", "missing": {"spark1": "its memory is not back"}}
    found = document(spark0=answer("spark0", "gathering", group=waits), spark1=answer("spark1"))
    assert exit_status(found) == 1
    assert found["why"] == "server is gathering: spark1 is not ready"
    assert found["nodes"][1]["waiting"] == ["its memory is not back"]


def test_a_supervisor_that_has_given_up_says_why_although_it_has_ended() -> None:
    given_up = answer("spark0", "failed", group={"why": "5 starts failed"}, supervisor="failed (failed)")
    given_up["serving"]["supervisor_active"] = "failed"
    found = document(spark0=given_up, spark1=answer("spark1"))
    assert exit_status(found) == 1
    assert found["why"] == "spark0: its supervisor is failed (failed) (server: 5 starts failed)"


def test_a_state_that_nobody_writes_any_more_is_not_believed() -> None:
    found = document(spark0=answer("spark0", time="2026-11-15T09:30:00+00:00"), spark1=answer("spark1"))
    assert exit_status(found) == 1
    assert "written nothing for" in found["why"]


def test_a_host_without_anything_is_no_crash() -> None:
    bare = answer("spark0", config={}, state=None, units={}, planned_units=[], supervisor="not there")
    bare["serving"]["supervisor_active"] = "inactive"
    found = document(spark0=bare)
    assert exit_status(found) == 1
    assert "no supervisor is set up" in found["why"]


def test_one_of_two_replicas_is_not_everything() -> None:
    both = answer("spark0")
    both["serving"]["state"]["groups"]["server-1"] = {"phase": "backing-off", "why": "it died", "epoch": "x"}
    found = document(spark0=both)
    assert exit_status(found) == 1
    assert found["why"] == "server-1 is backing-off: it died; 1 of 2 groups serve"


def test_gpus_with_memory_of_their_own_are_added_up() -> None:
    memory = {"kind": "discrete", "machine": {"total": 1, "free": 1}, "gpus": [{"total": 80, "free": 10}] * 4}
    found = document(spark0=answer("spark0", memory=memory))
    assert found["nodes"][0]["memory"] == {"kind": "discrete", "total": 320, "used": 280}


@pytest.mark.parametrize("strange", [None, {}, {"serving": 3}, {"serving": {"config": {}}}, {"msg": "boom"}])
def test_whatever_a_host_answers_there_is_a_document(strange: Any) -> None:
    found = document(spark0=strange, spark1=answer("spark1"))
    assert exit_status(found) in (1, 3)
    assert lines(found)


def test_what_ssh_said_at_the_end_of_a_long_complaint_is_kept() -> None:
    noise = "Warning: Permanently added 'spark1' (ED25519) to the list of known hosts. " * 5
    told = f"Failed to connect to the host via ssh: {noise}ssh: connect to host spark1 port 22: No route to host"
    assert why_silent({"unreachable": True, "msg": told}) == (
        "unreachable: connect to host spark1 port 22: No route to host"
    )
    assert why_silent({"msg": "x" * 5000}).endswith("x ...")


def test_a_worker_that_is_kept_by_itself_is_not_taken_for_the_head() -> None:
    worker = answer("spark1")
    joined = {"worker-spark1": {"head": "spark1", "nodes": ["spark1"], "url": "", "model": "", "tensor_parallel": None}}
    worker["serving"]["config"] |= {"head": "spark1", "groups": joined}
    document = status_document({"spark1": worker, "spark0": answer("spark0")})
    assert (document["head"], document["verdict"]) == ("spark0", "serving")


REPLICAS: dict[str, Any] = {
    "config": {"node": "spark1", "head": "spark1", "groups": {"worker-spark1": {"head": "spark1", "url": ""}}}
}


@pytest.mark.parametrize(
    ("worker", "why"),
    [
        (UNREACHABLE, "1 of 2 replicas answer; spark1: unreachable: connect to host 10.0.0.2: No route"),
        (
            answer("spark1", units={"firstlight-ray.service": {**RUNS, "active": "inactive", "sub": "dead"}}),
            "1 of 2 replicas answer; spark1: firstlight-ray.service is inactive (dead)",
        ),
        (answer("spark1", drained={"by": "me"}), "1 of 2 replicas answer; spark1: out of service"),
        # Ray runs again, the replica still reads its weights.
        (answer("spark1", **REPLICAS), "1 of 2 replicas answer"),
    ],
)
def test_replicas_that_are_away_are_not_called_serving(worker: dict[str, Any], why: str) -> None:
    found = document(spark0=answer("spark0", replicas={"answer": 1, "planned": 2}), spark1=worker)
    assert (found["verdict"], found["why"], exit_status(found)) == ("partly serving", why, 1)
    assert lines(found)[0] == f"partly serving: {why}"


@pytest.mark.parametrize("told", [{"answer": 2, "planned": 2}, None, {"answer": "1"}, [], {"answer": None}])
def test_all_replicas_or_nobody_who_tells(told: Any) -> None:
    found = document(spark0=answer("spark0", replicas=told), spark1=answer("spark1", **REPLICAS))
    assert (found["verdict"], exit_status(found)) == ("serving", 0)


def test_a_head_that_does_not_serve_stays_so() -> None:
    found = document(spark0=answer("spark0", "starting", replicas={"answer": 1, "planned": 2}))
    assert (found["verdict"], found["replicas"]) == ("not serving", {"answer": 1, "planned": 2})


LOADING = {
    "bytes_read": 41_200_000_000,
    "expected_bytes": 399_600_000_000,
    "progress_at": "2026-11-15T08:59:57Z",
    "progress": "bytes were read on spark1",
    "limit_at": "2026-11-15T09:52:00Z",
    "last_line": "Loading safetensors checkpoint shards: 12%",
}


def test_how_far_a_start_is_is_told_in_bytes() -> None:
    found = document(spark0=answer("spark0", "warming", group={"loading": LOADING}), spark1=answer("spark1"))
    group = found["groups"]["server"]
    assert group["loading"] == LOADING
    words = loading_words(group, found["at"])
    assert words == (
        "41.2 GB of 399.6 GB of weights read, last progress 3 s ago (bytes were read on spark1), "
        "52 min left of its limit"
    )
    assert f"group server: {words}" in lines(found)


@pytest.mark.parametrize("loading", [None, {}, {"bytes_read": "many"}, {"bytes_read": None}])
def test_a_start_that_nobody_can_tell_of_has_no_words(loading: Any) -> None:
    assert loading_words({"loading": loading}, "2026-11-15T09:00:00Z") == ""


def test_without_an_expectation_only_what_was_read_is_told() -> None:
    assert loading_words({"loading": {"bytes_read": 10**9, "expected_bytes": 0}}, "") == "1.0 GB read"


def test_how_long_the_last_start_took_is_told_while_it_serves() -> None:
    started = {"seconds": 1234.5, "bytes_read": 99_900_000_000, "read_seconds": 569.0}
    found = document(spark0=answer("spark0", group={"started": started}), spark1=answer("spark1"))
    words = "ready 1234 s after its start; 99.9 GB were read in 569 s"
    assert started_words(found["groups"]["server"]) == words
    assert f"group server: {words}" in lines(found)
    short = {"seconds": 5.0, "bytes_read": 0, "read_seconds": 0.0}
    assert started_words({"started": short}) == "ready 5 s after its start"
    assert started_words({}) == ""


@pytest.mark.hostile
def test_a_worker_does_not_make_itself_the_head() -> None:
    liar = answer("spark1")
    liar["serving"]["config"] |= {"head": "spark1"}
    honest = answer("spark0", phase="starting")
    found = status_document({"spark1": liar, "spark0": honest}, head="spark0")
    assert (found["head"], found["verdict"]) == ("spark0", "not serving")


@pytest.mark.hostile
@pytest.mark.parametrize(
    "lie",
    [
        {"memory": {"kind": "unified", "machine": {"total": "much"}}},
        {"units": {"firstlight-ray.service": 5}},
        {"planned_units": 7},
        {"problems": ["x"]},
        {"config": [1]},
        {"time": 10**40, "state": {"written_at": "2026-11-15T08:59:58+00:00", "groups": []}},
    ],
)
def test_a_host_that_answers_nonsense_is_named_and_the_others_are_shown(lie: dict[str, Any]) -> None:
    found = status_document({"spark1": answer("spark1", **lie), "spark0": answer("spark0")}, head="spark0")
    assert found["verdict"] == "serving"
    assert [node["name"] for node in found["nodes"] if node["problems"]] == ["spark1"]


LOOK = tuple(answer("spark1")["serving"])
NAMES = (
    *LOOK,
    *GROUP,
    "groups",
    "server",
    "spark0",
    "spark1",
    "total",
    "machine",
    "gpus",
    "active",
    "url",
    "head",
    "kind",
)


@st.composite
def lies(draw: st.DrawFn) -> dict[str, Any]:
    """An honest answer with some of it replaced by anything."""
    told = answer("spark1")
    for place in (
        told["serving"],
        told["serving"]["config"]["groups"]["server"],
        told["serving"]["state"]["groups"]["server"],
    ):
        place.update(draw(st.dictionaries(st.sampled_from(sorted({*place, *NAMES})), documents(NAMES), max_size=2)))
    return told


@pytest.mark.hostile
@examples(40)
@given(lies() | documents(("serving", "msg", "unreachable")))
def test_whatever_a_host_answers_the_others_are_shown(lie: Any) -> None:
    found = status_document({"spark1": lie, "spark0": answer("spark0")}, head="spark0", at="2026-11-15T09:00:00Z")
    assert (found["verdict"], found["head"]) == ("serving", "spark0")
    assert found["nodes"][1]["units"] == {"firstlight-ray.service": "active (running)"}
    assert lines(found)


@pytest.mark.hostile
@examples(40)
@given(lies())
def test_a_head_that_lies_is_shown_or_found_out(lie: dict[str, Any]) -> None:
    found = status_document({"spark1": lie, "spark0": answer("spark0")}, head="spark1", at="2026-11-15T09:00:00Z")
    assert found["head"] == "spark1"
    assert lines(found)
