# SPDX-License-Identifier: Apache-2.0
"""chat_completion, with a server on loopback and a systemd that answers from a list."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from http.server import BaseHTTPRequestHandler, HTTPServer
from typing import Any

import pytest
from ansible_collections.firstlight.cluster.plugins.module_utils.core.completion import WrongAnswerError
from ansible_collections.firstlight.cluster.plugins.module_utils.host import Host, Result
from ansible_collections.firstlight.cluster.plugins.modules import chat_completion
from ansible_collections.firstlight.cluster.plugins.modules.chat_completion import GateError, wait

KEY = "0123456789abcdef"
RUNNING = "LoadState=loaded\nActiveState=active\nSubState=running\nResult=success\nNRestarts=0\n"
STOPPED = "LoadState=loaded\nActiveState=inactive\nSubState=dead\nResult=success\nNRestarts=0\n"
COMPLETION = {
    "choices": [{"message": {"role": "assistant", "content": "Hello."}}],
    "usage": {"completion_tokens": 3},
    "system_fingerprint": "vllm-0.32.0-tp2-0a1b2c3d",
}


class Engine(HTTPServer):
    """Answers with these statuses in turn, the last one for ever."""

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), Handler)
        self.statuses = [200]
        self.asked = 0


class Handler(BaseHTTPRequestHandler):
    server: Engine

    def log_message(self, *_: Any) -> None:
        """Say nothing."""

    def do_POST(self) -> None:
        engine = self.server
        engine.asked += 1
        self.rfile.read(int(self.headers["Content-Length"]))
        status = engine.statuses.pop(0) if len(engine.statuses) > 1 else engine.statuses[0]
        if self.headers.get("Authorization") != f"Bearer {KEY}":
            status = 401
        body = json.dumps(COMPLETION if status == 200 else {"error": {"message": "not now"}}).encode()
        self.send_response(status)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)


class Systemd(Host):
    """Stands for the host of the server."""

    def __init__(self, state: str = RUNNING, keeper: str | None = None) -> None:
        self.state = state
        self.keeper = keeper
        self.now = 0.0

    def run(
        self,
        argv: Sequence[str],
        timeout: float = 30.0,
        env: Mapping[str, str] | None = None,
        stdin: str | None = None,
    ) -> Result:
        assert timeout > 0
        assert env is None
        assert stdin is None
        return Result(tuple(argv), 0, self.state if argv[0] == "systemctl" else f"Bearer {KEY} refused\n")

    def read_text(self, path: str) -> str | None:
        if path == "/run/firstlight/keeper.json":
            return self.keeper
        return f"VLLM_API_KEY={KEY}" if path == "/etc/firstlight/server.env" else None

    def size_and_mtime(self, path: str) -> tuple[int, int] | None:
        assert path == "/run/firstlight/keeper.json"
        return None if self.keeper is None else (len(self.keeper), time.time_ns())

    def pause(self, seconds: float) -> None:
        self.now += seconds


@pytest.fixture
def engine() -> Iterator[Engine]:
    server = Engine()
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    yield server
    server.shutdown()
    thread.join()
    server.server_close()


def ask(port: int, host: Systemd, key: str = KEY, **changes: Any) -> dict[str, Any]:
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
    return wait(host, parameters, key, clock=lambda: host.now, pause=host.pause)


def test_an_answer_is_returned(engine: Engine) -> None:
    assert ask(engine.server_port, Systemd()) == {
        "reply": "Hello.",
        "fingerprint": "vllm-0.32.0-tp2-0a1b2c3d",
        "tokens": 3,
        "seconds": 0.0,
        "completion_seconds": 0.0,
    }
    assert engine.asked == 1


def test_a_server_that_loads_is_waited_for(engine: Engine) -> None:
    engine.statuses = [503, 500, 200]
    assert ask(engine.server_port, Systemd())["seconds"] == 4.0


def test_other_tensor_parallel_is_told_at_once(engine: Engine) -> None:
    with pytest.raises(WrongAnswerError, match=", expected 4"):
        ask(engine.server_port, Systemd(), expect_tensor_parallel=4)
    assert engine.asked == 1


def test_a_wrong_key_is_told_at_once(engine: Engine) -> None:
    with pytest.raises(WrongAnswerError, match="refuses the API key") as caught:
        ask(engine.server_port, Systemd(), key="another key")
    assert "another key" not in str(caught.value)


def kept(phase: str, why: str = "no memory") -> str:
    """What the keeper of the unit has written."""
    units = {"firstlight-server.service": "inactive"}
    group = {"phase": phase, "why": why, "attempts": 0, "nodes": {"spark0": {"units": units}}}
    return json.dumps({"node": "spark0", "groups": {"server": group}})


def test_a_keeper_at_work_is_waited_for(engine: Engine) -> None:
    engine.statuses = [503, 500, 200]
    assert ask(engine.server_port, Systemd(STOPPED, kept("gathering")))["reply"] == "Hello."


def test_a_keeper_that_has_given_up_is_not_waited_for() -> None:
    with pytest.raises(GateError, match=r"does not answer .*: group server gave up"):
        ask(9, Systemd(STOPPED, kept("given-up", "gave up after 5 failed starts")))


def test_a_stopped_server_is_not_waited_for() -> None:
    with pytest.raises(GateError, match=r"firstlight-server.service is stopped .* run playbooks/serve.yml"):
        ask(9, Systemd(STOPPED))


def test_the_time_is_over_some_time(engine: Engine) -> None:
    engine.statuses = [503]
    with pytest.raises(GateError, match=r"gave no completion within 60 s \(last: HTTP 503: not now\)"):
        ask(engine.server_port, Systemd())


def test_a_failure_has_what_the_keeper_knows(engine: Engine) -> None:
    engine.statuses = [503]
    with pytest.raises(GateError, match=r"The keeper says: group server is gathering \(no memory\)$"):
        ask(engine.server_port, Systemd(STOPPED, kept("gathering")))
    with pytest.raises(GateError, match=r"balancer\.service is stopped .* says: group server is gathering"):
        ask(9, Systemd(STOPPED, kept("gathering")), service="firstlight-balancer.service")


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
    monkeypatch.setattr(chat_completion, "Host", lambda: Systemd(STOPPED))
    with pytest.raises(EndedError) as ended:
        chat_completion.main()
    message = ended.value.result["msg"]
    assert "is stopped" in message
    assert "last lines of firstlight-server.service:\n  Bearer ******** refused" in message
    assert KEY not in json.dumps(ended.value.result)
