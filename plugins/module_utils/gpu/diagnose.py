# SPDX-License-Identifier: Apache-2.0
"""Turns captured output into verdicts: parses each text by its kind, and evaluates each host by a hardware profile."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from typing import Any, NamedTuple

from ..parsers.captures import capture_lines
from ..parsers.reading import KINDS, Reading, quoted
from ..verdicts import COULD_NOT_CHECK, FAIL, PASS, VERDICTS
from .capture_parts import is_comment, parts
from .check import Check, make_check, merged
from .checks.bus import check_bus
from .checks.dcgm import check_dcgm
from .checks.driver import check_driver
from .checks.fabric_manager import check_fabric_manager
from .checks.gpus import check_gpus
from .checks.kernel import check_kernel
from .checks.links import check_links
from .checks.ports import check_ports
from .checks.serving import check_serving
from .checks.topology import check_topology
from .expected import Expected
from .kinds import KIND, read
from .partition import as_observed

CheckFunction = Callable[[Sequence[Reading], Expected], list[Check]]

SUBJECTS: tuple[tuple[str, CheckFunction], ...] = (
    ("gpu", check_gpus),
    ("bus", check_bus),
    ("driver", check_driver),
    ("topo", check_topology),
    ("nvlink", check_links),
    ("fabric_manager", check_fabric_manager),
    ("kernel", check_kernel),
    ("port", check_ports),
    ("serving", check_serving),
    ("dcgm", check_dcgm),
)
"""Every subject, and the function that makes its checks."""

ALL_PASSED, SOMETHING_FAILED, LEFT_OPEN = 0, 1, 3
"""Exit statuses, for programs that only ask for a status."""


class Capture(NamedTuple):
    """A text with its source, its host, and its kind if that is known."""

    source: str
    host: str
    text: str
    kind: str | None = None


def evaluate(readings: Sequence[Reading], expected: Expected) -> list[Check]:
    """Return every check of every subject, host by host. A check function that raises yields a COULD_NOT_CHECK."""
    checks: list[Check] = []
    for host in dict.fromkeys(one.host for one in readings):
        own = [one for one in readings if one.host == host]
        observed = as_observed(own, expected)
        made: list[Check] = []
        for name, check in SUBJECTS:
            made += _made(name, check, own, observed)
        checks += [*made, *_silent(own, made)]
    return checks


def _made(name: str, check: CheckFunction, readings: Sequence[Reading], expected: Expected) -> list[Check]:
    try:
        return check(readings, expected)
    except Exception as error:  # noqa: BLE001 - a fault of ours must not hide the other checks
        return [
            make_check(
                f"{name}.check",
                COULD_NOT_CHECK,
                "checks that can be made",
                f"{type(error).__name__}: {error}",
                "report this with the captured text",
                source=", ".join(dict.fromkeys(one.source for one in readings)),
                host=readings[0].host,
            )
        ]


def _silent(readings: Iterable[Reading], checks: Sequence[Check]) -> Iterator[Check]:
    """Yield a COULD_NOT_CHECK for each reading without a check, which would otherwise pass for healthy."""
    told = {source for one in checks for source in (one["source"], *str(one["source"]).split(", "))}
    for one in readings:
        if one.source in told:
            continue
        why = "; ".join(one.problems) or "this profile evaluates nothing in it"
        yield make_check(
            f"{one.kind}.read",
            COULD_NOT_CHECK,
            f"what `{KIND[one.kind].command}` prints",
            why,
            f"capture the whole output of `{KIND[one.kind].command}` again",
            source=one.source,
            host=one.host,
        )


def diagnose(captures: Iterable[Capture | tuple[str, str, str, str | None]], expected: Expected) -> dict[str, Any]:
    """Diagnose these captures: {"hardware", "checks", "parsed": {source: {kind: data}}, "verdicts": counts}."""
    readings: list[Reading] = []
    unread: list[Check] = []
    for capture in captures:
        found, unknown = _readings(Capture(*capture))
        readings += found
        unread += unknown
    checks = [*_evaluated(_one_host(readings), expected), *unread]
    parsed: dict[str, dict[str, Any]] = {}
    for one in readings:
        parsed.setdefault(one.source, {})[one.kind] = one.data
    return {
        "hardware": expected.profile,
        "checks": checks,
        "parsed": parsed,
        "verdicts": {verdict: sum(1 for one in checks if one["verdict"] == verdict) for verdict in VERDICTS},
    }


def _evaluated(readings: Sequence[Reading], expected: Expected) -> list[Check]:
    """Evaluate captures. If servers hold any number of these cards, expect as many as the host's captures show."""
    if not expected.hardware.get("gpus_vary"):
        return evaluate(readings, expected)
    checks: list[Check] = []
    for host in dict.fromkeys(one.host for one in readings):
        own = [one for one in readings if one.host == host]
        shown = max((_gpus_shown(one) for one in own), default=0)
        checks += evaluate(own, replace(expected, gpus=shown or expected.gpus))
    return checks


def _gpus_shown(reading: Reading) -> int:
    """The number of GPUs that a listing of the machine's GPUs contains or states."""
    gpus = reading.data.get("gpus")
    listed = reading.data.get("listed")
    in_list = len(gpus) if isinstance(gpus, list) and reading.kind != "nvlink" else 0
    return max(in_list, listed if isinstance(listed, int) else 0)


def diagnose_groups(groups: Iterable[tuple[Sequence[Capture], Expected]]) -> dict[str, Any]:
    """Diagnose groups of captures against their own profiles, in one document."""
    documents = [diagnose(captures, expected) for captures, expected in groups]
    parsed: dict[str, dict[str, Any]] = {}
    for one in documents:
        for source, kinds in one["parsed"].items():
            parsed.setdefault(source, {}).update(kinds)
    return {
        "hardware": ", ".join(dict.fromkeys(str(one["hardware"]) for one in documents)),
        "checks": [check for one in documents for check in one["checks"]],
        "parsed": parsed,
        "verdicts": {verdict: sum(one["verdicts"][verdict] for one in documents) for verdict in VERDICTS},
    }


def _one_host(readings: Sequence[Reading]) -> list[Reading]:
    """If exactly one host is named, attribute the readings without a host to it."""
    named = {one.host for one in readings if one.host}
    if len(named) != 1 or all(one.host for one in readings):
        return list(readings)
    host = named.pop()
    return [Reading(one.kind, one.data, one.problems, one.source, host) for one in readings]


def _readings(capture: Capture) -> tuple[list[Reading], list[Check]]:
    found = parts(capture.text, capture.source, capture.kind)
    readings: list[Reading] = []
    taken: dict[str, int] = {}
    for part in found:
        taken[part.kind] = taken.get(part.kind, 0) + 1
        source = capture.source if taken[part.kind] == 1 else f"{capture.source} ({part.kind} {taken[part.kind]})"
        readings.append(read(part.kind, part.text, source, capture.host or part.host))
    if readings:
        return readings, []
    lines = [line for line in capture_lines(capture.text) if line.strip()]
    first = next((line for line in lines if not is_comment(line)), lines[0] if lines else "")
    return [], [
        make_check(
            "kind",
            COULD_NOT_CHECK,
            f"the output of one of {', '.join(KINDS)}",
            quoted(first) if first else "an empty text",
            "name its kind with --kind, or capture one of these",
            source=capture.source,
            host=capture.host,
        )
    ]


def status(checks: Iterable[Check]) -> int:
    """Return 1 if anything failed, 3 if something (or everything) was left open, else 0.

    A pass that one source proves is not left open by another source that is silent about it.
    """
    verdicts = {one["verdict"] for one in merged(checks)}
    if FAIL in verdicts:
        return SOMETHING_FAILED
    return ALL_PASSED if PASS in verdicts and COULD_NOT_CHECK not in verdicts else LEFT_OPEN
