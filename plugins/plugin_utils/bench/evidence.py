# SPDX-License-Identifier: Apache-2.0
"""Observed reasons why a cluster may be slower than its plan, likeliest first. Nothing is guessed."""

from __future__ import annotations

import ipaddress
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from ansible_collections.firstlight.cluster.plugins.module_utils.fabric.rails import Problem, find_port
from ansible_collections.firstlight.cluster.plugins.module_utils.fabric.rdma import link_speed
from ansible_collections.firstlight.cluster.plugins.module_utils.gpu.checks.serving import (
    KV_CACHE_FULL,
    PREEMPTED_SHARE,
)
from ansible_collections.firstlight.cluster.plugins.module_utils.gpu.health import KIND as GPU_HEALTH
from ansible_collections.firstlight.cluster.plugins.module_utils.verdicts import CONTENT, FAIL

SLOWING = (
    "gpu.throttle",
    "gpu.power_limit",
    "gpu.temperature",
    "gpu.pcie",
    "nvlink.links",
    "nvlink.speed",
    "topo.pairs",
)
"""GPU checks whose failure costs speed, likeliest first."""
MUCH = 0.25
"""Share of all-reduces in a step above which the paths between the GPUs are worth checking."""

Host = tuple[str, Mapping[str, Any], Mapping[str, Any] | None]


@dataclass(frozen=True)
class Evidence:
    """The plans of the hosts and their observations, as module `observe` returns them."""

    plans: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    observations: Mapping[str, Any] = field(default_factory=dict)
    """Observations by host; without hosts that were not observed or did not answer."""
    rails: int | None = None
    """How many ports make up a host's bandwidth, according to the hardware profile."""

    def hosts(self) -> Iterator[Host]:
        for name, plan in self.plans.items():
            seen = self.observations.get(name)
            yield name, plan, seen if isinstance(seen, Mapping) else None


def look_at(document: Mapping[str, Any], evidence: Evidence | None, share: float | None) -> list[str]:
    """Return what to check first and what to do, and finally what is not known.

    `share` is the estimated share of all-reduces in a step.
    """
    seen = evidence or Evidence()
    unknown: list[str] = []
    return [
        *_links(seen, unknown),
        *_rails(seen),
        *_gpus(seen, unknown),
        *_cache(document, unknown),
        *_communication(share, unknown),
        *_client(document),
        *_failures(document),
        *([f"not known: {'; '.join(unknown)}"] if unknown else []),
    ]


def _ports(
    plan: Mapping[str, Any], looked: Mapping[str, Any] | None
) -> list[tuple[str, Mapping[str, Any], Problem | None]]:
    """Return the port of each rail with its observed state and problem, if any; empty if the ports are unknown."""
    ports = (looked or {}).get("fabric")
    if not isinstance(ports, Mapping):
        return []
    found = []
    try:
        for entry in plan["host"]["fabric"]:
            name, problem = find_port(str(ipaddress.ip_interface(entry["address"]).network), entry, ports)
            found.append((name or "", ports.get(name or "") or {}, problem))
    except (AttributeError, LookupError, TypeError, ValueError):
        return []  # the host returned something that `observe` never does
    return found


def _has_fabric(seen: Evidence) -> bool:
    return len(seen.plans) > 1 and any(plan["host"]["fabric"] for plan in seen.plans.values())


def _links(seen: Evidence, unknown: list[str]) -> Iterator[str]:
    """Yield links below the planned speed, one line per host and speed."""
    if not _has_fabric(seen):
        if not seen.plans:
            unknown.append("the speed of the links between the hosts, as no host was observed")
        return
    blind: list[str] = []
    for host, plan, looked in seen.hosts():
        wanted = int((plan.get("fabric") or {}).get("speed_mbit") or 0)
        # Some drivers report the previous speed of a link that is down, so use only ports without a problem.
        ports = _ports(plan, looked)
        found = {name: link_speed(port) for name, port, problem in ports if problem is None}
        if not ports or not wanted or None in found.values():
            blind.append(host)
        slow: dict[int, list[str]] = {}
        for name, speed in found.items():
            if speed is not None and speed < wanted:
                slow.setdefault(speed, []).append(name)
        for speed, names in sorted(slow.items()):
            half = " (half its rate)" if speed * 2 == wanted else ""
            yield (
                f"{host}: {' and '.join(names)} at {speed / 1000:g} of {wanted / 1000:g} Gb/s{half}: check the speed "
                "of the switch port, and the cable"
            )
    if blind:
        unknown.append(f"the speed of the links of {', '.join(blind)}")


def _rails(seen: Evidence) -> Iterator[str]:
    """Yield rails that cannot carry traffic, and ports that the plan does not use."""
    if not _has_fabric(seen):
        return
    for host, plan, looked in seen.hosts():
        yield from (f"{host}: {problem.sentence}" for _, _, problem in _ports(plan, looked) if problem is not None)
    used = max(len(plan["host"]["fabric"]) for plan in seen.plans.values())
    if seen.rails and 0 < used < seen.rails:
        yield (
            f"the plan uses {used} rail{'' if used == 1 else 's'} of the {seen.rails} ports that add up to a host's "
            "bandwidth: add the others to firstlight_fabric.rails"
        )


def _gpus(seen: Evidence, unknown: list[str]) -> Iterator[str]:
    """Yield GPUs that are throttled, have a lower power limit than planned, or lost PCIe lanes or NVLinks."""
    blind: list[str] = []
    failed: dict[str, list[str]] = {name: [] for name in SLOWING}
    for host, _, looked in seen.hosts():
        health = (looked or {}).get(GPU_HEALTH)
        checks = health.get("checks") if isinstance(health, Mapping) else None
        told = {
            str(one["id"]): one
            for one in (checks if isinstance(checks, (list, tuple)) else ())
            if isinstance(one, Mapping) and {"id", "verdict", "expected", "observed"} <= one.keys()
        }
        if told.get("gpu.throttle", {}).get("verdict") not in (*CONTENT, FAIL):
            blind.append(host)
        for name, one in told.items():
            if name in failed and one["verdict"] == FAIL:
                remedy = f": {one['remedy']}" if one.get("remedy") else ""
                failed[name].append(f"{host}: {name} is {one['observed']}, expected {one['expected']}{remedy}")
    yield from (line for lines in failed.values() for line in lines)
    if blind or not seen.plans:
        unknown.append(" on ".join(filter(None, ("what limits the clocks of the GPUs", ", ".join(blind)))))


def _runs(document: Mapping[str, Any]) -> Iterator[Mapping[str, Any]]:
    for workload in document["workloads"]:
        for point in workload["points"]:
            yield from point["runs"]


def _numbers(runs: Iterable[Mapping[str, Any]], key: str) -> list[float]:
    return [run[key] for run in runs if isinstance(run.get(key), (int, float))]


def _cache(document: Mapping[str, Any], unknown: list[str]) -> Iterator[str]:
    """Yield a full KV cache: requests waited for space, or were preempted and computed again."""
    runs = list(_runs(document))
    lost, full = _numbers(runs, "preemptions"), _numbers(runs, "kv_cache_used")
    smaller = "lower max_model_len or max_num_seqs, use an FP8 KV cache, or send fewer streams"
    sent = sum(_numbers(runs, "requests"))
    if sum(lost) > PREEMPTED_SHARE * sent:
        yield f"{sum(lost):.0f} preemptions in {sent:.0f} requests, the KV cache is too small for this load: {smaller}"
    elif max(full, default=0) >= KV_CACHE_FULL:
        yield f"the KV cache was {max(full):.0%} full: {smaller}"
    if not lost and not full:
        unknown.append("how full the KV cache was, and whether requests were preempted")


def _communication(share: float | None, unknown: list[str]) -> Iterator[str]:
    if share is None or share < MUCH:
        return
    yield (
        f"by the estimate, all-reduces take {share:.0%} of a step, so a slow path costs most there: measure every path "
        "with `playbooks/verify.yml -e verify_bandwidth=true` while nothing is served"
    )
    unknown.append("the actual share of all-reduces")


def _client(document: Mapping[str, Any]) -> Iterator[str]:
    client = document.get("client") or {}
    if client.get("on_head"):
        yield (
            f"the client ran on the head ({client.get('host')}), whose CPUs the server needs: run it on another "
            "host where there is one"
        )


def _failures(document: Mapping[str, Any]) -> Iterator[str]:
    runs = list(_runs(document))
    failed, sent = (sum(_numbers(runs, key)) for key in ("failed", "requests"))
    kinds: Sequence[str] = sorted({str(kind) for run in runs for kind in run.get("failures") or ()})
    if failed:
        named = f" ({', '.join(kinds)})" if kinds else ""
        yield f"{failed:.0f} of {sent:.0f} requests failed{named}: see the server's log (`firstlight logs`)"
