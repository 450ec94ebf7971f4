# SPDX-License-Identifier: Apache-2.0
"""Find environment variables that nothing reads, that are misspelt, or that contradict each other."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from functools import lru_cache
from typing import Any

from ansible_collections.firstlight.cluster.plugins.plugin_utils.catalog.yaml_file import load_yaml
from ansible_collections.firstlight.cluster.plugins.plugin_utils.engines.findings import Finding, make_finding
from ansible_collections.firstlight.cluster.plugins.plugin_utils.engines.replaced import Replaced
from ansible_collections.firstlight.cluster.plugins.plugin_utils.engines.schema import ENGINES, is_later
from ansible_collections.firstlight.cluster.plugins.plugin_utils.engines.values import show
from ansible_collections.firstlight.cluster.plugins.plugin_utils.findings import PlanErrors

ERRORS = {
    "network.contradiction": "Variables of NCCL that exclude each other fail a start at its first collective, or "
    "silently take the slow path.",
}


def check_environment(
    names: Iterable[str], replaced: Replaced, engine: str | None = None, version: str | None = None
) -> list[Finding]:
    """Return a finding for each variable that no part of the stack reads.

    Variables that an engine once read are only checked when the engine and its version are given.
    """
    findings = []
    for name in names:
        for entry in replaced.environment:
            if entry["variable"] == name and _applies(entry, engine, version):
                problem = f"the variable {show(name)} is read by nothing in this stack"
                finding = make_finding(show(name), None, known=False, problem=problem, error="flags.environment")
                finding["replaced_by"], finding["explanation"] = entry["replacement"], entry["meaning"]
                findings.append(finding)
                break
    return findings


def check_spelling(names: Iterable[str]) -> list[Finding]:
    """Return a finding for each variable of the engine or of NCCL that is misspelt by a letter or not in capitals."""
    findings = []
    for name in names:
        known = next((one for start, one in _known().items() if name.upper().startswith(start)), None)
        if known is None or name in known:
            continue
        near = next((one for one in known if _one_letter(name.upper(), one)), None)
        if near is None and name == name.upper():
            continue  # of another release, perhaps
        problem = f"the variable {show(name)} is read by nothing in this stack"
        finding = make_finding(show(name), None, known=False, problem=problem, error="flags.environment")
        finding["replaced_by"] = near
        finding["explanation"] = None if near else "Its variables are in capitals"
        findings.append(finding)
    return findings


@lru_cache(maxsize=1)
def _known() -> Mapping[str, frozenset[str]]:
    found = load_yaml(ENGINES / "variables.yml")
    return {str(start): frozenset(names) for start, names in found["known"].items()}


def _one_letter(name: str, other: str) -> bool:
    """Whether one letter or dash was left out, added, changed or swapped. Another digit is another variable."""
    start = _alike(name, other)
    end = _alike(name[start:][::-1], other[start:][::-1])
    mine, its = name[start : len(name) - end], other[start : len(other) - end]
    swapped = len(mine) == 2 and mine == its[::-1]
    return (max(len(mine), len(its)) <= 1 or swapped) and not any(one.isdigit() for one in mine + its)


def _alike(name: str, other: str) -> int:
    """Return the length of the common prefix of two words."""
    return next(
        (at for at, (one, two) in enumerate(zip(name, other, strict=False)) if one != two), min(map(len, (name, other)))
    )


def check_network(environments: Iterable[Mapping[str, str]], errors: PlanErrors) -> None:
    """Refuse variables of NCCL that contradict each other."""
    for one in environments:
        _check_names(one, errors)
        if str(one.get("NCCL_IB_DISABLE", "0")) != "0" and str(one.get("NCCL_NET", "")).upper() == "IB":
            errors.add(
                "network.contradiction",
                f"NCCL_IB_DISABLE is {show(one['NCCL_IB_DISABLE'])} beside NCCL_NET=IB",
                "NCCL_NET=IB, set by the plan for a fabric with RDMA, makes NCCL fail if InfiniBand and RoCE are off",
                "remove NCCL_IB_DISABLE; for TCP set firstlight_fabric.rdma to false",
            )
        if str(one.get("NCCL_NET", "")).upper() == "SOCKET" and one.get("NCCL_IB_HCA"):
            errors.add(
                "network.contradiction",
                "NCCL_NET is Socket beside NCCL_IB_HCA, which the plan sets for a fabric with RDMA",
                "NCCL_NET=Socket uses TCP, and NCCL_IB_HCA selects devices for RDMA",
                "remove NCCL_NET; for TCP set firstlight_fabric.rdma to false",
            )


def _check_names(environment: Mapping[str, str], errors: PlanErrors) -> None:
    """Refuse different interfaces for NCCL and Gloo; an operator's NCCL value may be a prefix of the plan's."""
    text, own = str(environment.get("NCCL_SOCKET_IFNAME", "")), str(environment.get("GLOO_SOCKET_IFNAME", ""))
    ports = own.split(",")
    if not own or not text or text.startswith("^"):
        return
    if not any(port.startswith(one) for port in ports for one in text.lstrip("=").split(",") if one):
        errors.add(
            "network.contradiction",
            f"NCCL_SOCKET_IFNAME is {show(text)} beside GLOO_SOCKET_IFNAME={show(own)}",
            "ranks connect over a rail of the fabric, on the same interface in NCCL and in Gloo",
            "leave NCCL_SOCKET_IFNAME to the plan, or name a rail of firstlight_fabric",
        )


def check_addresses(hosts: Mapping[str, Iterable[Mapping[str, str]]], errors: PlanErrors) -> None:
    """Refuse the same engine address on several hosts: the ranks would look for each other on one of them."""
    addresses: dict[str, set[str]] = {}
    for host, environments in hosts.items():
        for one in environments:
            if one.get("VLLM_HOST_IP"):
                addresses.setdefault(str(one["VLLM_HOST_IP"]), set()).add(host)
    for address, names in addresses.items():
        if len(names) > 1:
            errors.add(
                "network.contradiction",
                f"VLLM_HOST_IP is {show(address)} on {', '.join(sorted(names)[:8])}",
                "VLLM_HOST_IP is each host's own address; the plan sets it from the fabric",
                "remove VLLM_HOST_IP from inference_server_environment",
            )


def _applies(entry: Mapping[str, Any], engine: str | None, version: str | None) -> bool:
    if entry["engine"] is None:
        return True
    if entry["engine"] != engine or version is None:
        return False
    return entry["until"] is None or is_later(version, entry["until"])
