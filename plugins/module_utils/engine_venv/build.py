# SPDX-License-Identifier: Apache-2.0
"""Virtual environments on a host: read one, build a new one beside it, switch to it.

The environment's path is a link. What it points to lies in a store beside it, named after lock and Python, and is
finished when its marker is there. So a switch is one rename, and the former environment is there to go back to.
"""

from __future__ import annotations

import base64
import contextlib
import fcntl
import glob
import hashlib
import os
import platform
import shutil
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from ..host import Host, Result, write_file
from ..text import gigabytes
from .lock import Lock, without_passwords
from .uv import Source, Tool, complaint, is_tool, pip_complaint, pip_settings
from .venv import (
    ABSENT,
    MARKER,
    SAMPLE,
    Marker,
    Recorded,
    environment_names,
    identity,
    is_environment,
    observed_environment,
    parse_capabilities,
    parse_marker,
    parse_metadata,
    sample,
    store_of,
)

LOCK_NAME = ".firstlight.lock"
HASHED = 4
"""The number of small files per package whose hash is compared, not only the size."""
SMALL = 1 << 18
ROOM = 3
"""Free space needed, as a multiple of the wheels' size: unpacked files, bytecode, and a reserve."""
TOOL_ROOM = 100_000_000
"""Bytes for uv, the pip that installs it, and its wheel."""
BOOT = ".firstlight.boot"
BOOT_ID = "/proc/sys/kernel/random/boot_id"
"""Changes with every boot."""
EVERY_FILE = 1 << 20
"""A limit above the number of files in any cache."""
_ASK_PYTHON = "import platform, sys; print('%d.%d' % sys.version_info[:2], platform.machine(), sys.executable)"
_ASK_HEADERS = "import os, sysconfig; print(os.path.join(sysconfig.get_path('include'), 'Python.h'))"
_UV = {
    "UV_NO_CONFIG": "1",
    "UV_PYTHON_DOWNLOADS": "never",
    "UV_LINK_MODE": "hardlink",  # the cache goes when all is installed, and its files stay
    "UV_COMPILE_BYTECODE": "1",  # the server's user may not write beside the sources
    "UV_COMPILE_BYTECODE_TIMEOUT": "0",  # a slow host is no error; the whole call has its time
    "UV_SYSTEM_CERTS": "1",
    "UV_NO_PROGRESS": "1",
    "UV_NO_WRAP": "1",
    "NO_COLOR": "1",
}
COMPILERS = ("cc", "gcc", "clang")
"""The compilers that Triton looks for, in its order."""


class VenvError(Exception):
    """An environment could not be built: what was found, what was expected, what to do."""


def read_environment(host: Host, directory: str) -> dict[str, Any]:
    """Observe an environment without running anything in it."""
    if not os.path.isdir(directory):
        return dict(ABSENT)
    marker = parse_marker(host.read_text(os.path.join(directory, MARKER)))
    packages: dict[str, str] = {}
    changed: list[str] = []
    for site in glob.glob(os.path.join(glob.escape(directory), "lib", "python3*", "site-packages")):
        found, differing = _read_site(host, site, set(marker.watched) if marker else set())
        packages.update(found)
        changed += differing
    return observed_environment(marker, packages, sorted(changed)[:20])


def _read_site(host: Host, site: str, watched: set[str]) -> tuple[dict[str, str], list[str]]:
    packages: dict[str, str] = {}
    changed: list[str] = []
    for entry in sorted(os.listdir(site)):
        stem, ending = os.path.splitext(entry)
        if ending in (".egg-link", ".egg-info", ".egg"):
            packages[stem.partition("-")[0].lower()] = "installed by hand"
        if ending != ".dist-info":
            continue
        about = parse_metadata(_beginning(os.path.join(site, entry, "METADATA")))
        if about is None:
            changed.append(f"{entry}/METADATA")
            continue
        name, version = about
        packages[name] = version
        record = host.read_text(os.path.join(site, entry, "RECORD"))
        if not record:
            changed.append(f"{entry}/RECORD")
            continue
        changed += _differing(site, sample(record, None if name in watched else SAMPLE), whole=name in watched)
    return packages, changed


def _beginning(path: str) -> str:
    try:
        with open(path, "rb") as stream:
            return stream.read(4096).decode("utf-8", errors="replace")
    except OSError:
        return ""


def _differing(site: str, files: Sequence[Recorded], whole: bool) -> list[str]:
    """Return the files that differ from their package's RECORD."""
    found = []
    for number, file in enumerate(files):
        path = os.path.join(site, file.path)
        try:
            right = os.stat(path).st_size == file.size
            if right and file.digest and file.size <= SMALL and (whole or number < HASHED):
                with open(path, "rb") as stream:
                    digest = hashlib.sha256(stream.read()).digest()
                right = base64.urlsafe_b64encode(digest).rstrip(b"=").decode() == file.digest
        except OSError:
            right = False
        if not right:
            found.append(file.path)
    return found


@dataclass(frozen=True)
class Request:
    """The inputs of an environment: lock, Python, uv and source of wheels."""

    lock_text: str
    lock: Lock
    python: str
    """As named in the variable; the environment's name is derived from it."""
    tool: Tool
    source: Source
    watched: Sequence[str] = ()


class Venvs:
    """The environments behind one link."""

    def __init__(self, host: Host, directory: str, timeout: float) -> None:
        self.host = host
        self.directory = directory
        self.store = store_of(directory)
        self.timeout = timeout

    # -- what is there ------------------------------------------------------------------------------------------

    def current(self) -> str | None:
        """Return the environment that the link points to; raises VenvError if it is not one of ours."""
        if os.path.islink(self.directory):
            target = os.path.normpath(os.path.join(os.path.dirname(self.directory), os.readlink(self.directory)))
            if os.path.dirname(target) == self.store and is_environment(self.directory, os.path.basename(target)):
                return target
            found = f"a link to {target}"
        elif os.path.lexists(self.directory):
            found = "not a link"
        else:
            return None
        raise VenvError(
            f"{self.directory} is {found}, expected nothing, or a link that this module made: move it away, or set "
            "engine_venv_directory to another path. Nothing was changed."
        )

    def right(self, path: str, lock: Lock, python: str) -> bool:
        """Whether a finished environment matches the lock exactly."""
        found = read_environment(self.host, path)
        return (
            found["lock"] == lock.digest
            and found["python"] == python
            and not found["changed"]
            and not found["differing"]
        )

    def places(self, lock: Lock, python: str) -> list[str]:
        """Return the possible paths of an environment for this lock and Python."""
        names = environment_names(self.directory, identity(lock.digest, python))
        return [os.path.join(self.store, name) for name in names]

    def stale(self, keep: Sequence[str | None]) -> list[str]:
        """Return the entries of this link that are no longer needed, and every uv except the one in use."""
        kept = {os.path.basename(path) for path in keep if path}
        try:
            entries = sorted(os.listdir(self.store))
        except OSError:
            return []
        return [
            os.path.join(self.store, entry)
            for entry in entries
            if entry not in kept
            and (is_tool(entry) or is_environment(self.directory, entry.removesuffix(".wheels").removesuffix(".tmp")))
        ]

    def tool_place(self, tool: Tool) -> str:
        """Return the path of uv, which all environments of the store share."""
        return os.path.join(self.store, tool.name)

    def previous(self) -> str | None:
        """Return the previous environment."""
        try:
            return os.path.join(self.store, os.readlink(self._previous_link()))
        except OSError:
            return None

    def _previous_link(self) -> str:
        return os.path.join(self.store, f"{os.path.basename(self.directory)}.previous")

    # -- errors -----------------------------------------------------------------------------------------------

    def check_python(self, python: str, lock: Lock, only_named: bool) -> str:
        """Return the path of a Python; raises VenvError if it is missing, differs from the lock's, or lacks `venv`.

        `only_named` is for check mode: where the package that brings it was only rehearsed, it is not there yet.
        """
        result = self.host.run([python, "-c", _ASK_PYTHON], 30)
        if not result.ok:
            if only_named and "/" not in python:
                return python
            raise VenvError(
                f"{result.summary}, expected a Python {lock.python or 'that can be run'}: install it, or correct "
                "engine_venv_python. Nothing was changed."
            )
        version, machine, path = (*result.stdout.strip().split(" ", 2), "", "", "")[:3]
        if lock.python and version != lock.python:
            raise VenvError(
                f"{python} is Python {version}, the lock is for {lock.python}: set engine_venv_python to "
                f"python{lock.python}, or use a lock for Python {version}. Nothing was changed."
            )
        if lock.architecture and machine != lock.architecture:
            raise VenvError(
                f"this host is {machine or platform.machine()}, the lock is for {lock.architecture}: use the lock of "
                "this architecture. Nothing was changed."
            )
        has_pip = self.host.run([python, "-c", "import ensurepip, venv"], 30)
        if not has_pip.ok and not only_named:
            raise VenvError(
                f"{python} cannot make a virtual environment ({has_pip.summary}), expected its modules venv and "
                f"ensurepip: install python{version}-venv. Nothing was changed."
            )
        return path

    def check_compiler(self, python: str, only_named: bool = False) -> None:
        """Refuse a host without a C compiler or Python's headers: Triton could not build its launchers.

        `only_named` is for check mode: what the role's packages bring was only rehearsed.
        """
        if only_named and "/" not in python:
            return
        asked = self.host.run([python, "-c", _ASK_HEADERS], 30)
        header = asked.stdout.strip()
        if not asked.ok or not os.path.exists(header):
            raise VenvError(
                f"{python} has no headers ({header or asked.summary} is missing), expected Python.h: Triton compiles "
                "against it at the engine's first request. Install this Python's -dev package. Nothing was changed."
            )
        if not any(self.host.has(name) for name in COMPILERS):
            raise VenvError(
                f"none of {', '.join(COMPILERS)} is installed, expected a C compiler: Triton compiles with it at the "
                "engine's first request. Install build-essential. Nothing was changed."
            )

    def check_capability(self, least: tuple[int, int]) -> None:
        """Refuse GPUs that the engine's kernels are not built for."""
        told = f"{least[0]}.{least[1]}"
        result = self.host.run(["nvidia-smi", "--query-gpu=compute_cap", "--format=csv,noheader"], 60)
        found = parse_capabilities(result.stdout)
        if not result.ok or not found:
            raise VenvError(
                f"the GPUs' compute capability cannot be read ({result.summary}), expected at least {told}: install "
                "the driver first (role nvidia_driver), or leave engine_venv_compute_capability empty. Nothing was "
                "changed."
            )
        weak = [f"{major}.{minor}" for major, minor in found if (major, minor) < least]
        if weak:
            raise VenvError(
                f"{len(weak)} of {len(found)} GPUs have compute capability {', '.join(sorted(set(weak)))}, expected at "
                f"least {told}: FP8 needs 9.0 (Hopper) or newer in hardware, and kernels built for {told} do not start "
                "on older GPUs; serve an unquantised or AWQ model there and lower engine_venv_compute_capability. "
                "Nothing was changed."
            )

    def check_room(self, place: str, request: Request) -> None:
        """Refuse before the disk is full; wheels fetched by an earlier attempt are not counted again."""
        lock, tool = request.lock, os.path.join(self.tool_place(request.tool), MARKER)
        needed = lock.wheels_bytes * ROOM - self.host.disk_used(_cache_of(place), EVERY_FILE)
        needed += 0 if os.path.exists(tool) else TOOL_ROOM
        free = self.host.disk_free(self.store)
        if needed > free:
            raise VenvError(
                f"{gigabytes(free)} are free at {self.store}, expected {gigabytes(needed)} (wheels of "
                f"{gigabytes(lock.wheels_bytes)}, unpacked and compiled): make room. Nothing was changed."
            )

    # -- building -----------------------------------------------------------------------------------------------

    @contextlib.contextmanager
    def locked(self) -> Iterator[None]:
        """Lock the store: one run at a time builds and switches, for any link, because uv is shared."""
        os.makedirs(self.store, mode=0o755, exist_ok=True)
        with open(os.path.join(self.store, "busy"), "w") as handle:
            try:
                fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except OSError:
                raise VenvError(
                    f"another run is building in {self.store}, expected one at a time: wait for it and run this again"
                ) from None
            yield

    def build(self, place: str, request: Request, python: str) -> None:
        """Build an environment from scratch: remove leftovers of an earlier attempt first, write the marker last."""
        _remove(place)
        cache, scratch = _cache_of(place), f"{place}.tmp"
        _remove(scratch)
        os.mkdir(scratch, 0o700)
        try:
            self._provide(request, python, scratch)
            self._ready(cache)
            self._install(place, request, python, cache, scratch)
            found = read_environment(self.host, place)
            wrong = sorted({*found["packages"]} ^ {*request.lock.packages}) + found["changed"]
            if wrong:
                _remove(cache)  # nothing of it is to be trusted
                raise VenvError(
                    f"what uv installed differs from the lock ({', '.join(wrong[:5])}), expected exactly the lock: "
                    f"check the disk, and run this again. {self.directory} is unchanged."
                )
            marker = Marker(request.lock.digest, request.python, found["packages"], request.watched)
            os.sync()  # a marker on the disk says that everything else is
            write_file(os.path.join(place, MARKER), marker.text(), 0o644)
            _remove(cache)
        except (VenvError, OSError):
            _remove(place)
            raise
        finally:
            _remove(scratch)

    def _install(self, place: str, request: Request, python: str, cache: str, scratch: str) -> None:
        settings = {} if request.source.wheels else self._pip_settings(request.tool, scratch)
        arguments, source = request.source.for_uv(settings)
        environment = {**_UV, **source, "UV_CACHE_DIR": cache}
        self._uv(request, ["venv", "--no-project", f"--python={python}", place], environment, scratch)
        requirements = os.path.join(place, LOCK_NAME)
        write_file(requirements, request.lock_text, 0o644)
        inside = f"--python={_program(place, 'python')}"
        exactly = ["pip", "sync", "--require-hashes", "--no-build", inside, *arguments, requirements]
        self._uv(request, exactly, environment, scratch)
        with contextlib.suppress(FileNotFoundError):
            os.unlink(os.path.join(place, ".lock"))  # uv lets everybody write to it

    def _uv(self, request: Request, words: Sequence[str], environment: Mapping[str, str], scratch: str) -> None:
        result = self._call([_program(self.tool_place(request.tool), "uv"), *words], scratch, environment)
        if result.problem:
            raise VenvError(f"{result.problem}: see engine_venv_timeout. {self.directory} is unchanged.")
        if not result.ok:
            said = result.stderr or result.stdout or f"it exited with {result.rc}"
            raise VenvError(f"{complaint(said, request.source.words)}. {self.directory} is unchanged.")

    def _pip_settings(self, tool: Tool, scratch: str) -> dict[str, str]:
        """Return pip's settings on this host."""
        listed = self._call([_program(self.tool_place(tool), "python"), "-m", "pip", "config", "list"], scratch)
        if not listed.ok:
            raise VenvError(
                f"pip's configuration on this host cannot be read ({without_passwords(listed.summary)}), expected "
                f"`pip config list` to show it: correct it, or set engine_venv_index. {self.directory} is unchanged."
            )
        return pip_settings(listed.stdout)

    def _ready(self, cache: str) -> None:
        """Keep the cache of an earlier attempt, unless the host has rebooted since.

        uv compares a wheel with its hash when it unpacks it, and never again. After a power failure files can be empty
        that it has unpacked, so such a cache goes. What was read of an index goes in any case: it may have what was
        missing by now.
        """
        boot, noted = self.host.read_text(BOOT_ID), os.path.join(cache, BOOT)
        if not boot or self.host.read_text(noted) != boot:
            _remove(cache)
            os.mkdir(cache, 0o700)
            write_file(noted, boot or "", 0o600)
        for pages in glob.glob(os.path.join(glob.escape(cache), "simple-v*")):
            _remove(pages)

    # -- uv -------------------------------------------------------------------------------------------------------

    def _provide(self, request: Request, python: str, scratch: str) -> None:
        """Install uv if it is missing or no longer runs: the Python of its environment may be gone."""
        tool, place = request.tool, self.tool_place(request.tool)
        marker = parse_marker(self.host.read_text(os.path.join(place, MARKER)))
        asked = ([_program(place, "uv"), "--version"], [_program(place, "python"), "-m", "pip", "--version"])
        if marker and marker.lock == tool.digest and all(self._call(one, scratch).ok for one in asked):
            return
        _remove(place)
        try:
            self._install_uv(request, python, place, scratch)
            os.sync()
            write_file(os.path.join(place, MARKER), Marker(tool.digest, python).text(), 0o644)
        except (VenvError, OSError):
            _remove(place)
            raise

    def _install_uv(self, request: Request, python: str, place: str, scratch: str) -> None:
        made = self._call([python, "-m", "venv", place], scratch)
        if not made.ok:
            raise VenvError(
                f"{python} could not create a virtual environment for uv ({made.summary}), expected it to: check its "
                f"output. {self.directory} is unchanged."
            )
        requirements = os.path.join(place, LOCK_NAME)
        write_file(requirements, request.tool.lock_text, 0o644)
        quietly = ["--no-cache-dir", "--disable-pip-version-check", "--no-input", "--progress-bar=off"]
        only = ["--require-hashes", "--no-deps", "--only-binary=:all:", *quietly, *request.source.for_pip()]
        pip = [_program(place, "python"), "-m", "pip", "install", *only, "--requirement", requirements]
        result = self._call(pip, scratch)
        if result.problem:
            raise VenvError(f"{result.problem}: see engine_venv_timeout. {self.directory} is unchanged.")
        told = self._call([_program(place, "uv"), "--version"], scratch)
        if not result.ok or not told.ok:
            why = told.summary if result.ok else pip_complaint(f"{result.stdout}\n{result.stderr}")
            raise VenvError(
                f"uv {request.tool.version}, which installs the lock, could not be installed from "
                f"{request.source.words} ({why}), expected its wheel beside those of the engine: mirror it there "
                f"(docs/venv.md), or correct engine_venv_index or engine_venv_wheels. {self.directory} is unchanged."
            )

    def _call(self, argv: Sequence[str], scratch: str, environment: Mapping[str, str] | None = None) -> Result:
        # Gigabytes of wheels pass through the temporary directory, and /tmp is often a tmpfs.
        own = {"TMPDIR": scratch, "PIP_USER": "0", "PYTHONNOUSERSITE": "1", "PYTHONPATH": ""}
        return self.host.run(argv, self.timeout, env={**own, **(environment or {})})

    # -- switching ----------------------------------------------------------------------------------------------

    def switch(self, place: str, previous: str | None) -> None:
        """Point the link at an environment atomically, and remember the previous one."""
        if previous:
            _link(os.path.basename(previous), self._previous_link())
        _link(os.path.join(os.path.basename(self.store), os.path.basename(place)), self.directory)

    def prune(self, paths: Sequence[str]) -> None:
        """Remove environments that are no longer needed."""
        for path in paths:
            _remove(path)


def _program(place: str, name: str) -> str:
    """Return the path of a program in an environment."""
    return os.path.join(place, "bin", name)


def _cache_of(place: str) -> str:
    """Return the path of uv's cache for an environment, on the same file system."""
    return f"{place}.wheels"


def _link(target: str, path: str) -> None:
    scratch = f"{path}.new"
    with contextlib.suppress(FileNotFoundError):
        os.unlink(scratch)
    os.symlink(target, scratch)
    os.replace(scratch, path)


def _remove(path: str) -> None:
    """Remove a directory tree, its marker first, so that a partial removal never looks finished."""
    with contextlib.suppress(OSError):
        os.unlink(os.path.join(path, MARKER))
    if os.path.isdir(path) and not os.path.islink(path):
        shutil.rmtree(path)
    elif os.path.lexists(path):
        os.unlink(path)


def version_lines(packages: Mapping[str, str]) -> str:
    """Render packages and versions for a diff."""
    return "".join(f"{name} {version}\n" for name, version in sorted(packages.items()))
