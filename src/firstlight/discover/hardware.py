# SPDX-License-Identifier: Apache-2.0
"""Compare a machine with the catalog's hardware profiles: matches, contradictions, cabled cages. Pure functions."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ansible_collections.firstlight.cluster.plugins.module_utils.gpu.expected import BY_HOST

from .probe import Machine

Profiles = Mapping[str, Mapping[str, Any]]


def contradictions(machine: Machine, profile: Mapping[str, Any]) -> list[str]:
    """Return why the machine cannot have this profile; without a driver, only the PCI bus provides evidence."""
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
    # In a guest, NVSwitches may belong to its host: the profile becomes clear once the GPUs can be queried.
    if bool(machine.nvswitches) != _has_switches(profile) and (machine.nvswitches or not machine.virtual):
        found.append(f"{machine.nvswitches or 'no'} NVSwitches")
    return found


def _has_switches(profile: Mapping[str, Any]) -> bool:
    """Return whether such a machine shows NVSwitches on its PCI bus."""
    return bool(profile["nvswitch"]) and profile.get("fabric_manager") != BY_HOST


def profile_of(machine: Machine, profiles: Profiles) -> str | None:
    """Return the only profile that matches the machine; None without GPU names, or if several match.

    A four-GPU board and four GPUs of a larger board in a virtual machine differ only in the path between GPUs.
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
    """Return the state of each cage: `cabled`, `empty`, or `off` if its ports are down and the state is unknown."""
    states: dict[int, set[bool | None]] = {}
    links = {link.name: link for link in machine.links}
    for port in ((profile or {}).get("fabric") or {}).get("ports") or []:
        if port.get("cage") is not None and port["port"] in links:
            states.setdefault(int(port["cage"]), set()).add(links[port["port"]].carrier)
    return {
        cage: "cabled" if True in seen else "off" if None in seen else "empty" for cage, seen in sorted(states.items())
    }
