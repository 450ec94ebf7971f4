# SPDX-License-Identifier: Apache-2.0
"""Evaluate expressions in an engine's source without running it.

Supports what argument declarations use: literals, constants of the same release, enumeration members, Literal values.
"""

from __future__ import annotations

import ast
from collections.abc import Iterable
from typing import Any

DEEPEST = 20


class UnresolvedError(Exception):
    """The value of the expression cannot be determined from its source alone."""


class Source:
    """The constants, enumerations and class fields defined in the files of a release."""

    def __init__(self, texts: Iterable[str]) -> None:
        self.names: dict[str, ast.expr] = {}
        self.fields: dict[str, dict[str, ast.expr]] = {}
        self.trees = [ast.parse(text) for text in texts]
        for tree in self.trees:
            for node in tree.body:
                self._remember(node)

    def _remember(self, node: ast.stmt) -> None:
        for name, value in _assigned(node):
            self.names.setdefault(name, value)
        if isinstance(node, ast.ClassDef):
            fields = self.fields.setdefault(node.name, {})
            for inner in node.body:
                for name, value in _assigned(inner):
                    fields.setdefault(name, value)

    def value(self, node: ast.expr, depth: int = 0) -> Any:
        """Return the value of an expression. Raises UnresolvedError."""
        if depth > DEEPEST:
            raise UnresolvedError("an expression that leads in a circle")
        match node:
            case ast.Constant(value=value):
                return value
            case ast.List(elts=items) | ast.Tuple(elts=items) | ast.Set(elts=items):
                return self._items(items, depth)
            case ast.Dict(keys=keys, values=values):
                pairs = zip(keys, values, strict=True)
                return {self.value(key, depth + 1): self._or_none(value, depth) for key, value in pairs if key}
            case ast.UnaryOp(op=ast.USub(), operand=operand):
                return -self.value(operand, depth + 1)
            case ast.BinOp(left=left, op=ast.Add(), right=right):
                return self.value(left, depth + 1) + self.value(right, depth + 1)
            case ast.Name() | ast.Attribute():
                return self._named(node, depth)
            case ast.Call():
                return self._call(node, depth)
            case ast.Subscript(value=ast.Name(id="Literal"), slice=inner):
                words = self.value(inner, depth + 1)
                return words if isinstance(words, list) else [words]
            case ast.ListComp(generators=[ast.comprehension(iter=source, ifs=[])]):
                return list(self.value(source, depth + 1))  # in declarations always `member.value for member in Enum`
        raise UnresolvedError(ast.unparse(node))

    def _named(self, node: ast.Name | ast.Attribute, depth: int) -> Any:
        """Return the value of a constant, an enumeration, or a field of a class."""
        match node:
            case ast.Name(id=name) if name in self.names:
                return self.value(self.names[name], depth + 1)
            case ast.Name(id=name) if name in self.fields:
                return list(self.members(name, depth))
            case ast.Attribute(value=ast.Name(id=owner), attr=name) if name in self.fields.get(owner, {}):
                return self.value(self.fields[owner][name], depth + 1)
            case ast.Attribute(
                value=ast.Subscript(value=ast.Attribute(value=ast.Name(id=owner), attr="model_fields"), slice=key),
                attr="default",
            ):
                return self._model_default(owner, str(self.value(key, depth + 1)), depth)
            case ast.Attribute(value=inner, attr="value" | "name"):
                return self.value(inner, depth + 1)
        raise UnresolvedError(ast.unparse(node))

    def _items(self, items: Iterable[ast.expr], depth: int) -> list[Any]:
        found: list[Any] = []
        for item in items:
            if isinstance(item, ast.Starred):
                found += list(self.value(item.value, depth + 1))
            else:
                found.append(self.value(item, depth + 1))
        return found

    def _or_none(self, node: ast.expr, depth: int) -> Any:
        try:
            return self.value(node, depth + 1)
        except UnresolvedError:
            return None

    def _call(self, node: ast.Call, depth: int) -> Any:
        match node:
            case ast.Call(func=ast.Name(id="get_args" | "list" | "sorted" | "tuple" | "set"), args=[inner]):
                return list(self.value(inner, depth + 1))
            case ast.Call(func=ast.Attribute(value=inner, attr="keys"), args=[]):
                return list(self.value(inner, depth + 1))
            case ast.Call(func=ast.Attribute(value=inner, attr="lower"), args=[]):
                return str(self.value(inner, depth + 1)).lower()
        raise UnresolvedError(ast.unparse(node))

    def _model_default(self, owner: str, name: str, depth: int) -> Any:
        """Return the default of a pydantic field, given directly or as Field(default=...)."""
        node = self.fields.get(owner, {}).get(name)
        if isinstance(node, ast.Call) and ast.unparse(node.func) == "Field":
            given = [keyword.value for keyword in node.keywords if keyword.arg == "default"] + node.args
            node = given[0] if given else None
        if node is None:
            raise UnresolvedError(f"{owner}.{name}")
        return self.value(node, depth + 1)

    def members(self, name: str, depth: int = 0) -> Iterable[Any]:
        """Return the values of an enumeration."""
        return [self.value(node, depth + 1) for node in self.fields[name].values()]


def _assigned(node: ast.stmt) -> list[tuple[str, ast.expr]]:
    match node:
        case ast.Assign(targets=[ast.Name(id=name)], value=value):
            return [(name, value)]
        case ast.AnnAssign(target=ast.Name(id=name), value=ast.expr() as value):
            return [(name, value)]
    return []
