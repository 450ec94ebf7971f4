# SPDX-License-Identifier: Apache-2.0
"""The program that deploys replicas, with stand-ins for Ray: who is let in, whom it waits for, when it ends."""

from __future__ import annotations

import asyncio
import hashlib
import sys
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest
from ansible_collections.firstlight.cluster.plugins.plugin_utils.launch.ray_serve_program import SERVE_PROGRAM

KEY = "a key"
SETTINGS: dict[str, Any] = {
    "nodes": ["10.0.0.1", "10.0.0.2"],
    "replicas": 2,
    "tensor_parallel": 1,
    "join_timeout": 0.0,
    "start_timeout": 0.0,
}


@pytest.fixture
def program() -> dict[str, Any]:
    """What the program defines; it is not run."""
    names: dict[str, Any] = {"__name__": "program"}
    exec(compile(SERVE_PROGRAM, "ray_serve.py", "exec"), names)
    names["EVERY"] = 0.0
    return names


def status(program: dict[str, Any], path: str, headers: dict[bytes, bytes]) -> int:
    """What a request gets; 200 where it reaches the application."""
    sent: list[dict[str, Any]] = []

    async def application(scope: Any, receive: Any, send: Any) -> None:
        await send({"type": "http.response.start", "status": 200})

    async def send(message: dict[str, Any]) -> None:
        sent.append(message)

    check = program["KeyCheck"](application, hashlib.sha256(KEY.encode()).hexdigest())
    asyncio.run(check({"type": "http", "path": path, "headers": list(headers.items())}, None, send))
    return int(sent[0]["status"])


@pytest.mark.parametrize(
    ("path", "given", "expected"),
    [
        ("/v1/models", b"Bearer a key", 200),
        ("/v1/models", b"bearer a key", 200),
        ("/v1/models", b"Bearer another", 401),
        ("/v1/models", b"a key", 401),
        ("/v1/models", b"", 401),
        ("/v1/chat/completions", b"Basic a key", 401),
        ("/health", b"", 200),
        ("/health/../v1/models", b"", 401),
    ],
)
def test_only_who_has_the_key_is_let_in(program: dict[str, Any], path: str, given: bytes, expected: int) -> None:
    assert status(program, path, {b"authorization": given} if given else {}) == expected


def nodes(*here: str, gpus: float = 1) -> SimpleNamespace:
    listed = [{"NodeManagerAddress": one, "Alive": True, "Resources": {"GPU": gpus}} for one in here]
    gone = {"NodeManagerAddress": "10.0.0.2", "Alive": False, "Resources": {}}
    return SimpleNamespace(nodes=lambda: [*listed, gone])


def test_it_goes_on_without_a_node_and_says_so(program: dict[str, Any], capsys: pytest.CaptureFixture[str]) -> None:
    program["gathered"](nodes("10.0.0.1"), SETTINGS)
    assert "goes on without 10.0.0.2" in capsys.readouterr().out
    program["gathered"](nodes("10.0.0.1", "10.0.0.2"), SETTINGS)
    assert capsys.readouterr().out == ""


@pytest.mark.parametrize("ray", [nodes(), nodes("10.0.0.9"), nodes("10.0.0.1", gpus=0)])
def test_without_any_node_there_is_nothing_to_deploy(program: dict[str, Any], ray: SimpleNamespace) -> None:
    with pytest.raises(SystemExit, match=r"no planned node .* 10\.0\.0\.1, 10\.0\.0\.2"):
        program["gathered"](ray, SETTINGS)


def serve(*counts: int, state: str = "DEPLOYING", gone: bool = False) -> SimpleNamespace:
    """Stands for Ray Serve: so many replicas run, each time it is asked."""
    left = list(counts)

    def one(running: int) -> SimpleNamespace:
        model = SimpleNamespace(replica_states={"RUNNING": running}, message="no GPU is free")
        door = SimpleNamespace(replica_states={"RUNNING": 1}, message="")
        return SimpleNamespace(
            status=SimpleNamespace(value=state), message="", deployments={"LLMServer:m": model, "OpenAiIngress": door}
        )

    def asked() -> SimpleNamespace:
        return SimpleNamespace(
            applications={} if gone and not left else {"firstlight": one(left.pop(0) if left else 0)}
        )

    return SimpleNamespace(status=asked)


@pytest.mark.parametrize(
    ("stand_in", "words"),
    [
        (serve(0, state="DEPLOY_FAILED"), "the replicas cannot start: no GPU is free"),
        (serve(0), "no replica has answered for 0.0 s: no GPU is free"),
        (serve(1, 2, 1, gone=True), "somebody deleted it"),
    ],
)
def test_it_ends_when_nothing_can_answer(program: dict[str, Any], stand_in: SimpleNamespace, words: str) -> None:
    with pytest.raises(SystemExit, match=words):
        program["watch"](stand_in, SETTINGS)


def test_one_replica_that_is_left_is_enough(program: dict[str, Any], capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit, match="deleted"):
        program["watch"](serve(2, 1, 1, 2, state="DEPLOY_FAILED", gone=True), SETTINGS)
    said = capsys.readouterr().out.splitlines()
    assert [line.partition(": ")[2] for line in said] == [f"{n} of 2 replicas answer" for n in (2, 1, 2)]


def shells(monkeypatch: pytest.MonkeyPatch, names: dict[str, list[str]]) -> None:
    """Modules of a Ray that has these names and no others."""
    for module, has in names.items():
        made = ModuleType(module)
        made.__dict__.update({name: name for name in has}, __path__=[], __version__="2.41.0")
        monkeypatch.setitem(sys.modules, module, made)


INTERNAL = "ray.llm._internal.serve.core"
RAY = {
    "ray": [],
    "ray.llm": [],
    "ray.llm._internal": [],
    "ray.llm._internal.serve": [],
    INTERNAL: [],
    f"{INTERNAL}.configs": [],
    f"{INTERNAL}.configs.openai_api_models": ["to_model_metadata"],
    f"{INTERNAL}.ingress": [],
    f"{INTERNAL}.ingress.ingress": ["init"],
    "ray.serve": [],
    "ray.serve.llm": ["LLMConfig", "build_llm_deployment"],
    "ray.serve.llm.ingress": ["OpenAiIngress", "make_fastapi_ingress"],
}


def test_a_ray_with_all_its_parts(program: dict[str, Any], monkeypatch: pytest.MonkeyPatch) -> None:
    shells(monkeypatch, RAY)
    assert program["parts_of_ray"]() == (
        "LLMConfig",
        "build_llm_deployment",
        "OpenAiIngress",
        "make_fastapi_ingress",
        "init",
        "to_model_metadata",
    )


@pytest.mark.parametrize("module", [name for name, has in RAY.items() if has])
def test_another_ray_is_told_which_one_works(
    program: dict[str, Any], monkeypatch: pytest.MonkeyPatch, module: str
) -> None:
    shells(monkeypatch, {**RAY, module: []})
    with pytest.raises(SystemExit, match=r"Ray 2\.41\.0 of this image .*Expected Ray 2\.60\.x with ray\[serve\]"):
        program["parts_of_ray"]()


def test_private_names_of_ray_are_in_one_place() -> None:
    before, found, after = SERVE_PROGRAM.partition("def parts_of_ray")
    body, following, rest = after.partition("\ndef application")
    assert found
    assert following
    assert "ray.llm._internal" not in before + rest
    assert body.count("ray.llm._internal") == 2
