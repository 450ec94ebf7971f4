# SPDX-License-Identifier: Apache-2.0
"""A ladder on one machine with vLLM and nothing else: the decisions and measurements of `firstlight tune`.

    PYTHONPATH=collections tune_local.py --model DIR --python VENV/bin/python --ladder recipe-003 --out DIR [--dummy]

Killed, the same command goes on. `--serving` has what is served before the first rung: '{"max_model_len": 8192}'.
"""

from __future__ import annotations

import argparse
import datetime
import json
import os
import secrets
import signal
import subprocess
import time
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from ansible_collections.firstlight.cluster.plugins.module_utils.benchmark import output
from ansible_collections.firstlight.cluster.plugins.module_utils.benchmark.usage import hit_rate, read_servers
from ansible_collections.firstlight.cluster.plugins.module_utils.host import write_file
from ansible_collections.firstlight.cluster.plugins.module_utils.supervisor.probe import exchange
from ansible_collections.firstlight.cluster.plugins.plugin_utils.bench.client import Client, Served, client_argv
from ansible_collections.firstlight.cluster.plugins.plugin_utils.bench.limits import uncounted
from ansible_collections.firstlight.cluster.plugins.plugin_utils.bench.points import LARGEST_SEED, points_of
from ansible_collections.firstlight.cluster.plugins.plugin_utils.bench.results import summary_of
from ansible_collections.firstlight.cluster.plugins.plugin_utils.bench.workloads import Workload, load_workloads
from ansible_collections.firstlight.cluster.plugins.plugin_utils.catalog.load import BUILT_IN
from ansible_collections.firstlight.cluster.plugins.plugin_utils.launch.translations import TRANSLATIONS
from ansible_collections.firstlight.cluster.plugins.plugin_utils.tune.journal import Run, new_document
from ansible_collections.firstlight.cluster.plugins.plugin_utils.tune.rungs import load_ladder, tuned
from ansible_collections.firstlight.cluster.plugins.plugin_utils.tune.trial import RungError, run_trials

MODEL = "m"


class LocalTrial:
    """A trial with one vLLM process, which ends with this script."""

    def __init__(self, given: argparse.Namespace, workload: Workload) -> None:
        self._given, self._workload = given, workload
        self._url = f"http://127.0.0.1:{given.port}"
        self._process: subprocess.Popen[bytes] | None = None
        self._engine = [given.python, "-m", "vllm.entrypoints.cli.main"]

    def argv(self, change: Mapping[str, Any]) -> list[str]:
        """Return the server's command, with the flags of the product's own launch translations."""
        words = [*self._engine, "serve", self._given.model, "--served-model-name", MODEL, "--host", "127.0.0.1"]
        words += ["--port", str(self._given.port), *(["--load-format", "dummy"] if self._given.dummy else [])]
        for key, value in tuned(self._given.serving, change).items():
            if key == "flags":
                words += [str(one) for one in value]
            elif key in TRANSLATIONS["vllm"]:
                form = TRANSLATIONS["vllm"][key][0]  # the newest form
                words += form.arguments(value) if form.arguments else []
            elif key != "profile" and value != 1:
                raise RungError(f"{key}={value} needs more than one GPU")
        return words

    def plan(self, change: Mapping[str, Any]) -> str:
        return json.dumps(self.argv(change))

    def serve(self, change: Mapping[str, Any]) -> None:
        self.restore()
        log = self._given.out / "server.log"
        with log.open("ab") as stream:
            self._process = subprocess.Popen(self.argv(change), stdout=stream, stderr=stream, start_new_session=True)
        body = json.dumps({"model": MODEL, "prompt": "Hello", "max_tokens": 4}).encode()
        end = time.monotonic() + self._given.start_timeout
        while exchange(self._url, "/v1/completions", 60, body).status != 200:
            if self._process.poll() is not None or time.monotonic() > end:
                lines = [line for line in log.read_text(errors="replace").splitlines() if "Error" in line]
                raise RungError(f"it does not serve: {lines[-1][-200:] if lines else 'see server.log'}")
            time.sleep(2)

    def measure(self, change: Mapping[str, Any], streams: int) -> dict[str, Any]:
        workload = replace(self._workload, streams=(streams,), rates=())
        served = Served("vllm", MODEL, self._given.model, "vllm")
        client, runs = Client("local", "server", True, self._url), []
        for point in points_of([workload]):
            seed, place = secrets.randbelow(LARGEST_SEED), self._given.out
            result = place / "out" / output.RESULT
            result.unlink(missing_ok=True)
            argv = client_argv(served, client, workload, point, seed, str(place))
            before = read_servers([self._url])
            with (place / "client.log").open("ab") as log:
                subprocess.run([*self._engine, *argv[1:]], stdout=log, stderr=log, check=False)
            after = read_servers([self._url])
            try:
                run = output.parse_result("vllm", result.read_text(encoding="utf-8"), point.requests, workload.targets)
            except (OSError, output.OutputError) as error:
                raise RungError(f"the client left no result: {error}") from error
            hits = hit_rate(before, after, point.requests, point.warmups)
            runs.append({**run, "seed": seed, "prefix_hit_rate": hits, "problem": uncounted(run)})
        with (self._given.out / "runs.jsonl").open("a", encoding="utf-8") as kept:
            kept.write(json.dumps({"change": dict(change), "streams": streams, "runs": runs}) + "\n")
        summary, problems = summary_of(runs), [str(run["problem"]) for run in runs if run["problem"]]
        counted, died = len(runs) - len(problems), self._process is not None and self._process.poll() is not None
        if summary is None or counted < min(2, len(runs)) or (problems and died):
            raise RungError(f"{counted} of {len(runs)} runs count: {'; '.join(dict.fromkeys(problems))}")
        return summary

    def keep_answers(self, change: Mapping[str, Any]) -> bool:
        return bool(self._given.dummy)

    def assess(self, change: Mapping[str, Any]) -> dict[str, Any] | None:
        return {"status": "waived", "reasons": ["the weights are dummies, and answers noise"]}

    def restore(self) -> None:
        """Stop the server."""
        if self._process is not None:
            for number in (signal.SIGTERM, signal.SIGKILL):
                try:
                    os.killpg(self._process.pid, number)
                    self._process.wait(60)
                except (ProcessLookupError, subprocess.TimeoutExpired):
                    continue
        self._process = None


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    for name, default in (("model", None), ("python", "python3"), ("ladder", "default"), ("workload", "")):
        parser.add_argument(f"--{name}", default=default, required=default is None)
    for name, number in (("streams", 0), ("repeats", 3), ("port", 8000), ("start-timeout", 1800)):
        parser.add_argument(f"--{name}", type=int, default=number)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--serving", type=json.loads, default={})
    parser.add_argument("--dummy", action="store_true", help="weights are made up, so that answers say nothing")
    given = parser.parse_args()
    (given.out / "out").mkdir(parents=True, exist_ok=True)
    ladder = load_ladder(given.ladder, [BUILT_IN])
    workload = load_workloads([BUILT_IN])[given.workload or ladder.workload or "chat"]
    streams = given.streams or ladder.streams or max(workload.streams)
    workload = replace(workload, streams=(streams,), rates=(), repeats=max(2, given.repeats))
    trial, journal = LocalTrial(given, workload), given.out / "tune.json"
    if journal.is_file():
        document = json.loads(journal.read_text(encoding="utf-8"))
    else:
        at = datetime.datetime.now(datetime.UTC).replace(microsecond=0)
        shown = {**workload.shown(), "streams": streams, "repeats": workload.repeats}
        rungs = ladder.at_fixed_load().rungs if given.streams else ladder.rungs
        run = Run("local", f"{at:%Y%m%dT%H%M%SZ}", at.isoformat(), ladder.name, rungs, shown, "", given.serving)
        document = new_document(replace(run, start=ladder.baseline))

    def save(new: Mapping[str, Any]) -> None:
        write_file(str(journal), json.dumps(new, indent=1) + "\n", 0o600)

    try:
        run_trials(document, trial, save, lambda line: print(line, flush=True))
    finally:
        trial.restore()


if __name__ == "__main__":
    main()
