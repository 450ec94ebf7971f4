# SPDX-License-Identifier: Apache-2.0
"""List what a plan leaves to be decided on a host: what may be done there, and on which condition.

Pure, and computed from the same variables as the roles: without this a plan would not show everything that is done.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from ansible_collections.firstlight.cluster.plugins.module_utils.driver.driver import builds_module
from ansible_collections.firstlight.cluster.plugins.module_utils.image.image import RAY_MARK
from ansible_collections.firstlight.cluster.plugins.plugin_utils.plan.stack.nvidia_driver import (
    FABRIC_UNIT,
    INSTALL,
    PERSISTENCE_FILE,
)

Decision = dict[str, Any]
States = Mapping[str, Mapping[str, Any] | None]

HEADERS = "linux-headers-KERNEL"
"""The package's name with the host's own kernel in it."""


def decided_on_host(
    roles: States, desired: Mapping[str, Any], rails: Sequence[Mapping[str, Any]], environment: Mapping[str, str]
) -> list[Decision]:
    """Return the decisions, each with its role, subject (`what`), action (`does`) and condition (`when`).

    `rails` and `environment` are the host's, as known before observation.
    """
    return [
        *_driver(roles.get("nvidia_driver") or {}),
        *_fabric(rails, environment),
        *_image(desired.get("inference_image") or {}),
        *_present(desired),
    ]


def _decision(
    role: str, what: str, does: str, when: str, packages: Mapping[str, Any] | None = None, units: Sequence[str] = ()
) -> Decision:
    return {
        "role": role,
        "what": what,
        "does": does,
        "when": when,
        "packages": dict(packages or {}),
        "units": list(units),
    }


def _driver(variables: Mapping[str, Any]) -> Iterator[Decision]:
    role, install = "nvidia_driver", variables.get("nvidia_driver_policy") == INSTALL
    manager = variables.get("nvidia_driver_fabric_manager") or {}
    if manager:
        does = "installed, held and started" if install else "verified, held and started"
        yield _decision(role, "fabric manager", does, "where the host has NVSwitch", manager, [FABRIC_UNIT])
    if not install:
        return
    if variables.get("nvidia_driver_headers") and builds_module(variables.get("nvidia_driver_packages") or {}):
        headers = {HEADERS: None}
        yield _decision(role, "kernel headers", "installed", "for the running kernel", headers)
    yield _decision(role, "former driver", "removed in the same transaction", "where another one is installed")
    does = f"{PERSISTENCE_FILE} is written"
    yield _decision(role, "persistence", does, "where nvidia-persistenced starts without persistence mode")
    does = (
        "the host is rebooted"
        if variables.get("nvidia_driver_reboot_ok")
        else "the run stops until you reboot, or set nvidia_driver_reboot_ok"
    )
    yield _decision(role, "reboot", does, "where the loaded kernel module is not the installed one")


def _fabric(rails: Sequence[Mapping[str, Any]], environment: Mapping[str, str]) -> Iterator[Decision]:
    loose = [rail for rail in rails if not rail["port"]]
    for cage in dict.fromkeys(rail["cage"] for rail in loose):
        where = "the one cage that has a cable" if cage is None else f"cage {cage}"
        addresses = ", ".join(str(rail["address"]) for rail in loose if rail["cage"] == cage)
        yield _decision(
            "fabric_network", "fabric ports", f"{addresses} on the ports of {where}", "as their cables are found"
        )
    if "NCCL_IB_HCA" in environment:
        does = f"named in NCCL_IB_HCA, by the hardware profile {environment['NCCL_IB_HCA']}"
        yield _decision("fabric_network", "RDMA devices", does, "as read behind each fabric port")


def _image(desired: Mapping[str, Any]) -> Iterator[Decision]:
    for name in desired.get("images") or {}:
        ray = name.partition(RAY_MARK)[2]
        if ray:
            yield _decision(
                "inference_image",
                "Ray layer",
                f"Ray {ray.partition('_')[0]} is added on the head",
                "where the image has none",
            )


def _present(desired: Mapping[str, Any]) -> Iterator[Decision]:
    for role, state in desired.items():
        units = [
            name
            for name, unit in (state.get("units") or {}).items()
            # Every port has its own instance of such a unit, and the port's name may not be known yet.
            if unit.get("if_present") and unit.get("active") is False and "@" not in name
        ]
        if units:
            yield _decision(role, "units", "stopped and disabled", "where the host has them", units=units)
