# SPDX-License-Identifier: Apache-2.0
"""Virtual environments on a target: read what is in one, build one beside it, switch from one to the other.

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
from .lock import Lock
from .venv import (
    ABSENT,
    MARKER,
    SAMPLE,
    Marker,
    Recorded,
    differences_sentence,
    environment_names,
    identity,
    is_environment,
    observed_environment,
    other_platforms,
    package_differences,
    parse_capabilities,
    parse_complaint,
    parse_marker,
    parse_metadata,
    sample,
    store_of,
)

LOCK_NAME = ".firstlight.lock"
HASHED = 4
"""Of how many small files of a package the hash is compared, and not only the size."""
SMALL = 1 << 18
ROOM = 3
"""Times the size of the wheels: themselves, what they unpack to, and what Python compiles of it."""
_NOBODY_NEEDS = ("setuptools", "wheel")
"""What older Pythons put into every new environment; a lock that wants them has them."""
_ASK_PYTHON = "import platform, sys; print('%d.%d' % sys.version_info[:2], platform.machine())"
_ASK_HEADERS = "import os, sysconfig; print(os.path.join(sysconfig.get_path('include'), 'Python.h'))"
COMPILERS = ("cc", "gcc", "clang")
"""What Triton looks for, in its own order of names."""


class VenvError(Exception):
    """Why an environment cannot be had, with what was found, what was expected and what to do."""


def read_environment(host: Host, directory: str) -> dict[str, Any]:
    """An environment in the words of an observation, without running anything of it."""
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
        if record is None:
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
    """Files that are not as their package brought them."""
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
class Source:
    """Where wheels come from: an index, a directory, or what pip on the host is configured for."""

    index: str = ""
    wheels: str = ""

    @property
    def words(self) -> str:
        """For a message."""
        return self.wheels or self.index or "the index that pip is configured for on the host"

    def arguments(self) -> list[str]:
        """For pip."""
        if self.wheels:
            return ["--no-index", f"--find-links={self.wheels}"]
        return [f"--index-url={self.index}"] if self.index else []


class Venvs:
    """The environments behind one link."""

    def __init__(self, host: Host, directory: str, timeout: float) -> None:
        self.host = host
        self.directory = directory
        self.store = store_of(directory)
        self.timeout = timeout

    # -- what is there ------------------------------------------------------------------------------------------

    def current(self) -> str | None:
        """The environment the link points to; refused when it is none of ours."""
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
        """Whether a finished environment is exactly what the lock says."""
        found = read_environment(self.host, path)
        return (
            found["lock"] == lock.digest
            and found["python"] == python
            and not found["changed"]
            and not package_differences(lock.packages, found["packages"])
        )

    def places(self, lock: Lock, python: str) -> list[str]:
        """Where an environment of this lock and Python can be."""
        names = environment_names(self.directory, identity(lock.digest, python))
        return [os.path.join(self.store, name) for name in names]

    def stale(self, keep: Sequence[str | None]) -> list[str]:
        """What of this link is in the store and no longer needed."""
        kept = {os.path.basename(path) for path in keep if path}
        try:
            entries = sorted(os.listdir(self.store))
        except OSError:
            return []
        return [
            os.path.join(self.store, entry)
            for entry in entries
            if is_environment(self.directory, entry.removesuffix(".wheels").removesuffix(".tmp")) and entry not in kept
        ]

    def previous(self) -> str | None:
        """The environment before the current one."""
        try:
            return os.path.join(self.store, os.readlink(self._previous_link()))
        except OSError:
            return None

    def _previous_link(self) -> str:
        return os.path.join(self.store, f"{os.path.basename(self.directory)}.previous")

    # -- errors -----------------------------------------------------------------------------------------------

    def check_python(self, python: str, lock: Lock, only_named: bool) -> None:
        """Refuse a Python that is not there, is another one than the lock's, or can make no environment.

        `only_named` is for check mode: where the package that brings it was only rehearsed, it is not there yet.
        """
        result = self.host.run([python, "-c", _ASK_PYTHON], 30)
        if not result.ok:
            if only_named and "/" not in python:
                return
            raise VenvError(
                f"{result.summary}, expected a Python {lock.python or 'that can be run'}: install it, or correct "
                "engine_venv_python. Nothing was changed."
            )
        version, machine = (*result.stdout.split(), "", "")[:2]
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

    def check_compiler(self, python: str, only_named: bool = False) -> None:
        """Refuse a host on which Triton could not build its launchers: it needs a C compiler and Python's headers.

        `only_named` is for check mode: what the role's packages bring was only rehearsed.
        """
        if only_named and "/" not in python:
            return
        asked = self.host.run([python, "-c", _ASK_HEADERS], 30)
        header = asked.stdout.strip()
        if not asked.ok or not os.path.exists(header):
            raise VenvError(
                f"{python} has no headers ({header or asked.summary} is not there), expected Python.h: Triton compiles "
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

    def check_room(self, lock: Lock) -> None:
        """Refuse before the disk is full."""
        needed, free = lock.wheels_bytes * ROOM, self.host.disk_free(self.store)
        if needed > free:
            raise VenvError(
                f"{gigabytes(free)} are free at {self.store}, expected {gigabytes(needed)} (wheels of "
                f"{gigabytes(lock.wheels_bytes)}, unpacked and compiled): make room. Nothing was changed."
            )

    # -- building -----------------------------------------------------------------------------------------------

    @contextlib.contextmanager
    def locked(self) -> Iterator[None]:
        """One run at a time builds and switches."""
        os.makedirs(self.store, mode=0o755, exist_ok=True)
        with open(os.path.join(self.store, f"{os.path.basename(self.directory)}.busy"), "w") as handle:
            try:
                fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except OSError:
                raise VenvError(
                    f"another run is building {self.directory}, expected one at a time: wait for it and run this again"
                ) from None
            yield

    def build(
        self, place: str, python: str, lock_text: str, lock: Lock, source: Source, watched: Sequence[str]
    ) -> None:
        """Make an environment from nothing. Its marker comes last; what an earlier attempt left there goes first.

        Wheels that an earlier attempt has fetched are used again: pip compares their hashes.
        """
        _remove(place)
        wheels, scratch = f"{place}.wheels", f"{place}.tmp"
        _remove(scratch)
        os.mkdir(scratch, 0o700)
        try:
            self._run([python, "-m", "venv", place], scratch, f"{python} could not make a virtual environment")
            requirements = os.path.join(place, LOCK_NAME)
            write_file(requirements, lock_text, 0o644)
            pip = [os.path.join(place, "bin", "python"), "-m", "pip"]
            there = [name for name in _NOBODY_NEEDS if name in read_environment(self.host, place)["packages"]]
            if there:
                self._run(
                    [*pip, "uninstall", "--yes", "--quiet", *there], scratch, "pip could not remove its companions"
                )
            if not source.wheels:
                self._pip("download", pip, requirements, source, scratch, [f"--dest={wheels}"])
            self._pip("install", pip, requirements, Source(wheels=source.wheels or wheels), scratch, [])
            found = package_differences(lock.packages, read_environment(self.host, place)["packages"])
            if found:
                raise VenvError(
                    f"what pip installed is not what the lock says: {differences_sentence(found)}; expected exactly "
                    f"the lock. Nothing was switched: look at {source.words}"
                )
            os.sync()  # a marker on the disk says that everything else is
            write_file(os.path.join(place, MARKER), Marker(lock.digest, python, lock.packages, watched).text(), 0o644)
            _remove(wheels)
        except VenvError:
            _remove(place)
            raise
        finally:
            _remove(scratch)

    def _pip(
        self, action: str, pip: Sequence[str], requirements: str, source: Source, scratch: str, more: Sequence[str]
    ) -> None:
        common = ["--no-deps", "--only-binary=:all:", "--no-cache-dir", "--disable-pip-version-check", "--no-input"]
        argv = [*pip, action, "--require-hashes", *common, "--progress-bar=off", *more, *source.arguments()]
        result = self._call([*argv, "--requirement", requirements], scratch)
        if result.ok:
            return
        if result.problem:
            raise VenvError(f"{result.problem}: see engine_venv_timeout. {self.directory} is as it was.")
        found = parse_complaint(f"{result.stderr}\n{result.stdout}")
        left = f"{self.directory} is as it was."
        if found.reason == "hash":
            raise VenvError(
                f"{found.package} from {source.words} has the sha256 {found.got}, which is not in the lock (expected "
                f"{found.expected}): the file is not the one that was locked; find out who changed it, or make the "
                f"lock anew. {left}"
            )
        if found.reason == "missing":
            # Only a verbose pip tells a package that is not there from one for other machines.
            again = [*pip, "download", "-vv", *common, f"--dest={scratch}", *source.arguments(), found.package]
            others = other_platforms(self._call(again, scratch).stdout, found.package.partition("==")[2])
            if others:
                raise VenvError(
                    f"{found.package} is offered by {source.words} for {', '.join(others[:4])} only, expected a wheel "
                    f"for this host ({platform.machine()}): use the lock of this architecture and Python. {left}"
                )
            raise VenvError(
                f"{found.package} is not offered by {source.words}, expected a wheel of it: mirror it there, or "
                f"correct engine_venv_index or engine_venv_wheels. {left}"
            )
        raise VenvError(
            f"pip {action} failed ({found.detail}) with {source.words}, expected every wheel of the lock. {left}"
        )

    def _run(self, argv: Sequence[str], scratch: str, otherwise: str) -> None:
        result = self._call(argv, scratch)
        if not result.ok:
            raise VenvError(f"{otherwise}: {result.summary}. {self.directory} is as it was.")

    def _call(self, argv: Sequence[str], scratch: str) -> Result:
        # Gigabytes of wheels go through the temporary directory, and /tmp is often memory.
        env = {"TMPDIR": scratch, "PIP_USER": "0", "PYTHONNOUSERSITE": "1", "PYTHONPATH": ""}
        return self.host.run(argv, self.timeout, env=env)

    # -- switching ----------------------------------------------------------------------------------------------

    def switch(self, place: str, previous: str | None) -> None:
        """Point the link at an environment, in one step, and remember the former one."""
        if previous:
            _link(os.path.basename(previous), self._previous_link())
        _link(os.path.join(os.path.basename(self.store), os.path.basename(place)), self.directory)

    def prune(self, paths: Sequence[str]) -> None:
        """Remove what is no longer needed."""
        for path in paths:
            _remove(path)


def _link(target: str, path: str) -> None:
    scratch = f"{path}.new"
    with contextlib.suppress(FileNotFoundError):
        os.unlink(scratch)
    os.symlink(target, scratch)
    os.replace(scratch, path)


def _remove(path: str) -> None:
    """A directory and all in it: its marker first, so that what is left of it is never taken for finished."""
    with contextlib.suppress(OSError):
        os.unlink(os.path.join(path, MARKER))
    if os.path.isdir(path) and not os.path.islink(path):
        shutil.rmtree(path)
    elif os.path.lexists(path):
        os.unlink(path)


def version_lines(packages: Mapping[str, str]) -> str:
    """Packages and versions for a diff."""
    return "".join(f"{name} {version}\n" for name, version in sorted(packages.items()))
