# SPDX-License-Identifier: Apache-2.0
"""Find the release in which each flag first occurs by scanning the argument files of all releases."""

from __future__ import annotations

import argparse
import ast
import json
import re
import subprocess
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

from .document import earliest, release, write_document
from .releases import Releases

FLAG = re.compile(r"--[a-z0-9][a-z0-9_-]*")
# Where an engine declares its arguments; the files moved between releases.
FILES = {
    "vllm": re.compile(
        r"vllm/(engine/arg_utils|entrypoints/[\w/]*cli_args|entrypoints/cli/serve|scripts|entrypoints/openai/api_server)\.py"
    ),
    "sglang": re.compile(r"sglang/srt/(server_args|arg_groups/[\w/]+)\.py"),
}
# Classes whose fields each become a flag, in the releases that derive flags from fields.
FIELD_CLASSES = {"FrontendArgs", "BaseFrontendArgs", "ServerArgs"}
FIELD_FILES = "sglang/srt/arg_groups/fields/"
TRTLLM_FILE = "tensorrt_llm/commands/serve.py"


def flags_in(sources: Mapping[str, str]) -> set[str]:
    """Return the flags in argument files: string literals, or fields of a class whose fields become flags."""
    found: set[str] = set()
    for path, text in sources.items():
        tree = ast.parse(text)
        for node in ast.walk(tree):
            if isinstance(node, ast.Constant) and isinstance(node.value, str) and FLAG.fullmatch(node.value):
                found.add(node.value)
            elif isinstance(node, ast.ClassDef) and (node.name in FIELD_CLASSES or FIELD_FILES in path):
                found.update(f"--{name.replace('_', '-')}" for name in fields_of(node))
    return found


def fields_of(node: ast.ClassDef) -> Iterator[str]:
    for statement in node.body:
        if isinstance(statement, ast.AnnAssign) and isinstance(statement.target, ast.Name):
            yield statement.target.id


def lifetimes(releases: Iterable[tuple[str, set[str]]]) -> dict[str, list[list[str]]]:
    """Return flag -> [first, last] release of each period in which it existed, given releases in order."""
    found: dict[str, list[list[str]]] = {}
    before: str | None = None
    for version, flags in releases:
        for flag in flags:
            times = found.setdefault(flag, [])
            if times and times[-1][1] == before:
                times[-1][1] = version
            else:
                times.append([version, version])
        before = version
    return dict(sorted(found.items()))


def first_releases(history: Mapping[str, Any], version: str) -> dict[str, str]:
    """Return flag -> the release since which it has existed without a gap, for the flags of a version."""
    scanned = history["scanned"]
    newest = scanned[-1] if scanned else ""
    wanted = min(release(version), release(newest))
    return {
        flag: first
        for flag, times in history["flags"].items()
        for first, last in times
        if release(first) <= wanted <= release(last)
    }


def scan(engine: str, releases: Releases) -> Iterator[tuple[str, set[str]]]:
    for version in releases.wheels():
        sources = releases.read(version, FILES[engine])
        if sources:
            yield version, flags_in(sources)


def scan_tags(git: Path) -> Iterator[tuple[str, set[str]]]:
    """Scan the tags of a TensorRT-LLM clone; including release candidates, because they are in use."""
    listed = subprocess.run(["git", "-C", git, "tag", "--list", "v*"], capture_output=True, text=True, check=True)
    versions = [tag[1:] for tag in listed.stdout.split() if re.fullmatch(r"v\d+(\.\d+)*(rc\d+)?(\.post\d+)?", tag)]
    for version in sorted(versions, key=release):
        show = ["git", "-C", str(git), "show", f"v{version}:{TRTLLM_FILE}"]
        text = subprocess.run(show, capture_output=True, text=True, check=False)
        if text.returncode == 0:
            yield version, flags_in({TRTLLM_FILE: text.stdout})


def history_file(output: Path, engine: str) -> Path:
    return output / "since" / f"{engine}.json"


def load(output: Path, engine: str, version: str) -> dict[str, str]:
    """Return the results of an earlier scan for a version."""
    path = history_file(output, engine)
    return first_releases(json.loads(path.read_text(encoding="utf-8")), version) if path.is_file() else {}


def update(arguments: argparse.Namespace) -> list[Path]:
    """Scan the releases, write the history, and update `since` in this engine's existing schemas."""
    engine = arguments.engine
    if engine == "tensorrt-llm":
        found, where = list(scan_tags(arguments.git)), "the tags of its repository"
    else:
        found = list(scan(engine, Releases(engine, index=arguments.index, cache=arguments.cache)))
        where = "its releases on the package index"
    history = {
        "engine": engine,
        "source": f"the argument files of {engine}, {where}, read without running them",
        "date": arguments.date,
        "note": "first and last release that names a flag; one of the first scanned release may be older",
        "scanned": [version for version, _ in found],
        "flags": lifetimes(found),
    }
    path = history_file(arguments.output, engine)
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(render_history(history), encoding="utf-8")
    written = [path]
    for schema in sorted(arguments.output.glob(f"{engine}-*.json")):
        document = json.loads(schema.read_text(encoding="utf-8"))
        first = first_releases(history, document["version"])
        for flag in document["flags"]:
            flag["since"] = earliest(flag["names"], first)
        written.append(write_document(document, arguments.output))
    return written


def render_history(history: Mapping[str, Any]) -> str:
    """Render the history with one flag per line."""
    head = {key: value for key, value in history.items() if key not in {"flags", "scanned"}}
    lines = json.dumps(head, indent=2).removesuffix("\n}")
    flags = ",\n".join(f"    {json.dumps(flag)}: {json.dumps(times)}" for flag, times in history["flags"].items())
    return f'{lines},\n  "scanned": {json.dumps(history["scanned"])},\n  "flags": {{\n{flags}\n  }}\n}}\n'
