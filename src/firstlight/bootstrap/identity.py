# SPDX-License-Identifier: Apache-2.0
"""Check that each node is the expected machine and that no two nodes are the same machine. Pure functions."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from firstlight.discover.hardware import Profiles, contradictions
from firstlight.discover.probe import Machine
from firstlight.ssh.faults import Fault, duplicate_address, duplicate_serial, wrong_hardware
from firstlight.ssh.targets import Target, shared


def address_faults(targets: Sequence[Target], answered: Mapping[str, Sequence[str]]) -> dict[str, Fault]:
    """Return, by node, a fault for each address that is listed more than once or answered by several machines."""
    twice = {address: " and ".join(macs) for address, macs in answered.items() if len(macs) > 1} | shared(targets)
    return {one.name: duplicate_address(one.address, twice[one.address]) for one in targets if one.address in twice}


def identity_faults(targets: Sequence[Target], machines: Mapping[str, Machine], profiles: Profiles) -> dict[str, Fault]:
    """Return, by node, a fault for each duplicate serial number or machine other than the expected one."""
    faults: dict[str, Fault] = {}
    for target in targets:
        machine = machines.get(target.name)
        if machine is None:
            continue
        others = [
            name
            for name, one in machines.items()
            if name != target.name and one.serial and one.serial == machine.serial
        ]
        wrong = mismatches(target, machine, profiles)
        if others:
            faults[target.name] = duplicate_serial(str(machine.serial), ", ".join(sorted(others)))
        elif wrong:
            faults[target.name] = wrong
    return faults


def mismatches(target: Target, machine: Machine, profiles: Profiles) -> Fault | None:
    """Return a fault if the machine contradicts what the list says about the node."""
    if target.serial and machine.serial and target.serial != machine.serial:
        return wrong_hardware(f"serial number {machine.serial}", f"serial number {target.serial}")
    if target.mac and machine.mac and target.mac != machine.mac:
        return wrong_hardware(f"MAC address {machine.mac}", f"MAC address {target.mac}")
    if target.hardware:
        profile = profiles.get(target.hardware)
        if profile is None:
            return wrong_hardware(
                "its hardware cannot be checked", f"{target.hardware}, which the catalog does not know"
            )
        found = contradictions(machine, profile)
        if found:
            return wrong_hardware("; ".join(found), f"{target.hardware} ({profile['description']})")
    return None
