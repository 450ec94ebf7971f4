# SPDX-License-Identifier: Apache-2.0
"""`firstlight list`: list the catalog names that an inventory may use."""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Callable, Mapping
from typing import Any

from ansible_collections.firstlight.cluster.plugins.plugin_utils.catalog import load as catalogs
from ansible_collections.firstlight.cluster.plugins.plugin_utils.engines.schema import available
from ansible_collections.firstlight.cluster.plugins.plugin_utils.launch.description import PROFILES

from firstlight.console import open_console, print_rows
from firstlight.errors import DONE, UsageError
from firstlight.options import add_json_option

Row = dict[str, Any]


def add_parser(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    parser = commands.add_parser(
        "list",
        description="Lists what an inventory may name: models, stack releases, hardware, serving profiles, and the "
        "engine versions whose flags are known. Nothing is contacted. Example: firstlight list models",
    )
    parser.set_defaults(run=run)
    parser.add_argument("kind", choices=KINDS, metavar="KIND", help=", ".join(KINDS))
    parser.add_argument(
        "--catalog", action="append", default=[], metavar="DIRECTORY", help="a site's catalog, searched first"
    )
    add_json_option(parser)


def run(arguments: argparse.Namespace) -> int:
    """Load the catalog and print the rows of the requested kind."""
    directories = [*arguments.catalog, catalogs.BUILT_IN]
    try:
        catalog = catalogs.load_catalog(directories)
    except catalogs.CatalogError as error:
        raise UsageError(f"the catalog cannot be used:\n{error}") from error
    catalog["engines"] = {name: {} for name in available(f"{directory}/engines" for directory in directories)}
    rows = KINDS[arguments.kind](catalog)
    if arguments.json:
        sys.stdout.write(json.dumps({arguments.kind: rows}, indent=2) + "\n")
    else:
        print_rows(open_console(), [(row["name"], _sentence(row)) for row in rows], style="bold", gap=2)
    return DONE


def _sentence(row: Row) -> str:
    """Return the description of a row, followed by its other fields."""
    facts = [
        f"{key.replace('_', ' ')} {_said(value)}" for key, value in row.items() if key not in ("name", "description")
    ]
    return "; ".join([*([str(row["description"])] if row.get("description") else []), *facts])


def _said(value: Any) -> str:
    if isinstance(value, list):
        return ", ".join(value) or "none"
    return "none" if value is None else f"{value:,}" if isinstance(value, int) else str(value)


def _models(catalog: catalogs.Catalog) -> list[Row]:
    return [
        {**_named(name, entry), **{key: entry.get(key) for key in ("repository", "context", "quantization", "licence")}}
        for name, entry in sorted(catalog["models"].items())
    ]


def _stacks(catalog: catalogs.Catalog) -> list[Row]:
    return [
        {**_named(name, entry), "engine": _engine(entry), "hardware": entry["hardware"]}
        for name, entry in sorted(catalog["stacks"].items())
    ]


def _hardware(catalog: catalogs.Catalog) -> list[Row]:
    return [
        {**_named(name, entry), "gpus": entry["gpus"], "gpu_name": entry["gpu_name"]}
        for name, entry in sorted(catalog["hardware"].items())
    ]


def _profiles(_: catalogs.Catalog) -> list[Row]:
    return [
        {
            "name": name,
            "engine": profile.engine,
            "hosts": [*["one"] * profile.one_host, *["several"] * profile.several_hosts],
            "runtimes": list(profile.runtimes),
        }
        for name, profile in PROFILES.items()
    ]


def _engines(catalog: catalogs.Catalog) -> list[Row]:
    stacks = sorted(catalog["stacks"].items())
    return [
        {"name": name, "stacks": [stack for stack, entry in stacks if _engine(entry) == name]}
        for name in catalog["engines"]
    ]


def _named(name: str, entry: Mapping[str, Any]) -> Row:
    return {"name": name, "description": " ".join(str(entry.get("description") or "").split())}


def _engine(stack: Mapping[str, Any]) -> str:
    return f"{stack['engine']['name']}=={stack['engine']['version']}"


KINDS: dict[str, Callable[[catalogs.Catalog], list[Row]]] = {
    "models": _models,
    "stacks": _stacks,
    "hardware": _hardware,
    "profiles": _profiles,
    "engines": _engines,
}
