# SPDX-License-Identifier: Apache-2.0
"""Which host asks whom, and the command line of the engine's client."""

from __future__ import annotations

import json

import pytest
from ansible_collections.firstlight.cluster.plugins.plugin_utils.bench.client import (
    Client,
    Served,
    choose_client,
    client_argv,
)
from ansible_collections.firstlight.cluster.plugins.plugin_utils.bench.conversations import (
    prompts_for,
    read_conversations,
)
from ansible_collections.firstlight.cluster.plugins.plugin_utils.bench.points import points_of
from ansible_collections.firstlight.cluster.plugins.plugin_utils.bench.workloads import Workload, WorkloadError

SERVER, ENDPOINT = "http://127.0.0.1:290", "https://10.0.0.10"
HOSTS = ["a", "b", "c"]
CHAT = Workload("chat", input=1024, output=256, streams=(16,), rates=(4.0,), targets={"ttft_ms": 800, "e2e_ms": None})
TALK = Workload("talk", prompts="conversations", streams=(2,))
VLLM = Served("vllm", "tiny", "/models/tiny", "vllm")
SGLANG = Served("sglang", "tiny", "/models/tiny", "python3")
FROM = Client("c", "endpoint", False, ENDPOINT)


@pytest.mark.parametrize(
    ("endpoint", "reached", "through", "expected"),
    [
        (None, {}, "", ("a", "server")),
        (ENDPOINT, {"a": "", "b": "", "c": ""}, "", ("c", "endpoint")),
        (ENDPOINT, {"a": "", "b": "", "c": "refused"}, "", ("b", "endpoint")),
        (ENDPOINT, {"a": "", "b": "no", "c": "no"}, "", ("a", "server")),
        (ENDPOINT, {"a": "", "b": "no", "c": "no"}, "endpoint", ("a", "endpoint")),
        (ENDPOINT, {"a": "", "b": "", "c": ""}, "server", ("a", "server")),
        (ENDPOINT, {}, "", ("a", "server")),
    ],
)
def test_another_host_than_the_head_asks_where_it_can(
    endpoint: str | None, reached: dict[str, str], through: str, expected: tuple[str, str]
) -> None:
    found = choose_client("a", HOSTS, SERVER, endpoint, reached, through)
    assert (found.host, found.through) == expected
    assert found.on_head == (found.host == "a")
    assert found.url == (ENDPOINT if found.through == "endpoint" else SERVER)


def test_an_endpoint_that_nobody_reaches_is_said() -> None:
    with pytest.raises(WorkloadError, match="has no endpoint"):
        choose_client("a", HOSTS, SERVER, None, {}, "endpoint")
    with pytest.raises(WorkloadError, match="b: refused"):
        choose_client("a", HOSTS, SERVER, ENDPOINT, {"a": "refused", "b": "refused"}, "endpoint")


def test_vllm_closed_and_open_loop() -> None:
    closed, opened = (client_argv(VLLM, FROM, CHAT, point, 7, "/bench") for point in points_of([CHAT])[:2])
    assert closed[:3] == ["vllm", "bench", "serve"]
    for word in (
        "--dataset-name=random",
        "--random-input-len=1024",
        "--ignore-eos",
        "--max-concurrency=16",
        "--num-prompts=160",
        "--num-warmups=32",
        "--seed=7",
        "--tokenizer=/models/tiny",
        "--metric-percentiles=50,95,99",
        f"--base-url={ENDPOINT}",
        "--result-dir=/bench/out",
    ):
        assert word in closed
    assert closed[closed.index("--goodput") + 1] == "ttft:800"
    assert "--request-rate=4" in opened
    assert "--num-prompts=240" in opened
    assert not any(word.startswith("--max-concurrency") for word in opened)


def test_prompts_that_share_their_beginning() -> None:
    shared = Workload("shared", input=224, output=256, prefix=800, streams=(2,))
    point = points_of([shared])[0]
    argv = client_argv(VLLM, FROM, shared, point, 7, "/bench")
    assert {"--random-prefix-len=800", "--random-input-len=224"} <= set(argv)
    assert shared.tokens == 1280
    assert shared.shown()["prefix"] == 800
    with pytest.raises(WorkloadError, match="SGLang's client cannot send"):
        client_argv(SGLANG, FROM, shared, point, 7, "/bench")


def test_what_people_said_is_asked_as_chat() -> None:
    words = client_argv(VLLM, FROM, TALK, points_of([TALK])[0], 7, "/bench")
    assert "--backend=openai-chat" in words
    assert "--dataset-path=/bench/prompts.json" in words
    assert "--ignore-eos" not in words


def test_sglang_draws_its_prompts_itself() -> None:
    words = client_argv(SGLANG, FROM, CHAT, points_of([CHAT])[0], 7, "/bench")
    assert words[:3] == ["python3", "-m", "sglang.benchmark.serving"]
    assert "--dataset-name=random-ids" in words
    assert "--random-range-ratio=1.0" in words
    assert "--output-details" in words
    talk = client_argv(SGLANG, FROM, TALK, points_of([TALK])[0], 7, "/bench")
    assert "--disable-ignore-eos" in talk


def test_an_engine_without_a_client_is_said() -> None:
    with pytest.raises(WorkloadError, match="tensorrt-llm"):
        client_argv(Served("tensorrt-llm", "m", "/m", "x"), FROM, CHAT, points_of([CHAT])[0], 7, "/bench")


@pytest.mark.parametrize(
    "text",
    [
        '[{"conversations": [{"from": "human", "value": "Hi"}, {"from": "gpt", "value": "Hello"}]}, {"id": 1}]',
        '{"prompt": "Hi", "completion": "Hello"}\n\n{"prompt": "no answer"}\n',
        '{"messages": [{"role": "system", "content": "x"}, {"role": "user", "content": "Hi"}, {"content": "Hello"}]}',
    ],
)
def test_conversations_in_the_formats_that_people_have(text: str) -> None:
    assert read_conversations(text, "file") == [("Hi", "Hello")]


@pytest.mark.hostile
@pytest.mark.parametrize(
    "text", ["", "[]", "[1, 2]", "{", "x", "[" * 100_000, '{"prompt": 1}', '[{"conversations": 3}]']
)
def test_a_file_without_conversations(text: str) -> None:
    with pytest.raises(WorkloadError, match="file"):
        read_conversations(text, "file")


def test_a_run_gets_conversations_of_its_own() -> None:
    known = [(f"question {number}", "answer") for number in range(20)]
    first, second = (prompts_for(known, 5, seed) for seed in (1, 2))
    assert first != second
    assert len(json.loads(first)) == 10
    assert json.loads(first)[0].keys() == {"conversations"}
    with pytest.raises(WorkloadError, match="at least one for each of 21"):
        prompts_for(known, 21, 1)
