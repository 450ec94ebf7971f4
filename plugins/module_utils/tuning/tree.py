# SPDX-License-Identifier: Apache-2.0
"""Record files and links of a host byte for byte, and restore them."""

from __future__ import annotations

import contextlib
import os
import stat
import tempfile
from collections.abc import Collection, Iterable, Mapping
from typing import Any

from ..durable import sync_directory
from .settings import ABSENT, Entry, content_of, file_entry

UNITS = "/etc/systemd/system"
RUNLEVELS = "/etc"
_DIRECTORY_MODE = 0o755


def new_file(want: Mapping[str, Any], content: bytes | None = None) -> Entry:
    """Return the entry of a desired file owned by root, with `content` if the desired state has only its digest."""
    content = str(want["content"]).encode() if content is None else content
    entry = file_entry(content, str(want["mode"]), 0, 0, 0)
    if os.geteuid() != 0:
        # Only in tests: without privileges, a file cannot be given to another owner.
        entry |= {"uid": os.geteuid(), "gid": os.getegid()}
    return {**entry, "mtime_ns": None}


class Tree:
    """The file system below `root`, which is other than / only in tests."""

    def __init__(self, root: str = "/") -> None:
        self.root = root

    def real(self, path: str) -> str:
        """Return the real path of a path of the host."""
        return os.path.join(self.root, path.lstrip("/"))

    def entry(self, path: str) -> Entry:
        """Return what is at a path: a file with its content, a link, or nothing. Raises OSError for anything else."""
        place = self.real(path)
        try:
            found = os.lstat(place)
        except (FileNotFoundError, NotADirectoryError):
            return dict(ABSENT)
        if stat.S_ISLNK(found.st_mode):
            return {"kind": "link", "target": os.readlink(place), "uid": found.st_uid, "gid": found.st_gid}
        if not stat.S_ISREG(found.st_mode):
            raise OSError(0, "it is neither a file nor a link", path)
        with open(place, "rb") as stream:
            content = stream.read()
        mode = format(stat.S_IMODE(found.st_mode), "04o")
        return file_entry(content, mode, found.st_uid, found.st_gid, found.st_mtime_ns)

    def put(self, path: str, entry: Entry) -> None:
        """Make a path match an entry atomically: a reader sees either the old or the complete new one."""
        place = self.real(path)
        if entry["kind"] == "absent":
            with contextlib.suppress(FileNotFoundError, NotADirectoryError):
                os.unlink(place)
                sync_directory(os.path.dirname(place))
            return
        self.make_directory(os.path.dirname(path))
        if entry["kind"] == "link":
            self._put_link(place, entry["target"], int(entry["uid"]), int(entry["gid"]))
        else:
            self._put_file(place, entry)
        sync_directory(os.path.dirname(place))

    def _put_file(self, place: str, entry: Entry) -> None:
        # No tool that reads a directory of configuration files accepts a name that starts with a dot or ends in .new.
        descriptor, scratch = tempfile.mkstemp(dir=os.path.dirname(place), prefix=".firstlight-", suffix=".new")
        try:
            with os.fdopen(descriptor, "wb") as stream:
                stream.write(content_of(entry))
                stream.flush()
                self._give(stream.fileno(), int(entry["uid"]), int(entry["gid"]))
                # After chown, which clears the set-user-ID bits.
                os.fchmod(stream.fileno(), int(entry["mode"], 8))
                if entry.get("mtime_ns") is not None:
                    os.utime(stream.fileno(), ns=(int(entry["mtime_ns"]), int(entry["mtime_ns"])))
                os.fsync(stream.fileno())
            os.replace(scratch, place)
        except OSError:
            with contextlib.suppress(FileNotFoundError):
                os.unlink(scratch)
            raise

    def _put_link(self, place: str, target: str, uid: int, gid: int) -> None:
        scratch = os.path.join(os.path.dirname(place), f".firstlight-{os.path.basename(place)}.new")
        with contextlib.suppress(FileNotFoundError):
            os.unlink(scratch)
        os.symlink(target, scratch)
        if (os.geteuid(), os.getegid()) != (uid, gid):
            os.lchown(scratch, uid, gid)
        os.replace(scratch, place)

    @staticmethod
    def _give(descriptor: int, uid: int, gid: int) -> None:
        found = os.fstat(descriptor)
        if (found.st_uid, found.st_gid) != (uid, gid):
            os.fchown(descriptor, uid, gid)

    def missing_directories(self, paths: Iterable[str]) -> list[str]:
        """Return the directories that must be created for these files, outermost first."""
        missing: set[str] = set()
        for path in paths:
            folder = os.path.dirname(path)
            while folder not in ("", "/") and not os.path.isdir(self.real(folder)):
                missing.add(folder)
                folder = os.path.dirname(folder)
        return sorted(missing)

    def make_directory(self, path: str) -> None:
        """Create a directory and its missing parents.

        It is world-readable whatever the umask: a user's systemd reads its settings as that user.
        """
        for folder in self.missing_directories([f"{path}/file"]):
            os.mkdir(self.real(folder))
            os.chmod(self.real(folder), _DIRECTORY_MODE)

    def remove_directory(self, path: str) -> None:
        """Remove a directory if it is empty: what others have put there is theirs."""
        with contextlib.suppress(OSError):
            os.rmdir(self.real(path))

    def write_value(self, path: str, value: str) -> None:
        """Write a kernel value, whose file cannot be replaced."""
        with open(self.real(path), "w", encoding="ascii") as stream:
            stream.write(f"{value}\n")

    # --- what makes a unit enabled, masked or an alias of another -------------------------------------------------

    def unit_links(self, names: Collection[str]) -> dict[str, str]:
        """Return the links that belong to one of these units, by name or by target, with their targets."""
        found = {}
        for folder in [UNITS, *self.unit_folders()]:
            for path in self._inside(folder):
                place = self.real(path)
                if os.path.islink(place):
                    target = os.readlink(place)
                    if os.path.basename(path) in names or os.path.basename(target) in names:
                        found[path] = target
        # A unit that also has an init script is enabled by links named S01name as well.
        scripts = {name.removesuffix(".service") for name in names}
        for folder in self._inside(RUNLEVELS):
            level = os.path.basename(folder)
            if level.startswith("rc") and level.endswith(".d"):
                for path in self._inside(folder):
                    if os.path.basename(path)[3:] in scripts and os.path.islink(self.real(path)):
                        found[path] = os.readlink(self.real(path))
        return dict(sorted(found.items()))

    def unit_folders(self) -> list[str]:
        """Return the .wants and .requires directories of units."""
        inside = self._inside(UNITS)
        return [path for path in inside if path.endswith((".wants", ".requires")) and os.path.isdir(self.real(path))]

    def _inside(self, folder: str) -> list[str]:
        try:
            return [f"{folder}/{name}" for name in sorted(os.listdir(self.real(folder)))]
        except OSError:
            return []
