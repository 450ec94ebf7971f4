# SPDX-License-Identifier: Apache-2.0
"""How the units of one node follow the head's order: what to start and stop now.

This is evaluated again every few seconds with the current state, so nothing here waits or retries. Two rules keep the
ranks of different starts apart: a unit is started only once in an epoch, and everything left of an epoch is gone before
the next one starts.
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
"""What a newly started supervisor follows until it has heard from the head, or has waited long enough for it."""

_ABSENT = UnitReport()


@dataclass(frozen=True)
class Actions:
    """What a node does now. `held` is persisted first; starting and stopping are never combined."""

    held: Held
    start: tuple[str, ...] = ()
    stop: tuple[str, ...] = ()
    remove: tuple[str, ...] = ()
    """Containers that have outlived their units."""
    force: bool = False
    """Kill what is in `stop` and `remove` instead of asking it to stop."""
    discard: bool = False
    """Discard the compile cache before starting anything of `start`."""


def follow(order: Order | None, report: NodeReport, units: Sequence[UnitPlan], held: Held) -> Actions:
    """Return the actions that make the node follow `order`; None means that the head is silent: nothing may run."""
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
    """Whether the order allows this node to run anything: it must be in the epoch from the start, and not drained."""
    return (
        order.stage > NOTHING
        and not report.drained
        and order.epoch != held.ended
        and order.boots.get(report.node) == report.boot
    )


def _advance(order: Order, units: Sequence[UnitPlan], held: Held) -> Actions:
    """Start what is due and was not started in this epoch; the head handles units that have died since."""
    due = tuple(unit.unit for unit in units if held.stage < unit.stage <= order.stage)
    # Only before the first unit: later, the others may already be using the cache.
    discard = order.discard and bool(due) and not any(unit.stage <= held.stage for unit in units)
    return Actions(replace(held, stage=max(held.stage, order.stage)), start=due, discard=discard)


def _quiet(report: NodeReport, units: Sequence[UnitPlan], held: Held, *, force: bool = False) -> Actions:
    """Stop everything in reverse order of stages; remove containers only once no unit is running or stopping."""
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
    """Return the data for the file in /run."""
    return {"epoch": held.epoch, "stage": held.stage, "ended": held.ended}


def held_from_data(data: Any) -> Held:
    """Parse the file in /run; invalid data counts as no order having started anything."""
    if not isinstance(data, Mapping):
        return Held()
    epoch, stage, ended = data.get("epoch"), data.get("stage"), data.get("ended")
    if not isinstance(epoch, str) or not isinstance(ended, str) or type(stage) is not int:
        return Held()
    return Held(epoch, stage, ended)
