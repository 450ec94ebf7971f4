# SPDX-License-Identifier: Apache-2.0
"""Run commands, read files and write files on a target; the only module that does.

Commands are argument lists, run with LC_ALL=C and a timeout. They never raise for a failing command: a probe reports a
broken tool instead of crashing on it.
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
"""Appended to PATH: an unprivileged login lacks the sbin directories in which many of the tools are."""

RC_TIMEOUT = 124
RC_CANNOT_RUN = 126
RC_NOT_FOUND = 127


@dataclass(frozen=True)
class Result:
    """The result of a command; `problem` is empty if it could be run and ended in time."""

    argv: tuple[str, ...]
    rc: int
    stdout: str = ""
    stderr: str = ""
    problem: str = ""
    partial: str = ""
    """What a command had printed when it timed out: not a valid answer, even if it contains a complete document."""

    @property
    def ok(self) -> bool:
        """Whether the command ran and returned 0."""
        return self.rc == 0

    @property
    def summary(self) -> str:
        """One line for a human: the problem, or else the first line of the error output."""
        if self.problem:
            return self.problem
        lines = said_lines(self.stderr) or said_lines(self.stdout)
        if lines:
            return f"{self.argv[0]} returned {self.rc}: {lines[0][:300]}"
        return f"{self.argv[0]} returned {self.rc} and printed nothing"


class Host:
    """This machine, as the probes and modules see it. Tests substitute another one."""

    def run(
        self,
        argv: Sequence[str],
        timeout: float = 30.0,
        env: Mapping[str, str] | None = None,
        stdin: str | None = None,
    ) -> Result:
        """Run a command until it ends or times out; never raises for its exit status."""
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
            # Kill the whole session: a wrapper's child would otherwise keep the pipes open.
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.killpg(process.pid, signal.SIGKILL)
            process.kill()
            try:
                out, _ = process.communicate(timeout=1)
            except subprocess.TimeoutExpired as again:
                # Another process still holds the pipes, or this one cannot be killed.
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
        """Return the text of a small file; None if it does not exist or cannot be read."""
        try:
            with open(path, "rb") as stream:
                return _text(stream.read())
        except OSError:
            return None

    def names(self, path: str) -> list[str]:
        """Return the sorted names in a directory; empty if it does not exist or cannot be read."""
        try:
            return sorted(os.listdir(path))
        except OSError:
            return []

    def sha256(self, path: str) -> str:
        """Return the SHA-256 of a file, read in pieces; raises OSError if it cannot be read."""
        digest = hashlib.sha256()
        with open(path, "rb") as stream:
            while piece := stream.read(1 << 20):
                digest.update(piece)
        return digest.hexdigest()

    def file_state(self, path: str) -> dict[str, Any]:
        """Describe a file in the form of an observation, without a digest if it may not be read.

        Raises OSError if it cannot be determined whether the file exists.
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
        """Return the size and the modification time in nanoseconds of a regular file; None if there is none."""
        try:
            found = os.stat(path)
        except OSError:
            return None
        return (found.st_size, found.st_mtime_ns) if stat.S_ISREG(found.st_mode) else None

    def disk_free(self, path: str) -> int:
        """Return the bytes available to an unprivileged writer at `path`, or at its nearest existing parent."""
        place = os.path.abspath(path)
        while not os.path.isdir(place):
            place = os.path.dirname(place)
        found = os.statvfs(place)
        return found.f_bavail * found.f_frsize

    def disk_used(self, path: str, most: int = 4096) -> int:
        """Return the bytes on disk of the first `most` files under `path`; 0 if there is no such directory."""
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
    """Replace a file atomically: a reader sees either the old file or the complete new one.

    The file never has a mode other than `mode` or an owner other than the user who runs this. Raises OSError, and then
    leaves nothing behind.
    """
    # No tool that reads a directory of configuration files accepts a name that starts with a dot or ends in .new.
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
    """Return a process's start time in clock ticks, which tells it apart from a later process with the same PID.

    Empty if there is no such process, or only a zombie.
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
