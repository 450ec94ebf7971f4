# SPDX-License-Identifier: Apache-2.0
"""The NVIDIA driver as one exact set of packages: where it comes from, what keeps it there, and that it runs."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any
from urllib.parse import urlsplit

from ansible_collections.firstlight.cluster.plugins.module_utils.core.apt_set import (
    exclusion_text,
    preferences_text,
    sources_text,
)
from ansible_collections.firstlight.cluster.plugins.module_utils.core.driver import builds_module, module_package
from ansible_collections.firstlight.cluster.plugins.module_utils.core.parsers.nvidia_driver import upstream_version
from ansible_collections.firstlight.cluster.plugins.module_utils.core.parsers.openpgp import (
    fingerprints,
    plain_fingerprint,
)
from ansible_collections.firstlight.cluster.plugins.module_utils.core.state import root_file

INSTALL, VERIFY_AND_HOLD = "install", "verify-and-hold"
SOURCE_FILE = "/etc/apt/sources.list.d/firstlight-nvidia.sources"
KEYRING_FILE = "/etc/apt/keyrings/firstlight-nvidia.asc"
PREFERENCES_FILE = "/etc/apt/preferences.d/firstlight-nvidia"
EXCLUSION_FILE = "/etc/apt/apt.conf.d/52firstlight-nvidia"
NOUVEAU_FILE = "/etc/modprobe.d/firstlight-nouveau.conf"
PERSISTENCE_UNIT = "nvidia-persistenced.service"
FABRIC_UNIT = "nvidia-fabricmanager.service"

_TEXT = "Managed by Firstlight (role nvidia_driver): changes here are overwritten."
_HEADER = f"# {_TEXT}\n"
_SOURCE_FIELDS = frozenset({"uris", "suites", "components", "key", "key_file", "fingerprint", "origin", "trusted"})


def desired(variables: Mapping[str, Any]) -> dict[str, Any]:
    """The set, held; with the policy `install` also its source and pins.

    `nvidia_driver_host` is what only the host knows: whether it has an NVSwitch, its kernel, and packages of the same
    release beside the set. Without it the state is that of a host without any of these.
    """
    policy = _policy(variables)
    host = variables.get("nvidia_driver_host") or {}
    install = policy == INSTALL
    pins = _pins(variables, bool(host.get("nvswitch")))
    names = [*pins, *(() if install else host.get("related") or ())]
    wanted = dict(pins)
    if install and variables["nvidia_driver_headers"] and host.get("kernel") and builds_module(pins):
        wanted[f"linux-headers-{host['kernel']}"] = None
    source = variables["nvidia_driver_source"] or {}
    files = {EXCLUSION_FILE: root_file(exclusion_text(f"// {_TEXT}\n", names))}
    origin = None
    if install and source:
        files |= _source_files(source)
        origin = _origin(source)
    if any(pins.values()):
        files[PREFERENCES_FILE] = root_file(preferences_text(_HEADER, pins, origin))
    if install:
        files[NOUVEAU_FILE] = root_file(f"{_HEADER}blacklist nouveau\noptions nouveau modeset=0\n")
    units: dict[str, Any] = {PERSISTENCE_UNIT: {"active": True, "if_present": True}}
    if host.get("nvswitch") and variables["nvidia_driver_fabric_manager"]:
        units[FABRIC_UNIT] = {"enabled": True, "active": True}
    return {
        "packages": wanted,
        "holds": dict.fromkeys(sorted(names), True),
        "files": dict(sorted(files.items())),
        "units": units,
        "driver": _driver(variables, pins),
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
            f"exact versions: give them (`apt-cache policy {loose[0]}` shows what there is)"
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
    """The driver's version: as given, and then the same as the package's, or the package's."""
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
            f"none of the packages {', '.join(pins)} is a driver (nvidia-dkms-*, nvidia-driver-*, nvidia-open): "
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
    return state


def _source_files(source: Mapping[str, Any]) -> dict[str, Any]:
    strange = sorted(str(field) for field in source if field not in _SOURCE_FIELDS)
    if strange:
        raise ValueError(
            f"nvidia_driver_source has unknown fields {', '.join(strange)}; known fields are "
            f"{', '.join(sorted(_SOURCE_FIELDS))}: correct the spelling"
        )
    for field in ("uris", "suites"):
        if not source.get(field):
            raise ValueError(
                f"nvidia_driver_source has no {field}: give them as in apt's sources (a flat one has './')"
            )
    files = {SOURCE_FILE: root_file(sources_text(_HEADER, source, KEYRING_FILE))}
    if source.get("trusted"):
        if any(urlsplit(uri).scheme != "file" for uri in _list(source["uris"])):
            raise ValueError(
                "nvidia_driver_source is trusted without a signature, which is only allowed for file: on the host "
                "itself: give key and fingerprint for anything that comes over a network"
            )
        return files
    key = str(source.get("key") or "")
    pinned = {plain_fingerprint(one) for one in _list(source.get("fingerprint"))}
    if not key.strip() or not pinned:
        raise ValueError(
            "nvidia_driver_source needs key (or key_file) and fingerprint: give the repository's public key and the "
            "fingerprint you know it by from elsewhere"
        )
    found = fingerprints(key)
    foreign = [one for one in found if one not in pinned]
    if foreign:
        raise ValueError(
            f"the repository's key has the fingerprint {' and '.join(foreign)}, "
            f"expected {' or '.join(sorted(pinned))}: this is not the key you pinned. Find out which of the two is "
            "right before you change the pin"
        )
    files[KEYRING_FILE] = root_file(key.strip() + "\n")
    return files


def _origin(source: Mapping[str, Any]) -> str:
    """The site by which apt knows what comes from this source; a local directory has none."""
    return str(source.get("origin") or urlsplit(_list(source["uris"])[0]).hostname or "")


def _list(value: Any) -> list[str]:
    if isinstance(value, str):
        return [value] if value.strip() else []
    return [str(one) for one in value or ()]
