# SPDX-License-Identifier: Apache-2.0
"""How the units of one node follow the head's order: what is started and stopped now.

The same question is asked again every few seconds with what is found then, so nothing here waits or repeats itself.
Two rules keep the ranks of different starts apart: a unit is started once in an epoch, and what an epoch has left
behind is gone before the next one starts.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from ansible_collections.firstlight.cluster.plugins.module_utils.supervisor.model import (
    HOLD,
    NOTHING,
    Held,
    NodeReport,
    Order,
    UnitPlan,
    UnitReport,
)

WAIT = Order("", HOLD)
"""What a supervisor that has just started follows until it has heard the head, or has waited long enough for it."""

_ABSENT = UnitReport()


@dataclass(frozen=True)
class Actions:
    """What a node does now. `held` is written down first; starting and stopping never come together."""

    held: Held
    start: tuple[str, ...] = ()
    stop: tuple[str, ...] = ()
    remove: tuple[str, ...] = ()
    """Containers that have outlived their units."""
    force: bool = False
    """What is in `stop` and `remove` is killed, not asked."""
    discard: bool = False
    """What was compiled earlier is thrown away before anything of `start` is."""


def follow(order: Order | None, report: NodeReport, units: Sequence[UnitPlan], held: Held) -> Actions:
    """What makes the node that `report` shows follow `order`; no order is a head that is silent: nothing may run."""
    if order is not None and order.stage == HOLD:
        return Actions(held)
    if order is None or not _may_run(order, report, held):
        return _quiet(report, units, held, force=order is not None and order.force)
    active = [unit for unit in units if _shown(report, unit).active]
    if held.epoch == order.epoch:
        early = tuple(unit.unit for unit in active if unit.stage > order.stage)
        return Actions(held, stop=early) if early else _advance(order, units, held)
    if order.adopt and not held.epoch and len(active) == len(units):
        return Actions(Held(order.epoch, order.stage, held.ended))
    if not report.clean or active:
        return _quiet(report, units, held)
    return _advance(order, units, Held(order.epoch, NOTHING, held.epoch or held.ended))


def _may_run(order: Order, report: NodeReport, held: Held) -> bool:
    """Whether the order lets this node run anything: it must be of the epoch since it began, and not drained."""
    return (
        order.stage > NOTHING
        and not report.drained
        and order.epoch != held.ended
        and order.boots.get(report.node) == report.boot
    )


def _advance(order: Order, units: Sequence[UnitPlan], held: Held) -> Actions:
    """Start what is due and was not started in this epoch; a unit that has died since is for the head to evaluate."""
    due = tuple(unit.unit for unit in units if held.stage < unit.stage <= order.stage)
    # Only before the first of them: the others may be using it by then.
    discard = order.discard and bool(due) and not any(unit.stage <= held.stage for unit in units)
    return Actions(replace(held, stage=max(held.stage, order.stage)), start=due, discard=discard)


def _quiet(report: NodeReport, units: Sequence[UnitPlan], held: Held, *, force: bool = False) -> Actions:
    """Stop everything, what started last first; remove a container only when its unit is not about to."""
    if report.clean and not any(_shown(report, unit).active for unit in units):
        return Actions(Held(ended=held.epoch or held.ended))
    held = replace(held, ended=held.epoch or held.ended)
    active = [unit for unit in units if _shown(report, unit).active]
    going = any(_shown(report, unit).stopping for unit in units)
    containers = tuple(unit.container for unit in units if unit.container)
    if force:
        left = tuple(unit.unit for unit in units if _shown(report, unit).active or _shown(report, unit).stopping)
        return Actions(held, stop=left, remove=containers, force=True)
    if active:
        last = max(unit.stage for unit in active)
        return Actions(held, stop=tuple(unit.unit for unit in active if unit.stage == last))
    return Actions(held) if going else Actions(held, remove=containers)


def _shown(report: NodeReport, unit: UnitPlan) -> UnitReport:
    return report.units.get(unit.unit, _ABSENT)


def held_to_data(held: Held) -> dict[str, Any]:
    """For the file in /run."""
    return {"epoch": held.epoch, "stage": held.stage, "ended": held.ended}


def held_from_data(data: Any) -> Held:
    """What the file in /run says; one that says nothing sensible says that no order started anything."""
    if not isinstance(data, Mapping):
        return Held()
    epoch, stage, ended = data.get("epoch"), data.get("stage"), data.get("ended")
    if not isinstance(epoch, str) or not isinstance(ended, str) or type(stage) is not int:
        return Held()
    return Held(epoch, stage, ended)
