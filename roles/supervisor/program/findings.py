# SPDX-License-Identifier: Apache-2.0
"""Interpret the reports of a group's nodes: which are not ready to start, and what has ended a running epoch.

Every sentence names the node, what was found there and, if an operator can do something about it, the remedy.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from ansible_collections.firstlight.cluster.plugins.module_utils.supervisor.model import (
    GroupPlan,
    NodeReport,
    Order,
    UnitPlan,
    UnitReport,
)

from .memory import Memory

Reports = Mapping[str, NodeReport]

_ABSENT = UnitReport(words="not there")


@dataclass(frozen=True)
class Finding:
    """Why a running epoch cannot continue."""

    words: str
    away: bool = False
    """A node is lost or was rebooted, so what was started there is not to blame."""


def silent(node: str, plan: GroupPlan, refusals: Mapping[str, str]) -> str:
    """Explain why there is no report of a node."""
    if node in refusals:
        return f"its supervisor is refused: {refusals[node]}"
    if node == plan.head:
        return "it has not inspected its own units yet: if this persists, `systemctl list-jobs` there shows what hangs"
    return (
        f"no report from it for {plan.timing.heartbeat_timeout:g} s: check that it is up, that {plan.head} reaches it "
        "over the fabric, and that `systemctl status firstlight-supervisor` there shows it running"
    )


def missing(plan: GroupPlan, epoch: str, reports: Reports, refusals: Mapping[str, str]) -> dict[str, str]:
    """Return the nodes that keep the group from starting now, each with the reason."""
    reasons: dict[str, str] = {}
    for node, units in plan.nodes.items():
        report = reports.get(node)
        if report is None:
            reasons[node] = silent(node, plan, refusals)
        elif report.drained:
            reasons[node] = "it is drained: uncordon it when it may serve again"
        elif not report.clean:
            reasons[node] = left_over(report, units)
        elif not report.ready:
            reasons[node] = "; ".join(report.problems) or "it reports that it is not ready, without a reason"
        elif report.seen != epoch:
            reasons[node] = "it has not confirmed the order to stop yet"
    return reasons


def left_over(report: NodeReport, units: Sequence[UnitPlan]) -> str:
    """Describe what of the group is left on a node that should be clean."""
    left = [unit for unit in units if _shown(report, unit).active or _shown(report, unit).stopping]
    if left:
        return "still stopping: " + ", ".join(f"{unit.unit} ({_shown(report, unit).words})" for unit in left)
    containers = ", ".join(unit.container for unit in units if unit.container)
    return f"its units are stopped, but a container is left ({containers}): `docker ps -a` there shows it"


def unclean(plan: GroupPlan, epoch: str, reports: Reports) -> list[str]:
    """Return the nodes that report, but have not confirmed a complete stop under the order of `epoch` yet.

    Other nodes stop by themselves if they do not hear from the head; the head, if it cannot see its own units, does
    not.
    """
    left = [node for node, report in reports.items() if not report.clean or report.seen != epoch]
    return left if plan.head in reports else [plan.head, *left]


def adoptable(plan: GroupPlan, reports: Reports) -> tuple[bool, str]:
    """Return whether all reports so far belong to one running group, and why not. More nodes may still report."""
    epochs = {report.epoch for report in reports.values() if report.epoch}
    if len(epochs) > 1:
        return False, "the nodes run units of different starts"
    for node, report in reports.items():
        if report.drained:
            return False, f"{node} is drained"
        if report.epoch and report.epoch == report.ended:
            return False, f"{node} is stopping its units"
        idle = [unit.unit for unit in plan.nodes[node] if not _shown(report, unit).active]
        if idle:
            return False, f"{', '.join(idle)} is not running on {node}"
    return True, ""


def ended(
    plan: GroupPlan, order: Order, adopted: bool, reports: Reports, refusals: Mapping[str, str]
) -> Finding | None:
    """Return what ends the epoch of `order`, in one sentence; lost nodes come first, as they explain the rest."""
    gone: list[str] = []
    failed: list[str] = []
    for node, units in plan.nodes.items():
        report = reports.get(node)
        if report is None:
            gone.append(f"{node} is gone: {silent(node, plan, refusals)}")
        elif report.boot != order.boots.get(node):
            gone.append(f"{node} was rebooted")
        elif report.ended == order.epoch:
            gone.append(
                f"{node} has stopped its units: it did not hear from {plan.head} for "
                f"{plan.timing.heartbeat_timeout:g} s"
            )
        elif report.epoch not in ("", order.epoch) and not report.clean:
            failed.append(f"{node} runs units of a different start than the group")
        else:
            failed += [_died(node, unit, report) for unit in units if _is_dead(unit, order, adopted, report)]
    if not gone and not failed:
        return None
    return Finding("; ".join(gone + failed), away=bool(gone))


def waiting_for(plan: GroupPlan, order: Order, reports: Reports) -> list[str]:
    """Return the units that should run under `order` but do not yet, or run for another epoch."""
    return [
        f"{unit.unit} on {node} ({_shown(reports[node], unit).words})"
        for node, units in plan.nodes.items()
        for unit in units
        if unit.stage <= order.stage
        and not (reports[node].epoch == order.epoch and _shown(reports[node], unit).running)
    ]


def units_of(plan: GroupPlan, stage: int) -> str:
    """List the units of a stage, each with its nodes."""
    nodes: dict[str, list[str]] = {}
    for node, units in plan.nodes.items():
        for unit in units:
            if unit.stage == stage:
                nodes.setdefault(unit.unit, []).append(node)
    return listed(f"{unit} on {listed(names)}" for unit, names in nodes.items())


def given_up(attempts: int, reason: str) -> str:
    """Explain why the group was given up. The remedy comes first, as a long reason is truncated where it is shown."""
    return (
        f"gave up after {attempts} failed starts in a row and stays down: fix the reported cause, then run "
        f"playbooks/serve.yml. The last start: {reason}"
    )


@dataclass(frozen=True)
class Doing:
    """The details of the current phase."""

    missing: str
    """The nodes that are waited for, each with the reason."""
    units: tuple[str, ...]
    """The units that are waited for."""
    because: str
    """Why the last epoch ended."""
    trouble: str
    """What the last request got instead of a completion."""


def why(phase: str, doing: Doing, memory: Memory, most: int) -> str:
    """Describe the phase in one sentence; `most` is the number of starts that may fail."""
    trouble = f"the last request got: {doing.trouble}" if doing.trouble else ""
    words = {
        "gathering": f"waits for {doing.missing}",
        "drained": f"waits for {doing.missing}",
        "starting": f"waits for units to run: {', '.join(doing.units)}",
        "warming": f"everything runs, not ready: waits for the first completion{'; ' if trouble else ''}{trouble}",
        "serving": trouble,
        "stopping": f"stops everything, because {doing.because}"
        + (f"; waits for {doing.missing}" if doing.missing else ""),
        "backing-off": f"a pause before start {memory.attempts + 1} of at most {most}; "
        f"the last failed: {memory.reason}",
        "failed": given_up(memory.attempts, memory.given_up),
    }
    return words[phase]


def listed(names: Iterable[str]) -> str:
    """Join names for a sentence: "a, b and c"."""
    *others, last = names
    return f"{', '.join(others)} and {last}" if others else last


def _is_dead(unit: UnitPlan, order: Order, adopted: bool, report: NodeReport) -> bool:
    """Whether a unit that this epoch started or adopted does not run any more, however it ended."""
    started = adopted or (report.epoch == order.epoch and unit.stage <= report.stage)
    return started and not _shown(report, unit).active


def _died(node: str, unit: UnitPlan, report: NodeReport) -> str:
    shown = _shown(report, unit)
    last = f', its last line: "{shown.last_line}"' if shown.last_line else ""
    return f"{unit.unit} on {node} has ended ({shown.words}{last})"


def _shown(report: NodeReport, unit: UnitPlan) -> UnitReport:
    return report.units.get(unit.unit, _ABSENT)
