# SPDX-License-Identifier: Apache-2.0
"""Packs functions of the collection, with what they import, into one archive that a host runs from memory.

The archive holds bytecode, which saves a host most of its time. A host whose Python is another version says so, and
gets the sources.
"""

from __future__ import annotations

import functools
import io
import json
import re
import shlex
import zipfile
from collections.abc import Iterable, Mapping
from importlib.machinery import SourceFileLoader
from importlib.util import MAGIC_NUMBER, source_hash
from marshal import dumps
from pathlib import Path
from types import CodeType
from typing import Any, cast

from ansible_collections.firstlight.cluster.plugins import module_utils

PACKAGE = module_utils.__name__
ROOT = Path(module_utils.__path__[0])
ENTRY = "remote_call"
MAIN = f"from {PACKAGE}.{ENTRY} import main\nmain(QUESTION)\n".encode()
OTHER_PYTHON = "other python"
ANY_PYTHON = "any"
MAGIC = MAGIC_NUMBER.hex()
START = f"""
import importlib.util, os, runpy, sys
question, archive = sys.stdin.buffer.read().split(b"\\n", 1)
if sys.argv[1] not in ({ANY_PYTHON!r}, importlib.util.MAGIC_NUMBER.hex()):
    sys.exit(print({json.dumps(json.dumps({"problem": OTHER_PYTHON}))}))
memory = os.memfd_create("firstlight")
with open(memory, "wb", closefd=False) as file:
    file.write(archive)
runpy.run_path(f"/proc/self/fd/{{memory}}", dict(QUESTION=question), "__main__")
"""
"""Isolated (-I): nothing is imported from the directory in which a login begins."""
_IMPORT = re.compile(r"^[ \t]*from +(\.*)([\w.]*) +import +(\([^)]*\)|[^\n(]*)", re.MULTILINE)
_FRESH = (1).to_bytes(4, "little")
"""Bytecode that is taken without a look at the source (PEP 552)."""


def command(python: str, *, source: bool = False) -> str:
    """What the host runs; the question and the archive follow on standard input."""
    return shlex.join([python, "-I", "-c", START, ANY_PYTHON if source else MAGIC])


def message(function: str, arguments: Mapping[str, Any], *, source: bool = False) -> bytes:
    """The call of a function, `module.name`, as the command reads it."""
    question = json.dumps({"function": function, "arguments": dict(arguments)}).encode()
    return question + b"\n" + archive(function.rpartition(".")[0], source=source)


@functools.cache
def archive(module: str, *, source: bool = False) -> bytes:
    """The module and the program that calls it, with all that they import."""
    files = closure([module, ENTRY])
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w", zipfile.ZIP_DEFLATED, compresslevel=1) as zipped:
        for name, path in files.items():
            place = name.replace(".", "/") + ("/__init__" if path is None or path.name == "__init__.py" else "")
            if path is None:
                zipped.writestr(zipfile.ZipInfo(f"{place}.py"), b"")
            elif source:
                zipped.writestr(zipfile.ZipInfo(f"{place}.py"), path.read_bytes(), zipfile.ZIP_DEFLATED, 1)
            else:
                content = MAGIC_NUMBER + _FRESH + source_hash(b"") + dumps(_bare(name, path))
                zipped.writestr(zipfile.ZipInfo(f"{place}.pyc"), content, zipfile.ZIP_DEFLATED, 1)
        zipped.writestr(zipfile.ZipInfo("__main__.py"), MAIN)
    return packed.getvalue()


def _bare(name: str, path: Path) -> CodeType:
    """A module's code as Python keeps it, without the numbers of its lines: a third of it, and nobody reads them."""
    return _without_lines(cast("CodeType", SourceFileLoader(name, str(path)).get_code(name)))


def _without_lines(code: CodeType) -> CodeType:
    inner = tuple(_without_lines(one) if isinstance(one, CodeType) else one for one in code.co_consts)
    return code.replace(co_linetable=b"", co_consts=inner)


def closure(modules: Iterable[str]) -> dict[str, Path | None]:
    """By full name, the file of each of these modules and of what they import; None for a package without one."""
    parents = PACKAGE.split(".")
    found: dict[str, Path | None] = {".".join(parents[:depth]): None for depth in range(1, len(parents) + 1)}
    waiting = [f"{PACKAGE}.{module}" for module in modules]
    while waiting:
        name = waiting.pop()
        place = ROOT.joinpath(*name.removeprefix(f"{PACKAGE}.").split("."))
        path = next((file for file in (place.with_suffix(".py"), place / "__init__.py") if file.is_file()), None)
        if name in found or (path is None and not place.is_dir()):
            continue  # known, or a name in a module
        found[name] = path
        package, _, _ = name.rpartition(".")
        waiting.append(package)
        if path is not None:
            waiting += _imported(path.read_text(encoding="utf-8"), name if path.name == "__init__.py" else package)
    return found


def _imported(text: str, package: str) -> Iterable[str]:
    """What the text of a module may import of this package: modules, and names that may be modules."""
    for dots, module, names in _IMPORT.findall(text):
        parts = package.split(".")
        base = ".".join([*parts[: len(parts) - len(dots) + 1], *filter(None, [module])]) if dots else module
        if base.startswith(f"{PACKAGE}."):
            yield base
            yield from (f"{base}.{name.split()[0]}" for name in names.strip("()").split(",") if name.strip())
