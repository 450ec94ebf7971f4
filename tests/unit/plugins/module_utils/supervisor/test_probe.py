# SPDX-License-Identifier: Apache-2.0
"""What counts as an answer, what as alive, and how busy a server is."""

from __future__ import annotations

import contextlib
import itertools
import json
import socket
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest
from ansible_collections.firstlight.cluster.plugins.module_utils.host import Host
from ansible_collections.firstlight.cluster.plugins.module_utils.parsers.service_metrics import parse_service_metrics
from ansible_collections.firstlight.cluster.plugins.module_utils.supervisor import probe
from ansible_collections.firstlight.cluster.plugins.module_utils.supervisor.config import Question
from ansible_collections.firstlight.cluster.roles.supervisor.program.head import metrics_due
from hypothesis import given
from hypothesis import strategies as st

from tests.unit.roles.supervisor.program.stand_ins import KEY, Serving, free_port
from tests.unit.service_pages import vllm_page

NO_ROUTE = "Path '/v1/chat/completions' not found. Ping http://.../-/routes for available routes."
"""What Ray's proxy answers while the application has no route."""
UNKNOWN_MODEL = '{"error": {"message": "The model `tiny` does not exist.", "type": "NotFoundError", "code": 404}}'


@pytest.fixture
def serving() -> Iterator[Serving]:
    made = Serving([])
    yield made
    made.close()


@pytest.fixture
def question(serving: Serving, tmp_path: Path) -> Question:
    key = tmp_path / "server.env"
    key.write_text(f"VLLM_API_KEY={KEY}\n")
    return Question(serving.url, "tiny", str(key), 2)


def test_a_completion_of_one_token_is_an_answer(serving: Serving, question: Question) -> None:
    found = probe.ask(Host(), question, 5)
    assert (found.answered, found.alive, found.words) == (True, True, "")
    assert serving.asked == [f"Bearer {KEY}"]


@pytest.mark.parametrize(
    ("status", "text", "alive", "words"),
    [
        (400, '{"error": {"message": "too long"}}', True, "HTTP 400: too long"),
        (401, '{"error": "Unauthorized"}', True, "refuses the key"),
        (403, "", True, "refuses the key"),
        (404, UNKNOWN_MODEL, True, "does not know the model tiny"),
        (404, '{"object": "error", "message": "The model `tiny` does not exist."}', True, "does not know the model"),
        (404, NO_ROUTE, False, f"does not know the path /v1/chat/completions (HTTP 404: {NO_ROUTE})"),
        (404, '{"detail": "Not Found"}', False, "does not know the path /v1/chat/completions"),
        (429, "slow down", True, "HTTP 429: slow down"),
        (500, "dead", False, "HTTP 500: dead"),
        (503, "", False, "HTTP 503"),
        (200, "<html>", False, "without a completion"),
        (200, '{"choices": "one", "usage": {"completion_tokens": 1}}', False, "without a completion"),
        (200, '{"choices": [{}], "usage": {"completion_tokens": true}}', False, "without a completion"),
    ],
)
def test_what_is_no_completion_is_no_answer_and_shows_whether_a_server_that_served_is_alive(
    serving: Serving, question: Question, status: int, text: str, alive: bool, words: str
) -> None:
    serving.status, serving.text = status, text
    found = probe.ask(Host(), question, 5)
    assert (found.answered, found.alive) == (False, alive)
    assert words in found.words
    assert KEY not in found.words


JSON_LIKE = st.recursive(
    st.none() | st.booleans() | st.integers(-1, 3) | st.text(max_size=5),
    lambda inner: (
        st.lists(inner, max_size=2)
        | st.dictionaries(st.sampled_from(["choices", "usage", "completion_tokens", "message", "error"]), inner)
    ),
)


@given(status=st.integers(100, 599), body=st.text() | JSON_LIKE.map(json.dumps))
def test_only_a_200_with_a_choice_and_a_token_is_answered(status: int, body: str) -> None:
    answered, _, words = probe.evaluate(probe.Reply(status, body), Question("http://127.0.0.1:9", "tiny"))
    if answered:
        document = json.loads(body)
        assert (status, bool(document["choices"])) == (200, True)
        assert document["usage"]["completion_tokens"] >= 1
    else:
        assert words


def test_yes_without_a_token_is_no_answer(serving: Serving, question: Question) -> None:
    serving.completion = {"status": "healthy"}
    found = probe.ask(Host(), question, 5)
    assert (found.answered, found.alive) == (False, False)
    assert "without a completion" in found.words


def test_another_tensor_parallel_size_is_noted(serving: Serving, question: Question) -> None:
    serving.completion["system_fingerprint"] = "vllm-0.32.0-tp4-aa"
    found = probe.ask(Host(), question, 5)
    assert (found.answered, found.alive) == (True, True)
    assert "size 4, expected 2" in found.words


def test_nobody_there_is_no_answer() -> None:
    found = probe.ask(Host(), Question(f"http://127.0.0.1:{free_port()}", "tiny"), 5)
    assert (found.answered, found.alive) == (False, False)
    assert "refused" in found.words


def test_a_busy_engine_is_alive_and_a_hung_one_is_not(
    serving: Serving, question: Question, monkeypatch: pytest.MonkeyPatch
) -> None:
    serving.answering.clear()
    busy = probe.ask(Host(), question, 0.1)
    assert (busy.answered, busy.alive) == (False, True)
    assert "it is busy" in busy.words
    monkeypatch.setattr(probe, "counters", lambda *_: probe.Counters(0, 1, 1))
    hung = probe.ask(Host(), question, 0.1, clock=itertools.count(7, 3).__next__)
    assert (hung.answered, hung.alive) == (False, False)
    assert "no answer within 0.1 s" in hung.words
    assert hung.seconds == 3, "by the clock it was given"


def test_an_engine_that_reads_a_long_prompt_is_busy(
    serving: Serving, question: Question, monkeypatch: pytest.MonkeyPatch
) -> None:
    serving.answering.clear()
    moments = iter([probe.Counters(0, 1, 1, kv_cache=0.25), probe.Counters(1, 1, 1, kv_cache=0.5)])
    monkeypatch.setattr(probe, "counters", lambda *_: next(moments))
    found = probe.ask(Host(), question, 0.1)
    assert (found.answered, found.alive) == (False, True)
    assert "it read a prompt for others meanwhile" in found.words


def test_a_server_that_sends_a_byte_now_and_then_has_not_answered() -> None:
    over = threading.Event()

    def drip(listening: socket.socket) -> None:
        with listening.accept()[0] as client, contextlib.suppress(OSError):
            client.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: 1000000\r\nConnection: close\r\n\r\n")
            while not over.wait(0.02):
                client.sendall(b"x")

    with socket.create_server(("127.0.0.1", 0)) as listening:
        thread = threading.Thread(target=drip, args=[listening], daemon=True)
        thread.start()
        reply = probe.exchange(f"http://127.0.0.1:{listening.getsockname()[1]}", "/metrics", 0.2)
        over.set()
        thread.join()
    assert reply.timed_out


def test_the_load_is_the_difference_of_counters(question: Question) -> None:
    counted = probe.counters(question)
    assert counted is not None
    assert (counted.running, counted.waiting, counted.kv_cache) == (1, 0, 0.25)
    load = probe.Load()
    first = load.add(probe.Counters(100, 10, 1000))
    assert (first["requests_per_second"], first["tokens_per_second"]) == (None, None)
    load.asked(105, 0.4)
    then = load.add(probe.Counters(110, 31, 2001, 2, 3, 0.51234))
    assert then == {
        "requests_per_second": 2.0,
        "tokens_per_second": 100.0,
        "running": 2,
        "waiting": 3,
        "kv_cache_used": 0.5123,
        "recent": None,
    }
    again = load.add(probe.Counters(120, 1, 5))
    assert again["requests_per_second"] is None, "a server that was started again counts from zero"


def test_what_is_long_ago_is_no_load() -> None:
    load = probe.Load()
    load.add(probe.Counters(0, 0, 0))
    load.add(probe.Counters(20, 2000, 20000))
    assert load.add(probe.Counters(40, 2000, 20000))["tokens_per_second"] == 0


def counted(at: float, ttft: list[float]) -> probe.Counters:
    page = vllm_page(ttft, [0.03] * len(ttft), [2.0] * len(ttft), queries=10 * len(ttft))
    return probe.Counters(at, len(ttft), 10 * len(ttft), service=parse_service_metrics(page))


def test_the_last_five_minutes_are_kept_without_the_supervisors_own_questions() -> None:
    load = probe.Load()
    assert load.add(counted(0, []))["recent"] is None
    load.add(counted(10, [9.0] * 100))
    load.asked(100, 0.03)
    found = load.add(counted(305, [9.0] * 100 + [0.03, 0.3, 0.3]))["recent"]
    assert (found["window_s"], found["requests"]) == (295, 2)
    assert (found["times"]["ttft"]["0.25"], found["times"]["ttft"]["0.5"], found["times"]["ttft"]["inf"]) == (0, 2, 2)
    json.dumps(found, allow_nan=False)


def test_a_server_that_was_started_again_begins_anew() -> None:
    load = probe.Load()
    load.add(counted(0, [0.3] * 50))
    assert load.add(counted(10, [0.3]))["recent"] is None
    assert load.add(counted(20, [0.3] * 3))["recent"]["requests"] == 2


def test_metrics_wait_for_an_open_question_but_not_for_long() -> None:
    assert [metrics_due(waited, asking=False) for waited in (9, 10, float("inf"))] == [False, True, True]
    assert [metrics_due(waited, asking=True) for waited in (10, 29, 30, float("inf"))] == [False, False, True, True]
