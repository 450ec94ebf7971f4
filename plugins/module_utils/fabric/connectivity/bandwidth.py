# SPDX-License-Identifier: Apache-2.0
"""Throughput between two hosts that have met: iperf3 for TCP, perftest's ib_write_bw for RDMA.

One end serves a single test on its fabric address; the other sends. The server is terminated by its process id and runs
in the module's own process group, so that an interrupted connectivity test leaves none behind.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import subprocess
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from ...host import SEARCH_PATH, Host
from ...parsers.iperf3 import Throughput, parse_iperf3
from ...parsers.perftest import parse_perftest
from .ports import bare, listens
from .rendezvous import MeetingEndedError, Session

TCP, RDMA = "tcp", "rdma"
TOOLS = {TCP: ("iperf3", "iperf3"), RDMA: ("ib_write_bw", "perftest")}
"""Program of each measurement, and the package that provides it."""

READY_SECONDS = 4.0
STOP_SECONDS = 2.0
MARGIN_SECONDS = 12.0
"""Seconds that a measurement may take beyond its own duration, on a busy host."""


@dataclass(frozen=True)
class Meter:
    """How much to send, and on which ports."""

    host: Host
    port: int
    """TCP port of iperf3; perftest uses the next one."""
    seconds: int
    amount: int
    """Bytes to send instead of sending for `seconds`; 0 to send for `seconds`."""
    streams: int
    options: dict[tuple[str, str], bool] = field(default_factory=dict)
    """Cache of which options the programs support."""

    @property
    def limit(self) -> float:
        """Seconds after which a measurement is aborted."""
        return self.seconds + MARGIN_SECONDS

    def missing(self, kind: str) -> str:
        """Return what to install; empty if the program is installed."""
        program, package = TOOLS[kind]
        return "" if self.host.has(program) else f"{program} is not installed, install the package {package}"

    def serve(self, kind: str, rail: Mapping[str, Any], session: Session) -> None:
        """Serve one measurement: tell the partner when the server is ready, and stop when the partner is done."""
        problem = self.missing(kind)
        if problem:
            session.send(ready=False, problem=problem)
            session.receive(self.limit)
            return
        with _server(self._server_argv(kind, rail)) as server:
            # perftest with the connection manager listens where /proc/net/tcp does not show it.
            problem = self._await(server) if kind == TCP else self._grace(server)
            session.send(ready=not problem, problem=problem)
            session.receive(self.limit + READY_SECONDS)

    def measure(self, kind: str, rail: Mapping[str, Any], address: str, session: Session, peer: str) -> dict[str, Any]:
        """Send to a partner that serves; return Gb/s, or why there is no figure."""
        ready = session.receive(READY_SECONDS + MARGIN_SECONDS)
        missing = self.missing(kind)
        if missing:
            found = Throughput(problem=missing)
        elif not ready.get("ready"):
            found = Throughput(problem=f"on {peer}: {str(ready.get('problem') or 'not ready')[:200]}")
        else:
            found = self._send(kind, rail, address)
        session.send(done=True)
        return {"gbit": found.gbit, "problem": found.problem}

    def _send(self, kind: str, rail: Mapping[str, Any], address: str) -> Throughput:
        ran = self.host.run(self._client_argv(kind, rail, address), timeout=self.limit)
        if ran.problem:
            return Throughput(problem=ran.problem)
        return parse_iperf3(ran.stdout) if kind == TCP else parse_perftest(ran.stdout, ran.stderr)

    def _server_argv(self, kind: str, rail: Mapping[str, Any]) -> list[str]:
        own = bare(rail["address"])
        if kind == TCP:
            return ["iperf3", "--server", "--one-off", "--bind", own, "--port", str(self.port)]
        return self._perftest(rail)

    def _client_argv(self, kind: str, rail: Mapping[str, Any], address: str) -> list[str]:
        own = bare(rail["address"])
        if kind == RDMA:
            return [*self._perftest(rail), address]
        amount = ["--bytes", str(self.amount)] if self.amount else ["--time", str(self.seconds)]
        # Releases without it can only bind to an address, which does not select the port; the route is tested
        # separately.
        device = ["--bind-dev", str(rail["port"])] if self._knows("iperf3", "--bind-dev") else []
        return [
            *("iperf3", "--client", address, "--port", str(self.port), "--bind", own, *device),
            *("--json", "--parallel", str(self.streams), "--connect-timeout", "3000", *amount),
        ]

    def _perftest(self, rail: Mapping[str, Any]) -> list[str]:
        """Return the command of either end. The connection manager finds the GID by address, so none is given."""
        source = ["--bind_source_ip", bare(rail["address"])] if self._knows("ib_write_bw", "--bind_source_ip") else []
        return [
            *("ib_write_bw", "--ib-dev", str(rail["rdma_device"]), "--rdma_cm", *source, "--port", str(self.port + 1)),
            *("--report_gbits", "--CPU-freq", "--duration", str(max(1, self.seconds))),
        ]

    def _knows(self, program: str, option: str) -> bool:
        if (program, option) not in self.options:
            ran = self.host.run([program, "--help"], timeout=5)
            self.options[(program, option)] = option in ran.stdout or option in ran.stderr
        return self.options[(program, option)]

    def _await(self, server: subprocess.Popen[str]) -> str:
        """Wait until the server listens; return the problem if it does not."""
        deadline = time.monotonic() + READY_SECONDS
        while time.monotonic() < deadline:
            if server.poll() is not None:
                return _complaint(server)
            if any(listens(self.host.read_text(f"/proc/net/{table}") or "", self.port) for table in ("tcp", "tcp6")):
                return ""
            time.sleep(0.02)
        return f"{TOOLS[TCP][0]} did not listen within {READY_SECONDS:g} s"

    @staticmethod
    def _grace(server: subprocess.Popen[str]) -> str:
        with contextlib.suppress(subprocess.TimeoutExpired):
            server.wait(timeout=1.0)
            return _complaint(server)
        return ""


def both_ways(
    meter: Meter, kind: str, rail: Mapping[str, Any], peer: Mapping[str, Any], session: Session, first: bool
) -> tuple[dict[str, Any], str]:
    """Measure in both directions; return this host's own figure, and why the meeting ended early if it did."""
    found: dict[str, Any] = {"gbit": None, "problem": "the session ended before"}
    try:
        for sends in (first, not first):
            if sends:
                found = meter.measure(kind, rail, str(peer["address"]), session, str(peer["host"]))
            else:
                meter.serve(kind, rail, session)
    except MeetingEndedError as error:
        return (found if found["gbit"] is not None else {"gbit": None, "problem": str(error)}), str(error)
    return found, ""


@contextlib.contextmanager
def _server(argv: Sequence[str]) -> Iterator[subprocess.Popen[str]]:
    """Run a server for the duration of the block."""
    path = f"{os.environ.get('PATH', '')}:{SEARCH_PATH}"
    process = subprocess.Popen(
        [shutil.which(argv[0], path=path) or argv[0], *argv[1:]],
        env={**os.environ, "LC_ALL": "C"},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
    )
    try:
        yield process
    finally:
        if process.poll() is None:
            process.terminate()
            with contextlib.suppress(subprocess.TimeoutExpired):
                process.wait(timeout=STOP_SECONDS)
        if process.poll() is None:
            process.kill()
            process.wait(timeout=STOP_SECONDS)
        if process.stderr is not None:
            process.stderr.close()


def _complaint(server: subprocess.Popen[str]) -> str:
    said = (server.stderr.read(400) if server.stderr is not None else "").strip().splitlines()
    return said[0][:200] if said else f"the server ended with status {server.returncode}"
