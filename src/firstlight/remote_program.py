# SPDX-License-Identifier: Apache-2.0
"""Pack functions of the collection and their imports into one archive that a host runs from memory.

The archive holds bytecode, which saves most of the time a host would need. A host with another Python version says so
and is sent the sources.
"""

from __future__ import annotations

import functools
import json
import shlex
from collections.abc import Iterable, Mapping
from importlib.machinery import SourceFileLoader
from importlib.util import MAGIC_NUMBER, source_hash
from marshal import dumps
from pathlib import Path
from types import CodeType
from typing import Any, cast

from ansible_collections.firstlight.cluster.plugins import module_utils
from ansible_collections.firstlight.cluster.plugins.plugin_utils.zipapps import (
    archive_path,
    closure,
    sources,
    zipapp,
)

PACKAGE = module_utils.__name__
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
"""Isolated mode (-I): nothing is imported from the login's working directory."""
_FRESH = (1).to_bytes(4, "little")
"""Marks bytecode that is loaded without checking it against the source (PEP 552)."""


def command(python: str, *, source: bool = False) -> str:
    """Return the command that the host runs; the question and the archive follow on standard input."""
    return shlex.join([python, "-I", "-c", START, ANY_PYTHON if source else MAGIC])


def message(function: str, arguments: Mapping[str, Any], *, source: bool = False) -> bytes:
    """Return the standard input of the command: a call of a function, given as `module.name`, and the archive."""
    question = json.dumps({"function": function, "arguments": dict(arguments)}).encode()
    return question + b"\n" + archive(function.rpartition(".")[0], source=source)


@functools.cache
def archive(module: str, *, source: bool = False) -> bytes:
    """Build the archive of the module, the program that calls it, and everything they import."""
    modules = [f"{PACKAGE}.{name}" for name in (module, ENTRY)]
    contents = sources(modules) if source else _bytecode(modules)
    return zipapp({**contents, "__main__.py": MAIN}, compressed=True)


def _bytecode(modules: Iterable[str]) -> dict[str, bytes]:
    found = {}
    for name, path in closure(modules).items():
        code = dumps(_bare(name, path)) if path else dumps(compile("", name, "exec"))
        found[archive_path(name, path, ".pyc")] = MAGIC_NUMBER + _FRESH + source_hash(b"") + code
    return found


def _bare(name: str, path: Path) -> CodeType:
    """Load a module's compiled code without line numbers: they are a third of its size and never read."""
    return _without_lines(cast("CodeType", SourceFileLoader(name, str(path)).get_code(name)))


def _without_lines(code: CodeType) -> CodeType:
    inner = tuple(_without_lines(one) if isinstance(one, CodeType) else one for one in code.co_consts)
    return code.replace(co_linetable=b"", co_consts=inner)
