# SPDX-License-Identifier: Apache-2.0
"""The lab's wheel index: tiny but real wheels, with two releases of a stand-in for the engine, their locks, and uv.

The files are identical on every machine of an architecture: nothing in a wheel depends on its build time.
"""

from __future__ import annotations

import base64
import hashlib
import io
import platform
import re
import sys
import zipfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from importlib import resources
from pathlib import Path

from firstlight.configuration import CHECKOUT

from .shell import run

UV = CHECKOUT / "roles" / "engine_venv" / "files" / "uv.txt"
"""The pinned uv with which the role `engine_venv` installs."""
ENGINE = resources.files("firstlight_lab") / "equipment" / "engine.py"
EPOCH = (1980, 1, 1, 0, 0, 0)  # the earliest time that a zip archive can represent


@dataclass(frozen=True)
class Wheel:
    """A wheel file of the index."""

    name: str
    version: str
    tag: str = "py3-none-any"
    files: Mapping[str, str] = field(default_factory=dict)
    scripts: Mapping[str, str] = field(default_factory=dict)
    requires: Sequence[str] = ()

    @property
    def stem(self) -> str:
        return f"{self.name.replace('-', '_')}-{self.version}"

    @property
    def filename(self) -> str:
        return f"{self.stem}-{self.tag}.whl"

    def content(self) -> bytes:
        """Build the archive: the files, the metadata for an installer, and RECORD with the hashes of all files."""
        about = f"{self.stem}.dist-info"
        pure = "true" if self.tag.endswith("-any") else "false"
        wheel = ["Wheel-Version: 1.0", "Generator: firstlight-lab", f"Root-Is-Purelib: {pure}", f"Tag: {self.tag}"]
        metadata = ["Metadata-Version: 2.1", f"Name: {self.name}", f"Version: {self.version}"]
        metadata += [f"Requires-Dist: {requirement}" for requirement in self.requires]
        files = {
            **self.files,
            f"{about}/METADATA": "\n".join(metadata) + "\n",
            f"{about}/WHEEL": "\n".join(wheel) + "\n",
        }
        if self.scripts:
            lines = [f"{name} = {place}" for name, place in self.scripts.items()]
            files[f"{about}/entry_points.txt"] = "[console_scripts]\n" + "\n".join(lines) + "\n"
        rows = [_record(path, text.encode()) for path, text in files.items()]
        files[f"{about}/RECORD"] = "\n".join([*rows, f"{about}/RECORD,,"]) + "\n"
        target = io.BytesIO()
        with zipfile.ZipFile(target, "w") as archive:
            for path, text in files.items():
                entry = zipfile.ZipInfo(path, EPOCH)
                entry.external_attr = 0o100644 << 16
                archive.writestr(entry, text)
        return target.getvalue()


def _record(path: str, data: bytes) -> str:
    digest = base64.urlsafe_b64encode(hashlib.sha256(data).digest()).rstrip(b"=").decode()
    return f"{path},sha256={digest},{len(data)}"


def _engine(version: str) -> Wheel:
    return Wheel(
        name="vllm",
        version=version,
        tag=f"cp38-abi3-manylinux_2_17_{platform.machine()}",
        files={
            "vllm/__init__.py": f'__version__ = "{version}"\n',
            "vllm/engine.py": ENGINE.read_text(encoding="utf-8"),
        },
        scripts={"vllm": "vllm.engine:main"},
        requires=["firstlight-lab-words"],
    )


def _words(version: str, *words: str) -> Wheel:
    return Wheel("firstlight-lab-words", version, files={"firstlight_lab_words.py": f"WORDS = {list(words)!r}\n"})


ELSEWHERE = Wheel("firstlight-lab-elsewhere", "1.0.0", tag="cp38-abi3-manylinux_2_17_riscv64")
"""A package that is available for another architecture only."""
RELEASES: Mapping[str, Sequence[Wheel]] = {
    "vllm-0.31.0": (_engine("0.31.0"), _words("0.9.0", "Hello")),
    "vllm-0.32.0": (_engine("0.32.0"), _words("1.0.0", "Hello", "there")),
}


def lock_of(wheels: Sequence[Wheel]) -> str:
    """Return a lock of these wheels, in the format of catalog/locks."""
    lines = [
        "# python: 3.11",
        f"# architecture: {platform.machine()}",
        f"# wheels-bytes: {sum(len(wheel.content()) for wheel in wheels)}",
    ]
    for wheel in sorted(wheels, key=lambda one: one.name):
        digest = hashlib.sha256(wheel.content()).hexdigest()
        lines += [f"{wheel.name}=={wheel.version} \\", f"    --hash=sha256:{digest}"]
    return "\n".join(lines) + "\n"


def fetch_uv(directory: Path) -> Path:
    """Return the wheel of the pinned uv for this machine; download it once, with pip as it is configured here."""
    text = UV.read_text(encoding="utf-8")
    version = re.findall(r"^uv==(\S+)", text, re.MULTILINE)[0]

    def fetched() -> list[Path]:
        found = sorted(directory.glob(f"uv-{version}-*{platform.machine()}.whl"))
        return [path for path in found if hashlib.sha256(path.read_bytes()).hexdigest() in text]

    if not fetched():
        command = [sys.executable, "-m", "pip", "download", "--quiet", "--disable-pip-version-check", "--no-deps"]
        run([*command, "--require-hashes", "--only-binary=:all:", f"--dest={directory}", f"--requirement={UV}"])
    return fetched()[0]


def write_index(directory: Path, locks: Path, further: Sequence[Path] = ()) -> None:
    """Write the simple index (`simple/`, a page per package), all files (`files/`), and a lock per release."""
    pages: dict[str, dict[str, str]] = {}
    own = [*(wheel for release in RELEASES.values() for wheel in release), ELSEWHERE]
    offered = [(wheel.name, wheel.filename, wheel.content()) for wheel in own]
    offered += [(path.name.partition("-")[0], path.name, path.read_bytes()) for path in further]
    for name, filename, content in offered:
        _write(directory / "files" / filename, content)
        pages.setdefault(name, {})[filename] = hashlib.sha256(content).hexdigest()
    for name, files in pages.items():
        links = [f'<a href="../../files/{file}#sha256={digest}">{file}</a><br>' for file, digest in files.items()]
        page = "<!DOCTYPE html>\n<html><body>\n" + "\n".join(links) + "\n</body></html>\n"
        _write(directory / "simple" / name / "index.html", page.encode())
    for release, wheels in RELEASES.items():
        _write(locks / f"{release}.txt", lock_of(wheels).encode())
    elsewhere = f"# architecture: {platform.machine()}\n" + "\n".join(lock_of([ELSEWHERE]).splitlines()[3:]) + "\n"
    _write(locks / "elsewhere.txt", elsewhere.encode())


def _write(path: Path, content: bytes) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(content)
