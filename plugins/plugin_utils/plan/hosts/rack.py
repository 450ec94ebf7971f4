# SPDX-License-Identifier: Apache-2.0
"""Check the rack of each host: the power and height it can provide, before anything is plugged in."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from ansible_collections.firstlight.cluster.plugins.plugin_utils.findings import PlanErrors
from ansible_collections.firstlight.cluster.plugins.plugin_utils.gpu.power import PaperDraw, paper_draw
from ansible_collections.firstlight.cluster.plugins.plugin_utils.inventory.inventory_hosts import RACK, HostIntent
from ansible_collections.firstlight.cluster.plugins.plugin_utils.plan.keys import check_keys

ERRORS = {
    "rack.place": "The rack of a host decides whose power it draws, so it is explicit, and consistent within a rack.",
    "power.rack": "A rack that must deliver more power than it can loses all its hosts at the first full load.",
    "power.host": "A host that may draw more than its supply delivers loses power under full load.",
    "rack.space": "Hosts that do not fit into the rack end up elsewhere, with other power and other cables.",
}

KEYS = ("name", "position", "serial", "power_w", "units")
LIMITS = ("power_w", "units")
_POWER = "power_w of the rack in the rack file, or firstlight_power.rack_w"


@dataclass(frozen=True)
class RackIntent:
    """The hosts of one rack and its limits; `name` is None for hosts without a rack."""

    name: str | None
    hosts: tuple[str, ...] = ()
    limits: Mapping[str, float] = field(default_factory=dict)

    @property
    def words(self) -> str:
        return f"rack {self.name}" if self.name else "the rack"


def read_racks(hosts: Sequence[HostIntent], errors: PlanErrors) -> list[RackIntent]:
    """Return the racks of the hosts, in the order of the inventory."""
    found: dict[str | None, list[tuple[str, Mapping[str, Any]]]] = {}
    for host in hosts:
        place = host.intent.get(RACK)
        if place is not None and not _is_place(place):
            errors.add(
                "rack.place",
                f"{RACK} of {host.name} is {place!r}",
                "it has a name, and may have a position, a serial, and power_w and units as numbers above 0",
                f"write {RACK}: {{name: a, position: 1, power_w: 17000}}, or leave it to a rack file (docs/racks.md)",
            )
            place = None
        place = place or {}
        check_keys(place, KEYS, f"{RACK} of {host.name}", errors)
        name = place.get("name")
        found.setdefault(None if name is None else str(name), []).append((host.name, place))
    return [_rack(name, members, errors) for name, members in found.items()]


def _is_place(place: Any) -> bool:
    if not isinstance(place, Mapping):
        return False
    name = place.get("name")
    named = isinstance(name, (str, int)) and not isinstance(name, bool) and str(name) != ""
    return named and all(place.get(limit) is None or _is_number(place[limit]) for limit in LIMITS)


def _is_number(value: Any) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool) and value > 0


def _rack(name: str | None, members: Sequence[tuple[str, Mapping[str, Any]]], errors: PlanErrors) -> RackIntent:
    limits: dict[str, float] = {}
    for limit in LIMITS:
        told = {host: place[limit] for host, place in members if place.get(limit) is not None}
        if len(set(told.values())) > 1:
            errors.add(
                "rack.place",
                f"{limit} of rack {name} is {' and '.join(f'{value} on {host}' for host, value in told.items())}",
                "a rack has one limit",
                f"write the same {limit} in {RACK} of all its hosts, or leave it to a rack file (docs/racks.md)",
            )
        elif told:
            limits[limit] = float(next(iter(told.values())))
    return RackIntent(name, tuple(host for host, _ in members), limits)


def check_racks(
    racks: Sequence[RackIntent], power: Mapping[str, float], hardware: Mapping[str, Any] | None, errors: PlanErrors
) -> list[str]:
    """Refuse more power or height than a rack or a host provides. Returns notes on the racks with enough power."""
    if hardware is None:
        return []
    draw = paper_draw(hardware, power.get("other_w"))
    if power.get("host_w"):
        _check_host(draw, power["host_w"], str(hardware["name"]), errors)
    notes: list[str] = []
    for rack in racks:
        limit = rack.limits.get("power_w", power.get("rack_w"))
        if limit and not _exceeds(draw, len(rack.hosts), limit):
            notes.append(_note(rack, draw, limit))
        elif limit:
            _refuse_power(rack, draw, limit, str(hardware["name"]), errors)
        _check_space(rack, hardware, errors)
    return notes


def rack_budgets(racks: Sequence[RackIntent]) -> dict[str, Any]:
    """Return the hosts and the power budget of each rack, for the burn-in; empty if no host has a rack."""
    named = {rack.name: rack for rack in racks if rack.name is not None}
    if not named:
        return {}
    return {
        "racks": {
            name: {
                "hosts": list(rack.hosts),
                **({"power_w": rack.limits["power_w"]} if "power_w" in rack.limits else {}),
            }
            for name, rack in named.items()
        }
    }


def _check_host(draw: PaperDraw, limit: float, hardware: str, errors: PlanErrors) -> None:
    if _exceeds(draw, 1, limit):
        errors.add(
            "power.host",
            f"a host {hardware} may draw {_sum(draw, 1)}; firstlight_power.host_w is {limit:.0f} W",
            "a host may draw at most what it is given, including in transients",
            f"give it at least {_most(draw):.0f} W, or correct firstlight_power.host_w or other_w",
        )


def _exceeds(draw: PaperDraw, count: int, limit: float) -> bool:
    return count * _most(draw) > limit


def _most(draw: PaperDraw) -> float:
    return max(draw.sustained, draw.transient or 0.0)


def _refuse_power(rack: RackIntent, draw: PaperDraw, limit: float, hardware: str, errors: PlanErrors) -> None:
    count, fits = len(rack.hosts), int(limit // _most(draw))
    hosts = f"{count} hosts" if count > 1 else "1 host"
    keep = f"keep {fits} of them in it ({fits} x {_most(draw):.0f} W = {fits * _most(draw):.0f} W)" if fits else ""
    errors.add(
        "power.rack",
        f"{rack.words} has {hosts} {hardware}, which draw {_sum(draw, count)}; it can give {limit:.0f} W",
        "the hosts of a rack together may draw at most what it can give, including in transients",
        (keep or "provide more power") + f", or correct {_POWER}; for GPUs with a lower power limit add a hardware "
        "profile with their power_limit_w and host_power_w to a directory of firstlight_catalog",
    )


def _sum(draw: PaperDraw, count: int) -> str:
    """Render the power sum as one would write it by hand."""
    times = f"{count} x " if count > 1 else ""

    def total(watts: float) -> str:
        return f"{times}{watts:.0f} W" + (f" = {count * watts:.0f} W" if count > 1 else "")

    parts = [f"{draw.gpus} x {draw.gpu_w:.0f} W for GPUs" if draw.gpu_w else ""]
    rest = draw.sustained - draw.gpus * (draw.gpu_w or 0)
    parts.append(f"{rest:.0f} W for the rest" if rest > 0 and draw.gpu_w else "")
    each = " and ".join(part for part in parts if part)
    beyond = draw.transient is not None and draw.transient > draw.sustained
    how = "sustained" if beyond or draw.transient is None else "at most"
    words = f"{total(draw.sustained)} {how if draw.known else 'at least'}"
    words += f" (each {each})" if each else ""
    return words + (f" and {total(draw.transient)} in transients" if draw.transient and beyond else "")


def _note(rack: RackIntent, draw: PaperDraw, limit: float) -> str:
    words = (
        f"{rack.words[0].upper()}{rack.words[1:]} can give {limit:.0f} W; its hosts draw {_sum(draw, len(rack.hosts))}"
    )
    return f"{words}." if draw.known else f"{words}. The draw of the rest is not known: set firstlight_power.other_w."


def _check_space(rack: RackIntent, hardware: Mapping[str, Any], errors: PlanErrors) -> None:
    units, height = rack.limits.get("units"), hardware.get("rack_units")
    count = len(rack.hosts)
    if units and height and count * height > units:
        errors.add(
            "rack.space",
            f"{rack.words} has {units:g} units; {count} hosts {hardware['name']} take {count} x {height:g} = "
            f"{count * height:g} units",
            "the hosts of a rack fit into its height",
            f"keep at most {int(units // height)} of them in it, or correct units of the rack in the rack file",
        )
