# SPDX-License-Identifier: Apache-2.0
"""Fixed prompts to a server on loopback that is played."""

from __future__ import annotations

import json
from typing import Any

import pytest
from ansible_collections.firstlight.cluster.plugins.module_utils.supervisor.probe import Reply
from ansible_collections.firstlight.cluster.plugins.modules import quality_check
from ansible_collections.firstlight.cluster.plugins.modules.quality_check import ask_all

KEY = "0123456789abcdef"
PROMPTS = [{"id": name, "prompt": f"{name}?", "max_tokens": 4} for name in ("add", "capital", "long")]
TOO_LONG = Reply(400, json.dumps({"error": {"message": "maximum context length"}}))
SLOW = Reply(problem="no answer within 5 s", timed_out=True)


class Server:
    """Answers a prompt with its words in capitals, unless replies to it are given."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, **replies: list[Reply]) -> None:
        self.replies, self.asked = replies, list[str]()
        monkeypatch.setattr(quality_check, "exchange", self.exchange)

    def exchange(self, url: str, path: str, limit: float, body: bytes, key: str) -> Reply:
        assert (url, path, key) == ("http://127.0.0.1:290", "/v1/chat/completions", KEY)
        assert 0 < limit <= 5
        prompt = json.loads(body)["messages"][0]["content"]
        self.asked.append(prompt)
        given = self.replies.get(prompt.rstrip("?"))
        if given:
            return given.pop(0) if len(given) > 1 else given[0]
        choice = {"message": {"content": prompt.upper()}, "token_ids": [1], "finish_reason": "stop"}
        return Reply(200, json.dumps({"choices": [choice]}))


def ask(clock: Any = lambda: 0.0, **changes: Any) -> dict[str, Any]:
    usual = {"url": "http://127.0.0.1:290", "model": "tiny", "engine": "vllm", "prompts": PROMPTS}
    return ask_all({**usual, "times": 1, "timeout": 5, "limit": 60, **changes}, KEY, clock)


def test_every_prompt_is_asked_as_often_as_wanted(monkeypatch: pytest.MonkeyPatch) -> None:
    server = Server(monkeypatch)
    found = ask(times=2)
    assert server.asked == ["add?", "capital?", "long?"] * 2
    assert [[one["text"] for one in answers] for answers in found["answers"]] == [["ADD?", "CAPITAL?", "LONG?"]] * 2
    assert (found["problem"], found["kind"], found["left_out"]) == ("", "", {})


def test_what_does_not_fit_is_left_out_and_not_asked_again(monkeypatch: pytest.MonkeyPatch) -> None:
    server = Server(monkeypatch, long=[TOO_LONG])
    found = ask(times=2)
    assert server.asked.count("long?") == 1
    assert [len(answers) for answers in found["answers"]] == [2, 2]
    assert "maximum context length" in found["left_out"]["long"]
    assert found["problem"] == ""


def test_one_failure_is_forgiven(monkeypatch: pytest.MonkeyPatch) -> None:
    right = {"choices": [{"message": {"content": "x"}}]}
    Server(monkeypatch, capital=[SLOW, Reply(200, json.dumps(right))])
    assert ask()["problem"] == ""


@pytest.mark.parametrize(
    ("reply", "kind", "asked"),
    [
        (SLOW, "timeout", 2),
        (Reply(problem="Connection refused"), "no connection", 2),
        (Reply(500, f"internal {KEY}"), "HTTP 500", 2),
        (Reply(401, "{}"), "HTTP 401", 1),
    ],
)
def test_a_server_that_does_not_answer_is_told_by_kind_and_without_the_key(
    monkeypatch: pytest.MonkeyPatch, reply: Reply, kind: str, asked: int
) -> None:
    server = Server(monkeypatch, capital=[reply])
    found = ask()
    assert found["kind"] == kind
    assert found["problem"].startswith(f"capital: {kind}")
    assert server.asked == ["add?", *["capital?"] * asked]
    assert KEY not in json.dumps(found)


def test_all_of_it_has_a_limit_too(monkeypatch: pytest.MonkeyPatch) -> None:
    Server(monkeypatch)
    moments = iter([0.0, 0.0, 59.0, 61.0])
    found = ask(lambda: next(moments))
    assert (found["kind"], len(found["answers"][0])) == ("timeout", 2)


def test_a_server_that_refuses_everything_was_not_asked(monkeypatch: pytest.MonkeyPatch) -> None:
    Server(monkeypatch, add=[TOO_LONG], capital=[TOO_LONG], long=[TOO_LONG])
    found = ask()
    assert found["kind"] == "refused"
    assert "maximum context length" in found["problem"]
