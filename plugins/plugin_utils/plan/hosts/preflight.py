# SPDX-License-Identifier: Apache-2.0
"""The requirements a host must meet before anything is changed on it; they are only evaluated, never converged."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

BY_BUS = "by_bus"
"""Key of the GPU requirement: where nvidia-smi cannot list the GPUs, they are counted on the PCI bus."""


def desired(variables: Mapping[str, Any]) -> dict[str, Any]:
    """Return required distributions, GPUs, fabric ports, rails and free disk; an empty variable requires nothing."""
    state: dict[str, Any] = {}
    distributions = variables.get("preflight_distributions") or []
    if distributions:
        state["distributions"] = [
            {"distribution": str(one["distribution"]).lower(), "version": str(one["version"])} for one in distributions
        ]
    ports = variables.get("preflight_ports") or []
    if ports:
        state["links"] = {str(port): {} for port in ports}
    rails = variables.get("preflight_rails") or []
    if rails:
        fields = ("port", "cage", "half", "mtu")
        state["rails"] = {str(rail["subnet"]): {field: rail.get(field) for field in fields} for rail in rails}
    gpus = variables.get("preflight_gpus") or {}
    wanted = {field: gpus[field] for field in ("count", "name") if gpus.get(field)}
    if wanted and variables.get("preflight_driver_due"):
        # Without a driver only the PCI bus shows the GPUs, and the driver probe reads it.
        state["gpus"] = {**wanted, BY_BUS: True}
        state["driver"] = {}
    elif wanted:
        state["gpus"] = wanted
    disk = variables.get("preflight_disk") or {}
    if disk:
        state["disk_free"] = {str(path): int(least) for path, least in disk.items()}
    return state
