# SPDX-License-Identifier: Apache-2.0
"""What counts as an answer, what as alive, and how busy a server is."""

from __future__ import annotations

import contextlib
import socket
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from ansible_collections.firstlight.cluster.plugins.module_utils.host import Host
from ansible_collections.firstlight.cluster.plugins.module_utils.keeper import probe
from ansible_collections.firstlight.cluster.plugins.module_utils.keeper.config import Question

from .stand_ins import KEY, Serving, free_port


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
    ("status", "alive", "words"),
    [
        (401, True, "refuses the key"),
        (403, True, "refuses the key"),
        (404, True, "does not know the model tiny"),
        (429, True, "HTTP 429"),
        (500, False, "HTTP 500"),
        (503, False, "HTTP 503"),
    ],
)
def test_a_server_that_answers_otherwise(
    serving: Serving, question: Question, status: int, alive: bool, words: str
) -> None:
    serving.status = status
    found = probe.ask(Host(), question, 5)
    assert (found.answered, found.alive) == (False, alive)
    assert words in found.words
    assert KEY not in found.words


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
    serving.hang = 0.6
    busy = probe.ask(Host(), question, 0.1)
    assert (busy.answered, busy.alive) == (False, True)
    assert "it is busy" in busy.words
    monkeypatch.setattr(probe, "counters", lambda *_: probe.Counters(0, 1, 1))
    hung = probe.ask(Host(), question, 0.1)
    assert (hung.answered, hung.alive) == (False, False)
    assert "no answer within 0.1 s" in hung.words
    assert hung.seconds < 0.5


def test_an_engine_that_reads_a_long_prompt_is_busy(
    serving: Serving, question: Question, monkeypatch: pytest.MonkeyPatch
) -> None:
    serving.hang = 0.6
    moments = iter([probe.Counters(0, 1, 1, kv_cache=0.25), probe.Counters(1, 1, 1, kv_cache=0.5)])
    monkeypatch.setattr(probe, "counters", lambda *_: next(moments))
    found = probe.ask(Host(), question, 0.1)
    assert (found.answered, found.alive) == (False, True)
    assert "it read a prompt for others meanwhile" in found.words


def test_a_server_that_sends_a_byte_now_and_then_has_not_answered() -> None:
    over = threading.Event()

    def drip(listening: socket.socket) -> None:
        with listening.accept()[0] as client, contextlib.suppress(OSError):
            client.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: 1000\r\nConnection: close\r\n\r\n")
            while not over.wait(0.02):
                client.sendall(b"x")

    with socket.create_server(("127.0.0.1", 0)) as listening:
        thread = threading.Thread(target=drip, args=[listening], daemon=True)
        thread.start()
        began = time.monotonic()
        reply = probe.exchange(f"http://127.0.0.1:{listening.getsockname()[1]}", "/metrics", 0.2)
        assert (reply.timed_out, time.monotonic() - began < 5) == (True, True)
        over.set()
        thread.join()


def test_the_load_is_the_difference_of_counters(question: Question) -> None:
    counted = probe.counters(question)
    assert counted is not None
    assert (counted.running, counted.waiting, counted.kv_cache) == (1, 0, 0.25)
    load = probe.Load()
    first = load.add(probe.Counters(100, 10, 1000))
    assert (first["requests_per_second"], first["tokens_per_second"]) == (None, None)
    load.asked(105)
    then = load.add(probe.Counters(110, 31, 2001, 2, 3, 0.51234))
    assert then == {
        "requests_per_second": 2.0,
        "tokens_per_second": 100.0,
        "running": 2,
        "waiting": 3,
        "kv_cache_used": 0.5123,
    }
    again = load.add(probe.Counters(120, 1, 5))
    assert again["requests_per_second"] is None, "a server that was started again counts from zero"


def test_what_is_long_ago_is_no_load() -> None:
    load = probe.Load()
    load.add(probe.Counters(0, 0, 0))
    load.add(probe.Counters(20, 2000, 20000))
    assert load.add(probe.Counters(40, 2000, 20000))["tokens_per_second"] == 0
