# SPDX-License-Identifier: Apache-2.0
"""One text of a program and all its parts, for an interpreter that knows nothing of this project."""

from __future__ import annotations

import re
from collections.abc import Iterator
from importlib.machinery import ModuleSpec
from importlib.util import find_spec
from typing import Any

_LOADER = '''\
# firstlight: written by firstlight, changes are overwritten
"""{title}

One text of several parts: each is made a module under its own name, in the order in which they need each other.
"""
import sys, types

PARTS = [
{parts}]
for name, source in PARTS:
    above = ""
    for step in ("{top}." + name).split(".")[:-1]:
        above += "." * bool(above) + step
        if above not in sys.modules:
            package = sys.modules[above] = types.ModuleType(above)
            package.__path__ = []
    module = types.ModuleType(above + "." + name.rpartition(".")[2])
    module.__package__ = above
    module.__file__ = name.replace(".", "/") + ".py"
    sys.modules[module.__name__] = module
    exec(compile(source, module.__file__, "exec"), module.__dict__)
sys.modules["{top}.{entry}"].main()
'''


_IMPORT = re.compile(r"^[ \t]*from (\.*)([\w.]*) import (\([^)]*\)|[^\n#]*)", re.MULTILINE)
"""How a part names another one. A syntax tree of every part would say the same, and take most of a short run's time."""


def bundle(entry: str, root: str, title: str) -> str:
    """The source of the program whose `main` is in the module `entry`, with every module of `root` that it imports.

    Parts import each other relatively or by their names below `root`, everything else must be in the standard library.
    None of them is imported here.
    Raises ValueError for a part that could not be found in the text again.
    """
    parts: dict[str, str] = {}
    _collect(entry, root, parts)
    texts = "".join(_part(name, source) for name, source in parts.items())
    return _LOADER.format(title=title, parts=texts, top=root, entry=_within(entry, root))


def _part(name: str, source: str) -> str:
    """A line of the program for each line of the part: a diff of two programs can be read."""
    lines = "".join(f"{line!r}\n" for line in source.splitlines(keepends=True))
    return f"({name!r}, (\n{lines})),\n"


def _collect(module: str, root: str, parts: dict[str, str]) -> None:
    """Put what a module needs before the module itself."""
    name = _within(module, root)
    if name in parts:
        return
    source = _source(module)
    for needed in _imports(source, module, root):
        _collect(needed, root, parts)
    parts[name] = source


def _imports(source: str, name: str, root: str) -> Iterator[str]:
    for dots, module, names in _IMPORT.findall(source):
        if not dots and not module.startswith(f"{root}."):
            if module.startswith("ansible"):
                raise ValueError(f"{name} imports {module}: expected a part of {root} or the standard library")
            continue
        found = ".".join([*name.split(".")[: -len(dots)], *filter(None, [module])]) if dots else module
        if _spec(found).submodule_search_locations is None:
            yield found
            continue
        for alias in re.findall(r"(\w+)(?: as \w+)?", re.sub(r"#.*", "", names)):
            yield f"{found}.{alias}"


def _source(name: str) -> str:
    loader: Any = _spec(name).loader  # of a file, of the archive that a module comes in, or Ansible's own
    source = loader.get_source(name)
    return source.decode() if isinstance(source, bytes) else source  # Ansible's gives bytes


def _spec(name: str) -> ModuleSpec:
    spec = find_spec(name)
    if spec is None:
        raise ValueError(f"there is no {name}: expected a module that a part imports")
    return spec


def _within(name: str, root: str) -> str:
    if not name.startswith(f"{root}."):
        raise ValueError(f"{name} is not below {root}: expected only parts of the same package")
    return name[len(root) + 1 :]
