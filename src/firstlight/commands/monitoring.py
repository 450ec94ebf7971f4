# SPDX-License-Identifier: Apache-2.0
"""`firstlight monitoring`: what a monitoring host needs to read and show a cluster, as files."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from firstlight.inventory import InventoryError, read_inventory
from firstlight.monitoring_files import DASHBOARD_NAME, RULES_NAME, SCRAPE_NAME, files

REFUSED = 2


def add_parser(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    parser = commands.add_parser(
        "monitoring",
        description=f"Writes {SCRAPE_NAME} (what to scrape), {RULES_NAME} (alerts) and {DASHBOARD_NAME} (for Grafana) "
        "for an inventory. No host is contacted. Ends with 0, or with 2 when the inventory cannot be used.",
    )
    parser.set_defaults(run=run)
    parser.add_argument("-i", "--inventory", action="append", required=True, help="as for ansible-playbook")
    parser.add_argument("-e", "--extra-vars", action="append", default=[], help="as for ansible-playbook")
    parser.add_argument("--vault-password-file", action="append", default=[], help="as for ansible-playbook")
    parser.add_argument(
        "--cluster", default="", help="the cluster's name on the monitoring host (default: the inventory's)"
    )
    parser.add_argument(
        "--out", required=True, type=Path, metavar="DIR", help="where to write; made if it is not there"
    )


def run(arguments: argparse.Namespace) -> int:
    """Write the files and say which."""
    try:
        hosts = read_inventory(
            arguments.inventory,
            ("monitoring",),
            extra_vars=arguments.extra_vars,
            vault_password_files=arguments.vault_password_file,
        )
    except InventoryError as error:
        print(f"firstlight: {error.found}: {error.rule}; {error.remedy}", file=sys.stderr)
        return REFUSED
    cluster = arguments.cluster or Path(arguments.inventory[0]).resolve().name
    written, refusals = files(hosts, cluster)
    if refusals:
        print(f"firstlight: {refusals}", file=sys.stderr)
        return REFUSED
    arguments.out.mkdir(parents=True, exist_ok=True)
    for name, text in written.items():
        (arguments.out / name).write_text(text, encoding="utf-8")
        print(arguments.out / name)
    return 0
