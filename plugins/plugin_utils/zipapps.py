# SPDX-License-Identifier: Apache-2.0
"""Pack parts of this collection into a zipapp, which runs on a host without anything else of this project.

The standard library's `zipapp` includes the modification times of files. Here the same modules always give the same
bytes on every controller, because their digest is part of the plan.
"""

from __future__ import annotations

import io
import re
import zipfile
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path

from ansible_collections.firstlight.cluster import plugins

COLLECTION = plugins.__name__.rpartition(".")[0]
ROOT = Path(plugins.__path__[0]).parent
_IMPORT = re.compile(r"^[ \t]*from +(\.*)([\w.]*) +import +(\([^)]*\)|[^\n#]*)", re.MULTILINE)
"""Matches import statements. Parsing each module's AST gives the same, but takes most of a short run's time."""
_COMMENT = re.compile(r"#.*")


def zipapp(contents: Mapping[str, bytes], *, compressed: bool = False) -> bytes:
    """Build an archive of these files. Leave it uncompressed if it must be reproducible: zlib versions differ."""
    packed = io.BytesIO()
    method = zipfile.ZIP_DEFLATED if compressed else zipfile.ZIP_STORED
    with zipfile.ZipFile(packed, "w") as archive:
        for path, content in contents.items():
            archive.writestr(zipfile.ZipInfo(path), content, method, 1 if compressed else None)
    return packed.getvalue()


def sources(modules: Iterable[str]) -> dict[str, bytes]:
    """Return the files of these modules and everything they import, by path in the archive."""
    files = closure(modules).items()
    return {archive_path(name, path, ".py"): path.read_bytes() if path else b"" for name, path in files}


def archive_path(name: str, path: Path | None, suffix: str) -> str:
    """Return a module's path in an archive. Namespace packages get an empty file: zipimport needs one."""
    package = path is None or path.name == "__init__.py"
    return name.replace(".", "/") + ("/__init__" if package else "") + suffix


def closure(modules: Iterable[str]) -> dict[str, Path | None]:
    """Return the files of these modules and of all they import from the collection, sorted by full name.

    None stands for a package without an __init__.py. Nothing is imported.
    Raises ValueError for a module that does not exist.
    """
    parents = COLLECTION.split(".")
    found: dict[str, Path | None] = {".".join(parents[:depth]): None for depth in range(1, len(parents) + 1)}
    waiting = list(modules)
    while waiting:
        name = waiting.pop()
        if name in found:
            continue
        path = found[name] = _file(name)
        package = name.rpartition(".")[0]
        waiting.append(package)
        if path is not None:
            waiting += _imported(path.read_text(encoding="utf-8"), name if path.name == "__init__.py" else package)
    return dict(sorted(found.items()))


def _file(name: str) -> Path | None:
    place = _place(name)
    for path in (place.with_suffix(".py"), place / "__init__.py"):
        if path.is_file():
            return path
    if not place.is_dir():
        raise ValueError(f"there is no {name}: expected a module of {COLLECTION} that another one imports")
    return None


def _place(name: str) -> Path:
    return ROOT.joinpath(*name.removeprefix(f"{COLLECTION}.").split("."))


def _imported(text: str, package: str) -> Iterator[str]:
    """Yield the modules of this collection that a module of a package imports."""
    for dots, module, names in _IMPORT.findall(text):
        parts = package.split(".")
        base = ".".join([*parts[: len(parts) - len(dots) + 1], *filter(None, [module])]) if dots else module
        if not base.startswith(f"{COLLECTION}."):
            continue
        yield base
        if _place(base).is_dir():
            listed = (alias.split() for alias in _COMMENT.sub("", names).strip("()").split(","))
            inside = (f"{base}.{alias[0]}" for alias in listed if alias)
            yield from (name for name in inside if _place(name).is_dir() or _place(name).with_suffix(".py").is_file())
