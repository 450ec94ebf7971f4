# SPDX-License-Identifier: Apache-2.0
"""One run of an engine's benchmark client on this host: start it, watch it, and always clean up after it.

The client runs in a container of the engine's image, or as a transient unit if the engine is installed in a virtual
environment. The names of both share a prefix, so that a later run can find what a killed one left behind.
"""

from __future__ import annotations

import contextlib
import os
import re
import select
import shutil
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from ..engine_container import DOCKER
from ..host import Host, write_file
from .output import LARGEST, RESULT, OutputError, no_result, parse_result

NAME = "firstlight-bench"
LABEL = "firstlight.bench"
DIRECTORY = "/run/firstlight/bench"
INSIDE = "/bench"
"""Mount point of the run's directory inside the container."""
LOG = "client.log"
LOOK_SECONDS = 2.0
MOST_CPUS = 4
MEMORY = "8g"
COMMAND_SECONDS = 60.0
MOST_FILE = LARGEST

_RUN = re.compile(r"[0-9A-Za-z][0-9A-Za-z-]{0,63}")
_WRITE_LOG = f'exec "$@" >{INSIDE}/out/{LOG} 2>&1'
"""The client's progress bar has no line ends, so Docker would log it only once it is complete."""
_PROGRESS = re.compile(r"\b(\d+)/(\d+) \[")


class RunnerError(Exception):
    """Why the client could not be run, and what to do about it."""


@dataclass(frozen=True)
class State:
    """The state of a client at one moment."""

    running: bool
    status: int = 0
    pid: int = 0
    out_of_memory: bool = False


@dataclass
class Job:
    """Parameters of one client run."""

    run: str
    argv: Sequence[str]
    engine: str
    requests: int
    runtime: str = "docker"
    image: str = ""
    writable: Sequence[str] = ()
    model_directory: str = ""
    key: str = ""
    authority: str = ""
    prompts: str = ""
    targets: Mapping[str, float | None] = field(default_factory=dict)
    limit_s: float = 3600.0
    stall_s: float = 300.0
    cpus: int = 1
    directory: str = DIRECTORY

    @property
    def name(self) -> str:
        return f"{NAME}-{self.run}"

    @property
    def place(self) -> str:
        return os.path.join(self.directory, self.run)

    @property
    def out(self) -> str:
        return os.path.join(self.place, "out")


def check_run(run: str) -> None:
    """Raise RunnerError for a run name that would not map to a directory of its own, such as one with path
    separators."""
    if not _RUN.fullmatch(run):
        raise RunnerError(f"run is {run!r}, expected letters, digits and dashes, such as 20261118T083000Z-1f3a")


class Container:
    """The client in a container."""

    def __init__(self, host: Host, job: Job) -> None:
        self._host, self._job = host, job

    def argv(self) -> list[str]:
        """Return the command line: no GPU, no root capabilities, and only the result directory writable on the host."""
        job = self._job
        mounts = [(job.out, f"{INSIDE}/out", ""), (job.model_directory, job.model_directory, ",readonly")]
        trust = {}
        if job.authority:
            mounts.append((f"{job.place}/ca.crt", f"{INSIDE}/ca.crt", ",readonly"))
            trust = dict.fromkeys(("SSL_CERT_FILE", "REQUESTS_CA_BUNDLE"), f"{INSIDE}/ca.crt")
        if job.prompts:
            mounts.append((f"{job.place}/prompts.json", f"{INSIDE}/prompts.json", ",readonly"))
        environment = {**client_environment(), **trust, "NVIDIA_VISIBLE_DEVICES": "void"}
        return [
            DOCKER,
            "run",
            "--detach",
            "--pull=never",
            f"--name={job.name}",
            f"--label={LABEL}={job.run}",
            "--network=host",
            "--cap-drop=ALL",
            "--security-opt=no-new-privileges",
            "--read-only",
            *(f"--volume={path}" for path in job.writable or ("/root", "/tmp", "/var/tmp")),  # noqa: S108 - its own
            f"--cpus={job.cpus}",
            f"--memory={MEMORY}",
            f"--ulimit=fsize={MOST_FILE}",
            "--log-driver=none",
            *(f"--mount=type=bind,source={source},target={target}{how}" for source, target, how in mounts),
            f"--env-file={job.place}/client.env",
            *(f"--env={name}={value}" for name, value in sorted(environment.items())),
            "--entrypoint=/bin/sh",
            job.image,
            "-c",
            _WRITE_LOG,
            "sh",
            *job.argv,
        ]

    def start(self) -> None:
        done = self._host.run(self.argv(), COMMAND_SECONDS)
        if not done.ok:
            raise RunnerError(f"the client's container cannot be started: {done.summary}")

    def state(self) -> State:
        form = "{{.State.Running}} {{.State.ExitCode}} {{.State.Pid}} {{.State.OOMKilled}}"
        shown = self._host.run([DOCKER, "inspect", "--type=container", f"--format={form}", self._job.name])
        words = shown.stdout.split()
        if not shown.ok or len(words) != 4:
            raise RunnerError(f"the client's container is gone ({shown.summary}): it was removed; run again")
        return State(words[0] == "true", int(words[1]), int(words[2]), words[3] == "true")

    def remove(self) -> None:
        self._host.run([DOCKER, "rm", "--force", "--volumes", self._job.name], COMMAND_SECONDS)


class Unit:
    """The client of a virtual environment, as a transient unit."""

    def __init__(self, host: Host, job: Job) -> None:
        self._host, self._job = host, job

    def argv(self) -> list[str]:
        """Return the command line; systemd stops the unit by itself if nobody else does."""
        job = self._job
        trust = dict.fromkeys(("SSL_CERT_FILE", "REQUESTS_CA_BUNDLE"), f"{job.place}/ca.crt") if job.authority else {}
        environment = {**client_environment(), **trust, "HOME": job.out, "CUDA_VISIBLE_DEVICES": ""}
        properties = {
            "EnvironmentFile": f"{job.place}/client.env",
            "CapabilityBoundingSet": "",
            "NoNewPrivileges": "yes",
            "ProtectSystem": "strict",
            "PrivateTmp": "yes",
            "PrivateDevices": "yes",
            "ReadWritePaths": job.out,
            "MemoryMax": MEMORY.upper(),
            "CPUQuota": f"{job.cpus * 100}%",
            "LimitFSIZE": str(MOST_FILE),
            "RuntimeMaxSec": f"{job.limit_s + COMMAND_SECONDS:.0f}",
            "StandardOutput": f"append:{job.out}/{LOG}",
            "StandardError": f"append:{job.out}/{LOG}",
        }
        return [
            "systemd-run",
            "--quiet",
            f"--unit={job.name}.service",
            *(f"--property={name}={value}" for name, value in properties.items()),
            *(f"--setenv={name}={value}" for name, value in sorted(environment.items())),
            "--",
            *job.argv,
        ]

    def start(self) -> None:
        done = self._host.run(self.argv(), COMMAND_SECONDS)
        if not done.ok:
            raise RunnerError(f"the client cannot be started: {done.summary}")

    def state(self) -> State:
        names = "ActiveState,ExecMainStatus,MainPID,Result"
        shown = self._host.run(["systemctl", "show", f"--property={names}", f"{self._job.name}.service"])
        found = dict(line.partition("=")[::2] for line in shown.stdout.splitlines())
        running = found.get("ActiveState") in ("active", "activating")
        status = int(found.get("ExecMainStatus") or 0) or int(found.get("Result", "success") != "success")
        return State(running, status, int(found.get("MainPID") or 0), found.get("Result") == "oom-kill")

    def remove(self) -> None:
        for verb in ("stop", "reset-failed"):
            self._host.run(["systemctl", verb, f"{self._job.name}.service"], COMMAND_SECONDS)


def client_environment() -> dict[str, str]:
    """Environment of every client: no model lookups elsewhere, and no proxy, which would see the key."""
    return {"HF_HUB_OFFLINE": "1", "TRANSFORMERS_OFFLINE": "1", "VLLM_NO_USAGE_STATS": "1", "NO_PROXY": "*"} | {
        "no_proxy": "*"
    }


@dataclass
class Load:
    """CPU usage of the client itself: a client that runs out of CPU measures itself."""

    cpus: int
    ticks: float
    seen: list[tuple[float, float, float]] = field(default_factory=list)

    def add(self, at: float, process: str | None, thread: str | None) -> None:
        """Add a sample of /proc/PID/stat and the stat file of its main thread, which makes all requests."""
        used = [_cpu_ticks(text) for text in (process, thread)]
        if used[0] is not None and used[1] is not None:
            self.seen.append((at, used[0] / self.ticks, used[1] / self.ticks))

    def over(self, seconds: float) -> float | None:
        """Return the share of CPU used over the last seconds: of all its CPUs, or of the main thread's one, if that is
        more.

        Return None if there are fewer than two samples in that time: before it, the client was only importing its
        dependencies.
        """
        within = [one for one in self.seen if one[0] >= self.seen[-1][0] - seconds]
        if len(within) < 2:
            return None
        first, last = within[0], within[-1]
        span = last[0] - first[0]
        if span <= 0:
            return None
        return round(max((last[1] - first[1]) / (span * self.cpus), (last[2] - first[2]) / span), 3)


def run_client(
    host: Host,
    job: Job,
    clock: Callable[[], float] = time.monotonic,
    pause: Callable[[float], None] = time.sleep,
) -> dict[str, Any]:
    """Run the client to completion and return the figures, its load, and the problem if there are no figures.

    Cleans up after itself. Raises RunnerError if the client cannot be run at all.
    """
    check_run(job.run)
    client: Container | Unit = Container(host, job) if job.runtime == "docker" else Unit(host, job)
    load = Load(job.cpus, float(os.sysconf("SC_CLK_TCK")))
    began = clock()
    try:
        _prepare(job)
        client.start()
        ended, problem = _watch(host, client, job, load, clock, pause)
        result = _outcome(job, ended, problem, clock() - began)
    finally:
        client.remove()
        shutil.rmtree(job.place, ignore_errors=True)
    result["client_load"] = load.over(result["seconds"])
    return result


def _prepare(job: Job) -> None:
    """Write the client's input files, readable by root only: one of them holds the key."""
    os.makedirs(job.directory, mode=0o700, exist_ok=True)
    os.chmod(job.directory, 0o700)
    shutil.rmtree(job.place, ignore_errors=True)
    for path in (job.place, job.out):
        os.mkdir(path, mode=0o700)
    write_file(f"{job.place}/client.env", f"OPENAI_API_KEY={job.key}\n" if job.key else "", 0o600)
    for name, text in (("ca.crt", job.authority), ("prompts.json", job.prompts)):
        if text:
            write_file(os.path.join(job.place, name), text, 0o600)


def _watch(
    host: Host,
    client: Container | Unit,
    job: Job,
    load: Load,
    clock: Callable[[], float],
    pause: Callable[[float], None],
) -> tuple[State | None, str]:
    """Wait for the client to end; return its last state, or None and the reason for giving up."""
    began = moved = clock()
    size = -1
    while True:
        state = client.state()
        if not state.running:
            return state, ""
        now = clock()
        place = f"/proc/{state.pid}"
        load.add(now, host.read_text(f"{place}/stat"), host.read_text(f"{place}/task/{state.pid}/stat"))
        stamp = _size(f"{job.out}/{LOG}")
        if stamp != size:
            size, moved = stamp, now
        done = how_far(_tail(f"{job.out}/{LOG}"))
        if now - began > job.limit_s:
            return None, f"timeout: the run took longer than {job.limit_s:g} s ({done})"
        if now - moved > job.stall_s:
            return None, f"stalled: no request was answered for {job.stall_s:g} s ({done})"
        if _nobody_listens():
            raise RunnerError("the run that this belongs to has ended")
        pause(LOOK_SECONDS)


def _outcome(job: Job, ended: State | None, problem: str, seconds: float) -> dict[str, Any]:
    if ended is None:
        return {**no_result(job.requests, seconds), "problem": problem, "stop": True}
    if ended.out_of_memory:
        return {**no_result(job.requests, seconds), "problem": f"client ran out of memory ({MEMORY})", "stop": True}
    try:
        figures = parse_result(job.engine, _result(f"{job.out}/{RESULT}"), job.requests, job.targets)
    except OutputError as error:
        said = last_line(_tail(f"{job.out}/{LOG}"))
        words = f"the client ended with status {ended.status}: {error}" + (f"; its last line: {said}" if said else "")
        return {**no_result(job.requests, seconds), "problem": words.replace(job.key or "\0", "********"), "stop": True}
    # A server that answered no request at all will not answer at the next load point either.
    return {**figures, "problem": None, "stop": figures["completed"] == 0}


def remove_leftovers(host: Host, directory: str = DIRECTORY) -> list[str]:
    """Remove what killed runs left on this host, and return the names."""
    found = []
    listed = host.run([DOCKER, "ps", "--all", f"--filter=label={LABEL}", "--format={{.Names}}"])
    for name in listed.stdout.split() if listed.ok else ():
        if name.startswith(f"{NAME}-"):
            host.run([DOCKER, "rm", "--force", "--volumes", name], COMMAND_SECONDS)
            found.append(name)
    units = host.run(["systemctl", "list-units", "--all", "--plain", "--no-legend", f"{NAME}-*.service"])
    for line in units.stdout.splitlines() if units.ok else ():
        name = line.split()[0] if line.split() else ""
        if name.startswith(f"{NAME}-"):
            for verb in ("stop", "reset-failed"):
                host.run(["systemctl", verb, name], COMMAND_SECONDS)
            found.append(name)
    for name in host.names(directory):
        shutil.rmtree(os.path.join(directory, name), ignore_errors=True)
        found.append(os.path.join(directory, name))
    return found


def how_far(text: str) -> str:
    """Describe how many requests are done, from the client's own progress bar."""
    found = _PROGRESS.findall(text)
    return f"{found[-1][0]} of {found[-1][1]} requests done" if found else "before the first request"


def last_line(text: str) -> str:
    """Return the last non-empty line, without the characters that draw a progress bar."""
    lines = [line.strip() for line in re.split(r"[\r\n]+", text) if line.strip()]
    return "".join(one for one in lines[-1] if one.isprintable())[:300] if lines else ""


def _cpu_ticks(text: str | None) -> float | None:
    """Return the sum of utime and stime of a process or thread."""
    fields = (text or "").rpartition(")")[2].split()
    return float(int(fields[11]) + int(fields[12])) if len(fields) > 12 else None


def _size(path: str) -> int:
    try:
        return os.stat(path).st_size
    except OSError:
        return -1


def _tail(path: str, most: int = 16_384) -> str:
    with contextlib.suppress(OSError), open(path, "rb") as stream:
        stream.seek(max(0, os.fstat(stream.fileno()).st_size - most))
        return stream.read(most).decode("utf-8", errors="replace")
    return ""


def _result(path: str) -> str:
    try:
        # A container wrote the file and may have put a symlink in its place.
        descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK)
    except OSError as error:
        raise OutputError(f"it left no result ({error.strerror})") from error
    with os.fdopen(descriptor, "rb") as stream:
        data = stream.read(LARGEST + 1)
    if len(data) > LARGEST:
        raise OutputError(f"the client's result has more than {LARGEST} bytes")
    return data.decode("utf-8", errors="replace")


def _nobody_listens() -> bool:
    """Whether the controller is gone, that is, has closed the pipe that reads this process's output."""
    try:
        poller = select.poll()
        poller.register(sys.__stdout__.fileno(), 0)  # type: ignore[union-attr]
        return any(events & select.POLLERR for _, events in poller.poll(0))
    except (AttributeError, OSError, ValueError):
        return False
