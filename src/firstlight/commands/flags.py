# SPDX-License-Identifier: Apache-2.0
"""`firstlight flags`: check a command line against a pinned engine's flags, and suggest replacements."""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path
from typing import Any

from ansible_collections.firstlight.cluster.plugins.plugin_utils.catalog.load import CatalogError
from ansible_collections.firstlight.cluster.plugins.plugin_utils.catalog.names import suggest
from ansible_collections.firstlight.cluster.plugins.plugin_utils.engines.arguments import (
    Finding,
    check_arguments,
    to_errors,
)
from ansible_collections.firstlight.cluster.plugins.plugin_utils.engines.replaced import load_replaced
from ansible_collections.firstlight.cluster.plugins.plugin_utils.engines.schema import (
    ENGINES,
    available,
    engine_name,
    load_schema,
)
from ansible_collections.firstlight.cluster.plugins.plugin_utils.engines.values import show
from ansible_collections.firstlight.cluster.plugins.plugin_utils.findings import PlanErrors
from rich.console import Console
from rich.table import Table
from rich.text import Text

from firstlight.console import open_console
from firstlight.errors import DONE, REFUSED, UsageError
from firstlight.options import add_json_option


def add_parser(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    parser = commands.add_parser(
        "flags",
        description="Compares a command line with the flags of an engine's own parser. Exits 0, or 2 when the "
        "engine would refuse it. Example: firstlight flags vllm==0.32.0 -- vllm serve /model --tensor-parallel-size 4",
    )
    parser.set_defaults(run=run)
    _options(parser)
    parser.add_argument("engine", metavar="ENGINE==VERSION", help="such as vllm==0.32.0")
    parser.add_argument("words", nargs=argparse.REMAINDER, metavar="-- ARGS", help="the command line, after two dashes")


def _options(parser: argparse.ArgumentParser) -> None:
    add_json_option(parser)
    parser.add_argument(
        "--catalog",
        action="append",
        default=[],
        type=Path,
        metavar="DIRECTORY",
        help="a site's catalog, searched first",
    )


def run(arguments: argparse.Namespace) -> int:
    """Check the command line and print the result; the exit status says whether the engine would reject it."""
    words = _take_options(arguments)
    directories = [*(directory / "engines" for directory in arguments.catalog), ENGINES]
    try:
        document = check(directories, arguments.engine, words)
    except CatalogError as error:
        raise UsageError(str(error)) from error
    if sys.stdout is not None:  # stdout was closed by the caller; the exit status still counts
        sys.stdout.write(json.dumps(document, indent=2) + "\n" if arguments.json else _page(document))
    return REFUSED if document["errors"] else DONE


def _take_options(arguments: argparse.Namespace) -> list[str]:
    """Return the words after `--`; our own options may also appear between the engine and `--`."""
    words: list[str] = arguments.words
    end = words.index("--") if "--" in words else len(words)
    own = argparse.ArgumentParser(prog="firstlight flags", add_help=False, allow_abbrev=False)
    _options(own)
    found, rest = own.parse_known_args(words[:end])
    arguments.json = arguments.json or found.json
    arguments.catalog = [*arguments.catalog, *found.catalog]
    return [*rest, *words[end + 1 :]]


def check(directories: list[Path], engine: str, words: list[str]) -> dict[str, Any]:
    """Check a command line and return the findings as a document."""
    errors = PlanErrors()
    name, _, version = engine.partition("==")
    name, version = engine_name(name), version.strip()
    schema = load_schema(directories, name, version)
    findings: list[Finding] = []
    if schema is None:
        known = available(directories)
        asked = f"{name}=={version}" if version else name
        errors.add(
            "engine.schema",
            f"the catalog has no flags for {show(engine)!r}",
            f"the engine is one of {', '.join(known) or 'none: the catalog is empty'}",
            suggest(asked[:80], known, otherwise="generate the schema of another version, see docs/engines.md"),
        )
    else:
        findings = check_arguments(schema, words, load_replaced(directories))
        to_errors(findings, errors)
    return {"engine": show(name), "version": show(version), "flags": findings, "errors": errors.found}


def _page(document: dict[str, Any]) -> str:
    console = open_console()
    with console.capture() as captured:
        _print(console, document)
    return captured.get()


def _print(console: Console, document: dict[str, Any]) -> None:
    if document["flags"]:
        table = Table("", "argument", "what to know", box=None, pad_edge=False)
        for finding in document["flags"]:
            mark = Text("no", "bold red") if finding["problem"] else Text("ok", "green")
            table.add_row(mark, Text(finding["argument"]), Text(_remark(finding)))
        console.print(table)
    for error in document["errors"]:
        console.print(Text(f"\n{error['found']} [{error['id']}]"))
        console.print(Text(f"   fix: {error['remedy']}"))
    title = f"{document['engine']} {document['version']}"
    if not document["errors"]:
        console.print(
            Text(f"{title} knows all of these flags." if document["flags"] else f"No flags to check for {title}.")
        )


def _remark(finding: Finding) -> str:
    if finding["problem"] is None:
        return finding["explanation"] or ""
    if finding["replaced_by"]:
        return f"write {finding['replaced_by']}"
    if finding["nearest"]:
        return f"nearest: {finding['nearest']}"
    return "see below"
