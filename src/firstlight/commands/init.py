# SPDX-License-Identifier: Apache-2.0
"""`firstlight init`: write a starter inventory for a kind of hardware, or for discovered nodes."""

from __future__ import annotations

import argparse
import getpass
import json
import os
import shlex
import sys
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from firstlight.errors import UsageError
from firstlight.options import add_json_option
from firstlight.ssh.arguments import KNOWN_HOSTS

if TYPE_CHECKING:
    from firstlight.found_rack import FoundRack

SCAFFOLD = Path(__file__).parents[1] / "scaffold"
KINDS = {
    "spark2": "two DGX Sparks",
    "spark4": "four DGX Sparks on a 200 GbE switch",
    "spark8": "eight DGX Sparks on a 200 GbE switch",
    "spark-racks": "eight DGX Sparks in two racks, one cluster",
    "h100x4": "one node with four H100 SXM",
    "h100x8": "one node with eight H100 SXM",
    "h200x8": "one node with eight H200 SXM",
}
"""The directories under scaffold/, in the order `--help` lists them."""
CONFIGURATION = "ansible.cfg"
"""Shared by all kinds: the Ansible settings to use with the inventory, the same as those of the checkout."""
RACK, VARIABLES = Path("rack.yml"), Path("group_vars/all.yml")
ACCOUNT = "# The account that Ansible logs in as"
"""The first line of the last section of every group_vars/all.yml, which is rewritten for discovered nodes."""


def add_parser(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    parser = commands.add_parser(
        "init",
        description="Writes a rack file, group_vars and an ansible.cfg into an empty directory, with every choice "
        "explained in a comment. "
        "It can be planned unchanged. With --nodes it describes the machines that `firstlight discover` found. KIND is "
        + "; ".join(f"{kind} ({what})" for kind, what in KINDS.items())
        + ".",
    )
    parser.set_defaults(run=run)
    parser.add_argument("kind", metavar="KIND", choices=KINDS, help=", ".join(KINDS))
    parser.add_argument(
        "directory", metavar="DIRECTORY", type=Path, help=f"new, empty, or containing only {KNOWN_HOSTS}"
    )
    parser.add_argument("--nodes", metavar="FILE", type=Path, help="the list that `firstlight discover --output` wrote")
    parser.add_argument(
        "--user", help="with --nodes: the account that was passed to bootstrap (default: your own name)"
    )
    parser.add_argument("--key", metavar="FILE.pub", help="with --nodes: the key that was passed to bootstrap, if any")
    add_json_option(parser, "print JSON: the files that were written")


def run(arguments: argparse.Namespace) -> int:
    """Write the files and print the next steps."""
    from firstlight.console import safe

    if arguments.nodes is None and (arguments.user or arguments.key):
        raise UsageError("--user and --key are only for discovered nodes; expected --nodes FILE with them.")
    shown = shlex.quote(str(arguments.directory))
    lines = [f"{arguments.kind}, {KINDS[arguments.kind]}:"]
    if arguments.nodes is None:
        written = scaffold(arguments.kind, arguments.directory)
        lines += [*(f"  {path}" for path in written), "Fill in your names, ranges and limits, then review it; "]
    else:
        rack, notes = _found(arguments.kind, arguments.nodes)
        written = scaffold(arguments.kind, arguments.directory, _replaced(arguments, rack))
        lines += [*(f"  {path}" for path in written), *notes, "Review it; "]
        if not (arguments.directory / KNOWN_HOSTS).exists():
            lines.insert(-1, f"No host key is pinned there yet: run `firstlight bootstrap -i {shown}` next.")
    if arguments.json:
        told = {"kind": arguments.kind, "files": [str(path) for path in written]}
        sys.stdout.write(json.dumps(told, indent=2) + "\n")
        return 0
    lines[-1] += "no host is contacted:"
    lines += [f"  ansible-inventory -i {shown} --graph", f"  firstlight plan -i {shown}"]
    if not (Path(CONFIGURATION).exists() or os.environ.get("ANSIBLE_CONFIG")):
        # Ansible looks for its configuration in the current directory, not next to the inventory.
        lines.append(
            f"Run Ansible in {shown}, or with ANSIBLE_CONFIG={shlex.quote(str(arguments.directory.absolute()))}"
            f"/{CONFIGURATION}, so that it reads the settings there."
        )
    sys.stdout.write(safe("\n".join(lines)) + "\n")
    return 0


def scaffold(kind: str, directory: Path, replaced: Mapping[Path, str] | None = None) -> list[Path]:
    """Write the files of this kind to the directory, with alternative text for those in `replaced`."""
    _check_empty(directory)
    written: list[Path] = []
    for source in (*_files(SCAFFOLD / kind), SCAFFOLD / CONFIGURATION):
        name = source.relative_to(SCAFFOLD if source.name == CONFIGURATION else SCAFFOLD / kind)
        target = directory / name
        target.parent.mkdir(parents=True, exist_ok=True)
        with target.open("x", encoding="utf-8") as stream:  # never overwrite a file created in the meantime
            stream.write((replaced or {}).get(name) or source.read_text(encoding="utf-8"))
        written.append(target)
    return written


def _found(kind: str, path: Path) -> tuple[FoundRack, Sequence[str]]:
    """Return the rack of the listed nodes, and notes about it."""
    import yaml
    from ansible_collections.firstlight.cluster.plugins.plugin_utils.catalog.load import BUILT_IN, load_catalog

    from firstlight.found_rack import found_rack
    from firstlight.ssh.node_list import read_nodes

    targets = read_nodes(path)
    racks = yaml.safe_load((SCAFFOLD / kind / RACK).read_text(encoding="utf-8"))["racks"]
    hardware = racks[0]["hardware"]
    rack = found_rack(
        targets,
        kind=kind,
        hardware=hardware,
        count=sum(one["count"] for one in racks),
        catalog=load_catalog([BUILT_IN])["hardware"],
    )
    silent = [target.name for target in targets if target.hardware is None]
    unread = [target.name for target in targets if target.serial is None]
    told = []
    if silent:
        told.append(f"Assumed to be {hardware}, as no driver identified them: {', '.join(silent)}.")
    if unread:
        told.append(f"Without a serial, as it was not read: {', '.join(unread)}.")
    return rack, told


def _replaced(arguments: argparse.Namespace, rack: FoundRack) -> dict[Path, str]:
    from firstlight.bootstrap.script import check_user
    from firstlight.found_rack import login_text, rack_text

    user = arguments.user or getpass.getuser()
    check_user(user)
    key = str(Path(arguments.key).expanduser().absolute().with_suffix("")) if arguments.key else None
    variables = (SCAFFOLD / arguments.kind / VARIABLES).read_text(encoding="utf-8")
    return {RACK: rack_text(rack), VARIABLES: variables.partition(ACCOUNT)[0] + login_text(user, key)}


def _files(directory: Path) -> Iterator[Path]:
    yield from sorted((path for path in directory.rglob("*.yml")), key=lambda path: (len(path.parts), path.name))


def _check_empty(directory: Path) -> None:
    if directory.exists() and not directory.is_dir():
        raise UsageError(f"{directory} is a file; expected a new or empty directory: choose another name")
    # Host keys are pinned before there is an inventory, so bootstrap leaves that file behind.
    found = sorted(path.name for path in directory.iterdir() if path.name != KNOWN_HOSTS) if directory.exists() else []
    if found:
        more = f" and {len(found) - 1} more" if len(found) > 1 else ""
        raise UsageError(
            f"{directory} is not empty, it has {found[0]}{more}; expected a new or empty directory, or one with "
            f"nothing but {KNOWN_HOSTS}, as no file is overwritten: choose another, or move its contents away"
        )
