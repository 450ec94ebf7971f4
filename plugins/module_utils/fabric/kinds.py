# SPDX-License-Identifier: Apache-2.0
"""The kinds of state about the fabric: how differences are found, described and remedied.

    fabric  {"ports": {name: {"cage", "half"}}, "each": {kind: [key with {port}]}}
            only in a request: read every port, and these by name; read these keys for every port
    rails   {subnet: {"port", "cage", "half", "mtu"}}          each rail is on a present port with a carrier
    rdma    {port: {"speed_mbit", "active_mtu", "address", "link_layer"}}   the port's RDMA device, each field optional

All of them are evaluated against the ports that an observation has under `fabric`. Everything here is pure.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from ..state.vocabulary import UNKNOWN, Difference, Peers, difference, register
from .qos import escape_instance
from .rails import find_port
from .rdma import rdma_differences, rdma_remedy, rdma_sentence

PORT = "{port}"
KINDS = ("fabric", "rails", "rdma")
PROBE = "fabric"
"""The probe for all of these kinds, and its key in an observation."""


def named_ports(desired_by_role: Mapping[str, Mapping[str, Any]]) -> dict[str, dict[str, Any]]:
    """Return the ports that these states name, each with its cage and half if known."""
    named: dict[str, dict[str, Any]] = {}
    for desired in desired_by_role.values():
        for name, known in ((desired.get("fabric") or {}).get("ports") or {}).items():
            named[str(name)] = {**named.get(str(name), {}), **(known or {})}
        for rail in (desired.get("rails") or {}).values():
            if rail.get("port"):
                named.setdefault(str(rail["port"]), {})
        for name in desired.get("rdma") or {}:
            named.setdefault(str(name), {})
    return named


def each_port(desired_by_role: Mapping[str, Mapping[str, Any]], names: Sequence[str]) -> dict[str, set[str]]:
    """Return the keys to read, by kind, for ports that a plan could not name yet: one for each of these ports."""
    found: dict[str, set[str]] = {}
    for desired in desired_by_role.values():
        for kind, keys in ((desired.get("fabric") or {}).get("each") or {}).items():
            # systemd escapes some characters in the names of units.
            words = [escape_instance(name) if kind == "units" else name for name in names]
            found.setdefault(kind, set()).update(key.replace(PORT, word) for key in keys for word in words)
    return found


def keys_of_port(desired: Mapping[str, Any], port: str) -> dict[str, list[str]]:
    """Return the keys of a state that name a port, in the form of a request's `each`."""
    kinds = ("sysctl", "units")
    found = {kind: [key.replace(port, PORT) for key in desired.get(kind) or {} if port in key] for kind in kinds}
    return {kind: keys for kind, keys in found.items() if keys}


def _rails(desired: Mapping[str, Any], observed: Mapping[str, Any], _peers: Peers) -> list[Difference]:
    """Return a difference for each rail without a usable port."""
    ports = observed.get(PROBE)
    found: list[Difference] = []
    for subnet, rail in desired.items():
        expected = rail_words(rail)
        if ports is None:
            found.append(difference("rail", subnet, expected, UNKNOWN))
            continue
        problem = find_port(subnet, rail, ports)[1]
        if problem is not None:
            found.append(difference("rail", subnet, expected, {"found": problem.found, "do": problem.remedy}))
    return found


def _rdma(desired: Mapping[str, Any], observed: Mapping[str, Any], _peers: Peers) -> list[Difference]:
    """Return a difference for each RDMA device that is not as desired."""
    return [difference("rdma", *one) for one in rdma_differences(desired, observed.get(PROBE))]


def _only_asked(_desired: Mapping[str, Any], _observed: Mapping[str, Any]) -> list[Difference]:
    return []


def rail_words(rail: Mapping[str, Any]) -> str:
    """Describe where a rail is planned."""
    if rail.get("port"):
        return f"{rail['port']} with a carrier"
    if rail.get("cage") is not None:
        return f"cage {rail['cage']}, half {rail.get('half') or 0}, with a carrier"
    return f"half {rail.get('half') or 0} of the one cage that has a carrier"


def rail_sentence(key: str, expected: Any, observed: Any) -> str:
    """Describe a rail's difference in one line."""
    if observed == UNKNOWN:
        return f"the ports of the host are not known, expected rail {key} on {expected}"
    return f"{observed['found']}: {observed['do']}"


SENTENCES = {"rail": rail_sentence, "rdma": rdma_sentence}
"""Functions that describe a difference, by its kind."""
register(named={"fabric": _only_asked}, compared={"rails": _rails, "rdma": _rdma}, sentences=SENTENCES)


def remedy(item: Mapping[str, Any]) -> str | None:
    """Return what to do about a difference of these kinds; None for any other."""
    if item["kind"] == "rail" and isinstance(item["observed"], Mapping):
        return str(item["observed"]["do"])
    return rdma_remedy(item["key"], item["expected"], item["observed"]) if item["kind"] == "rdma" else None


def seen(item: Mapping[str, Any]) -> Any:
    """Return the observed value for a record: for a rail only the finding, since the remedy is a field of its own."""
    if item["kind"] == "rail" and isinstance(item["observed"], Mapping):
        return item["observed"]["found"]
    return item["observed"]


def unread(item: Mapping[str, Any]) -> str:
    """Return why something about a port is unknown although its probe answered."""
    fields = [field for field in item["expected"] if item["kind"] == "rdma" and field != "device"]
    return f"the host does not report {' and '.join(fields)}" if fields else "it was not checked"


def cannot_tell(item: Mapping[str, Any]) -> bool:
    """Whether the difference consists only of unknown values."""
    observed = item["observed"]
    if item["kind"] == "rail":
        return bool(observed == UNKNOWN)
    return item["kind"] == "rdma" and all(observed.get(field) == UNKNOWN for field in item["expected"])
