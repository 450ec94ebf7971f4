# SPDX-License-Identifier: Apache-2.0
"""Read the click options of `trtllm-serve` from a clone of TensorRT-LLM, whose wheels only import on a GPU host."""

from __future__ import annotations

import ast
import subprocess
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

from .expressions import Source, UnresolvedError
from .python_source import literal
from .releases import ReleasesError

SERVE = "tensorrt_llm/commands/serve.py"
# Files that define values which serve.py refers to.
DEFINITIONS = (
    "tensorrt_llm/llmapi/reasoning_parser.py",
    "tensorrt_llm/serve/tool_parser/tool_parser_factory.py",
    "tensorrt_llm/logger.py",
    "tensorrt_llm/builder.py",
    "tensorrt_llm/llmapi/llm_args.py",
)
TYPES = {"str": "str", "int": "int", "float": "float", "bool": "str", "click.INT": "int", "click.FLOAT": "float"}


def read_trtllm(git: Path, version: str) -> dict[str, Any]:
    """Return the options of `trtllm-serve MODEL` at a tag."""
    commit = commit_of(git, version)
    return {**read_sources(read_files(git, commit, (SERVE, *DEFINITIONS)), version), "commit": commit}


def commit_of(git: Path, version: str) -> str:
    """Return the commit of a release's tag."""
    commit = _git(git, "rev-parse", f"v{version}^{{commit}}")
    if commit is None:
        raise ReleasesError(f"{git} has no tag v{version}: fetch the tags, or name another version")
    return commit.strip()


def read_files(git: Path, commit: str, paths: Iterable[str]) -> dict[str, str]:
    """Return those of the files that exist in a commit, with their text."""
    files = {path: _git(git, "show", f"{commit}:{path}") for path in paths}
    return {path: text for path, text in files.items() if text is not None}


def _git(git: Path, *words: str) -> str | None:
    done = subprocess.run(["git", "-C", git, *words], capture_output=True, text=True, check=False)
    return done.stdout if done.returncode == 0 else None


def read_sources(files: dict[str, str], version: str) -> dict[str, Any]:
    """Return the options, given the source files by path."""
    tree = ast.parse(files[SERVE])
    source = Source(files.values())
    command = next(
        (node for node in ast.walk(tree) if isinstance(node, ast.FunctionDef) and node.name == "serve"), None
    )
    if command is None:
        raise ReleasesError(f"tensorrt-llm {version} has no function serve in {SERVE}: its files were reordered")
    arguments = [describe(call, source) for call in click_calls(command)]
    return {
        "version": version,
        "parser": {"underscores": False, "abbreviations": False, "subkeys": False, "attached": {}},
        "arguments": arguments,
    }


def click_calls(command: ast.FunctionDef) -> Iterator[ast.Call]:
    """Yield the decorators @click.argument(...) and @click.option(...) of a command."""
    for decorator in command.decorator_list:
        match decorator:
            case ast.Call(func=ast.Attribute(value=ast.Name(id="click"), attr="argument" | "option")):
                yield decorator


def describe(call: ast.Call, source: Source) -> dict[str, Any]:
    """Describe one option or argument as data."""
    words = [str(source.value(word)) for word in call.args]
    given = {keyword.arg: keyword.value for keyword in call.keywords if keyword.arg}
    names = [name for word in words if word.startswith("-") for name in word.split("/")]
    switch = literal(given.get("is_flag"), source) is True
    kind, choices = option_type(given.get("type"), source)
    return {
        "names": [name.strip() for name in names if not name.strip().startswith("--no-")],
        "name": words[-1].lstrip("-"),
        "type": "bool" if switch else kind,
        "nargs": 0 if switch else literal(given.get("nargs"), source),
        "choices": choices,
        "default": literal(given.get("default"), source),
        "negatable": any(name.strip().startswith("--no-") for name in names),
        "required": literal(given.get("required"), source) is True,
        "repeatable": literal(given.get("multiple"), source) is True,
        "deprecated": "" if "deprecated" in ast.unparse(given.get("help", ast.Constant(""))).lower() else None,
        "help": stability(given.get("help")),
    }


def option_type(node: ast.expr | None, source: Source) -> tuple[str, list[str] | None]:
    """Return a type, and the values of a click.Choice or a class derived from it."""
    match node:
        case ast.Call(func=function, args=[words, *more]) if ast.unparse(function).endswith(
            ("Choice", "ChoiceWithAlias")
        ):
            aliases = literal(more[0], source) if more else {}
            return "str", sorted({*choice_words(words, source), *(aliases or {})})
        case None:
            return "str", None
    return TYPES.get(ast.unparse(node), "str"), None


def choice_words(node: ast.expr, source: Source) -> list[str]:
    try:
        return [str(word) for word in source.value(node)]
    except UnresolvedError as error:
        raise ReleasesError(f"the choices {error} are not in the files read: add the one that defines them") from error


def stability(node: ast.expr | None) -> str:
    """Return the stability of an option according to NVIDIA: the tag of its help."""
    if isinstance(node, ast.Call) and len(node.args) == 2 and isinstance(node.args[1], ast.Constant):
        return str(node.args[1].value)
    return ""
