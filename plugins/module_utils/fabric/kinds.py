# SPDX-License-Identifier: Apache-2.0
"""The kinds of state that speak of the fabric: how they are compared, said and mended.

    fabric  {"ports": {name: {"cage", "half"}}, "each": {kind: [key with {port}]}}
            in a request only: read every port, and these by name; read these keys of every port
    rails   {subnet: {"port", "cage", "half", "mtu"}}          each rail is on a port that is there and has its cable
    rdma    {port: {"speed_mbit", "active_mtu", "address", "link_layer"}}   the port's RDMA device, each field optional

All of them are evaluated by the ports that an observation has under `fabric`. Everything here is pure.
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
"""The probe, and the key of the observation, that answers for all of them."""


def named_ports(desired_by_role: Mapping[str, Mapping[str, Any]]) -> dict[str, dict[str, Any]]:
    """The ports that these states name, each with the cage and half that are known of it."""
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
    """What is to be read of ports that a plan could not name yet: keys by kind, one for each of these ports."""
    found: dict[str, set[str]] = {}
    for desired in desired_by_role.values():
        for kind, keys in ((desired.get("fabric") or {}).get("each") or {}).items():
            # In the name of a unit systemd writes some characters in another way.
            words = [escape_instance(name) if kind == "units" else name for name in names]
            found.setdefault(kind, set()).update(key.replace(PORT, word) for key in keys for word in words)
    return found


def keys_of_port(desired: Mapping[str, Any], port: str) -> dict[str, list[str]]:
    """The keys of a state in which a port is named, as `each` of a request has them."""
    kinds = ("sysctl", "units")
    found = {kind: [key.replace(port, PORT) for key in desired.get(kind) or {} if port in key] for kind in kinds}
    return {kind: keys for kind, keys in found.items() if keys}


def _rails(desired: Mapping[str, Any], observed: Mapping[str, Any], _peers: Peers) -> list[Difference]:
    """Rails without a port that carries them."""
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
    """RDMA devices that are not as they should be."""
    return [difference("rdma", *one) for one in rdma_differences(desired, observed.get(PROBE))]


def _only_asked(_desired: Mapping[str, Any], _observed: Mapping[str, Any]) -> list[Difference]:
    return []


def rail_words(rail: Mapping[str, Any]) -> str:
    """Where a rail is planned."""
    if rail.get("port"):
        return f"{rail['port']} with a carrier"
    if rail.get("cage") is not None:
        return f"cage {rail['cage']}, half {rail.get('half') or 0}, with a carrier"
    return f"half {rail.get('half') or 0} of the one cage that has a carrier"


def rail_sentence(key: str, expected: Any, observed: Any) -> str:
    """What is wrong with a rail, in one line."""
    if observed == UNKNOWN:
        return f"the ports of the host are not known, expected rail {key} on {expected}"
    return f"{observed['found']}: {observed['do']}"


SENTENCES = {"rail": rail_sentence, "rdma": rdma_sentence}
"""A difference's sentence by its kind."""
register(named={"fabric": _only_asked}, compared={"rails": _rails, "rdma": _rdma}, sentences=SENTENCES)


def remedy(item: Mapping[str, Any]) -> str | None:
    """What to do about a difference of these kinds; None of any other."""
    if item["kind"] == "rail" and isinstance(item["observed"], Mapping):
        return str(item["observed"]["do"])
    return rdma_remedy(item["key"], item["expected"], item["observed"]) if item["kind"] == "rdma" else None


def seen(item: Mapping[str, Any]) -> Any:
    """What a record shows as observed: of a rail the finding alone, for its remedy stands beside it."""
    if item["kind"] == "rail" and isinstance(item["observed"], Mapping):
        return item["observed"]["found"]
    return item["observed"]


def unread(item: Mapping[str, Any]) -> str:
    """Why something of a port is not known, where its probe did answer."""
    fields = [field for field in item["expected"] if item["kind"] == "rdma" and field != "device"]
    return f"the host does not tell {' and '.join(fields)}" if fields else "it was not looked at"


def cannot_tell(item: Mapping[str, Any]) -> bool:
    """Whether nothing that is wrong was really seen."""
    observed = item["observed"]
    if item["kind"] == "rail":
        return bool(observed == UNKNOWN)
    return item["kind"] == "rdma" and all(observed.get(field) == UNKNOWN for field in item["expected"])
