# SPDX-License-Identifier: Apache-2.0
"""A machine against the catalog's hardware profiles: which it is, which it cannot be, cabled cages. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ansible_collections.firstlight.cluster.plugins.module_utils.gpu.expected import BY_HOST

from .probe import Machine

Profiles = Mapping[str, Mapping[str, Any]]


def contradictions(machine: Machine, profile: Mapping[str, Any]) -> list[str]:
    """What of the machine cannot be of this profile; without a driver, only what the PCI bus tells is known."""
    found = []
    wanted = profile["gpus"]
    if profile.get("gpus_vary"):
        if machine.gpu_count < 1:
            found.append("no GPU")
    elif machine.gpu_count != wanted:
        found.append(f"{machine.gpu_count} GPUs, not {wanted}")
    others = sorted({name for name in machine.gpu_names if name != profile["gpu_name"]})
    if others:
        found.append(f"{', '.join(others)}, not {profile['gpu_name']}")
    # Those of a guest may be its host's: which it is, shows once its GPUs can be asked.
    if bool(machine.nvswitches) != _has_switches(profile) and (machine.nvswitches or not machine.virtual):
        found.append(f"{machine.nvswitches or 'no'} NVSwitches")
    return found


def _has_switches(profile: Mapping[str, Any]) -> bool:
    """Whether NVSwitches are on the bus of such a machine."""
    return bool(profile["nvswitch"]) and profile.get("fabric_manager") != BY_HOST


def profile_of(machine: Machine, profiles: Profiles) -> str | None:
    """The one profile that the machine can be; None without GPU names, or where several fit.

    A board of four and four GPUs of a larger one in a virtual machine differ in nothing but the way between the GPUs.
    """
    if not machine.gpu_names:
        return None
    fitting = [
        name
        for name, profile in profiles.items()
        if not contradictions(machine, profile) and bool(machine.nvswitches) == _has_switches(profile)
    ]
    exact = [name for name in fitting if not profiles[name].get("gpus_vary")]
    candidates = exact or fitting
    if len(candidates) > 1:
        candidates = [name for name in candidates if machine.pair in str(profiles[name].get("pair")).split("|")]
    return candidates[0] if len(candidates) == 1 else None


def cages(machine: Machine, profile: Mapping[str, Any] | None) -> dict[int, str]:
    """Cage -> `cabled`, `empty`, or `off` where its ports are switched off and cannot tell."""
    states: dict[int, set[bool | None]] = {}
    links = {link.name: link for link in machine.links}
    for port in ((profile or {}).get("fabric") or {}).get("ports") or []:
        if port.get("cage") is not None and port["port"] in links:
            states.setdefault(int(port["cage"]), set()).add(links[port["port"]].carrier)
    return {
        cage: "cabled" if True in seen else "off" if None in seen else "empty" for cage, seen in sorted(states.items())
    }
