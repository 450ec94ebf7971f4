# SPDX-License-Identifier: Apache-2.0
"""`firstlight init`: an inventory to begin with, of one kind of hardware, that plans as it is."""

from __future__ import annotations

import argparse
import shlex
import sys
from collections.abc import Iterator
from pathlib import Path

from firstlight.console import safe
from firstlight.errors import FirstlightError

SCAFFOLD = Path(__file__).parents[1] / "scaffold"
KINDS = {
    "spark2": "two DGX Sparks",
    "spark4": "four DGX Sparks on a 200 GbE switch",
    "spark-racks": "eight DGX Sparks in two racks, one cluster",
    "h100x4": "one node with four H100 SXM",
    "h100x8": "one node with eight H100 SXM",
    "h200x8": "one node with eight H200 SXM",
}
"""What there is under scaffold/, in the order `--help` lists it."""


def add_parser(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    parser = commands.add_parser(
        "init",
        help="write an inventory to begin with",
        description="Writes a rack file and group_vars into an empty directory, with every choice explained beside it. "
        "The inventory plans as it is. KIND is " + "; ".join(f"{kind} ({what})" for kind, what in KINDS.items()) + ".",
    )
    parser.set_defaults(run=run)
    parser.add_argument("kind", metavar="KIND", choices=KINDS, help=", ".join(KINDS))
    parser.add_argument("directory", metavar="DIRECTORY", type=Path, help="new, or empty")


def run(arguments: argparse.Namespace) -> int:
    """Write the files, and say what to do with them."""
    written = scaffold(arguments.kind, arguments.directory)
    shown = shlex.quote(str(arguments.directory))
    lines = [
        f"{arguments.kind}, {KINDS[arguments.kind]}:",
        *(f"  {path}" for path in written),
        "Put your names, ranges and limits in, then look at it; no host is contacted:",
        f"  ansible-inventory -i {shown} --graph",
        f"  firstlight plan -i {shown}",
    ]
    sys.stdout.write(safe("\n".join(lines)) + "\n")
    return 0


def scaffold(kind: str, directory: Path) -> list[Path]:
    """The files of this kind, written into the directory."""
    _check_empty(directory)
    written: list[Path] = []
    for source in _files(SCAFFOLD / kind):
        target = directory / source.relative_to(SCAFFOLD / kind)
        target.parent.mkdir(parents=True, exist_ok=True)
        with target.open("x", encoding="utf-8") as stream:  # never over a file that came up meanwhile
            stream.write(source.read_text(encoding="utf-8"))
        written.append(target)
    return written


def _files(directory: Path) -> Iterator[Path]:
    yield from sorted((path for path in directory.rglob("*.yml")), key=lambda path: (len(path.parts), path.name))


def _check_empty(directory: Path) -> None:
    if directory.exists() and not directory.is_dir():
        raise FirstlightError(f"{directory} is a file; expected a new or empty directory: choose another name")
    found = sorted(path.name for path in directory.iterdir()) if directory.exists() else []
    if found:
        more = f" and {len(found) - 1} more" if len(found) > 1 else ""
        raise FirstlightError(
            f"{directory} is not empty, it has {found[0]}{more}; expected a new or empty directory, as no file of "
            "yours is written over: choose another, or move what is there away"
        )
