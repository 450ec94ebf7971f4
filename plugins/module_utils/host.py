# SPDX-License-Identifier: Apache-2.0
"""The one place that runs commands, reads files and puts files in place on a target.

Commands are argument lists, run with LC_ALL=C and a time limit, and never raise for what they return: a probe
reports a broken tool, it does not crash on it.
"""

from __future__ import annotations

import contextlib
import grp
import hashlib
import os
import pwd
import shutil
import signal
import stat
import subprocess
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from .text import said_lines

SEARCH_PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
"""Appended to PATH: a login without privileges lacks the sbin directories in which half of the tools live."""

RC_TIMEOUT = 124
RC_CANNOT_RUN = 126
RC_NOT_FOUND = 127


@dataclass(frozen=True)
class Result:
    """What a command did; `problem` is empty when it could be run and ended in time."""

    argv: tuple[str, ...]
    rc: int
    stdout: str = ""
    stderr: str = ""
    problem: str = ""
    partial: str = ""
    """What it had printed when it was given up: no answer, though a document in it may be whole."""

    @property
    def ok(self) -> bool:
        """Whether the command ran and returned 0."""
        return self.rc == 0

    @property
    def summary(self) -> str:
        """One line for a human: the problem, else the first line the command complained with."""
        if self.problem:
            return self.problem
        lines = said_lines(self.stderr) or said_lines(self.stdout)
        if lines:
            return f"{self.argv[0]} returned {self.rc}: {lines[0][:300]}"
        return f"{self.argv[0]} returned {self.rc} and said nothing"


class Host:
    """This machine, as the probes and modules see it. Tests hand in another one."""

    def run(
        self,
        argv: Sequence[str],
        timeout: float = 30.0,
        env: Mapping[str, str] | None = None,
        stdin: str | None = None,
    ) -> Result:
        """Run a command to its end or to the time limit, whatever it returns."""
        command = tuple(argv)
        environment = {**os.environ, "LC_ALL": "C", "LANGUAGE": "C", **(env or {})}
        environment["PATH"] = f"{environment.get('PATH', '')}:{SEARCH_PATH}".lstrip(":")
        program = shutil.which(command[0], path=environment["PATH"])
        if program is None:
            return Result(command, RC_NOT_FOUND, problem=f"{command[0]} is not installed")
        try:
            process = subprocess.Popen(
                command,
                executable=program,
                env=environment,
                stdin=subprocess.PIPE if stdin is not None else subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                start_new_session=True,
            )
        except OSError as error:
            return Result(command, RC_CANNOT_RUN, problem=f"{command[0]} cannot be run: {error.strerror}")
        try:
            out, err = process.communicate(stdin.encode() if stdin is not None else None, timeout=timeout)
        except subprocess.TimeoutExpired:
            # The whole session goes: a wrapper's child would otherwise keep the pipes open.
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.killpg(process.pid, signal.SIGKILL)
            process.kill()
            try:
                out, _ = process.communicate(timeout=1)
            except subprocess.TimeoutExpired as again:
                # Somebody else still holds the pipes, or the process is one that cannot be killed.
                out = again.output
                process.poll()
                for stream in (process.stdout, process.stderr):
                    if stream is not None:
                        stream.close()
            problem = f"{command[0]} gave no answer within {timeout:g} s"
            return Result(command, RC_TIMEOUT, problem=problem, partial=_text(out or b""))
        return Result(command, process.returncode, _text(out), _text(err))

    def has(self, program: str) -> bool:
        """Whether a program is installed."""
        return shutil.which(program, path=f"{os.environ.get('PATH', '')}:{SEARCH_PATH}") is not None

    def read_text(self, path: str) -> str | None:
        """A small file's text; None when it is not there or cannot be read."""
        try:
            with open(path, "rb") as stream:
                return _text(stream.read())
        except OSError:
            return None

    def names(self, path: str) -> list[str]:
        """What is in a directory, sorted; nothing when it is not there or cannot be read."""
        try:
            return sorted(os.listdir(path))
        except OSError:
            return []

    def sha256(self, path: str) -> str:
        """A file's SHA-256, read in pieces; raises OSError when it cannot be read."""
        digest = hashlib.sha256()
        with open(path, "rb") as stream:
            while piece := stream.read(1 << 20):
                digest.update(piece)
        return digest.hexdigest()

    def file_state(self, path: str) -> dict[str, Any]:
        """A file in the words of an observation; no digest when it may not be read.

        Raises OSError when it cannot even be told whether it is there.
        """
        try:
            found = os.stat(path)
        except (FileNotFoundError, NotADirectoryError):
            return {"exists": False, "sha256": None, "mode": None, "owner": None, "group": None}
        digest = None
        if stat.S_ISREG(found.st_mode):
            with contextlib.suppress(PermissionError):
                digest = self.sha256(path)
        return {
            "exists": stat.S_ISREG(found.st_mode),
            "sha256": digest,
            "mode": format(stat.S_IMODE(found.st_mode), "04o"),
            "owner": _owner(found.st_uid),
            "group": _group(found.st_gid),
        }

    def size_and_mtime(self, path: str) -> tuple[int, int] | None:
        """A regular file's size and modification time in nanoseconds; None when it is not there."""
        try:
            found = os.stat(path)
        except OSError:
            return None
        return (found.st_size, found.st_mtime_ns) if stat.S_ISREG(found.st_mode) else None

    def disk_free(self, path: str) -> int:
        """Bytes an unprivileged writer has at `path`, or where `path` would be made."""
        place = os.path.abspath(path)
        while not os.path.isdir(place):
            place = os.path.dirname(place)
        found = os.statvfs(place)
        return found.f_bavail * found.f_frsize

    def disk_used(self, path: str, most: int = 4096) -> int:
        """Bytes on disk of the first `most` files under `path`; 0 when there is no such directory."""
        total = seen = 0
        for directory, _, names in os.walk(path):
            for name in names:
                seen += 1
                if seen > most:
                    return total
                with contextlib.suppress(OSError):
                    total += os.lstat(os.path.join(directory, name)).st_blocks * 512
        return total


def write_file(path: str, content: str | bytes, mode: int) -> None:
    """Put a file in place in one step: whoever looks finds the former file or the whole new one.

    At no time has it another mode than the one asked for or another owner than who runs this. Raises OSError, and
    then leaves nothing behind.
    """
    # No tool that reads a directory of configuration files takes a name that starts with a dot or ends in .new.
    descriptor, scratch = tempfile.mkstemp(dir=os.path.dirname(path) or ".", prefix=".firstlight-", suffix=".new")
    try:
        with os.fdopen(descriptor, "wb") as stream:
            os.fchmod(stream.fileno(), mode)
            os.fchown(stream.fileno(), os.geteuid(), os.getegid())
            stream.write(content.encode() if isinstance(content, str) else content)
            stream.flush()
            os.fsync(stream.fileno())
        os.replace(scratch, path)
    except OSError:
        with contextlib.suppress(FileNotFoundError):
            os.unlink(scratch)
        raise


def process_started(pid: int) -> str:
    """When a process began, in the kernel's own count: a number that is given out again has another one.

    Empty where there is none, or only one that ended and was not waited for.
    """
    try:
        with open(f"/proc/{pid}/stat", encoding="utf-8", errors="replace") as stream:
            fields = stream.read().rpartition(")")[2].split()
    except OSError:
        return ""
    return "" if fields[0] == "Z" else fields[19]


def _text(data: bytes) -> str:
    return data.decode("utf-8", errors="replace")


def _owner(uid: int) -> str:
    try:
        return pwd.getpwuid(uid).pw_name
    except KeyError:
        return str(uid)


def _group(gid: int) -> str:
    try:
        return grp.getgrgid(gid).gr_name
    except KeyError:
        return str(gid)
