# SPDX-License-Identifier: Apache-2.0
"""scripts/tune_local.py with a vLLM that is one small program: it serves, is measured, and dies where it is told to."""

from __future__ import annotations

import argparse
import importlib.util
import json
import socket
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import yaml

ROOT = Path(__file__).resolve().parents[2]
ENGINE = """
import http.server, json, sys

words = sys.argv[1:]
flags = dict(word.split("=", 1) for word in words if word.startswith("--") and "=" in word)
value = lambda name: words[words.index(name) + 1] if name in words else flags.get(name)
if words[0] == "serve":
    if value("--max-num-seqs") == "13":
        sys.exit("ValueError: Error: 13 brings bad luck")
    class Handler(http.server.BaseHTTPRequestHandler):
        def do_POST(self):
            self.rfile.read(int(self.headers["Content-Length"]))
            self.answer(b"{}")
        def do_GET(self):
            seqs = value("--max-num-seqs") or "1"
            self.answer(f'vllm:generation_tokens_total{{model_name="m"}} {seqs}\\n'.encode())
        def answer(self, body):
            self.send_response(200)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)
        def log_message(self, *_):
            pass
    http.server.HTTPServer(("127.0.0.1", int(value("--port"))), Handler).serve_forever()
else:
    import urllib.request
    seqs = int(urllib.request.urlopen(flags["--base-url"] + "/metrics").read().split()[-1])
    result = {"duration": 1.0, "completed": int(flags["--num-prompts"]), "errors": []}
    result |= {"output_throughput": 100.0 * seqs, "total_token_throughput": 1.0, "request_throughput": 1.0}
    for name in ("ttft", "tpot", "itl", "e2el"):
        result |= {f"{one}_{name}_ms": 1.0 for one in ("mean", "p50", "p95", "p99")}
    open(flags["--result-dir"] + "/" + flags["--result-filename"], "w").write(json.dumps(result))
"""
LADDER = {
    "name": "small",
    "source": "this test",
    "date": "2026-11-18",
    "workload": "latency",
    "baseline": {"max_num_seqs": 2},
    "stages": [
        {
            "name": "scheduler",
            "rungs": [
                {"name": "more", "change": {"max_num_seqs": 4}},
                {"name": "less", "change": {"max_num_seqs": 3}},
                {"name": "dies", "change": {"max_num_seqs": 13}},
                {"name": "layout", "change": {"tensor_parallel": 2}},
                {"name": "fp8", "change": {"flags.--quantization": "fp8"}},
            ],
        }
    ],
}


@pytest.mark.extended  # a whole ladder of servers
@pytest.mark.slow  # a process for each server and measurement
def test_a_ladder_on_one_machine(tmp_path: Path) -> None:
    engine = tmp_path / "vllm" / "entrypoints" / "cli"
    engine.mkdir(parents=True)
    (engine / "main.py").write_text(ENGINE)
    (tmp_path / "ladder.yml").write_text(yaml.safe_dump(LADDER))
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = str(free.getsockname()[1])
    words = [str(ROOT / "scripts" / "tune_local.py"), "--model", str(tmp_path), "--python", sys.executable, "--dummy"]
    words += ["--ladder", str(tmp_path / "ladder.yml"), "--out", str(tmp_path / "run"), "--port", port]
    places = f"{tmp_path}:{ROOT / 'collections'}"
    done = subprocess.run(
        [sys.executable, *words, "--repeats", "2", "--serving", '{"max_model_len": 2048}'],
        env={"PYTHONPATH": places, "PATH": "/usr/bin:/bin"},
        capture_output=True,
        text=True,
        timeout=110,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    document = json.loads((tmp_path / "run" / "tune.json").read_text())
    decided = {rung["name"]: rung["decision"] for rung in document["rungs"]}
    assert decided == {"more": "kept", "less": "refused", "dies": "failed", "layout": "illegal", "fp8": "refused"}
    assert "bad luck" in document["rungs"][2]["reason"]
    assert document["baseline"]["output_tokens_per_s"] == 200
    assert document["rungs"][0]["quality"]["status"] == "waived"
    assert document["result"]["change"] == {"max_num_seqs": 4}
    assert len((tmp_path / "run" / "runs.jsonl").read_text().splitlines()) == 4
    with socket.socket() as asked:
        assert asked.connect_ex(("127.0.0.1", int(port))) != 0, "a server was left"


@pytest.mark.parametrize(
    ("problems", "status", "told"),
    [
        ([None, None, None], None, ""),
        ([None, None, "failed"], None, ""),
        ([None, "failed", "failed"], None, "1 of 3 runs count: failed"),
        ([None, None, "failed"], 1, "2 of 3 runs count: failed"),
        (["failed", "failed", "failed"], None, "0 of 3 runs count: failed"),
    ],
)
def test_one_run_is_too_few(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    problems: list[str | None],
    status: int | None,
    told: str,
) -> None:
    found = importlib.util.spec_from_file_location("tune_local", ROOT / "scripts" / "tune_local.py")
    assert found
    assert found.loader
    local: Any = importlib.util.module_from_spec(found)
    found.loader.exec_module(local)
    left = list(problems)
    (tmp_path / "out").mkdir()

    def measured(*_: object, **__: object) -> None:
        (tmp_path / "out" / local.output.RESULT).write_text("{}")

    monkeypatch.setattr(local, "read_servers", lambda _: [])
    monkeypatch.setattr(local.subprocess, "run", measured)
    monkeypatch.setattr(local.output, "parse_result", lambda *_: {"output_tokens_per_s": 7.0})
    monkeypatch.setattr(local, "uncounted", lambda _: left.pop(0))
    workload = local.load_workloads([local.BUILT_IN])["latency"]
    given = argparse.Namespace(port=1, python="python3", model="m", out=tmp_path)
    trial = local.LocalTrial(given, local.replace(workload, streams=(1,), repeats=3))
    trial._process = SimpleNamespace(poll=lambda: status)
    if told:
        with pytest.raises(local.RungError, match=told):
            trial.measure({}, 1)
    else:
        assert trial.measure({}, 1)["output_tokens_per_s"] == 7
