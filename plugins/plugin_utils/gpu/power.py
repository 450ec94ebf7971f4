# SPDX-License-Identifier: Apache-2.0
"""Cross-host checks of a burn-in: power against the budget of host and rack, and identical results.

A GPU may draw its limit at any time, so a budget must cover the limits; if the driver reports none, the draw measured
under load takes its place. What a host draws beside its GPUs comes from the profile or the operator.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from ansible_collections.firstlight.cluster.plugins.module_utils.gpu.check import Check, make_check
from ansible_collections.firstlight.cluster.plugins.module_utils.gpu.checks.burn_in_load import (
    peak_power,
    power_limit,
)
from ansible_collections.firstlight.cluster.plugins.module_utils.verdicts import COULD_NOT_CHECK, FAIL, PASS

BUDGET = ("host_w", "rack_w", "other_w")
"""The operator's settings: maximum power of a host, of all hosts, and the draw of a host beside its GPUs."""

_SOURCE = "burn-in"
_UNKNOWN = "set firstlight_power.other_w to what a host draws beside its GPUs, in W"
_LOWER = (
    "lower the GPUs' power limit (`nvidia-smi -pl WATTS`), spread the hosts over more supplies, or correct the budget"
)


def cluster_checks(results: Mapping[str, Mapping[str, Any]], budget: Mapping[str, Any]) -> dict[str, list[Check]]:
    """Return the checks by host for `results` by host: `measured` (the workload's document or None) and `hardware`.

    A check of a whole rack is listed under its first host. `budget` may have `racks`: by name their `hosts` and
    `power_w`.
    """
    found: dict[str, list[Check]] = {host: [] for host in results}
    draws = {host: host_draw(one, budget.get("other_w")) for host, one in results.items()}
    if budget.get("host_w"):
        for host, (watts, known) in draws.items():
            found[host].append(
                _evaluated("burn_in.host_power", host, watts, known, float(budget["host_w"]), "the host")
            )
    for name, hosts, limit in _racks(list(results), budget):
        total = sum(draws[host][0] for host in hosts)
        known = all(draws[host][1] for host in hosts)
        words = f"{len(hosts)} hosts" if len(hosts) > 1 else "the host"
        words += f" of rack {name}" if name else ""
        found[hosts[0]].append(_evaluated("burn_in.rack_power", hosts[0], total, known, limit, words))
    return {host: checks + _same_answer(host, results) for host, checks in found.items()}


def _racks(hosts: list[str], budget: Mapping[str, Any]) -> Iterator[tuple[str, list[str], float]]:
    """Yield name, hosts and limit of each rack that has one; hosts without a rack are grouped together."""
    racks: Mapping[str, Mapping[str, Any]] = budget.get("racks") or {}
    placed = {host for rack in racks.values() for host in rack["hosts"]}
    for name, rack in racks.items():
        here = [host for host in rack["hosts"] if host in hosts]
        limit = rack.get("power_w") or budget.get("rack_w")
        if here and limit:
            yield name, here, float(limit)
    others = [host for host in hosts if host not in placed]
    if others and budget.get("rack_w"):
        yield "", others, float(budget["rack_w"])


def host_draw(result: Mapping[str, Any], other: Any = None) -> tuple[float, bool]:
    """Return what a host may draw in watts, and whether that figure is complete."""
    hardware, measured = result.get("hardware") or {}, result.get("measured") or {}
    rated = hardware.get("host_power_w") or {}
    gpus = [power_limit(gpu) for gpu in measured.get("gpus") or ()]
    count, limit = int(hardware.get("gpus") or 0), hardware.get("power_limit_w")
    if not gpus or None in gpus:
        # Without a reported limit use the profile's, the rating of the whole host, or the highest measured draw.
        if limit:
            gpus = [float(limit)] * count
        elif rated.get("transient") and other is None:
            return float(rated["transient"]), True
        else:
            peaks = [peak_power(gpu) for gpu in measured.get("gpus") or ()]
            seen = [one for one in peaks if one is not None]
            whole = bool(seen) and len(seen) == count and other is not None
            return sum(seen) + float(other or 0), whole
    drawn = sum(one for one in gpus if one is not None)
    if other is None and rated.get("sustained") and limit:
        other = max(0.0, float(rated["sustained"]) - count * float(limit))
    return drawn + float(other or 0), other is not None


@dataclass(frozen=True)
class PaperDraw:
    """What one host may draw in watts, before anything is measured."""

    sustained: float
    transient: float | None
    """None if unknown."""
    known: bool
    """Whether the figure is complete; otherwise it is a minimum."""
    gpus: int
    gpu_w: float | None


def paper_draw(hardware: Mapping[str, Any], other: float | None = None) -> PaperDraw:
    """Return what a host of this profile may draw; `other` is its draw beside the GPUs, if the operator gives it."""
    rated, limit = hardware.get("host_power_w") or {}, hardware.get("power_limit_w")
    if not limit:
        other = None  # the GPUs' share is unknown, so only the rating of the whole host is left
    sustained, known = host_draw({"hardware": hardware}, other)
    transient = rated.get("transient")
    if transient and limit and rated.get("sustained"):
        # The GPUs cause the excess of transient over sustained power, whatever the rest of the host draws.
        transient = sustained + max(0.0, float(transient) - float(rated["sustained"]))
    return PaperDraw(
        sustained=sustained,
        transient=float(transient) if transient else None,
        known=known,
        gpus=int(hardware.get("gpus") or 0),
        gpu_w=float(limit) if limit else None,
    )


def _evaluated(name: str, host: str, watts: float, known: bool, budget: float, whose: str) -> Check:
    want = f"at most {budget:.0f} W"
    if watts > budget:
        told = f"{whose} may take {watts:.0f} W" + ("" if known else " for the GPUs alone")
        return make_check(name, FAIL, want, told, _LOWER, source=_SOURCE, host=host)
    if not known:
        told = f"{watts:.0f} W for the GPUs; what the rest takes is not known" if watts else "no power is known"
        return make_check(name, COULD_NOT_CHECK, want, told, _UNKNOWN, source=_SOURCE, host=host)
    return make_check(name, PASS, want, f"{whose} may take {watts:.0f} W", source=_SOURCE, host=host)


def _same_answer(host: str, results: Mapping[str, Mapping[str, Any]]) -> list[Check]:
    """Check a host's result against the majority of hosts; only like configurations are compared."""
    answers = {name: _answer(one.get("measured") or {}) for name, one in results.items()}
    own = answers[host]
    if own is None:
        return []
    setting = own[0]
    alike = {name: one[1] for name, one in answers.items() if one and one[0] == setting}
    if len(alike) < 2:
        return []
    want = f"the same bits as {len(alike) - 1} other host{'' if len(alike) == 2 else 's'}"
    counted = Counter(alike.values()).most_common()
    # With a tie, as between two hosts, it is unknown which one is wrong: both fail.
    torn = len(counted) > 1 and counted[0][1] == counted[1][1]
    if len(counted) == 1 or (own[1] == counted[0][0] and not torn):
        return [make_check("burn_in.same_answer", PASS, want, "the same bits", source=_SOURCE, host=host)]
    remedy = "run the burn-in again on all hosts; take a host that still differs out of service, `dcgmi diag -r 3`"
    told = f"different bits than {', '.join(name for name, one in alike.items() if one != own[1])}"
    return [make_check("burn_in.same_answer", FAIL, want, told, remedy, source=_SOURCE, host=host)]


def _answer(measured: Mapping[str, Any]) -> tuple[tuple[Any, ...], str] | None:
    """Return the configuration of the computation and the result's digest; None without a unique result."""
    gpus: list[Mapping[str, Any]] = list(measured.get("gpus") or [])
    digests = {d for gpu in gpus for one in (gpu.get("answers") or {}).values() for d in one.get("digests") or ()}
    if len(digests) != 1 or measured.get("device") != "cuda":
        return None
    setting = (measured.get("torch"), measured.get("cuda"), gpus[0].get("name"), gpus[0].get("size"))
    return setting, digests.pop()
