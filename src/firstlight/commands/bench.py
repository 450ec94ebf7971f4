# SPDX-License-Identifier: Apache-2.0
"""`firstlight bench`: how fast a cluster serves, measured with the benchmark client of its own engine."""

from __future__ import annotations

import argparse
import json
import os
import sys
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from firstlight.errors import DONE, FAILED, OPEN
from firstlight.options import add_host_options, add_json_option


def add_parser(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    parser = commands.add_parser(
        "bench",
        description="Measures how fast a cluster serves: the same as `ansible-playbook playbooks/bench.yml`. The "
        "engine's own benchmark client runs in the pinned image, on a host other than the head if one reaches the "
        "endpoint. Nothing is installed. A server that is in use is not measured unless it is named. Exits 1 when it "
        "is slower than the plan expects, and 3 when a point has no valid figures. Run the same command again "
        "after an interruption to continue.",
    )
    parser.set_defaults(run=run)
    add_host_options(parser)
    add_json_option(parser)
    parser.add_argument(
        "--workload",
        action="append",
        default=[],
        metavar="NAME",
        help="a workload of the catalog; may be given several times (default: latency and chat)",
    )
    parser.add_argument(
        "--streams",
        type=_streams,
        default=[],
        metavar="N[,N...]",
        help="numbers of concurrent requests, instead of its own",
    )
    parser.add_argument(
        "--rate", type=_rates, default=[], metavar="N[,N...]", help="requests per second, instead of the workload's own"
    )
    parser.add_argument("--repeats", type=_count, metavar="N", help="how often each point is measured (default: 3)")
    parser.add_argument(
        "--through",
        choices=("endpoint", "server"),
        help="where requests are sent (default: the endpoint from another host, or the server)",
    )
    parser.add_argument(
        "--key", default="", metavar="NAME", help="which key of the endpoint to use (default: the fastest)"
    )
    parser.add_argument(
        "--conversations", default="", metavar="FILE", help="for workloads with conversations: ShareGPT or JSONL"
    )
    parser.add_argument(
        "--in-service",
        default="",
        metavar="NAME",
        help="measure even if it is in use: the name of the cluster or model",
    )
    parser.add_argument(
        "--layouts",
        metavar="LAYOUT[,...]",
        default="",
        help="measure each of these tensor- and pipeline-parallel sizes, and serve as before at the end: 1,2,4 or "
        "tp4,tp2pp2,pp4; the server restarts for each (default workload: recipe-scaling)",
    )
    parser.add_argument(
        "--gpu-hour", type=float, metavar="PRICE", help="with --layouts: price of a GPU per hour (default: catalog)"
    )
    parser.add_argument(
        "--trace",
        default="",
        metavar="DIRECTORY",
        help="with --layouts: traces of the engine's profiler, in a directory for each layout, such as tp4 or tp2pp2",
    )
    parser.add_argument("--plot", default="", metavar="FILE", help="with --layouts: draw tokens/s over GPUs, as SVG")
    again = parser.add_mutually_exclusive_group()
    again.add_argument("--resume", action="store_true", help="only continue an interrupted benchmark")
    again.add_argument("--new", action="store_true", help="measure everything, even after an interruption")
    parser.add_argument("--check", action="store_true", help="only show what would be measured")
    parser.add_argument(
        "-o", "--output", default="", metavar="FILE", help="also write the figures to this file, as JSON"
    )


def run(arguments: argparse.Namespace) -> int:
    """Run the playbook, then show the verdict and return the exit status."""
    if arguments.layouts:
        from firstlight.layouts_lab import run_layouts

        return run_layouts(arguments, how(arguments))
    from firstlight.playbooks import playbook_words, run_playbook

    with tempfile.TemporaryDirectory(prefix="firstlight-") as scratch:
        file = Path(os.path.abspath(arguments.output)) if arguments.output else Path(scratch) / "document.json"
        evaluated = Path(scratch) / "verdict.json"
        told = settings(arguments, file) | {"bench_verdict_document": str(evaluated)}
        words = playbook_words("bench.yml", arguments, told, ["--check"] if arguments.check else [])
        status = run_playbook(words, stdout=sys.stderr if arguments.json else None)
        if status != DONE or arguments.check:
            return status
        document = json.loads(file.read_text(encoding="utf-8"))
        verdict = json.loads(evaluated.read_text(encoding="utf-8"))
    if arguments.json:
        sys.stdout.write(json.dumps(document | {"verdict": verdict}, indent=2) + "\n")
    else:
        from firstlight.bench_view import show

        show(document, verdict)
    return exit_status(document, verdict)


def exit_status(document: Mapping[str, Any], verdict: Mapping[str, Any]) -> int:
    """Return FAILED if the cluster is slow, and OPEN if a point has no valid measurement."""
    from ansible_collections.firstlight.cluster.plugins.plugin_utils.bench.verdict import SLOW

    if verdict["verdict"] == SLOW:
        return FAILED
    measured = all(point["summary"] for workload in document["workloads"] for point in workload["points"])
    return DONE if measured else OPEN


def settings(arguments: argparse.Namespace, file: Path) -> dict[str, Any]:
    """The extra variables of the playbook: only explicit options, so that inventory variables still apply."""
    asked = {
        "bench_workloads": arguments.workload,
        "bench_streams": arguments.streams,
        "bench_rates": arguments.rate,
        "bench_repeats": arguments.repeats,
        "bench_resume": "always" if arguments.resume else "never" if arguments.new else None,
    }
    given = {name: value for name, value in asked.items() if value}
    return given | how(arguments) | {"bench_document": str(file)}


def how(arguments: argparse.Namespace) -> dict[str, Any]:
    """The extra variables that select how to measure, independent of what is measured."""
    asked = {
        "bench_through": arguments.through,
        "bench_key": arguments.key,
        "bench_in_service": arguments.in_service,
        "bench_conversations": os.path.abspath(arguments.conversations) if arguments.conversations else "",
    }
    return {name: value for name, value in asked.items() if value}


def _count(text: str) -> int:
    if not text.isdecimal() or not 1 <= int(text) <= 100_000:
        raise argparse.ArgumentTypeError(f"{text!r} is not a number from 1 to 100000")
    return int(text)


def _streams(text: str) -> list[int]:
    return [_count(one) for one in text.split(",")]


def _rates(text: str) -> list[float]:
    try:
        found = [float(one) for one in text.split(",")]
    except ValueError:
        found = []
    if not found or not all(0 < one <= 100_000 for one in found):
        raise argparse.ArgumentTypeError(f"{text!r} is not a rate, expected requests per second such as 4 or 0.5,2")
    return found
