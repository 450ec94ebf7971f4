# SPDX-License-Identifier: Apache-2.0
"""`firstlight ask` against a server on this machine's loopback, with a certificate that openssl made."""

from __future__ import annotations

import argparse
import json
import shutil
import ssl
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest
from ansible_collections.firstlight.cluster.plugins.module_utils.endpoint.openssl import (
    make_authority,
    make_certificate,
)
from ansible_collections.firstlight.cluster.plugins.module_utils.host import Host
from ansible_collections.firstlight.cluster.plugins.plugin_utils.client_help import ClientFiles, ClientHelp
from ansible_collections.firstlight.cluster.plugins.plugin_utils.plan.planner import ClusterPlan

from firstlight.asking import ask
from firstlight.cli import build_parser
from firstlight.commands import ask as command
from firstlight.errors import FirstlightError
from tests.unit.ansible_runs import run_firstlight

ROOT = Path(__file__).resolve().parents[3]
KEY = "sk-fl-" + "k" * 43


class Answers(BaseHTTPRequestHandler):
    """As the endpoint and an engine behind it."""

    def do_POST(self) -> None:
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        if self.headers["Authorization"] != f"Bearer {KEY}":
            self.say(401, {"error": {"message": "no key"}})
        elif body["model"] in ("429", "404", "503"):
            self.say(int(body["model"]), {"error": {"message": "so it is\x1b[2J"}})
        elif body.get("stream"):
            self.send_response(200)
            self.send_header("Content-Type", "text/event-stream")
            self.end_headers()
            for piece in ("Hel", "lo\x1b[2J."):
                chunk = {"id": "1", "object": "chat.completion.chunk", "created": 1, "model": "tiny"}
                choice = {"index": 0, "delta": {"content": piece}, "finish_reason": None}
                self.wfile.write(f"data: {json.dumps({**chunk, 'choices': [choice]})}\n\n".encode())
            self.wfile.write(b"data: [DONE]\n\n")
        else:
            choice = {"index": 0, "finish_reason": "stop", "message": {"role": "assistant", "content": "Whole."}}
            answer = {"id": "1", "object": "chat.completion", "created": 1, "model": "tiny", "choices": [choice]}
            self.say(200, answer)

    def say(self, status: int, answer: dict[str, Any]) -> None:
        told = json.dumps(answer).encode()
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(told)))
        self.end_headers()
        self.wfile.write(told)

    def log_message(self, *_: object) -> None:
        pass


@pytest.fixture(scope="module")
def authority() -> tuple[str, str]:
    return make_authority(Host(), "Test")


@pytest.fixture(scope="module")
def port(authority: tuple[str, str], tmp_path_factory: pytest.TempPathFactory) -> Iterator[int]:
    certificate, key = make_certificate(Host(), authority, "localhost", ["127.0.0.1"], 1)
    pem = tmp_path_factory.mktemp("server") / "server.pem"
    pem.write_text(key + certificate)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(pem)
    server = ThreadingHTTPServer(("127.0.0.1", 0), Answers)
    server.socket = context.wrap_socket(server.socket, server_side=True)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    yield server.server_address[1]
    server.shutdown()
    server.server_close()
    thread.join()


@pytest.fixture
def help_(authority: tuple[str, str], port: int, tmp_path: Path) -> ClientHelp:
    (tmp_path / "keys").mkdir()
    (tmp_path / "ca.crt").write_text(authority[0])
    (tmp_path / "keys" / "alice").write_text(KEY + "\n")
    (tmp_path / "keys" / "alice").chmod(0o600)
    return ClientHelp(f"https://127.0.0.1:{port}/v1", "tiny", "alice", ClientFiles(tmp_path))


def changed(help_: ClientHelp, **changes: Any) -> ClientHelp:
    return ClientHelp(**{**vars(help_), **changes})


def test_an_answer_is_shown_as_it_comes_without_what_a_terminal_obeys(
    help_: ClientHelp, capsys: pytest.CaptureFixture[str]
) -> None:
    ask(help_, "Hello?", stream=True, as_json=False)
    assert capsys.readouterr().out == "Hello\\x1b[2J.\n"


def test_a_whole_answer(help_: ClientHelp, capsys: pytest.CaptureFixture[str]) -> None:
    ask(help_, "Hello?", stream=False, as_json=False)
    assert capsys.readouterr().out == "Whole.\n"
    ask(help_, "Hello?", stream=False, as_json=True)
    assert json.loads(capsys.readouterr().out)["choices"][0]["message"]["content"] == "Whole."


@pytest.mark.parametrize(
    ("model", "words"),
    [
        ("429", "has exceeded its rate (429)"),
        ("404", "has no model '404'"),
        ("503", "answered 503: so it is\\x1b[2J"),
    ],
)
def test_what_the_endpoint_refuses_is_one_sentence(help_: ClientHelp, model: str, words: str) -> None:
    with pytest.raises(FirstlightError) as caught:
        ask(changed(help_, model=model), "Hello?", stream=True, as_json=False)
    assert words in str(caught.value)
    assert KEY not in str(caught.value)


def test_a_key_that_is_not_known(help_: ClientHelp) -> None:
    help_.files.key("alice").write_text("sk-fl-other")
    with pytest.raises(FirstlightError, match="is not known to"):
        ask(help_, "Hello?", stream=True, as_json=False)


def test_a_key_that_is_not_there_or_not_kept(help_: ClientHelp) -> None:
    with pytest.raises(FirstlightError, match="expected the key 'bob'"):
        ask(changed(help_, key="bob"), "Hello?", stream=True, as_json=False)
    help_.files.key("alice").chmod(0o644)
    with pytest.raises(FirstlightError, match="can be read by others"):
        ask(help_, "Hello?", stream=True, as_json=False)


def test_a_certificate_of_somebody_else(help_: ClientHelp) -> None:
    help_.files.authority.write_text(make_authority(Host(), "Other")[0])
    with pytest.raises(FirstlightError, match="is not trusted"):
        ask(help_, "Hello?", stream=True, as_json=False)
    help_.files.authority.write_text("nothing")
    with pytest.raises(FirstlightError, match="is not a certificate"):
        ask(help_, "Hello?", stream=True, as_json=False)
    help_.files.authority.unlink()
    with pytest.raises(FirstlightError, match="expected the certificate of the cluster's authority"):
        ask(help_, "Hello?", stream=True, as_json=False)


def test_nobody_there(help_: ClientHelp) -> None:
    with pytest.raises(FirstlightError, match="cannot be reached"):
        ask(changed(help_, url="https://127.0.0.1:1/v1"), "Hello?", stream=True, as_json=False)


def parsed(*words: str) -> argparse.Namespace:
    return build_parser("ask").parse_args(["ask", *words])


@pytest.mark.slow  # a run of the whole command
@pytest.mark.parametrize(
    ("intent", "missing"),
    [
        ("", "this cluster has no endpoint"),
        ("firstlight_endpoint: {}", "{state}/firstlight/spark4/keys/default does not exist"),
    ],
)
def test_the_command_itself_says_what_is_missing(tmp_path: Path, intent: str, missing: str) -> None:
    inventory = shutil.copytree(ROOT / "inventory/spark4", tmp_path / "spark4")
    with (inventory / "group_vars/all.yml").open("a") as settings:
        settings.write(f"{intent}\n")
    done = run_firstlight("ask", "-i", str(inventory), "Hello?", environment={"XDG_STATE_HOME": str(tmp_path)})
    assert done.returncode == (1 if intent else 2), "a file that is missing, or an inventory that cannot be asked"
    assert missing.format(state=tmp_path) in done.stderr
    assert done.stderr.count("\n") == 1


def plan(roles: dict[str, Any] | None = None, errors: tuple[Any, ...] = ()) -> ClusterPlan:
    given = {
        "inference_server": {"inference_server_served_name": "tiny"},
        "endpoint": {"endpoint_listen": "192.0.2.1", "endpoint_port": 443, "endpoint_keys": [{"name": "alice"}]},
        **(roles or {}),
    }
    return cast(
        ClusterPlan, SimpleNamespace(cluster={"head": "spark0"}, hosts={"spark0": {"roles": given}}, errors=errors)
    )


def test_what_another_client_needs_is_shown_without_a_secret(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", "/state")
    monkeypatch.setattr("firstlight.inventory.plan_inventory", lambda *_, **__: plan())
    assert command.run(parsed("-i", "inventory/spark4", "--how")) == 0
    told = capsys.readouterr().out
    assert "https://192.0.2.1/v1" in told
    assert "/state/firstlight/spark4/keys/alice.header" in told


@pytest.mark.parametrize(
    ("made", "words"),
    [(plan(errors=({},)), "is refused"), (plan({"endpoint": None}), "has no endpoint")],
)
def test_a_cluster_that_cannot_be_asked(made: ClusterPlan, words: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("firstlight.inventory.plan_inventory", lambda *_, **__: made)
    with pytest.raises(FirstlightError, match=words):
        command.run(parsed("-i", "inventory/spark4"))
