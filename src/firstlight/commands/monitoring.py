# SPDX-License-Identifier: Apache-2.0
"""`firstlight monitoring`: write the files with which a monitoring host scrapes and displays a cluster."""

from __future__ import annotations

import argparse
import json
from pathlib import Path

from firstlight.errors import UsageError
from firstlight.options import add_inventory_options, add_json_option


def add_parser(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    parser = commands.add_parser(
        "monitoring",
        description="Writes prometheus.yml (what to scrape), firstlight-rules.yml (alerts) and dashboard.json (for "
        "Grafana) for an inventory. No host is contacted. Exits 0, or 2 when the inventory cannot be used.",
    )
    parser.set_defaults(run=run)
    add_inventory_options(parser)
    add_json_option(parser)
    parser.add_argument(
        "--cluster", default="", help="the cluster's name on the monitoring host (default: the inventory's)"
    )
    parser.add_argument(
        "-o", "--output", required=True, type=Path, metavar="DIR", help="where to write; created if missing"
    )


def run(arguments: argparse.Namespace) -> int:
    """Write the files and print their paths."""
    from firstlight.inventory import InventoryError, read_inventory
    from firstlight.monitoring_files import files

    try:
        hosts = read_inventory(
            arguments.inventory,
            ("monitoring",),
            extra_vars=arguments.extra_vars,
            vault_password_files=arguments.vault_password_file,
        )
    except InventoryError as error:
        raise UsageError(f"{error.found}: {error.rule}; {error.remedy}") from error
    cluster = arguments.cluster or Path(arguments.inventory[0]).resolve().name
    written, errors = files(hosts, cluster)
    if errors:
        raise UsageError(str(errors))
    arguments.output.mkdir(parents=True, exist_ok=True)
    for name, text in written.items():
        (arguments.output / name).write_text(text, encoding="utf-8")
    paths = [str(arguments.output / name) for name in written]
    print(json.dumps({"files": paths}, indent=2) if arguments.json else "\n".join(paths))
    return 0
