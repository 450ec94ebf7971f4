# SPDX-License-Identifier: Apache-2.0
"""`firstlight estimate`: predict a model's speed on GPUs of the catalog; contacts no host."""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Mapping
from typing import Any

from ansible_collections.firstlight.cluster.plugins.plugin_utils.catalog import load as catalogs
from ansible_collections.firstlight.cluster.plugins.plugin_utils.findings import PlanErrors
from ansible_collections.firstlight.cluster.plugins.plugin_utils.sizing.advice.closed_loop import Demand
from ansible_collections.firstlight.cluster.plugins.plugin_utils.sizing.advice.estimate import (
    check_demand,
    check_hardware,
    estimate,
    nothing,
    speculation_of,
)
from ansible_collections.firstlight.cluster.plugins.plugin_utils.sizing.advice.performance import ACCEPTANCE
from rich.text import Text

from firstlight.commands.fit import add_model_options, find_asked, find_fit, load_catalog
from firstlight.console import open_console, print_rows, safe
from firstlight.errors import DONE, REFUSED
from firstlight.fit_view import show_findings
from firstlight.options import add_json_option, count

BOUNDS = {
    "memory": "reading weights and cache (memory bandwidth)",
    "compute": "computing (matrix products and attention)",
    "communication": "the all-reduces between the GPUs",
    "overhead": "starting kernels, scheduling and sampling",
    "cache": "the size of the KV cache: requests wait for room",
    "max_num_seqs": "max_num_seqs: requests wait for their turn",
}


def add_parser(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    parser = commands.add_parser(
        "estimate",
        description="Estimates output tokens/s, time to first token and time per output token of a model on GPUs of "
        "the catalog, as medians that clients see. Nothing is contacted. Exits 0, or 2 when it does not fit or is "
        "refused. Example: firstlight estimate llama-3.3-70b-fp8-dynamic --hardware h200-sxm-1 --gpus 1 --tp 1 "
        "--input 1024 --output 256 --concurrency 16",
    )
    parser.set_defaults(run=run, pipeline_parallel=1)
    add_model_options(parser)
    add_demand_options(parser)
    add_json_option(parser)


def add_demand_options(parser: argparse.ArgumentParser) -> None:
    """Add the options that describe the load and the serving settings."""
    parser.add_argument(
        "--input", type=count, default=1024, metavar="TOKENS", help="length of a prompt (default: %(default)s)"
    )
    parser.add_argument(
        "--output", type=count, default=256, metavar="TOKENS", help="length of an answer (default: %(default)s)"
    )
    parser.add_argument(
        "--concurrency",
        type=count,
        help="concurrent clients (default: 1; with --rate as many as the server takes)",
    )
    parser.add_argument(
        "--rate",
        type=float,
        help="requests per second, which arrive at random; at most --concurrency run at once "
        "(default: each client asks again as soon as it has its answer)",
    )
    parser.add_argument(
        "--max-model-len", type=count, metavar="TOKENS", help="length of a request (default: input and output together)"
    )
    parser.add_argument("--speculative", type=int, metavar="TOKENS", help="tokens that the MTP layers draft per step")
    parser.add_argument(
        "--acceptance",
        type=float,
        help=f"share of drafted tokens that are accepted, from 0 to 1 (default: {ACCEPTANCE})",
    )


def run(arguments: argparse.Namespace) -> int:
    """Compute and print the estimate; the exit status says whether there is one."""
    document = compute(load_catalog(arguments), arguments)
    if arguments.json:
        sys.stdout.write(json.dumps(document, indent=2) + "\n")
    else:
        _show(document, arguments)
    return REFUSED if document["errors"] else DONE


def compute(catalog: catalogs.Catalog, arguments: argparse.Namespace) -> dict[str, Any]:
    """Return the result document; problems are listed under `errors`."""
    errors = PlanErrors()
    shape, hardware, name, notes = find_asked(catalog, arguments, errors)
    clients = arguments.concurrency
    lengths = {"input": arguments.input, "output": arguments.output, "concurrency": 1 if clients is None else clients}
    check_demand(lengths, arguments.rate, arguments.acceptance, errors)
    whole = arguments.input + arguments.output
    if arguments.max_model_len is None:
        arguments.max_model_len = max(1, whole)
    elif 0 < arguments.max_model_len < whole:
        errors.add(
            "estimate.length",
            f"a request has {arguments.input} + {arguments.output} tokens, its limit is {arguments.max_model_len}",
            "input and output together are at most --max-model-len",
            f"set --max-model-len to {whole} or more, or leave it out",
        )
    asked = {"model": name, "hardware": arguments.hardware, "gpus": arguments.gpus, **lengths, "rate": arguments.rate}
    if hardware is not None:
        check_hardware(hardware, errors)
    if shape is None or hardware is None or errors.found:
        return {**nothing(), **asked, "notes": notes, "errors": list(errors.found)}
    found = find_fit(shape, hardware, arguments, errors, arguments.speculative or 0)
    notes += found.notes
    if not found.fits:
        return {**nothing(), **asked, "notes": notes, "errors": [dict(one) for one in found.errors]}
    if clients is None and arguments.rate is not None:
        asked["concurrency"] = lengths["concurrency"] = max(1, found.streams(whole) * found.replicas)
    demand = Demand(
        arguments.input, arguments.output, lengths["concurrency"], 1, found.max_num_batched_tokens, arguments.rate
    )
    figures = estimate(
        shape,
        hardware,
        found,
        demand=demand,
        kv_dtype=arguments.kv_cache_dtype,
        dtype=arguments.dtype,
        speculation=speculation_of(arguments.speculative, arguments.acceptance),
    )
    return {**figures, **asked, "notes": notes, "errors": []}


def _show(document: Mapping[str, Any], arguments: argparse.Namespace) -> None:
    console = open_console()
    if document["output_tokens_per_s"] is not None:
        gpus = f"{arguments.gpus} GPU{'' if arguments.gpus == 1 else 's'}"
        where = f"{gpus} of {safe(arguments.hardware)}, tensor parallel {document['tensor_parallel']}"
        if document["replicas"] > 1:
            where += f", {document['replicas']} replicas"
        asked = f"{document['concurrency']} at a time" if arguments.rate is None else f"{arguments.rate:g} per second"
        console.print(Text(f"{safe(document['model'])} on {where}", "bold"))
        low, high = document["range"]
        rows = [
            ("requests:", f"{arguments.input} tokens in, {arguments.output} out, {asked}"),
            ("output:", f"{document['output_tokens_per_s']:,.0f} tokens/s, probably {low:,.0f} to {high:,.0f}"),
            ("first token:", f"after {_time(document['ttft_ms'])} (median)"),
            ("each further:", f"after {_time(document['tpot_ms'])} (median)"),
            ("bound by:", BOUNDS[document["bound_by"]]),
        ]
        if document["waiting"]:
            rows.append(("queue:", f"{document['running']} run at once, {document['waiting']} wait"))
        if document["tokens_per_step"] > 1:
            rows.append(("drafts:", f"{document['tokens_per_step']:.2f} tokens per step"))
        print_rows(console, rows)
    show_findings(console, document)


def _time(milliseconds: float) -> str:
    return f"{milliseconds:.3g} ms" if milliseconds < 1000 else f"{milliseconds / 1000:,.1f} s"
