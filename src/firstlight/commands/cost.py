# SPDX-License-Identifier: Apache-2.0
"""`firstlight cost`: whether to own or rent, from the estimate or a measured benchmark; contacts no host."""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from ansible_collections.firstlight.cluster.plugins.plugin_utils.bench.cost import (
    OPTIONS,
    case_of,
    check_options,
    cost,
    line_text,
    measured_speed,
    number,
)
from ansible_collections.firstlight.cluster.plugins.plugin_utils.catalog import load as catalogs
from ansible_collections.firstlight.cluster.plugins.plugin_utils.catalog.prices import Given, load_prices
from ansible_collections.firstlight.cluster.plugins.plugin_utils.findings import PlanErrors
from rich.text import Text

from firstlight.commands import estimate
from firstlight.commands.fit import add_model_options, find_asked, load_catalog
from firstlight.console import open_console, print_rows, safe
from firstlight.errors import DONE, REFUSED, UsageError
from firstlight.fit_view import show_findings
from firstlight.options import add_json_option

STREAMS = 32
"""Default number of clients: the batch of the recipes' scaling experiment. A machine for one client never pays off."""


def add_parser(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    parser = commands.add_parser(
        "cost",
        description="Computes what a million output tokens cost on a machine of your own and on a rented one, and when "
        "owning pays off, and shows every step. The speed is that of `firstlight estimate`, or of a benchmark. Prices "
        "that are not given come from catalog/prices.yml. Nothing is contacted. Exits 0, or 2 when something is "
        "refused. Example: firstlight cost llama-3.3-70b-fp8-dynamic --hardware h100-sxm-4-nvswitch --gpus 4 "
        "--price 250000 --rent-per-gpu-hour 4",
    )
    parser.set_defaults(run=run, pipeline_parallel=1)
    add_model_options(parser)
    estimate.add_demand_options(parser)
    parser.set_defaults(concurrency=None)
    money: dict[str, Any] = {"type": float, "metavar": "AMOUNT"}
    parser.add_argument("--bench", metavar="FILE", help="the speed from this result of `firstlight bench --output`")
    parser.add_argument("--currency", default="USD", help="of all prices (default: %(default)s, as in the catalog)")
    parser.add_argument("--price", **money, help="price of all hosts together (default: the catalog's)")
    parser.add_argument(
        "--power", type=float, metavar="WATTS", help="power of all hosts under load (default: the hardware profile's)"
    )
    parser.add_argument("--power-price", dest="kwh", **money, help="price of a kWh (default: the catalog's)")
    parser.add_argument(
        "--pue", type=float, metavar="FACTOR", help="power of the building over that of the hosts (default: catalog)"
    )
    parser.add_argument(
        "--months", type=float, help="months over which the price is written off (default: the catalog's)"
    )
    parser.add_argument(
        "--utilisation", type=float, metavar="SHARE", help="share of the time it is busy (default: the catalog's)"
    )
    parser.add_argument(
        "--rent-per-gpu-hour", dest="gpu_hour", **money, help="rent, paid while it is busy (default: the catalog's)"
    )
    parser.add_argument(
        "--api-price-per-million", dest="api", **money, help="price of the output tokens of a service, to compare with"
    )
    add_json_option(parser)


def run(arguments: argparse.Namespace) -> int:
    """Compute and print the result; the exit status says whether there is one."""
    prices, problems = load_prices([*arguments.catalog, catalogs.BUILT_IN])
    if problems:
        raise UsageError("the catalog cannot be used:\n" + "\n".join(problems))
    document = compute(load_catalog(arguments), prices, arguments)
    if arguments.json:
        sys.stdout.write(json.dumps(document, indent=2) + "\n")
    else:
        _show(document)
    return REFUSED if document["errors"] else DONE


def compute(
    catalog: catalogs.Catalog, prices: list[Mapping[str, Any]], arguments: argparse.Namespace
) -> dict[str, Any]:
    """Return the result document; problems are listed under `errors`."""
    errors = PlanErrors()
    values = {name: getattr(arguments, name) for name in OPTIONS}
    check_options(values, errors)
    notes: list[str] = []
    speed = _measured(catalog, arguments, errors) if arguments.bench else _estimated(catalog, arguments, errors, notes)
    asked = {"model": arguments.model, "hardware": arguments.hardware, "gpus": arguments.gpus}
    case = None
    if speed is not None and not errors.found:
        hardware = catalog["hardware"][arguments.hardware]
        case = case_of(speed, values, prices, hardware, gpus=arguments.gpus, currency=arguments.currency, errors=errors)
        if arguments.gpus % hardware["gpus"]:
            notes.append(f"hosts of {hardware['gpus']} GPUs are bought and powered whole, {arguments.gpus} are used")
    figures = cost(case) if case is not None else {}
    return {**asked, **figures, "notes": notes, "errors": list(errors.found)}


def _estimated(
    catalog: catalogs.Catalog, arguments: argparse.Namespace, errors: PlanErrors, notes: list[str]
) -> Given | None:
    if arguments.concurrency is None:
        arguments.concurrency = STREAMS
    found = estimate.compute(catalog, arguments)
    errors.found += found["errors"]
    notes += found["notes"]
    if found["output_tokens_per_s"] is None:
        return None
    low, high = found["range"]
    load = f"{arguments.concurrency} at a time" if arguments.rate is None else f"{arguments.rate:g} per second"
    source = f"estimated, {arguments.input} tokens in and {arguments.output} out, {load}"
    return Given(found["output_tokens_per_s"], f"{source}; probably {low:,.0f} to {high:,.0f}")


def _measured(catalog: catalogs.Catalog, arguments: argparse.Namespace, errors: PlanErrors) -> Given | None:
    _shape, _hardware, name, _notes = find_asked(catalog, arguments, errors)
    try:
        document = json.loads(Path(arguments.bench).read_text(encoding="utf-8"))
    except (OSError, ValueError, RecursionError) as error:
        raise UsageError(
            f"--bench {arguments.bench} cannot be read ({error}): name the result of a benchmark"
        ) from error
    own = {"model": name, "hardware": arguments.hardware, "gpus": arguments.gpus, "streams": arguments.concurrency}
    return measured_speed(document, **own, errors=errors)


def _show(document: Mapping[str, Any]) -> None:
    console = open_console()
    if "own" in document:
        gpus = f"{document['gpus']} GPU{'' if document['gpus'] == 1 else 's'}"
        console.print(Text(f"{safe(document['model'])} on {gpus} of {safe(document['hardware'])}", "bold"))
        for line in document["conclusions"]:
            console.print(Text(line))
        console.print(Text("\nHow it is computed", "bold"))
        print_rows(console, [(line["name"] + ":", line_text(line)) for line in document["lines"]])
        console.print(Text("\nWhat it is computed from", "bold"))
        rows = [(f"{one['name']}:", f"{number(one['value'])}, {one['source']}") for one in document["assumed"]]
        print_rows(console, rows)
        console.print(Text("\n" + "\n".join(document["caveats"])))
    show_findings(console, document)
