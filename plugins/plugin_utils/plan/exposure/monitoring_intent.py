# SPDX-License-Identifier: Apache-2.0
"""Read the monitoring part of an intent: who may read, and at which address each host is read."""

from __future__ import annotations

import ipaddress
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from ansible_collections.firstlight.cluster.plugins.plugin_utils.findings import PlanErrors
from ansible_collections.firstlight.cluster.plugins.plugin_utils.inventory.inventory_hosts import HostIntent
from ansible_collections.firstlight.cluster.plugins.plugin_utils.plan.exposure.monitoring import DEFAULTS
from ansible_collections.firstlight.cluster.plugins.plugin_utils.plan.keys import read_enabled, read_mapping

ERRORS = {
    "monitoring.hosts": "Only listed hosts may read, each by its address; a name may move to another host.",
    "monitoring.port": "The page of every node is on one port, which the firewall opens for the monitoring hosts.",
    "monitoring.image": "An image without a digest may be another one tomorrow, with the same privileges.",
    "monitoring.address": "The page is bound to the management address of a host, so that address must be known.",
}
MONITORING_KEYS = ("enabled", "hosts", "port", "dcgm_image")


@dataclass(frozen=True)
class Monitoring:
    """Who may read the metrics pages of the nodes; nobody if there are no hosts."""

    hosts: tuple[str, ...] = ()
    port: int = int(DEFAULTS["monitoring_port"])
    dcgm_image: str = ""
    enabled: bool = True
    """False removes what an earlier run installed."""


def read_monitoring(intent: Mapping[str, Any], hosts: Sequence[HostIntent], errors: PlanErrors) -> Monitoring | None:
    """Read firstlight_monitoring and report an error for each invalid value; None if it is not set."""
    if intent.get("firstlight_monitoring") is None:
        return None
    given = read_mapping(intent, "firstlight_monitoring", MONITORING_KEYS, errors)
    monitoring = Monitoring(
        hosts=_hosts(given.get("hosts"), errors),
        port=_port(given.get("port"), errors),
        dcgm_image=_image(given.get("dcgm_image"), errors),
        enabled=read_enabled(given, "firstlight_monitoring", errors),
    )
    for host in hosts if monitoring.hosts and monitoring.enabled else ():
        if listen_address(host) is None:
            errors.add(
                "monitoring.address",
                f"{host.name} has ansible_host {host.address!r} and no monitoring_listen",
                "with firstlight_monitoring.hosts set, every host binds its page to its own management address",
                f"set monitoring_listen of {host.name} to its IP address, or ansible_host",
            )
    return monitoring


def listen_address(host: HostIntent) -> str | None:
    """Return the address of a host's page: its own monitoring_listen, else the address that Ansible uses for it."""
    candidates = (host.variables.get("monitoring_listen"), host.address, host.name)
    return next((str(found) for value in candidates if (found := _address(value)) is not None), None)


def _address(value: object) -> ipaddress.IPv4Address | ipaddress.IPv6Address | None:
    try:
        return ipaddress.ip_address(str(value))
    except ValueError:
        return None


def _hosts(value: object, errors: PlanErrors) -> tuple[str, ...]:
    rule = "it is a list of IP addresses"
    if value is None:
        return ()
    if not isinstance(value, (list, tuple)):
        errors.add("monitoring.hosts", f"firstlight_monitoring.hosts is {value!r}", rule, f"write hosts: [{value}]")
        return ()
    found: list[str] = []
    for one in value:
        address = _address(one)
        if address is None or address.is_unspecified or address.is_multicast:
            errors.add(
                "monitoring.hosts",
                f"firstlight_monitoring.hosts has {one!r}",
                rule,
                "write the address of the monitoring host, as 10.0.0.5; for several, name each",
            )
        else:
            found.append(str(address))
    return tuple(dict.fromkeys(found))


def _port(value: object, errors: PlanErrors) -> int:
    default = Monitoring().port
    if value is None:
        return default
    if isinstance(value, bool) or not isinstance(value, int) or not 1024 <= value <= 65535:
        errors.add(
            "monitoring.port",
            f"firstlight_monitoring.port is {value!r}",
            "it is a number from 1024 to 65535",
            f"leave it out for {default}, or write a free port without quotes",
        )
        return default
    return value


def _image(value: object, errors: PlanErrors) -> str:
    if value is None or value == "":
        return ""
    if not isinstance(value, str) or "@sha256:" not in value:
        errors.add(
            "monitoring.image",
            f"firstlight_monitoring.dcgm_image is {value!r}",
            "it names an image by its digest",
            "write REPOSITORY@sha256:DIGEST, or leave it out to read nvidia-smi instead",
        )
        return ""
    return value
