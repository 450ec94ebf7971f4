# SPDX-License-Identifier: Apache-2.0
"""How fixed prompts are asked, and what counts as an answer to one."""

from __future__ import annotations

import json
from typing import Any

import pytest
from ansible_collections.firstlight.cluster.plugins.module_utils.serving.answers import (
    CannotAskError,
    LeftOutError,
    question,
    read_answer,
)
from ansible_collections.firstlight.cluster.plugins.module_utils.serving.completion import ENGINES


def completion(message: Any = None, **choice: Any) -> str:
    told = {"role": "assistant", "content": "1132"} if message is None else message
    return json.dumps({"choices": [{"message": told, "finish_reason": "stop", **choice}]})


@pytest.mark.parametrize("engine", ENGINES)
def test_every_engine_is_asked_so_that_it_repeats_itself(engine: str) -> None:
    asked = json.loads(question("tiny", "What is 457 + 675?", 16, engine))
    assert (asked["temperature"], asked["max_tokens"], asked["model"]) == (0, 16, "tiny")
    assert asked["seed"] == json.loads(question("tiny", "x", 1, engine))["seed"]
    # One that refuses what it does not know is asked for nothing of its own.
    assert ("return_token_ids" in asked) is (engine != "tensorrt-llm")


def test_an_answer_with_its_tokens() -> None:
    told = read_answer(200, completion(token_ids=[16, 16, 18]))
    assert told == {"text": "1132", "token_ids": [16, 16, 18], "finish_reason": "stop"}


@pytest.mark.parametrize("tokens", [{}, {"token_ids": None}, {"token_ids": ["1"]}, {"token_ids": [True]}])
def test_an_answer_of_an_engine_that_tells_no_tokens(tokens: dict[str, Any]) -> None:
    assert read_answer(200, completion(**tokens))["token_ids"] is None


def test_a_thought_stands_for_an_answer_that_was_not_reached() -> None:
    assert read_answer(200, completion({"content": None, "reasoning": "hm"}))["text"] == "hm"
    assert read_answer(200, completion({"content": None}))["text"] == ""


@pytest.mark.parametrize("status", [400, 413, 422])
def test_a_prompt_that_does_not_fit_is_left_out(status: int) -> None:
    with pytest.raises(LeftOutError, match="maximum context length"):
        read_answer(status, json.dumps({"error": {"message": "maximum context length is 256"}}))


@pytest.mark.parametrize(
    ("status", "body", "kind"),
    [
        (401, "{}", "HTTP 401"),
        (404, "{}", "HTTP 404"),
        (429, "slow down", "HTTP 429"),
        (502, "", "HTTP 502"),
        (200, "<html>", "no completion"),
        (200, "[]", "no completion"),
        (200, '{"choices": []}', "no completion"),
        (200, '{"choices": [{"message": 3}]}', "no completion"),
    ],
)
def test_whatever_is_no_answer_has_a_kind(status: int, body: str, kind: str) -> None:
    with pytest.raises(CannotAskError) as caught:
        read_answer(status, body)
    assert caught.value.kind == kind
