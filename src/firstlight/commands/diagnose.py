# SPDX-License-Identifier: Apache-2.0
"""`firstlight diagnose`: find faults of GPU hosts in the output of their tools."""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from ansible_collections.firstlight.cluster.plugins.module_utils.gpu.diagnose import Capture, diagnose_groups, status
from ansible_collections.firstlight.cluster.plugins.module_utils.gpu.expected import Expected, expected_of
from ansible_collections.firstlight.cluster.plugins.module_utils.parsers.reading import KINDS
from ansible_collections.firstlight.cluster.plugins.plugin_utils.catalog import load as catalogs
from ansible_collections.firstlight.cluster.plugins.plugin_utils.catalog.names import suggest
from ansible_collections.firstlight.cluster.plugins.plugin_utils.gpu import page, picture

from firstlight.captures import CaptureError, Found, find_captures
from firstlight.diagnose_view import show
from firstlight.errors import UsageError
from firstlight.options import add_json_option


def add_parser(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    parser = commands.add_parser(
        "diagnose",
        description="Evaluates captured output against a hardware profile. Nothing is contacted. Exits 0 when every "
        "check that the captures cover has passed, 1 when a check failed, 3 when something could not be checked, "
        "and 2 when a file or a profile cannot be used. "
        "Example: ssh node1 'nvidia-smi topo -m' | firstlight diagnose --hardware h100-sxm-8 -",
    )
    parser.set_defaults(run=run)
    parser.add_argument(
        "captures",
        nargs="+",
        metavar="FILE|DIR",
        help="captured output, or directories of it, such as `firstlight collect` writes; - is standard input",
    )
    parser.add_argument("--hardware", metavar="PROFILE", help="hardware in the catalog, such as h100-sxm-8 or gb10")
    parser.add_argument("--kind", choices=KINDS, metavar="KIND", help=f"the tool that printed it: {', '.join(KINDS)}")
    parser.add_argument("--driver", metavar="VERSION", help="the driver that the hosts should have, such as 590.48.01")
    parser.add_argument(
        "--catalog", action="append", default=[], metavar="DIR", help="a site's catalog, searched first"
    )
    add_json_option(parser)
    parser.add_argument("--html", metavar="FILE", help="write one page with everything, for a ticket")
    parser.add_argument("--svg", metavar="FILE", help="write the picture of the topology")


def run(arguments: argparse.Namespace) -> int:
    """Read and evaluate the captures, print the result, and return the exit status."""
    found = find_captures(arguments.captures, arguments.kind)
    document = diagnose_groups(_groups(arguments, found))
    document["checks"] += found.checks
    for check in found.checks:
        document["verdicts"][check["verdict"]] += 1
    try:
        _write_pictures(arguments, document)
    except OSError as error:
        raise UsageError(f"{error.filename} cannot be written ({error.strerror}), expected a file") from error
    if arguments.json:
        sys.stdout.write(json.dumps(document, indent=2) + "\n")
    else:
        show(document)
    return status(document["checks"])


def _groups(arguments: argparse.Namespace, found: Found) -> list[tuple[list[Capture], Expected]]:
    """Group the captures by expected profile and driver; command-line options take precedence over a manifest."""
    try:
        known: dict[str, Any] = catalogs.load_catalog([*arguments.catalog, catalogs.BUILT_IN])["hardware"]
    except catalogs.CatalogError as error:
        raise CaptureError(f"the catalog cannot be used:\n{error}") from error
    groups: dict[tuple[str, str | None], list[Capture]] = {}
    for capture, by_manifest in found.captures:
        profile = arguments.hardware or by_manifest.get("hardware")
        if not profile:
            raise CaptureError(
                f"no hardware profile is named for {capture.source}, expected one to evaluate it against: "
                f"add --hardware with one of {', '.join(sorted(known))}"
            )
        driver = arguments.driver or by_manifest.get("driver")
        groups.setdefault((str(profile), str(driver) if driver else None), []).append(capture)
    if not groups and arguments.hardware:
        groups[arguments.hardware, arguments.driver] = []
    return [(own, _expected(profile, driver, known)) for (profile, driver), own in groups.items()]


def _expected(profile: str, driver: str | None, known: Mapping[str, Any]) -> Expected:
    if profile not in known:
        raise CaptureError(
            f"the profile is {profile[:80]!r}, expected one of the catalog: " + suggest(profile[:80], sorted(known))
        )
    return expected_of(profile, known[profile], driver)


def _write_pictures(arguments: argparse.Namespace, document: Mapping[str, Any]) -> None:
    if arguments.html:
        Path(arguments.html).write_text(page.html(document), encoding="utf-8")
    if not arguments.svg:
        return
    topologies = [(source, kinds["topo"]) for source, kinds in document["parsed"].items() if kinds.get("topo")]
    if not topologies:
        print("firstlight: no topology (`nvidia-smi topo -m`) in these captures, no picture written", file=sys.stderr)
    for number, (source, data) in enumerate(topologies, 1):
        checks = [check for check in document["checks"] if check["source"] == source]
        _numbered(Path(arguments.svg), number).write_text(picture.svg(data, checks, source), encoding="utf-8")


def _numbered(path: Path, number: int) -> Path:
    """Return the path itself for the first picture, FILE-2.svg for the second, and so on."""
    return path if number == 1 else path.with_name(f"{path.stem}-{number}{path.suffix}")
