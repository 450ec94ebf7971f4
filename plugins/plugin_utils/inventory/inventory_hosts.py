# SPDX-License-Identifier: Apache-2.0
"""The inventory's data about each host as plain data, the input of the plan."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

RESULTS = (
    "firstlight_plan",
    "firstlight_observation",
    "firstlight_desired",
    "firstlight_pending",
    "firstlight_steps",
    "firstlight_lease",
    "container_runtime_restarted",
    "ray_cluster_restarted",
    "nvidia_driver_reboot_required",
    "firstlight_records",
)
"""Facts that an earlier play of the same run may have set; they are results, not intent."""

SECRET_ENDINGS = ("_token", "_api_key", "_password", "_secret", "_key_values")
"""Name endings of role variables that never enter a plan; the role reads them itself."""

NUMBER = "firstlight_fabric_number"
"""A host's place in every rail's subnet."""

RACK = "firstlight_rack"
"""A host's rack: name, position and the rack's limits."""

ADDRESSES = ("ansible_host", "ansible_ssh_host")
PORTS = ("ansible_port", "ansible_ssh_port")
USERS = ("ansible_user", "ansible_ssh_user")
CONNECTION = "ansible_connection"
BECOME = "ansible_become"
REACH = (*ADDRESSES, *PORTS, *USERS, CONNECTION, BECOME)
"""Variables by which Ansible reaches a host; of synonyms the first counts."""

HOST_KEYS = (NUMBER, RACK)
"""Intent variables that are set per host."""


@dataclass(frozen=True)
class HostIntent:
    """A host of the inventory: its name, whether it is in group head, and its variables.

    `intent` holds its firstlight_* variables, `variables` its role variables; both as set in the inventory.
    """

    name: str
    is_head: bool = False
    intent: Mapping[str, Any] = field(default_factory=dict)
    variables: Mapping[str, Any] = field(default_factory=dict)
    address: str | None = None
    """The name or address under which Ansible reaches it: ansible_host."""
    is_worker: bool = False
    user: str | None = None
    """The account that Ansible logs in as, if the inventory sets it."""
    port: int | None = None
    """The SSH port, if the inventory sets it."""
    reach: Mapping[str, Any] = field(default_factory=dict)
    """The connection variables of `REACH`, as set in the inventory."""
    others: frozenset[str] = frozenset()
    """Names of all other variables: the owner's own, or misspelt."""

    @property
    def number(self) -> Any:
        """The fabric number set in the inventory; None derives it from the host's place."""
        return self.intent.get(NUMBER)


def read_host(
    name: str, groups: Iterable[str], names: Iterable[object], value: Callable[[str], Any], roles: Iterable[str]
) -> HostIntent:
    """Read a host from its groups and variables; `value` templates a variable, and is called only for needed ones.

    If this run has already made a plan, the role variables are those of the plan, set as facts: only those that the
    owner had given count.
    """
    prefixes = tuple(f"{role}_" for role in roles)
    member, known = frozenset(groups), [key for key in names if isinstance(key, str)]
    mine = [key for key in known if key not in RESULTS]
    planned = value("firstlight_plan") if "firstlight_plan" in known else None
    given = frozenset(planned["given"]) if isinstance(planned, Mapping) and "given" in planned else None
    facts = value("ansible_facts") if "ansible_facts" in mine else {}
    reach = {key: value(key) for key in REACH if key in mine}
    return HostIntent(
        name=name,
        is_head="head" in member,
        is_worker="workers" in member,
        intent={key: plain(value(key)) for key in mine if key.startswith("firstlight_")},
        variables={
            key: plain(value(key)) for key in mine if key.startswith(prefixes) and (given is None or key in given)
        },
        address=_said(reach, ADDRESSES),
        user=_said(reach, USERS),
        port=_port(_said(reach, PORTS)),
        reach=reach,
        others=frozenset(
            key
            for key in mine
            if not key.startswith(("firstlight_", "__", *prefixes)) and key.removeprefix("ansible_") not in facts
        ),
    )


def _said(reach: Mapping[str, Any], names: Iterable[str]) -> str | None:
    return next((str(reach[name]) for name in names if reach.get(name) is not None), None)


def _port(text: str | None) -> int | None:
    return int(text) if text and text.isdecimal() else None


def plain(value: Any) -> Any:
    """Convert containers to plain dicts and lists, which also templates lazy values in them."""
    if isinstance(value, Mapping):
        return {str(key): plain(one) for key, one in value.items()}
    if isinstance(value, (list, tuple)):
        return [plain(one) for one in value]
    return value
