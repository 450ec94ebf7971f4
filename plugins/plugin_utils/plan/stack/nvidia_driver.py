# SPDX-License-Identifier: Apache-2.0
"""The desired state of the NVIDIA driver: one exact set of packages, its source and holds, and the running driver."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ansible_collections.firstlight.cluster.plugins.module_utils.driver.driver import (
    builds_module,
    matches,
    module_package,
    precompiled,
    with_persistence,
)
from ansible_collections.firstlight.cluster.plugins.module_utils.parsers.dpkg import upstream_version
from ansible_collections.firstlight.cluster.plugins.module_utils.state.vocabulary import root_file
from ansible_collections.firstlight.cluster.plugins.plugin_utils.packages.source import refuse_password, set_files

INSTALL, VERIFY_AND_HOLD = "install", "verify-and-hold"
NOUVEAU_FILE = "/etc/modprobe.d/firstlight-nouveau.conf"
PERSISTENCE_FILE = "/etc/systemd/system/nvidia-persistenced.service.d/firstlight.conf"
PERSISTENCE_UNIT = "nvidia-persistenced.service"
FABRIC_UNIT = "nvidia-fabricmanager.service"

_HEADER = "# Managed by Firstlight (role nvidia_driver): changes here are overwritten.\n"


def desired(variables: Mapping[str, Any]) -> dict[str, Any]:
    """Return the package set, held; with the policy `install` also its source and pins.

    `nvidia_driver_host` is what only the host knows: whether it has an NVSwitch, its kernel, the driver that is
    installed, how the persistence daemon is started, and packages of that release beside the set. Without it the state
    is that of a host without any of these.
    """
    policy = _policy(variables)
    host = variables.get("nvidia_driver_host") or {}
    install = policy == INSTALL
    pins = _pins(variables, bool(host.get("nvswitch")))
    driver = _driver(variables, pins)
    # Where the driver stays, other installed packages of its release stay too, and are held with it.
    moving = install and not matches(host.get("installed"), driver)
    names = [*pins, *(() if moving else host.get("related") or ())]
    wanted = dict(pins)
    if install and variables["nvidia_driver_headers"] and host.get("kernel") and builds_module(pins):
        wanted[f"linux-headers-{host['kernel']}"] = None
    source = variables["nvidia_driver_source"]
    refuse_password("nvidia_driver_source", source)  # with either policy
    files = set_files("nvidia_driver", "nvidia", pins, names, [source] if install and source else [])
    if install:
        persistent = with_persistence(host.get("persistenced"))
        if persistent:
            files[PERSISTENCE_FILE] = root_file(f"{_HEADER}[Service]\nExecStart=\nExecStart={persistent}\n")
        files[NOUVEAU_FILE] = root_file(f"{_HEADER}blacklist nouveau\noptions nouveau modeset=0\n")
    units: dict[str, Any] = {PERSISTENCE_UNIT: {"active": True, "if_present": True}}
    if host.get("nvswitch") and variables["nvidia_driver_fabric_manager"]:
        units[FABRIC_UNIT] = {"enabled": True, "active": True}
    return {
        "packages": wanted,
        "holds": dict.fromkeys(sorted(names), True),
        "files": dict(sorted(files.items())),
        "units": units,
        "driver": driver,
    }


HOST_VARIABLE = "nvidia_driver_host"

HOST_VARIANTS: tuple[Mapping[str, Any], ...] = (
    {"nvswitch": True, "persistenced": "/usr/bin/nvidia-persistenced --no-persistence-mode"},
)
"""Hosts whose state has more items than that of a plain one: an observation covers all of them."""


def read_host(observation: Mapping[str, Any]) -> dict[str, Any] | None:
    """Return the part of an observation that the state depends on; None if it could not be read."""
    driver = observation.get("driver")
    if not driver:
        return None
    return {
        "nvswitch": (driver.get("nvswitches") or 0) > 0,
        "kernel": driver.get("kernel"),
        "installed": driver.get("installed"),
        "related": list(driver.get("related") or ()),
        "persistenced": driver.get("persistenced"),
    }


def _policy(variables: Mapping[str, Any]) -> str:
    policy = str(variables["nvidia_driver_policy"])
    if policy not in (INSTALL, VERIFY_AND_HOLD):
        raise ValueError(
            f"nvidia_driver_policy is {policy!r}, expected {VERIFY_AND_HOLD} or {INSTALL}: set one of these"
        )
    return policy


def _pins(variables: Mapping[str, Any], nvswitch: bool) -> dict[str, str | None]:
    packages = _versions(variables["nvidia_driver_packages"])
    fabric = _versions(variables["nvidia_driver_fabric_manager"])
    if not packages:
        raise ValueError(
            "nvidia_driver_packages is empty, expected every package of the driver with its version: take the set of "
            "a stack release, or list it with `dpkg-query --show 'nvidia-*' 'libnvidia-*'` on a host that has it"
        )
    loose = sorted(name for name, version in {**packages, **fabric}.items() if version is None)
    if loose and _policy(variables) == INSTALL:
        raise ValueError(
            f"nvidia_driver_packages gives no version for {', '.join(loose)}, but the policy {INSTALL} installs only "
            f"exact versions: give them (`apt-cache policy {loose[0]}` lists the versions)"
        )
    version = _version(variables, packages)
    for name, one in fabric.items():
        if version and one and upstream_version(one) != version:
            raise ValueError(
                f"{name} is pinned to {one} and the driver to {version}, but a fabric manager runs only with its own "
                "driver version: pin both to one version"
            )
    return dict(sorted({**packages, **(fabric if nvswitch else {})}.items()))


def _versions(packages: Mapping[str, Any] | None) -> dict[str, str | None]:
    return {str(name): None if version is None else str(version) for name, version in (packages or {}).items()}


def _version(variables: Mapping[str, Any], packages: Mapping[str, str | None]) -> str | None:
    """Return the driver's version: the given one, which must match the package's, or the package's."""
    given = str(variables["nvidia_driver_version"] or "") or None
    package = module_package(packages)
    pinned = packages[package] if package else None
    if given and pinned and upstream_version(pinned) != given:
        raise ValueError(
            f"nvidia_driver_version is {given}, but {package} is pinned to {pinned}: make them the same version"
        )
    return given or (upstream_version(pinned) if pinned else None)


def _driver(variables: Mapping[str, Any], pins: Mapping[str, str | None]) -> dict[str, Any]:
    package = module_package(pins)
    if package is None:
        raise ValueError(
            f"none of the packages {', '.join(pins)} is a driver (nvidia-dkms-*, nvidia-driver-*, nvidia-headless-*, "
            "nvidia-open): "
            "name the whole set, its metapackage included"
        )
    version = _version(variables, pins)
    branch = str(variables["nvidia_driver_branch"] or "") or None
    if version is None and branch is None:
        raise ValueError(
            "neither a version nor a branch of the driver is given: set nvidia_driver_version, nvidia_driver_branch, "
            "or versions in nvidia_driver_packages"
        )
    if version and branch and version.partition(".")[0] != branch:
        raise ValueError(f"the driver's version {version} is not of nvidia_driver_branch {branch}: correct one of them")
    flavour = str(variables["nvidia_driver_flavour"] or "") or None
    if flavour not in (None, "open", "proprietary"):
        raise ValueError(
            f"nvidia_driver_flavour is {flavour!r}, expected open, proprietary or nothing: set one of these"
        )
    state: dict[str, Any] = {"package": package, "version": version, "branch": branch, "flavour": flavour}
    if not variables["nvidia_driver_mig_ok"]:
        state["mig"] = False
    remove = [str(name) for name in variables.get("nvidia_driver_remove") or ()]
    if kept := sorted(set(remove) & set(pins)):
        raise ValueError(
            f"nvidia_driver_remove has {', '.join(kept)}, which nvidia_driver_packages installs, expected packages "
            "that are not part of the set: take them out of one of the two"
        )
    if remove:
        state["remove"] = sorted(set(remove))
    if precompiled(pins):
        state["precompiled"] = True
    elif variables.get("nvidia_driver_kernel_below"):
        state["kernel_below"] = str(variables["nvidia_driver_kernel_below"])
    return state
