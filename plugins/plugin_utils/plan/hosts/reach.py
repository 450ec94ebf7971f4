# SPDX-License-Identifier: Apache-2.0
"""Check the variables by which Ansible reaches each host, so that an invalid one does not cost a timeout."""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Sequence

from ansible_collections.firstlight.cluster.plugins.plugin_utils.findings import PlanErrors
from ansible_collections.firstlight.cluster.plugins.plugin_utils.inventory.inventory_hosts import (
    ADDRESSES,
    BECOME,
    CONNECTION,
    PORTS,
    USERS,
    HostIntent,
)
from ansible_collections.firstlight.cluster.plugins.plugin_utils.plan.inventory_names import nearest
from ansible_collections.firstlight.cluster.plugins.plugin_utils.roles import TRUTH

ERRORS = {
    "host.address": "Ansible passes ansible_host to ssh unchanged: a name or an address, and nothing else.",
    "host.port": "A port that no SSH server can listen on would show only on the hosts, one timeout after the other.",
    "host.connection": "Hosts with a local connection are all this machine: each would be configured over the others.",
    "host.user": "ssh expects a plain account name.",
    "host.name": "A host's name is used in commands, files and patterns, where a space or a comma separates names.",
}

_CONNECTIONS = ("ssh", "smart", "local", "paramiko", "docker", "podman")
_NAME = re.compile(r"[A-Za-z0-9]([A-Za-z0-9._-]*[A-Za-z0-9.])?")
_USER = re.compile(r"[A-Za-z0-9_][A-Za-z0-9._@\\-]*\$?")


def check_reach(hosts: Sequence[HostIntent], errors: PlanErrors) -> list[str]:
    """Refuse connection variables that cannot work. Returns a note for a host that is the local machine."""
    said: dict[tuple[str, str], list[str]] = {}
    for host in hosts:
        for name, value in host.reach.items():
            said.setdefault((name, "" if value is None else str(value)), []).append(host.name)
    for (name, text), names in said.items():
        _check(name, text, names, errors)
    for host in hosts:
        if not (_NAME.fullmatch(host.name) or _is_ipv6(host.name)):
            errors.add(
                "host.name",
                f"a host is called {host.name!r}",
                "a name has letters, digits, -, _ and dots",
                "give it another name, and its address as ansible_host",
            )
    local = said.get((CONNECTION, "local"), [])
    if len(local) > 1:
        errors.add(
            "host.connection",
            f"{_listed(local)} have {CONNECTION} local",
            "a local connection is this machine, which is one host at most",
            f"take {CONNECTION} out of the inventory, so that SSH reaches every host, or keep it only for the one that "
            "Ansible runs on",
        )
        return []
    return [f"{name} has {CONNECTION} local: it is the machine that Ansible runs on." for name in local]


def _check(name: str, text: str, hosts: Sequence[str], errors: PlanErrors) -> None:
    found = f"{name} of {_listed(hosts)} {f'is {text!r}' if text else 'has no value'}"
    if name in ADDRESSES and not (_NAME.fullmatch(text) or _is_ipv6(text)):
        errors.add(
            "host.address",
            found,
            "it is a host name or an IP address, without a scheme, an account, a port or spaces",
            f"write it as 10.20.1.11, and a port as {PORTS[0]}; a host without {name} is reached by its name",
        )
    elif name in PORTS and not (text.isascii() and text.isdecimal() and len(text) <= 5 and 1 <= int(text) <= 65535):
        errors.add(
            "host.port",
            found,
            "a port is a whole number from 1 to 65535",
            f"correct it, or take {name} out: the default is port 22",
        )
    elif name == BECOME and text.lower() not in TRUTH:
        errors.add("host.user", found, "it is true or false", "write true or false, without quotes")
    elif name == CONNECTION and nearest(text, _CONNECTIONS) not in (None, text):
        meant = nearest(text, _CONNECTIONS)
        errors.add("host.connection", found, "it is a connection plugin of Ansible", f"did you mean {meant}?")
    elif name in USERS and not _USER.fullmatch(text):
        errors.add(
            "host.user",
            found,
            "it is the name of an account on the host, without spaces",
            f"correct it, or take {name} out: ssh then uses your own name",
        )


def _is_ipv6(text: str) -> bool:
    try:
        ipaddress.IPv6Address(text)
    except ValueError:
        return False
    return True


def _listed(names: Sequence[str]) -> str:
    more = f" and {len(names) - 4} more" if len(names) > 5 else ""
    return ", ".join(names[: 4 if more else 5]) + more
