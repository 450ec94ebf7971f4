# SPDX-License-Identifier: Apache-2.0
"""Bill of materials, links and GPU loads of all nodes, from plan and observation. Pure functions."""

from __future__ import annotations

import ipaddress
import json
import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from ansible_collections.firstlight.cluster.plugins.module_utils.fabric.rails import find_port
from ansible_collections.firstlight.cluster.plugins.module_utils.verdicts import PASS, worst
from ansible_collections.firstlight.cluster.plugins.plugin_utils.report.values import at, listed, mapping, number, words

Hosts = Mapping[str, Mapping[str, Any]]
COUNTERS = ("errors", "dropped", "over_errors", "crc_errors", "carrier_errors")
_RATE = re.compile(r"(?P<rate>[0-9.]{1,12}) Gb/s")
_TIME = re.compile(r", (?P<ms>[0-9.eE+-]{1,12}) ms")
_PHASES = {"bf16": "bf16 product", "fp8": "FP8 product", "bandwidth": "memory copy"}


# --- the bill of materials ---------------------------------------------------------------------------------------
def bill_of(plan: Mapping[str, Any], hosts: Hosts, *, serials: bool = False) -> list[dict[str, Any]]:
    """Return every part with its version on each node that answered, the planned version, and the deviating nodes."""
    planned: dict[str, str] = {}
    found: dict[str, dict[str, str]] = {}
    answering = [host for host in plan["hosts"] if _answered(hosts.get(host))]
    for host in plan["hosts"]:
        part, desired = mapping(hosts.get(host)), mapping(at(plan, "hosts", host, "desired"))
        for name, expected, value in _parts(desired, mapping(part.get("observation")), part, serials):
            own = found.setdefault(name, {})
            if host in answering:
                own[host] = words(value) if value is not None else "not known"
            if expected:
                planned.setdefault(name, words(expected))
    return [
        _material(name, planned.get(name), {host: own.get(host, "none") for host in answering})
        for name, own in found.items()
    ]


def _answered(part: Any) -> bool:
    return bool(mapping(at(part, "observation"))) and not at(part, "problem")


def _material(name: str, planned: str | None, values: Mapping[str, str]) -> dict[str, Any]:
    counts = Counter(values.values()).most_common()
    usual = counts[0][0] if counts else None
    if len(counts) > 1 and counts[0][1] == counts[1][1]:
        # In a tie the plan decides; without a planned version, no value counts as the odd one.
        usual = planned if planned in values.values() else None
    odd = (
        [host for host, value in values.items() if value != usual]
        if len(counts) > 1 and name != "serial number"
        else []
    )
    return {"name": name, "planned": planned, "values": dict(values), "odd": odd}


def _parts(
    desired: Mapping[str, Any],
    seen: Mapping[str, Any],
    part: Mapping[str, Any],
    serials: bool,
) -> Iterable[tuple[str, Any, Any]]:
    """Yield name, planned version and found version of each part of a node."""
    facts, driver = mapping(seen.get("facts")), mapping(seen.get("driver"))
    system = " ".join(str(facts[key]) for key in ("distribution", "version") if facts.get(key))
    yield "operating system", None, system or None
    yield "architecture", None, facts.get("architecture")
    yield "kernel", None, driver.get("kernel") or at(part, "gpus", "modules", "kernel")
    memory = number(facts.get("memory_bytes"))
    yield "memory", None, f"{memory / 1e9:.0f} GB" if memory else None
    counted = Counter(str(one) for one in listed(at(seen, "gpus", "names")))
    expected = mapping(at(desired, "gpu_verify", "gpu_health", "hardware"))
    yield (
        "GPUs",
        f"{expected.get('gpus')} x {expected.get('gpu_name')}" if expected else None,
        ", ".join(f"{count} x {name}" for name, count in counted.items()) or None,
    )
    pin = at(desired, "gpu_verify", "gpu_health", "driver")
    yield "driver, loaded", pin, driver.get("loaded")
    yield "driver, installed", pin, driver.get("installed")
    yield "driver, modules", at(desired, "nvidia_driver", "driver", "flavour"), driver.get("flavour")
    for release, one in mapping(seen.get("cuda")).items():
        yield f"CUDA toolkit {release}", None, at(one, "version") or at(one, "compiler")
    for role in ("container_runtime", "nvidia_driver"):
        for name, version in mapping(at(desired, role, "packages")).items():
            if role == "container_runtime" or "fabricmanager" in name:
                yield name, version, at(seen, "packages", name)
    for record in mapping(seen.get("firmware")).values():
        for name, version in mapping(at(record, "now")).items():
            # All GPUs of a node have the same VBIOS, and bus addresses are not comparable between nodes.
            kind, _, port = name.partition(".")
            yield f"firmware, {kind}{f' {port}' if kind == 'nic' else ''}", None, version
    for name, want in mapping(at(desired, "inference_image", "images")).items():
        image = mapping(at(seen, "images", name))
        missing = "not there" if "images" in seen else None
        yield "image", at(want, "reference"), at(want, "reference") if image.get("exists") else missing
        for tool, version in mapping(at(want, "requires")).items():
            yield f"in the image: {tool}", version, at(image, "record", "requires", tool)
    for path, want in mapping(at(desired, "model_weights", "snapshots")).items():
        own = mapping(at(seen, "snapshots", path))
        verified = "" if own.get("verified") else " (not verified)"
        yield "model", at(want, "repository"), own.get("repository")
        yield "model revision", at(want, "revision"), f"{own['revision']}{verified}" if own.get("revision") else None
    if serials:
        yield "serial number", None, part.get("serial") or None
        for gpu in listed(at(part, "gpus", "smi-xml", "gpus")):
            yield f"UUID of GPU {words(at(gpu, 'index'))}", None, at(gpu, "uuid")


# --- links -------------------------------------------------------------------------------------------------------
def links_of(plan: Mapping[str, Any], hosts: Hosts) -> list[dict[str, Any]]:
    """Return every planned fabric port as found: speed, MTU, both halves, RDMA, counters."""
    found = []
    for host in plan["hosts"]:
        part = mapping(hosts.get(host))
        seen = mapping(part.get("observation"))
        ports, counters = mapping(seen.get("fabric")), _counters(part.get("links"))
        wanted = mapping(at(plan, "hosts", host, "desired", "fabric_network", "rdma"))
        for entry in listed(at(plan, "hosts", host, "fabric")):
            name = _port_name(entry, ports)
            port = mapping(ports.get(name))
            found.append(
                {
                    "host": host,
                    "port": name,
                    "address": words(at(entry, "address")),
                    "speed_mbit": port.get("speed_mbit"),
                    "planned_mbit": at(wanted, name, "speed_mbit"),
                    "mtu": port.get("mtu"),
                    "planned_mtu": at(entry, "mtu"),
                    "carrier": port.get("carrier"),
                    "rdma": " ".join(words(port[key]) for key in ("rdma_device", "rdma_state") if port.get(key)),
                    "half": port.get("half"),
                    "twin": port.get("twin"),
                    "firmware": port.get("firmware"),
                    "counters": counters.get(name, {}),
                }
            )
    return found


def _port_name(entry: Any, ports: Mapping[str, Any]) -> str:
    try:
        name, _ = find_port(str(ipaddress.ip_interface(entry["address"]).network), entry, ports)
    except (AttributeError, LookupError, TypeError, ValueError):
        name = None  # the host returned something that `observe` never does
    return name or words(at(entry, "port") or "not found")


def _counters(text: Any) -> dict[str, dict[str, int]]:
    """Return each port's non-zero error counters, from `ip -json -s -s link show`."""
    try:
        ports = json.loads(text) if isinstance(text, str) and text else []
    except (ValueError, RecursionError):
        return {}
    found = {}
    for port in listed(ports):
        told = {
            f"{way} {name}": int(value)
            for way in ("rx", "tx")
            for name in COUNTERS
            if (value := number(at(port, "stats64", way, name)) or number(at(port, "stats", way, name)))
        }
        found[words(at(port, "ifname"))] = told
    return found


def pairs_of(plan: Mapping[str, Any], hosts: Hosts) -> dict[str, Any]:
    """Return the matrix of pairs: rows send, columns receive; reachability, latency and throughput for each rail."""
    names = list(plan["hosts"])
    cells: dict[str, dict[str, list[dict[str, Any]]]] = {}
    for host in names:
        for record in listed(mapping(hosts.get(host)).get("records")):
            told = _path(str(at(record, "id")), names)
            if told is None:
                continue
            kind, port, peer = told
            own = cells.setdefault(host, {}).setdefault(peer, [])
            one = next((one for one in own if one["port"] == port), None)
            if one is None:
                one = {"port": port, "status": PASS}
                own.append(one)
            one["status"] = worst([one["status"], str(at(record, "verdict"))])
            observed = words(at(record, "observed"))
            pattern, key = (_TIME, "ms") if kind == "ping" else (_RATE, "rate")
            if figure := pattern.search(observed):
                one[{"ping": "ms", "tcp": "tcp_gbit", "rdma": "rdma_gbit"}[kind]] = float(figure[key])
            elif at(record, "verdict") != PASS:
                one["problem"] = observed
    return {"hosts": names, "cells": cells}


def _path(name: str, hosts: Sequence[str]) -> tuple[str, str, str] | None:
    """Parse kind, port and peer from the id of a path's check; names may contain dots."""
    for kind in ("ping", "tcp", "rdma"):
        rest = name.removeprefix(f"fabric.{kind}.")
        if rest != name:
            peer = max((one for one in hosts if rest.endswith(f".{one}")), key=len, default="")
            return (kind, rest[: -len(peer) - 1], peer) if peer else None
    return None


def topology_of(plan: Mapping[str, Any], hosts: Hosts) -> list[dict[str, Any]]:
    """Return the GPU topologies, each with the nodes that share it."""
    found: list[dict[str, Any]] = []
    for host in plan["hosts"]:
        topology = mapping(at(hosts.get(host), "observation", "gpu_health", "topology"))
        devices = [words(one) for one in (*listed(topology.get("gpus")), *listed(topology.get("nics")))]
        if len(devices) < 2:
            continue
        names = {words(key): words(value) for key, value in mapping(topology.get("nic_names")).items()}
        cells = {
            one: {other: words(at(topology, "cells", one, other) or "?") for other in devices if other != one}
            for one in devices
        }
        same = next((one for one in found if (one["cells"], one["names"]) == (cells, names)), None)
        if same:
            same["hosts"].append(host)
        else:
            found.append({"hosts": [host], "devices": devices, "names": names, "cells": cells})
    return found


# --- clocks, power, temperature ------------------------------------------------------------------------------------
def loads_of(runs: Mapping[str, Mapping[str, Any]]) -> list[dict[str, Any]]:
    """Return clock, power, temperature and throttle reasons for each GPU and phase of its burn-in."""
    found = []
    for host, run in runs.items():
        for gpu in listed(at(run, "measured", "gpus")):
            for phase, said in _PHASES.items():
                load = mapping(at(gpu, "load", phase))
                if not load:
                    continue
                found.append(
                    {
                        "host": host,
                        "gpu": at(gpu, "index"),
                        "phase": said,
                        "sm_mhz": number(at(load, "sm_mhz", "middle")),
                        "max_sm_mhz": number(load.get("max_sm_mhz")),
                        "power_w": number(at(load, "power_w", "most")),
                        "power_limit_w": number(load.get("power_limit_w")),
                        "temperature_c": number(at(load, "temperature_c", "most")),
                        "held_by": ", ".join(words(one) for one in mapping(load.get("reasons"))) or None,
                    }
                )
    return found


def now_of(plan: Mapping[str, Any], hosts: Hosts) -> list[dict[str, Any]]:
    """Return the current readings of each GPU."""
    return [
        {
            "host": host,
            "gpu": at(gpu, "index"),
            "sm_mhz": number(mapping(gpu).get("clocks.current.sm")),
            "max_sm_mhz": number(mapping(gpu).get("clocks.max.sm")),
            "power_w": number(mapping(gpu).get("power.draw")),
            "power_limit_w": number(mapping(gpu).get("power.limit")),
            "temperature_c": number(mapping(gpu).get("temperature.gpu")),
        }
        for host in plan["hosts"]
        for gpu in listed(at(hosts.get(host), "gpus", "smi-xml", "gpus"))
    ]
