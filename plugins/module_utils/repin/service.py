# SPDX-License-Identifier: Apache-2.0
"""Take a host out of service and put it back."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from ..engine_container import BALANCER_UNIT, SERVING_UNITS, SUPERVISOR_UNIT
from ..units import unit_state
from . import journal as book
from .journal import FORWARD, JournalError
from .machine import Answer, Machine, open_journal

_STOPPED = ("inactive", "failed")


def drain(machine: Machine, parameters: Mapping[str, Any]) -> Answer:
    """Take the host out of service: record what runs, set the marker, stop the units."""
    journal = open_journal(machine)
    units = [str(name) for name in parameters.get("units") or _serving(machine, journal)]
    limit = stop_limit(parameters)
    changed = not book.has(journal, book.DRAINED) and book.place(journal) == (FORWARD, book.PLANNED)
    if journal.get("drain") is None:
        journal = {**journal, "drain": _before_drain(machine, journal, units)}
        if not machine.check_mode:
            machine.journals.write(journal)
    elif set(units) - set(journal["drain"]["order"]):
        known = journal["drain"]
        further = _before_drain(machine, journal, [name for name in units if name not in known["order"]])
        merged = {
            **known,
            "order": [*known["order"], *further["order"]],
            "services": {**known["services"], **further["services"]},
        }
        journal = {**journal, "drain": merged}
        if not machine.check_mode:
            machine.journals.write(journal)
    more = {"services": journal["drain"]["services"], "out_of_service": journal["drain"]["out_of_service"]}
    if machine.check_mode:
        return Answer(journal, changed=changed, more=more)
    stopped = take_out(machine, journal, limit)
    if changed:
        journal = machine.journals.add(journal, book.DRAINED, FORWARD, {"stopped": stopped})
    return Answer(journal, changed=changed or bool(stopped), more=more)


def _serving(machine: Machine, journal: Mapping[str, Any]) -> list[str]:
    """Return Firstlight's serving units on this host, in the order in which they are stopped: the supervisor first."""
    known = (journal.get("drain") or {}).get("order") or ()
    return [name for name in SERVING_UNITS if name in known or unit_state(machine.host, name).load != "not-found"]


def stop_limit(parameters: Mapping[str, Any]) -> float:
    """Return the seconds that a unit may take to stop."""
    return float(parameters.get("stop_timeout") or 300)


def _before_drain(machine: Machine, journal: Mapping[str, Any], units: Sequence[str]) -> dict[str, Any]:
    services = {}
    for name in units:
        enabled = machine.host.run(["systemctl", "is-enabled", name], 30).stdout.strip()
        active = unit_state(machine.host, name).active
        services[name] = {
            "active": active in ("active", "activating", "reloading"),
            "enabled": enabled in ("enabled", "enabled-runtime"),
        }
    marker = machine.marker.read()
    foreign = marker is not None and marker.get("id") != journal["id"]
    idle = bool(services) and not any(one["active"] or one["enabled"] for one in services.values())
    return {
        "order": list(units),
        "services": services,
        "marker_before": foreign,
        "out_of_service": foreign or idle,
    }


def take_out(machine: Machine, journal: Mapping[str, Any], limit: float) -> list[str]:
    """Set the marker and stop the units; return those that were running."""
    known = journal.get("drain") or {"order": [], "services": {}}
    if machine.marker.read() is None:
        running = [name for name in known["order"] if known["services"][name]["active"]]
        machine.marker.write({"by": "firstlight repin", "id": journal["id"], "services": running})
    ran = []
    for name in known["order"]:
        state = unit_state(machine.host, name)
        if state.load == "not-found" or state.active in _STOPPED:
            continue
        ran.append(name)
        result = machine.host.run(["systemctl", "stop", name], limit)
        state = unit_state(machine.host, name)
        if state.active not in _STOPPED:
            raise JournalError(
                f"{name} is still {state.words} {limit:g} s after it was asked to stop ({result.summary}). Expected it "
                f"inactive before packages are moved under it: see `systemctl status {name}`, then run again"
            )
    return ran


def uncordon(machine: Machine, parameters: Mapping[str, Any]) -> Answer:
    """Put the host back, unless it was out of service before; report the units that the controller must start."""
    del parameters
    journal = open_journal(machine)
    known = journal.get("drain") or {"order": [], "services": {}, "marker_before": False, "out_of_service": False}
    out = bool(known["out_of_service"])
    services = [] if out else _to_start(known)
    more = {"services": services, "out_of_service": out}
    done = book.state(journal) == book.UNCORDONED
    way = book.direction(journal) or FORWARD
    if not done:
        book.check(journal, book.UNCORDONED, way)
    if machine.check_mode:
        return Answer(journal, changed=not done, more=more)
    removed = False if known["marker_before"] else machine.marker.remove()
    if not done:
        journal = machine.journals.add(journal, book.UNCORDONED, way, {"services": services, "out_of_service": out})
    return Answer(journal, changed=removed or not done, more=more)


def _to_start(known: Mapping[str, Any]) -> list[str]:
    """Return the units to start: those that ran, or only supervisor and balancer if the supervisor starts the rest."""
    ran = [name for name in known["order"] if known["services"][name]["active"]]
    kept = SUPERVISOR_UNIT in known["order"] and any(known["services"][SUPERVISOR_UNIT].values())
    return (
        [name for name in (SUPERVISOR_UNIT, BALANCER_UNIT) if name == SUPERVISOR_UNIT or name in ran] if kept else ran
    )
