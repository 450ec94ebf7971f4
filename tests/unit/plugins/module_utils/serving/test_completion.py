# SPDX-License-Identifier: Apache-2.0
"""When a server counts as up."""

from __future__ import annotations

import json
import re
from typing import Any

import pytest
from ansible_collections.firstlight.cluster.plugins.module_utils.serving.completion import (
    ENGINES,
    Answer,
    NotYetError,
    RefusedError,
    WrongAnswerError,
    api_key,
    evaluate,
    hopeless,
    reachable,
    request_body,
    settings_fingerprint,
)
from ansible_collections.firstlight.cluster.plugins.module_utils.systemd import UnitState
from hypothesis import given
from hypothesis import strategies as st

NO_ROUTE = "Path '/v1/chat/completions' not found. Ping http://.../-/routes for available routes."
"""What Ray's proxy answers before the application has its route."""


def completion(**changes: Any) -> str:
    document: dict[str, Any] = {
        "id": "chatcmpl-1",
        "object": "chat.completion",
        "model": "tiny",
        "choices": [{"index": 0, "message": {"role": "assistant", "content": "Hello."}, "finish_reason": "stop"}],
        "usage": {"prompt_tokens": 9, "completion_tokens": 3, "total_tokens": 12},
        "system_fingerprint": "vllm-0.32.0-tp4-0a1b2c3d",
    }
    return json.dumps({**document, **changes})


def test_a_completion_is_one() -> None:
    assert evaluate(200, completion(), 4) == Answer("Hello.", "vllm-0.32.0-tp4-0a1b2c3d", 3)
    assert evaluate(200, completion(system_fingerprint="vllm-0.32.0-tp4"), 4).tokens == 3


def test_other_engines_have_no_fingerprint() -> None:
    body = json.dumps({key: value for key, value in json.loads(completion()).items() if key != "system_fingerprint"})
    assert evaluate(200, body, 4, "sglang") == Answer("Hello.", "sglang", 3)
    assert evaluate(200, body, 4, "tensorrt-llm").fingerprint == "tensorrt-llm"
    with pytest.raises(WrongAnswerError, match="no system_fingerprint"):
        evaluate(200, body, 4)


def test_sglang_says_of_how_many_gpus_it_is_and_its_key_is_not_repeated() -> None:
    told = {"tp_size": 4, "version": "0.5.23", "api_key": "hunter2hunter2"}
    assert settings_fingerprint(200, json.dumps(told), 4) == "sglang-0.5.23-tp4"
    for body in (json.dumps(told), json.dumps({**told, "tp_size": None}), json.dumps([told]), "hunter2hunter2"):
        with pytest.raises(WrongAnswerError) as error:
            settings_fingerprint(200, body, 8)
        assert "hunter2" not in str(error.value)
    with pytest.raises(NotYetError):
        settings_fingerprint(503, "", 4)


def test_a_model_that_was_cut_off_while_thinking_answered_too() -> None:
    thinking = [{"message": {"role": "assistant", "content": None, "reasoning": "The user says"}}]
    assert evaluate(200, completion(choices=thinking), 4).reply == "The user says"


def test_a_server_on_one_gpu_names_no_tensor_parallel_size() -> None:
    assert evaluate(200, completion(system_fingerprint="vllm-0.32.0-0a1b2c3d"), 1).tokens == 3
    with pytest.raises(WrongAnswerError, match="tensor parallel size 4, expected 1"):
        evaluate(200, completion(), 1)


@pytest.mark.parametrize("fingerprint", ["vllm-0.32.0-tp2-0a1b2c3d", "vllm-0.32.0-tp40-0a1b2c3d", "vllm-0.32.0"])
def test_other_tensor_parallel_is_wrong(fingerprint: str) -> None:
    with pytest.raises(WrongAnswerError, match=r"tensor parallel size \d+, expected 4") as caught:
        evaluate(200, completion(system_fingerprint=fingerprint), 4)
    assert fingerprint in str(caught.value)


@pytest.mark.parametrize(
    "body",
    [
        completion(choices=[]),
        completion(choices=[{"message": {"content": None}}]),
        completion(choices=None),
        completion(usage={"completion_tokens": 0}),
        completion(usage={"completion_tokens": True}),
        completion(usage=None),
        "[]",
        "<html>",
        "",
    ],
)
@pytest.mark.parametrize("engine", ENGINES)
def test_a_200_without_a_completion_is_asked_again(body: str, engine: str) -> None:
    with pytest.raises(NotYetError, match="expected"):
        evaluate(200, body, 4, engine)


@pytest.mark.parametrize(
    ("status", "body", "words"),
    [
        (404, NO_ROUTE, "not found. Ping"),
        (404, '{"detail": "Not Found"}', "Not Found"),
        (418, "short and stout", "short and stout"),
        (429, "slow down", "slow down"),
        (500, '{"error": {"message": "engine is dead"}}', "engine is dead"),
        (502, "", "no text"),
        (503, "loading", "loading"),
    ],
)
@pytest.mark.parametrize("engine", ENGINES)
def test_a_server_that_is_not_ready_is_asked_again(status: int, body: str, words: str, engine: str) -> None:
    with pytest.raises(NotYetError, match=re.escape(words)) as caught:
        evaluate(status, body, 4, engine)
    assert not isinstance(caught.value, RefusedError)


@pytest.mark.parametrize(
    ("status", "body", "words"),
    [
        (400, '{"object": "error", "message": "no chat template"}', "no chat template"),
        (422, '{"error": {"message": "no chat template"}}', "no chat template"),
        (404, '{"error": {"message": "The model `x` does not exist."}}', "check inference_server_served_name"),
    ],
)
def test_a_request_that_the_engine_refuses_is_asked_again_and_known_as_refused(
    status: int, body: str, words: str
) -> None:
    with pytest.raises(RefusedError, match=words):
        evaluate(status, body, 4)


@pytest.mark.parametrize("status", [401, 403])
def test_a_wrong_key_will_not_become_right(status: int) -> None:
    with pytest.raises(WrongAnswerError, match="refuses the API key"):
        evaluate(status, '{"error": "Unauthorized"}', 4)


@given(status=st.integers(100, 599), body=st.text())
def test_what_is_no_completion_is_never_an_answer(status: int, body: str) -> None:
    with pytest.raises((NotYetError, WrongAnswerError)):
        evaluate(status, body, 4)


@given(status=st.integers(100, 599).filter(lambda status: status != 200))
def test_a_completion_with_another_status_is_no_answer(status: int) -> None:
    with pytest.raises((NotYetError, WrongAnswerError)):
        evaluate(status, completion(), 4)


@pytest.mark.parametrize(
    ("url", "asked"),
    [
        ("http://0.0.0.0:8000", "http://127.0.0.1:8000"),
        ("http://:::8000", "http://[::1]:8000"),
        ("http://fd00::1:8000", "http://[fd00::1]:8000"),
        ("http://192.168.100.10:8000/", "http://192.168.100.10:8000"),
    ],
)
def test_reachable(url: str, asked: str) -> None:
    assert reachable(url) == asked


@pytest.mark.parametrize("url", ["", "ftp://x", "file:///etc/passwd", "http://"])
def test_other_urls_are_refused(url: str) -> None:
    with pytest.raises(ValueError, match="expected http"):
        reachable(url)


def test_api_key() -> None:
    assert api_key("# x\nOTHER=1\nVLLM_API_KEY=abc=def\n") == "abc=def"
    assert api_key("") == ""


def test_request_is_deterministic() -> None:
    assert json.loads(request_body("tiny", "hi", 5)) == {
        "model": "tiny",
        "messages": [{"role": "user", "content": "hi"}],
        "max_tokens": 5,
        "temperature": 0,
    }


@pytest.mark.parametrize(
    ("now", "words"),
    [
        (UnitState("loaded", "active", "running"), None),
        (UnitState("loaded", "activating", "start-pre"), None),
        (UnitState("loaded", "activating", "auto-restart", "success", 3), None),
        (UnitState("loaded", "activating", "auto-restart", "success", 4), "restarted 3 times"),
        (UnitState("loaded", "failed", "failed", "exit-code"), "has failed"),
        (UnitState("loaded", "inactive", "dead"), "is stopped"),
        (UnitState("masked"), "is masked"),
        (UnitState(), "is not-found"),
    ],
)
def test_hopeless(now: UnitState, words: str | None) -> None:
    told = hopeless("x.service", UnitState("loaded", "active", "running", "success", 1), now)
    assert told is None if words is None else words in (told or "")
