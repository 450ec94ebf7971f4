# SPDX-License-Identifier: Apache-2.0
"""Many runs of Ansible for the price of one start.

A start takes more than two seconds of processor time, nearly all of it for imports. So one process imports everything
and forks for each run, which begins as a new process of Ansible would.
"""

from __future__ import annotations

import atexit
import contextlib
import json
import os
import subprocess
import sys
import tempfile
import threading
import warnings
from collections.abc import Callable, Mapping
from functools import cache
from importlib import import_module
from pathlib import Path

ROOT = Path(__file__).parents[2]
Program = Callable[[list[str]], object]
INHERITED = {name: value for name, value in os.environ.items() if name != "COLUMNS"}
"""Of before any test: a server is shared, and what the test that happens to start it has set is not the others'."""
LONGEST_RUN = 110.0
"""Seconds: less than pytest gives a test, so that the next run has a server of its own."""


class AnsibleServer:
    """A process that forks. Ansible reads its own settings (ANSIBLE_...) when it starts, so they belong to it."""

    def __init__(self, environment: Mapping[str, str]) -> None:
        self._environment = {**INHERITED, **environment}
        self._process = self._start()
        atexit.register(self.close)

    def _start(self) -> subprocess.Popen[str]:
        return subprocess.Popen(
            [sys.executable, __file__],
            cwd=ROOT,
            env=self._environment,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )

    def run(
        self, *words: str, environment: Mapping[str, str] | None = None, cwd: Path = ROOT
    ) -> subprocess.CompletedProcess[str]:
        """What a program of Ansible, or `firstlight`, does."""
        if self._process.poll() is not None:
            self._process = self._start()
        asked, told = self._process.stdin, self._process.stdout
        assert asked is not None
        assert told is not None
        asked.write(json.dumps([words, dict(environment or {}), str(cwd)]) + "\n")
        asked.flush()
        # A run that hangs keeps the answer from coming; without its server it comes empty.
        limit = threading.Timer(LONGEST_RUN, self._process.kill)
        limit.start()
        answer = told.readline()
        limit.cancel()
        if not answer:
            self._process.wait()
        assert answer, f"{' '.join(words)} did not end"
        status, stdout, stderr = json.loads(answer)
        return subprocess.CompletedProcess(words, status, stdout, stderr)

    def close(self) -> None:
        with contextlib.suppress(subprocess.TimeoutExpired):
            self._process.communicate(timeout=10)


@cache
def _server(*environment: tuple[str, str]) -> AnsibleServer:
    return AnsibleServer(dict(environment))


def run_playbook(
    *words: str,
    environment: Mapping[str, str] | None = None,
    settings: Mapping[str, str] | None = None,
    cwd: Path = ROOT,
) -> subprocess.CompletedProcess[str]:
    """Run ansible-playbook in a directory, with Ansible's own settings and other variables of the environment."""
    return _server(*sorted((settings or {}).items())).run("ansible-playbook", *words, environment=environment, cwd=cwd)


def run_inventory(*words: str) -> subprocess.CompletedProcess[str]:
    """Run ansible-inventory in the checkout."""
    return _server().run("ansible-inventory", *words)


def run_firstlight(
    *words: str, environment: Mapping[str, str] | None = None, cwd: Path = ROOT
) -> subprocess.CompletedProcess[str]:
    """Run the command in a directory, with other variables of the environment."""
    return _server().run("firstlight", *words, environment=environment, cwd=cwd)


def _play(program: Program, words: list[str], environment: dict[str, str], output: int, complaints: int) -> None:
    status: object = 1
    try:
        os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
        os.dup2(output, 1)
        os.dup2(complaints, 2)
        os.environ.update(environment)
        # It is told that the finder of collections is there already.
        warnings.simplefilter("ignore")
        status = program(words)
    except SystemExit as end:
        status = end.code
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(status if isinstance(status, int) else 0 if status is None else 1)


def serve() -> None:
    """Answer each line of words and variables with a line of exit status, output and complaints."""
    for name in ("ansible.executor.playbook_executor", "ansible.plugins.strategy.linear"):
        import_module(name)
    programs: dict[str, Program] = {
        "ansible-playbook": import_module("ansible.cli.playbook").PlaybookCLI.cli_executor,
        "ansible-inventory": import_module("ansible.cli.inventory").InventoryCLI.cli_executor,
    }
    loader = import_module("ansible.plugins.loader")
    loader.init_plugin_loader()
    for name in ("preload", "progress"):
        loader.callback_loader.get(f"firstlight.cluster.{name}")
    import_module("firstlight.inventory")
    command = import_module("firstlight.cli").main
    programs["firstlight"] = lambda words: command(words[1:])
    for line in sys.stdin:
        words, environment, cwd = json.loads(line)
        os.chdir(cwd)
        with tempfile.TemporaryFile() as output, tempfile.TemporaryFile() as complaints:
            child = os.fork()
            if child == 0:
                _play(programs[words[0]], words, environment, output.fileno(), complaints.fileno())
            status = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
            texts = []
            for stream in (output, complaints):
                stream.seek(0)
                texts.append(stream.read().decode())
        print(json.dumps([status, *texts]), flush=True)


if __name__ == "__main__":
    serve()
