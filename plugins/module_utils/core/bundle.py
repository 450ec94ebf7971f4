# SPDX-License-Identifier: Apache-2.0
"""One text of a program and all its parts, for an interpreter that knows nothing of this project."""

from __future__ import annotations

import ast
import importlib
import inspect
from collections.abc import Iterator, Sequence
from types import ModuleType

_TOP = "firstlight"
"""The package as which the parts know each other inside of the text."""

_LOADER = '''\
# firstlight: written by firstlight, changes are overwritten
"""{title}

One text of several parts: each is made a module under its own name, in the order in which they need each other.
"""
import sys, types

PARTS = [
{parts}]
for name, source in PARTS:
    above = "{top}"
    for step in ("", *name.split(".")[:-1]):
        above += "." * bool(step) + step
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


def bundle(entry: ModuleType, root: str, title: str) -> str:
    """The source of the program whose `main` is in `entry`, with every module of `root` that it imports.

    Parts import each other relatively, everything else must be in the standard library. Raises ValueError for a part
    that could not be found in the text again.
    """
    parts: dict[str, str] = {}
    _collect(entry, root, parts)
    texts = "".join(_part(name, source) for name, source in parts.items())
    return _LOADER.format(title=title, parts=texts, top=_TOP, entry=_within(entry.__name__, root))


def _part(name: str, source: str) -> str:
    """A line of the program for each line of the part: a diff of two programs can be read."""
    lines = "".join(f"{line!r}\n" for line in source.splitlines(keepends=True))
    return f"({name!r}, (\n{lines})),\n"


def _collect(module: ModuleType, root: str, parts: dict[str, str]) -> None:
    """Put what a module needs before the module itself."""
    name = _within(module.__name__, root)
    if name in parts:
        return
    source = inspect.getsource(module)
    for needed in _imports(ast.parse(source), module.__name__):
        _collect(needed, root, parts)
    parts[name] = source


def _statements(body: Sequence[ast.AST]) -> Iterator[ast.AST]:
    """Those of a body and of the bodies in it: a fraction of all nodes, and an import is one of them."""
    for node in body:
        yield node
        for within in ("body", "orelse", "handlers", "finalbody", "cases"):
            inner = getattr(node, within, ())
            if isinstance(inner, list):  # what stands in a conditional expression or a lambda is no statement
                yield from _statements(inner)


def _imports(tree: ast.Module, name: str) -> Iterator[ModuleType]:
    for node in _statements(tree.body):
        if not isinstance(node, ast.ImportFrom):
            continue
        if not node.level:
            if (node.module or "").startswith("ansible"):
                raise ValueError(f"{name} imports {node.module}: expected a relative import or the standard library")
            continue
        base = ".".join(name.split(".")[: -node.level])
        found = importlib.import_module(f"{base}.{node.module}" if node.module else base)
        if not hasattr(found, "__path__"):
            yield found
            continue
        for alias in node.names:
            yield importlib.import_module(f"{found.__name__}.{alias.name}")


def _within(name: str, root: str) -> str:
    if not name.startswith(f"{root}."):
        raise ValueError(f"{name} is not below {root}: expected only parts of the same package")
    return name[len(root) + 1 :]
