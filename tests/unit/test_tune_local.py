# SPDX-License-Identifier: Apache-2.0
"""scripts/tune_local.py with a vLLM that is one small program: it serves, is measured, and dies where it is told to."""

from __future__ import annotations

import json
import socket
import subprocess
import sys
from pathlib import Path

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
