# SPDX-License-Identifier: Apache-2.0
"""`firstlight catalog check`: report facts without a source, values that a run must supply, and outdated entries."""

from __future__ import annotations

import argparse
import datetime as dt
import json
import os
import sys
from itertools import groupby
from pathlib import Path
from typing import Any

from ansible_collections.firstlight.cluster.plugins.plugin_utils.catalog.check import (
    DAYS,
    KINDS,
    UNREADABLE,
    Finding,
    check_catalog,
)
from ansible_collections.firstlight.cluster.plugins.plugin_utils.catalog.load import BUILT_IN

from firstlight.errors import DONE, OPEN, REFUSED, UsageError
from firstlight.options import add_json_option


def add_parser(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    parser = commands.add_parser("catalog")
    actions = parser.add_subparsers(dest="action", required=True)
    check = actions.add_parser(
        "check",
        help="list what in the catalog has no source, is missing or is old",
        description="Reads the catalog and a site's own. Lists entries and fields without a source, values a run must "
        "be given, and entries older than a number of days. Nothing is contacted. Exits 0 when there are no "
        "findings, 3 when there are some, 2 when a catalog cannot be read. Example: firstlight catalog check --days 30",
    )
    check.set_defaults(run=run)
    check.add_argument(
        "--catalog",
        action="append",
        default=[],
        type=Path,
        metavar="DIRECTORY",
        help="a site's catalog, searched first; an entry of the same name replaces the collection's",
    )
    check.add_argument("--own", action="store_true", help="only the catalogs of --catalog, not the collection's")
    check.add_argument(
        "--days", type=_days, default=DAYS, metavar="N", help="age in days of an old entry (default: %(default)s)"
    )
    check.add_argument(
        "--only", action="append", choices=KINDS, help="findings of one kind; may be repeated (default: all)"
    )
    add_json_option(check)


def run(arguments: argparse.Namespace) -> int:
    """Check the catalog and print the findings; the exit status says whether there are any."""
    if arguments.own and not arguments.catalog:
        raise UsageError("--own checks only the catalogs of --catalog: name one")
    directories = [*arguments.catalog, *([] if arguments.own else [BUILT_IN])]
    found, entries = check_catalog(directories, dt.datetime.now(dt.UTC).date(), arguments.days)
    # An unreadable file hides its other findings, so it is always reported.
    findings = [one for one in found if one.kind in (arguments.only or KINDS) or one.kind == UNREADABLE]
    if arguments.json:
        sys.stdout.write(json.dumps(document(findings, entries, arguments.days), indent=2) + "\n")
    else:
        sys.stdout.write(page(findings, entries))
    if any(one.kind == UNREADABLE for one in findings):
        return REFUSED
    return OPEN if findings else DONE


def document(findings: list[Finding], entries: int, days: int) -> dict[str, Any]:
    """The findings as a JSON-serialisable document."""
    return {"entries": entries, "days": days, "findings": [one.document() for one in findings]}


def page(findings: list[Finding], entries: int) -> str:
    """Render the findings for the terminal: grouped by entry, each with its remedy."""
    lines: list[str] = []
    for (path, entry), group in groupby(findings, key=lambda one: (one.path, one.entry)):
        lines += [f"{entry} ({_near(path)})"]
        lines += [
            f"  {one.kind:10} {f'{one.field}: ' if one.field else ''}{one.found}\n             fix: {one.remedy}"
            for one in group
        ]
    named = len({(one.path, one.entry) for one in findings})
    total = f"{entries} entries" if entries != 1 else "1 entry"
    lines += [f"{total}, {named} to check." if findings else f"{total}, nothing to check."]
    return "\n".join(lines) + "\n"


def _near(path: str) -> str:
    """Return the path relative to the current directory if that is shorter."""
    return min(path, os.path.relpath(path), key=len)


def _days(text: str) -> int:
    if not text.isdecimal():
        raise argparse.ArgumentTypeError(f"{text!r} is not a number of days")
    return int(text)
