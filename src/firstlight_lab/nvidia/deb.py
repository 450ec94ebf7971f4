# SPDX-License-Identifier: Apache-2.0
"""Write Debian packages without dpkg-deb: the output is reproducible, and hundreds of packages take a second."""

from __future__ import annotations

import gzip
import hashlib
import io
import tarfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import PurePosixPath

# A fixed time, so that a package changes only if its content does.
EPOCH = 1_735_689_600
NOTICE = "Stand-in for the Firstlight lab: right names and versions, no NVIDIA software."


@dataclass(frozen=True)
class Entry:
    """A file or symbolic link of a package."""

    data: bytes = b""
    mode: int = 0o644
    link: str = ""


@dataclass(frozen=True)
class Package:
    """A binary package before it is written."""

    name: str
    version: str
    architecture: str
    summary: str
    maintainer: str
    section: str = "misc"
    depends: Sequence[str] = ()
    provides: Sequence[str] = ()
    conflicts: Sequence[str] = ()
    exclusive: str = ""
    entries: Mapping[str, Entry] = field(default_factory=dict)
    scripts: Mapping[str, bytes] = field(default_factory=dict)
    """Maintainer scripts by name: postinst and the others."""

    @property
    def filename(self) -> str:
        """The conventional file name, which excludes the epoch."""
        return f"{self.name}_{self.version.split(':')[-1]}_{self.architecture}.deb"

    def control(self) -> str:
        """Render the control file; `exclusive` is a virtual package that only one installed package may provide."""
        size = sum(len(entry.data) for entry in self.entries.values())
        alone = [self.exclusive] if self.exclusive else []
        rows = [
            ("Package", self.name),
            ("Version", self.version),
            ("Architecture", self.architecture),
            ("Maintainer", self.maintainer),
            ("Installed-Size", str(size // 1024 + 1)),
            ("Depends", ", ".join(self.depends)),
            ("Provides", ", ".join([*alone, *self.provides])),
            ("Conflicts", ", ".join([*alone, *self.conflicts])),
            ("Replaces", ", ".join([*alone, *self.conflicts])),
            ("Section", self.section),
            ("Priority", "optional"),
            ("Description", f"{self.summary}\n {NOTICE}"),
        ]
        return "".join(f"{key}: {value}\n" for key, value in rows if value)


def write_deb(package: Package) -> bytes:
    """Return the package as the bytes of a .deb file."""
    sums = "".join(
        f"{hashlib.md5(entry.data, usedforsecurity=False).hexdigest()}  {path.lstrip('/')}\n"
        for path, entry in sorted(package.entries.items())
        if not entry.link
    )
    control = {"./control": Entry(package.control().encode())}
    if sums:
        control["./md5sums"] = Entry(sums.encode())
    control |= {f"./{name}": Entry(script, 0o755) for name, script in package.scripts.items()}
    data = {f".{path}": entry for path, entry in package.entries.items()}
    members = [
        ("debian-binary", b"2.0\n"),
        ("control.tar.gz", _tar(control)),
        ("data.tar.gz", _tar(data)),
    ]
    return b"!<arch>\n" + b"".join(_member(name, content) for name, content in members)


def _member(name: str, content: bytes) -> bytes:
    header = f"{name:<16}{EPOCH:<12}{0:<6}{0:<6}{'100644':<8}{len(content):<10}`\n"
    return header.encode() + content + b"\n" * (len(content) % 2)


def _tar(entries: Mapping[str, Entry]) -> bytes:
    raw = io.BytesIO()
    with tarfile.open(fileobj=raw, mode="w", format=tarfile.GNU_FORMAT) as archive:
        folders = {"."}
        for path in entries:
            folders |= {f"./{parent}" for parent in map(str, PurePosixPath(path).parents) if parent != "."}
        for folder in sorted(folders):
            archive.addfile(_info(folder + "/", tarfile.DIRTYPE, 0o755))
        for path, entry in sorted(entries.items()):
            kind, mode = (tarfile.SYMTYPE, 0o777) if entry.link else (tarfile.REGTYPE, entry.mode)
            info = _info(path, kind, mode)
            info.linkname, info.size = entry.link, len(entry.data)
            archive.addfile(info, io.BytesIO(entry.data))
    return gzip.compress(raw.getvalue(), compresslevel=6, mtime=EPOCH)


def _info(path: str, kind: bytes, mode: int) -> tarfile.TarInfo:
    info = tarfile.TarInfo(path)
    info.type, info.mode, info.mtime = kind, mode, EPOCH
    info.uid = info.gid = 0
    info.uname = info.gname = "root"
    return info
