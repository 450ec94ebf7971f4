# SPDX-License-Identifier: Apache-2.0
"""Read the `add_argument` calls of a vLLM release from its source, for old versions that are not worth installing."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from .expressions import Source, UnresolvedError
from .inside import DEPRECATED, INSTEAD
from .releases import Releases, ReleasesError

FILES = re.compile(
    r"vllm/(engine/arg_utils|entrypoints/openai/cli_args|entrypoints/cli/serve|scripts|config|executor/executor_base"
    r"|model_executor/layers/quantization/__init__|entrypoints/chat_utils|transformers_utils/config"
    r"|entrypoints/openai/(reasoning|tool)_parsers/\w+)\.py"
)
# Where the server's arguments are declared: file, function, and the parser's variable name.
DECLARATIONS = (
    ("vllm/entrypoints/openai/cli_args.py", "make_arg_parser", "parser"),
    ("vllm/engine/arg_utils.py", "add_cli_args", "parser"),
    ("vllm/entrypoints/cli/serve.py", None, "serve_parser"),
    ("vllm/scripts.py", None, "serve_parser"),
)
# Registries whose values the parser does not enforce for these arguments.
REGISTRIES = {
    "--tool-call-parser": "vllm/entrypoints/openai/tool_parsers/",
    "--reasoning-parser": "vllm/entrypoints/openai/reasoning_parsers/",
}
CONVERTERS: dict[str, tuple[str, list[str]]] = {
    "str": ("str", []),
    "int": ("int", []),
    "float": ("float", []),
    "json.loads": ("json", []),
    "loads": ("json", []),
    "nullable_str": ("str", ["none"]),
}
"""The converters that vLLM used; any other has its own syntax, which is left to the engine."""


def read_vllm(releases: Releases, version: str) -> dict[str, Any]:
    """Return the arguments of `vllm serve` in a release."""
    return read_sources(releases.read(version, FILES), version)


def read_sources(files: Mapping[str, str], version: str) -> dict[str, Any]:
    """Return the arguments, given the source files by path."""
    source = Source(files.values())
    arguments: dict[str, dict[str, Any]] = {}
    for path, function, parser in DECLARATIONS:
        if path in files:
            for call in calls(ast.parse(files[path]), function, parser):
                argument = describe(call, source)
                arguments.setdefault(argument["names"][0] if argument["names"] else argument["name"], argument)
    if not arguments:
        raise ReleasesError(f"no arguments of vllm {version} were found: its files are not where they were expected")
    for name, directory in REGISTRIES.items():
        words = sorted(registered(text for path, text in files.items() if path.startswith(directory)))
        if name in arguments and words and arguments[name]["choices"] is None:
            arguments[name]["values"] = words
    return {
        "version": version,
        "parser": {"underscores": True, "abbreviations": True, "subkeys": False, "attached": {}},
        "arguments": list(arguments.values()),
    }


def calls(tree: ast.Module, function: str | None, parser: str) -> Iterator[ast.Call]:
    """Yield the `add_argument` calls on a parser or one of its groups."""
    scopes = [node for node in ast.walk(tree) if isinstance(node, ast.FunctionDef) and node.name == function]
    for scope in scopes if function else [tree]:
        for node in ast.walk(scope):
            match node:
                case ast.Call(func=ast.Attribute(value=ast.Name(id=owner), attr="add_argument")):
                    if owner == parser or (function and owner.endswith("group")):
                        yield node


def describe(call: ast.Call, source: Source) -> dict[str, Any]:
    """Describe one argument as data."""
    words = [str(source.value(word)) for word in call.args]
    given = {keyword.arg: keyword.value for keyword in call.keywords if keyword.arg}
    names = [word for word in words if word.startswith("-")]
    action = ast.unparse(given["action"]).strip("'\"") if "action" in given else "store"
    kind, also = converter(given.get("type"))
    choices = literal(given.get("choices"), source)
    if isinstance(choices, list) and None in choices:
        choices, also = [choice for choice in choices if choice is not None], [*also, "none"]
    nargs = literal(given.get("nargs"), source)
    negatable = action.endswith("BooleanOptionalAction")
    if action in {"store_true", "store_false", "store_const"} or negatable:
        kind, nargs = "bool", 0
    elif action == "StoreBoolean":
        choices, also, nargs = ["true", "false"], [*also, "fold"], nargs or "?"
    help_text = " ".join(str(literal(given.get("help"), source) or "").split())
    instead = INSTEAD.search(help_text)
    deprecated = (f"use {instead.group(1).rstrip('.')}" if instead else "") if DEPRECATED.search(help_text) else None
    return {
        "names": names,
        "name": words[0].lstrip("-").replace("-", "_"),
        "type": kind,
        "nargs": nargs,
        "choices": choices,
        "also": also,
        "default": default(given.get("default"), action, source),
        "negatable": negatable,
        "required": literal(given.get("required"), source) is True,
        "repeatable": action == "append",
        "deprecated": deprecated,
    }


def converter(node: ast.expr | None) -> tuple[str, list[str]]:
    """Return the type of a converter and the other forms it accepts, based on its name."""
    if isinstance(node, ast.Call) and ast.unparse(node.func) in {"optional_type", "nullable"} and node.args:
        kind, also = converter(node.args[0])
        return kind, [*also, "none"]
    kind, also = CONVERTERS.get(ast.unparse(node), ("str", [])) if node is not None else ("str", [])
    return kind, list(also)


def literal(node: ast.expr | None, source: Source) -> Any:
    """Return the value of an expression, or None if it cannot be determined from the source."""
    try:
        return None if node is None else source.value(node)
    except UnresolvedError:
        return None


def default(node: ast.expr | None, action: str, source: Source) -> Any:
    if node is None:
        return {"store_true": False, "store_false": True}.get(action)
    value = literal(node, source)
    return value if isinstance(value, (bool, int, float, str, list, dict)) else None


def registered(texts: Iterable[str]) -> set[str]:
    """Return the registered names of classes: @Manager.register_module("word") or a list of names."""
    found: set[str] = set()
    for text in texts:
        for node in ast.walk(ast.parse(text)):
            match node:
                case ast.Call(func=ast.Attribute(attr="register_module"), args=[first, *_]):
                    for word in first.elts if isinstance(first, (ast.List, ast.Tuple)) else [first]:
                        if isinstance(word, ast.Constant) and isinstance(word.value, str):
                            found.add(word.value)
    return found
