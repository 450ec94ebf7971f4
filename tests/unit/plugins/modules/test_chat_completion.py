# SPDX-License-Identifier: Apache-2.0
"""chat_completion, with a server on loopback and a systemd that answers from a list."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Iterator, Mapping
from http.server import BaseHTTPRequestHandler, HTTPServer
from typing import Any

import pytest
from ansible_collections.firstlight.cluster.plugins.module_utils.serving.completion import ENGINES, WrongAnswerError
from ansible_collections.firstlight.cluster.plugins.module_utils.serving.completion_gate import GateError, wait
from ansible_collections.firstlight.cluster.plugins.modules import chat_completion

from tests.unit.fake_host import FakeHost

KEY = "0123456789abcdef"
RUNNING = "LoadState=loaded\nActiveState=active\nSubState=running\nResult=success\nNRestarts=0\n"
NO_ROUTE = "Path '/v1/chat/completions' not found. Ping http://.../-/routes for available routes."
"""What Ray's proxy answers before the application has its route."""
STOPPED = "LoadState=loaded\nActiveState=inactive\nSubState=dead\nResult=success\nNRestarts=0\n"
COMPLETION = {
    "choices": [{"message": {"role": "assistant", "content": "Hello."}}],
    "usage": {"completion_tokens": 3},
    "system_fingerprint": "vllm-0.32.0-tp2-0a1b2c3d",
}


class Engine(HTTPServer):
    """Answers with these statuses in turn, the last one for ever; `text` is what it says with others than 200."""

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), Handler)
        self.statuses = [200]
        self.text = json.dumps({"error": {"message": "not now"}})
        self.asked = 0


class Handler(BaseHTTPRequestHandler):
    server: Engine

    def log_message(self, *_: Any) -> None:
        """Say nothing."""

    def do_GET(self) -> None:
        self.reply(200, json.dumps({"tp_size": 2, "version": "0.5.23"}))

    def do_POST(self) -> None:
        engine = self.server
        engine.asked += 1
        self.rfile.read(int(self.headers["Content-Length"]))
        status = engine.statuses.pop(0) if len(engine.statuses) > 1 else engine.statuses[0]
        if self.headers.get("Authorization") != f"Bearer {KEY}":
            status = 401
        self.reply(status, json.dumps(COMPLETION) if status == 200 else engine.text)

    def reply(self, status: int, text: str) -> None:
        body = text.encode()
        self.send_response(status)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)


def host_with(state: str = RUNNING, supervisor: str | None = None) -> FakeHost:
    """The host of the server, in this state, with what its supervisor has written."""
    host = FakeHost(
        {"systemctl": state, "journalctl": f"Bearer {KEY} refused\n"},
        {"/run/firstlight/supervisor.json": supervisor, "/etc/firstlight/server.env": f"VLLM_API_KEY={KEY}", "/": None},
    )
    host.mtime_ns = time.time_ns()
    return host


@pytest.fixture
def engine() -> Iterator[Engine]:
    server = Engine()
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    yield server
    server.shutdown()
    thread.join()
    server.server_close()


def ask(port: int, host: FakeHost, key: str = KEY, **changes: Any) -> dict[str, Any]:
    parameters = {
        "url": f"http://127.0.0.1:{port}",
        "model": "tiny",
        "prompt": "hi",
        "max_tokens": 5,
        "expect_tensor_parallel": 2,
        "service": "firstlight-server.service",
        "timeout": 60,
        **changes,
    }
    return wait(host, parameters, key, clock=host.clock, pause=host.pause)


def test_an_answer_is_returned(engine: Engine) -> None:
    assert ask(engine.server_port, host_with()) == {
        "reply": "Hello.",
        "fingerprint": "vllm-0.32.0-tp2-0a1b2c3d",
        "tokens": 3,
        "seconds": 0.0,
        "completion_seconds": 0.0,
    }
    assert engine.asked == 1


def test_a_server_that_loads_is_waited_for(engine: Engine) -> None:
    engine.statuses = [503, 500, 200]
    assert ask(engine.server_port, host_with())["seconds"] == 4.0


@pytest.mark.parametrize("engine_name", ENGINES)
def test_a_proxy_without_a_route_is_asked_until_it_completes(engine: Engine, engine_name: str) -> None:
    engine.statuses, engine.text = [404, 404, 404, 200], NO_ROUTE
    assert ask(engine.server_port, host_with(), engine=engine_name)["seconds"] == 6.0
    assert engine.asked == 4


def test_a_proxy_that_never_has_a_route_is_told_when_the_time_is_over(engine: Engine) -> None:
    engine.statuses, engine.text = [404], NO_ROUTE
    with pytest.raises(GateError, match="gave no completion within 60 s") as caught:
        ask(engine.server_port, host_with())
    assert f"HTTP 404: {NO_ROUTE}" in str(caught.value)
    assert engine.asked == 31


@pytest.mark.parametrize("status", [400, 418, 422, 429, 500, 502, 503])
def test_any_refusal_on_the_way_up_is_asked_again(engine: Engine, status: int) -> None:
    engine.statuses = [status, status, status, 200]
    assert ask(engine.server_port, host_with())["reply"] == "Hello."


def test_a_request_that_stays_refused_in_the_same_words_is_told_before_the_time_is_over(engine: Engine) -> None:
    engine.statuses, engine.text = [400], json.dumps({"error": {"message": "no chat template"}})
    with pytest.raises(GateError, match=r"refuses the request .*no chat template.*for 30 s"):
        ask(engine.server_port, host_with())
    assert engine.asked == 16


def test_a_request_that_is_refused_for_changing_reasons_is_asked_again(engine: Engine) -> None:
    engine.statuses = [400, *[400, 422] * 14, 200]
    assert ask(engine.server_port, host_with())["seconds"] == 58.0


def test_other_tensor_parallel_is_told_at_once(engine: Engine) -> None:
    with pytest.raises(WrongAnswerError, match=", expected 4"):
        ask(engine.server_port, host_with(), expect_tensor_parallel=4)
    assert engine.asked == 1


def test_a_wrong_key_is_told_at_once(engine: Engine) -> None:
    with pytest.raises(WrongAnswerError, match="refuses the API key") as caught:
        ask(engine.server_port, host_with(), key="another key")
    assert "another key" not in str(caught.value)


def kept(phase: str, why: str = "no memory") -> str:
    """What the supervisor of the unit has written."""
    units = {"firstlight-server.service": "inactive"}
    group = {"phase": phase, "why": why, "attempts": 0, "nodes": {"spark0": {"units": units}}}
    return json.dumps({"node": "spark0", "groups": {"server": group}})


def test_a_supervisor_at_work_is_waited_for(engine: Engine) -> None:
    engine.statuses = [503, 500, 200]
    assert ask(engine.server_port, host_with(STOPPED, kept("gathering")))["reply"] == "Hello."


def test_a_supervisor_that_has_given_up_is_not_waited_for() -> None:
    with pytest.raises(GateError, match=r"does not answer .*: group server gave up"):
        ask(9, host_with(STOPPED, kept("failed", "gave up after 5 failed starts")))


def test_a_stopped_server_is_not_waited_for() -> None:
    with pytest.raises(GateError, match=r"firstlight-server.service is stopped .* run playbooks/serve.yml"):
        ask(9, host_with(STOPPED))


def test_the_time_is_over_some_time(engine: Engine) -> None:
    engine.statuses = [503]
    with pytest.raises(GateError, match=r"gave no completion within 60 s \(last: HTTP 503: not now\)"):
        ask(engine.server_port, host_with())


def test_a_failure_has_what_the_supervisor_knows(engine: Engine) -> None:
    engine.statuses = [503]
    with pytest.raises(GateError, match=r"The supervisor reports: group server is gathering \(no memory\)$"):
        ask(engine.server_port, host_with(STOPPED, kept("gathering")))
    with pytest.raises(GateError, match=r"balancer\.service is stopped .* reports: group server is gathering"):
        ask(9, host_with(STOPPED, kept("gathering")), service="firstlight-balancer.service")


class EndedError(Exception):
    """What exit_json and fail_json do here."""

    def __init__(self, **result: Any) -> None:
        super().__init__(result.get("msg", ""))
        self.result = result


class Module:
    """Stands for AnsibleModule."""

    def __init__(self, argument_spec: Mapping[str, Mapping[str, Any]], **_: Any) -> None:
        defaults = {name: option.get("default") for name, option in argument_spec.items()}
        self.params = {**defaults, "url": "http://127.0.0.1:9", "model": "tiny", "expect_tensor_parallel": 2}
        self.no_log_values: set[str] = set()

    def exit_json(self, **result: Any) -> None:
        raise EndedError(**result)

    def fail_json(self, **result: Any) -> None:
        raise EndedError(failed=True, **result)


def test_a_failure_has_the_last_lines_and_no_key(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(chat_completion, "AnsibleModule", Module)
    monkeypatch.setattr(chat_completion, "Host", lambda: host_with(STOPPED))
    with pytest.raises(EndedError) as ended:
        chat_completion.main()
    message = ended.value.result["msg"]
    assert "is stopped" in message
    assert "last lines of firstlight-server.service:\n  Bearer ******** refused" in message
    assert KEY not in json.dumps(ended.value.result)
