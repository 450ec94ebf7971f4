# SPDX-License-Identifier: Apache-2.0
"""`firstlight report`: generate the acceptance report that the owner of a cluster signs, from recorded results."""

from __future__ import annotations

import argparse
import datetime
import json
import os
import secrets
import sys
import tempfile
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from firstlight.errors import DONE, FAILED, OPEN, FirstlightError, UsageError
from firstlight.options import add_host_options, add_json_option

if TYPE_CHECKING:
    from ansible_collections.firstlight.cluster.plugins.plugin_utils.plan.planner import ClusterPlan

DIRECTORY = "reports"
ACCEPTED = "accepted.json"
PAGE = "report.html"
SHOWN = 12
"""Maximum number of reasons shown in the terminal."""


def add_parser(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    parser = commands.add_parser(
        "report",
        description="Writes the acceptance report of a cluster: one HTML file that needs no network, for the person "
        "who signs it off. The hosts are verified as by `firstlight verify`, nothing is changed on any of them, and "
        "the recorded results of benchmarks and burn-ins are added. Exits 0 when the verdict is accepted, 1 when "
        "it is not accepted, and 3 when it is incomplete.",
    )
    parser.set_defaults(run=run)
    add_host_options(parser, required=False)
    add_json_option(parser, "print JSON: the report's document, or what --compare found")
    parser.add_argument("-o", "--output", metavar="FILE", help=f"the page (default: {PAGE})")
    what = parser.add_mutually_exclusive_group()
    what.add_argument(
        "--from",
        dest="source",
        metavar="PATH",
        help="a recorded report (page or JSON), or a directory with some: render its page again, no host is contacted",
    )
    what.add_argument(
        "--compare", nargs=2, metavar=("A", "B"), help="show what differs between two reports (page or JSON)"
    )
    what.add_argument("--check", metavar="FILE", help="check that the data in a page matches its SHA-256")
    parser.add_argument(
        "--accept", action="store_true", help="keep this report as the accepted one, with which later ones are compared"
    )
    parser.add_argument(
        "--bandwidth", action="store_true", help="also measure every path; do not use it while the cluster serves"
    )
    parser.add_argument("--serials", action="store_true", help="include serial numbers and UUIDs (default: without)")


def run(arguments: argparse.Namespace) -> int:
    """Make a report, or check, compare or re-render existing ones."""
    if arguments.check:
        return _check(Path(arguments.check))
    if arguments.compare:
        return _compare(arguments)
    if arguments.source:
        document = _read(_newest(Path(arguments.source)))
        kept = None
    elif arguments.inventory:
        document, kept = _made(arguments)
    else:
        raise UsageError("no inventory was given, expected -i INVENTORY, or --from, --compare or --check: give one")
    return _finish(arguments, document, kept)


def _finish(arguments: argparse.Namespace, document: Mapping[str, Any], kept: Path | None) -> int:
    """Write the page, print the verdict, and with --accept keep the report as the accepted one."""
    from ansible_collections.firstlight.cluster.plugins.plugin_utils.report.page import render
    from ansible_collections.firstlight.cluster.plugins.plugin_utils.report.verdict import (
        ACCEPTED as GOOD,
    )
    from ansible_collections.firstlight.cluster.plugins.plugin_utils.report.verdict import (
        NOT_ACCEPTED,
    )

    verdict = str(document["verdict"]["verdict"])
    page = Path(arguments.output or PAGE)
    _write(page, render(document), 0o644)
    if arguments.json:
        sys.stdout.write(json.dumps(document, indent=2) + "\n")
    else:
        _show(document, page)
    if arguments.accept:
        if verdict == NOT_ACCEPTED:
            raise FirstlightError(
                "the report is not accepted, so it was not kept as the accepted one: fix what is wrong"
            )
        place = (kept.parent if kept else _directory(str(document["cluster"]))) / ACCEPTED
        _write(place, json.dumps(document, indent=1) + "\n", 0o600)
        print(f"kept as the accepted report in {place}", file=sys.stderr)
    return DONE if verdict == GOOD else FAILED if verdict == NOT_ACCEPTED else OPEN


def _show(document: Mapping[str, Any], page: Path) -> None:
    from ansible_collections.firstlight.cluster.plugins.plugin_utils.report.verdict import reason_text

    from firstlight.console import safe

    verdict = document["verdict"]
    print(safe(f"{verdict['verdict'].upper()}  {document['cluster']}  {document['run']}"))
    for title, reasons in (("wrong", verdict["reasons"]), ("not checked", verdict["missing"])):
        for one in reasons[:SHOWN]:
            print(safe(f"  {title}: {reason_text(one)}"))
        if len(reasons) > SHOWN:
            print(f"  {title}: {len(reasons) - SHOWN} more, see the page")
    print(f"written to {page}")


# --- making a report --------------------------------------------------------------------------------------------
def _made(arguments: argparse.Namespace) -> tuple[dict[str, Any], Path]:
    """Gather the facts, combine them with recorded results, and save the document beside the benchmarks."""
    from importlib.metadata import version

    from firstlight.inventory import plan_inventory

    plan = plan_inventory(
        arguments.inventory, extra_vars=arguments.extra_vars, vault_password_files=arguments.vault_password_file
    )
    if plan.errors or not plan.hosts:
        raise UsageError("the plan of this inventory is refused: see `firstlight plan` with the same options")
    from ansible_collections.firstlight.cluster.plugins.plugin_utils.report.document import Inputs, make_document
    from ansible_collections.firstlight.cluster.plugins.plugin_utils.report.plans import known_plans, preferred
    from ansible_collections.firstlight.cluster.plugins.plugin_utils.report.values import at, mapping

    gathered = _gathered(arguments)
    cluster = _cluster(plan, arguments.inventory)
    place = _directory(cluster)
    observations = {host: at(part, "observation") or None for host, part in mapping(gathered.get("hosts")).items()}
    plans = known_plans(plan.hosts, observations)
    benchmark = preferred(_newest_first(place.parent / "bench"), plans)
    now = datetime.datetime.now(datetime.UTC).replace(microsecond=0)
    served = plan.assessment.served
    document = make_document(
        Inputs(
            cluster=cluster,
            run=f"{now:%Y%m%dT%H%M%SZ}-{secrets.token_hex(2)}",
            made=f"{now:%Y-%m-%dT%H:%M:%SZ}",
            version=version("firstlight"),
            inventory=arguments.inventory,
            plan=plan.document(),
            known_plans=plans,
            hardware=served.hardware if served else {},
            gpu_verify={host: one["roles"].get("gpu_verify") or {} for host, one in plan.hosts.items()},
            gathered=gathered,
            bench=benchmark,
            bench_verdict=_verdict(plan, benchmark, observations),
            tune=next(_newest_first(place.parent / "tune"), None),
            layouts=next(_newest_first(place.parent / "layouts"), None),
            quality=preferred(_newest_first(place.parent / "quality", "status"), plans),
            accepted=_accepted(place / ACCEPTED),
            serials=arguments.serials,
        )
    )
    kept = place / f"{document['run']}.json"
    _write(kept, json.dumps(document, indent=1) + "\n", 0o600)
    return document, kept


def _verdict(
    plan: ClusterPlan, benchmark: Mapping[str, Any] | None, observations: Mapping[str, Any]
) -> dict[str, Any] | None:
    """Return the benchmark's verdict, or None if there is no benchmark or it cannot be evaluated."""
    try:
        return plan.verdict(benchmark, observations) if benchmark else None
    except (ValueError, LookupError, TypeError, AttributeError):
        return None


def _gathered(arguments: argparse.Namespace) -> dict[str, Any]:
    """Run the playbook and return its document, which also covers unreachable and faulty hosts."""
    from firstlight.playbooks import playbook_words, run_playbook

    with tempfile.TemporaryDirectory(prefix="firstlight-") as scratch:
        file = Path(scratch) / "facts.json"
        told = {
            "report_facts": str(file),
            "report_serials": arguments.serials,
            "verify_bandwidth": arguments.bandwidth,
        }
        status = run_playbook(playbook_words("report.yml", arguments, told), stdout=sys.stderr)
        if not file.is_file():
            raise FirstlightError(f"nothing was gathered (ansible-playbook ended with {status}): see its output above")
        found: dict[str, Any] = json.loads(file.read_text(encoding="utf-8"))
    return found


def _cluster(plan: ClusterPlan, inventory: list[str]) -> str:
    from ansible_collections.firstlight.cluster.plugins.plugin_utils.client_help import cluster_name

    front = plan.hosts[plan.cluster["head"]]["roles"].get("endpoint") or {}
    return str(front.get("endpoint_cluster") or "") or cluster_name(inventory)


def _directory(cluster: str) -> Path:
    """Return the directory with the reports of a cluster."""
    from ansible_collections.firstlight.cluster.plugins.plugin_utils.client_help import state_directory

    return state_directory(cluster) / DIRECTORY


def _newest_first(directory: Path, *keys: str) -> Iterator[dict[str, Any]]:
    """Yield the finished documents (or those with all `keys`), newest first; skip unreadable files."""
    for path in sorted(directory.rglob("*.json"), key=lambda one: one.name, reverse=True):
        try:
            document = json.loads(path.read_text(encoding="utf-8"))
        except (OSError, ValueError):
            continue
        if isinstance(document, dict) and all(document.get(key) for key in keys or ("finished",)):
            yield document


def _accepted(path: Path) -> dict[str, Any] | None:
    return _read(path) if path.is_file() else None


# --- examining reports ------------------------------------------------------------------------------------------
def _check(path: Path) -> int:
    from ansible_collections.firstlight.cluster.plugins.plugin_utils.report.page import PageError, check

    try:
        digest, problems = check(path.read_text(encoding="utf-8"))
    except (PageError, UnicodeDecodeError) as error:
        raise UsageError(
            f"{path} is not a page of a report: {error}; expected what `firstlight report` wrote"
        ) from error
    print(f"sha256 {digest}")
    for one in problems:
        print(f"wrong: {one}")
    return FAILED if problems else DONE


def _compare(arguments: argparse.Namespace) -> int:
    from ansible_collections.firstlight.cluster.plugins.plugin_utils.report.compare import differences
    from ansible_collections.firstlight.cluster.plugins.plugin_utils.report.page import render_comparison

    from firstlight.console import safe

    before, after = (_read(_newest(Path(one))) for one in arguments.compare)
    found = differences(before, after)
    if arguments.output:
        _write(Path(arguments.output), render_comparison(before, after, found), 0o644)
    if arguments.json:
        sys.stdout.write(json.dumps(found, indent=2) + "\n")
        return DONE
    for one in found:
        print(safe(f"{one['kind']:8} {one['where']}: {one['what']}: {one['before']} -> {one['after']}"))
    if not found:
        print("nothing differs")
    return DONE


def _newest(path: Path) -> Path:
    """Return the path itself, or the newest report in a directory; file names begin with the time."""
    if not path.is_dir():
        return path
    listed = sorted(one for one in path.glob("*.json") if one.name != ACCEPTED)
    if not listed:
        raise UsageError(f"{path} has no report in it, expected files such as 20261118T090000Z-0001.json: name another")
    return listed[-1]


def _read(path: Path) -> dict[str, Any]:
    from ansible_collections.firstlight.cluster.plugins.plugin_utils.report.page import PageError, document_of

    try:
        return document_of(path.read_text(encoding="utf-8"))
    except (PageError, UnicodeDecodeError) as error:
        raise UsageError(f"{path} is not a report: {error}; expected a page or JSON of `firstlight report`") from error


def _write(path: Path, text: str, mode: int) -> None:
    """Write the file atomically."""
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    scratch = path.with_name(f".{path.name}.{os.getpid()}")
    try:
        scratch.write_text(text, encoding="utf-8")
        scratch.chmod(mode)
        scratch.replace(path)
    finally:
        scratch.unlink(missing_ok=True)
