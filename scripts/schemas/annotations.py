# SPDX-License-Identifier: Apache-2.0
"""Convert annotations of pydantic models, read from their source, to data that lists the accepted values."""

from __future__ import annotations

import ast
from collections.abc import Iterable
from typing import Any

PLAIN = {"int": "int", "float": "float", "str": "str", "bool": "bool", "Path": "str", "dict": "map", "None": "null"}
ANYTHING = {"object", "Any"}
OF_PYTHON = {"TokenizerBase", "PreTrainedTokenizerBase"}
"""Types whose objects can only be passed by a program."""
LISTS = {"List", "list", "Set", "set", "Tuple", "tuple"}
MAPS = {"Dict", "dict"}
BACKEND = "pytorch"


class Unreadable(Exception):  # noqa: N818 - describes an annotation, as its neighbour does
    """The annotation has an unknown form."""


class Annotations:
    """The classes and aliases of a release, which give annotations their meaning."""

    def __init__(self, trees: Iterable[ast.Module]) -> None:
        self.classes: dict[str, ast.ClassDef] = {}
        self.aliases: dict[str, ast.expr] = {}
        for node in (node for tree in trees for node in tree.body):
            match node:
                case ast.ClassDef(name=name):
                    self.classes.setdefault(name, node)
                case ast.AnnAssign(
                    target=ast.Name(id=name), annotation=ast.Name(id="TypeAlias"), value=ast.expr() as value
                ):
                    self.aliases.setdefault(name, value)

    def lineage(self, name: str) -> list[str]:
        """Return a class with its ancestors, the class itself last; those from other files are left out."""
        found: list[str] = []
        for base in self.classes[name].bases:
            if isinstance(base, ast.Name) and base.id in self.classes:
                found += [one for one in self.lineage(base.id) if one not in found]
        return [*found, name]

    def takes(self, node: ast.expr) -> list[Any]:
        """Return everything that an annotation accepts, without duplicates."""
        found: list[Any] = []
        for one in self._each(node):
            if one not in found:
                found.append(one)
        # A string that is not one of an enumeration's values fails later, if not at once.
        if any(isinstance(one, dict) and "words" in one for one in found):
            found = [one for one in found if one != "str"]
        return ["any"] if "any" in found else found

    def _each(self, node: ast.expr) -> list[Any]:
        match node:
            case ast.Constant(value=None):
                return ["null"]
            case ast.Constant(value=str(text)):
                return self._each(ast.parse(text, mode="eval").body)
            case ast.Subscript(value=ast.Name(id="Optional"), slice=inner):
                return [*self._each(inner), "null"]
            case ast.Subscript(value=ast.Name(id="Union"), slice=ast.Tuple(elts=items)):
                return self._union(items)
            case ast.Subscript(value=ast.Name(id="Literal"), slice=inner):
                words = inner.elts if isinstance(inner, ast.Tuple) else [inner]
                return [{"words": [one.value for one in words if isinstance(one, ast.Constant)]}]
            case ast.Subscript(value=ast.Name(id=name), slice=inner) if name in LISTS:
                return [{"list": self.takes(inner)}]
            case ast.Subscript(value=ast.Name(id=name), slice=ast.Tuple(elts=[_, inner])) if name in MAPS:
                return [{"map": self.takes(inner)}]
            case ast.Name(id=name):
                return self._name(name)
        raise Unreadable(ast.unparse(node))

    def _name(self, name: str) -> list[Any]:
        if name in PLAIN:
            return [PLAIN[name]]
        if name in ANYTHING:
            return ["any"]
        if name in OF_PYTHON:
            return []
        if name in self.aliases:
            return self._each(self.aliases[name])
        if name not in self.classes:
            raise Unreadable(name)
        bases = {ast.unparse(base) for base in self.classes[name].bases}
        if bases & {"Enum", "StrEnum"}:
            return [self._words(name, by_name="Enum" in bases)]
        return [{"object": name}]

    def _words(self, name: str, *, by_name: bool) -> dict[str, Any]:
        """Return the members of an enumeration: their values, or their names in any case."""
        members = [
            (str(target.id), value.value)
            for node in self.classes[name].body
            if isinstance(node, ast.Assign) and isinstance(value := node.value, ast.Constant)
            for target in node.targets
            if isinstance(target, ast.Name)
        ]
        return (
            {"words": [one for one, _ in members], "fold": True} if by_name else {"words": [one for _, one in members]}
        )

    def _union(self, items: list[ast.expr]) -> list[Any]:
        names = [item.id for item in items if isinstance(item, ast.Name)]
        for base in self.lineage(names[0])[:-1] if len(names) == len(items) and names[0] in self.classes else ():
            choice = self._choice(base)
            if choice is not None:
                return [choice]
        return [one for item in items for one in self._each(item)]

    def _choice(self, base: str) -> dict[str, Any] | None:
        """Return the classes that a base class's `from_dict` chooses from, and the key; limited to those of the
        backend.
        """
        method = self._method(base, "from_dict")
        key, choice, fold = "", {}, False
        for node in ast.walk(method) if method else ():
            match node:
                case ast.Call(
                    func=ast.Attribute(value=ast.Name(id="data"), attr="get"), args=[ast.Constant(value), *_]
                ):
                    key = str(value)
                case ast.Assign(targets=[ast.Name(id="config_classes")], value=ast.Dict(keys=keys, values=values)):
                    pairs = zip(keys, values, strict=True)
                    choice = {
                        one.value: kind.id
                        for one, kind in pairs
                        if isinstance(one, ast.Constant) and isinstance(kind, ast.Name)
                    }
                case ast.Attribute(attr="lower"):
                    fold = True
        known = {word: kind for word, kind in choice.items() if self._on_backend(kind)}
        return {"chosen_by": key, "of": known, **({"fold": True} if fold else {})} if known else None

    def _on_backend(self, name: str) -> bool:
        method = self._method(name, "supports_backend")
        told = ast.unparse(method) if method else ""
        return not ("not in" in told and repr(BACKEND) in told)

    def _method(self, name: str, method: str) -> ast.FunctionDef | None:
        body = self.classes[name].body
        return next((one for one in body if isinstance(one, ast.FunctionDef) and one.name == method), None)
