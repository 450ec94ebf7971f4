# SPDX-License-Identifier: Apache-2.0
"""Assess a netplan change before it is made: who else configures our ports, and what else would change with it."""

from __future__ import annotations

import ipaddress
from collections.abc import Collection, Mapping, Sequence
from typing import Any

from .generated_units import NETWORK_MANAGER, NETWORKD, Given, PortIdentity, Unit, our_unit_names

MANAGED = "# Managed by Firstlight"
"""First words of a file of ours. Any other file at our path belongs to somebody else."""

Wanted = Mapping[str, Mapping[str, Any]]
"""Ports with `addresses` and `mtu`, in the form of a desired state."""


def is_ours(text: str | None) -> bool:
    """Whether a netplan file was written by Firstlight."""
    return text is not None and text.startswith(MANAGED)


def with_header(content: str) -> str:
    """Add the line that marks a file as ours, without which the next run would not recognise it."""
    return content if is_ours(content) else f"{MANAGED}: changes here are overwritten.\n{content}"


def identity_of(port: str, identities: Mapping[str, PortIdentity]) -> PortIdentity:
    """Return the identity of a port; if nothing is known, just its name."""
    return identities.get(port) or PortIdentity(port)


def effective_problems(
    wanted: Wanted, identities: Mapping[str, PortIdentity], units: Sequence[Unit]
) -> dict[str, list[str]]:
    """Return by port how its effective configuration would differ from the desired one; matching ports are left out.

    `units` are all units that the host's renderers would read with our file in place.
    """
    found = {}
    for port, want in wanted.items():
        problems = _port_problems(identity_of(port, identities), want, units)
        if problems:
            found[port] = problems
    return found


def _port_problems(port: PortIdentity, want: Mapping[str, Any], units: Sequence[Unit]) -> list[str]:
    takers = [unit for unit in units if unit.match(port)]
    keyfiles = [unit for unit in takers if unit.renderer == NETWORK_MANAGER]
    ours = {name for renderer in (NETWORKD, NETWORK_MANAGER) for name in our_unit_names(port.name, renderer)}
    if any(unit.name in ours for unit in keyfiles):
        # NetworkManager picks any of several matching profiles, so there must be only one.
        rivals = [unit for unit in keyfiles if unit.name not in ours]
        problems = [f"{unit.name} ({unit.subject}) could take it, too" for unit in rivals]
        return problems or _wrong_in(next(unit.given for unit in keyfiles if unit.name in ours), want)
    networkd = [unit for unit in takers if unit.renderer == NETWORKD]
    if not networkd:
        return ["nothing would configure it"]
    first = networkd[0]
    if first.name not in ours:
        return [f"{first.name} ({first.subject}) would take it before our file and give it {first.given.sentence()}"]
    return _wrong_in(first.given, want)


def _wrong_in(given: Given, want: Mapping[str, Any]) -> list[str]:
    wrong = []
    strange = [address for address in given.addresses if address not in want["addresses"]]
    missing = [address for address in want["addresses"] if address not in given.addresses]
    wrong += [f"it would have {', '.join(strange)} as well"] if strange else []
    wrong += [f"it would not have {', '.join(missing)}"] if missing else []
    wrong += [f"it would ask for an address by DHCP ({given.dhcp})"] if given.dhcp else []
    if given.mtu != want["mtu"]:
        wrong.append(f"its MTU would be {given.mtu or 'left as it is'}, not {want['mtu']}")
    wrong += [f"it would have the route {route}" for route in given.routes]
    wrong += [f"it would be a member of {given.member}"] if given.member else []
    return wrong


def gives_to(port: PortIdentity, units: Sequence[Unit], want: Mapping[str, Any], *, wrong: bool) -> list[str]:
    """Return what another file, parsed into these units, gives to one of our ports, if it conflicts with ours.

    Addresses in a stanza for this very port always conflict, because netplan merges lists. Single values conflict only
    if the result is `wrong`, because our file may override them. Another stanza conflicts if it is matched before ours.
    """
    found: list[str] = []
    for unit in units:
        how = unit.match(port)
        given = unit.given
        if how and _before_ours(unit, port):
            found.append(f"a stanza for {unit.subject} that takes it before ours, with {given.sentence()}")
        elif how == "itself" and (wrong or given.addresses or given.member):
            found += [word for word in given.words() if word != f"MTU {want['mtu']}"]
    return found


def _before_ours(unit: Unit, port: PortIdentity) -> bool:
    """Whether a foreign unit takes precedence over ours; for NetworkManager this is unknown, so it always may."""
    ours = our_unit_names(port.name, unit.renderer)
    return unit.name not in ours and (unit.renderer == NETWORK_MANAGER or unit.name < max(ours))


def conflict_message(path: str, conflicts: Mapping[str, Mapping[str, Sequence[str]]]) -> str:
    """Return one line about `conflicts`: by file and by port, what the file gives to it."""
    told = [
        f"{file} gives {port} {', '.join(dict.fromkeys(words))}"
        for file, ports in conflicts.items()
        for port, words in ports.items()
        if words
    ]
    return (
        f"Another file configures the fabric's ports, nothing was changed: {'; '.join(told)}. Expected {path} alone to "
        "do it, because netplan merges the addresses of all its files and a later file overrides: remove these "
        "lines there (or the file), and run again"
    )


def strange_message(path: str, problems: Mapping[str, Sequence[str]]) -> str:
    """Return the message when no single file is to blame."""
    told = "; ".join(f"{port}: {', '.join(words)}" for port, words in problems.items())
    return (
        f"The fabric's ports would not match {path}, nothing was changed: {told}. Search the other files in "
        "/etc/netplan and in /etc/systemd/network for what configures these ports, remove it there, and run again"
    )


def changed_others(
    in_force: Sequence[Unit],
    generated: Sequence[Unit],
    ours: Collection[str],
    links: Mapping[str, Mapping[str, Any]],
) -> dict[str, str]:
    """Return by unit what an apply would change for ports that are not ours, described in words.

    The files of a host may have been edited and never applied. `in_force` are the units of the last apply or boot,
    `generated` those of the next one, `ours` the names of our units, and `links` the host's ports as they are: settings
    that a port already has, from whatever source, are no change. Nor does a unit prove that it was applied, because
    systemd regenerates all units on every reload: the port must have the settings.
    """
    before = {unit.name: unit for unit in in_force if unit.name not in ours}
    after = {unit.name: unit for unit in generated if unit.name not in ours}
    found = {}
    for name in sorted({*before, *after}):
        old = before[name].given if name in before else Given()
        new = after[name].given if name in after else Given()
        subject = (after.get(name) or before[name]).subject
        link = links.get(subject) or {}
        if old == new:
            missing = _missing(new, link)
            if link.get("up") and missing.words():  # without a cable this is unknown
                found[name] = f"{subject} does not have {missing.sentence()} now and would get it"
        elif name in before or not _is_live(new, link):
            found[name] = f"{subject} has {old.sentence()} from netplan now and would have {new.sentence()}"
    return found


def _missing(given: Given, link: Mapping[str, Any]) -> Given:
    """Return the settings that a port lacks. Link-local addresses of ports are not read, so they are not compared."""
    present = {_interface(address) for address in link.get("addresses") or []}
    wanted = [(address, _interface(address)) for address in given.addresses]
    return Given(
        addresses=tuple(text for text, one in wanted if one and not one.is_link_local and one not in present),
        mtu=given.mtu if given.mtu not in (None, link.get("mtu")) else None,
    )


def _interface(address: str) -> ipaddress.IPv4Interface | ipaddress.IPv6Interface | None:
    """Parse an address in any notation; None for others such as 0.0.0.0/24, which asks networkd to choose one."""
    try:
        found = ipaddress.ip_interface(address)
    except ValueError:
        return None
    return None if found.ip.is_unspecified else found


def _is_live(given: Given, link: Mapping[str, Any]) -> bool:
    return (
        not given.dhcp
        and not given.member
        and not _missing(given, link).words()
        and not [route for route in given.routes if not route.startswith("default ")]
    )


def others_message(changes: Mapping[str, str], makers: Mapping[str, Sequence[str]]) -> str:
    """Return one line about `changed_others`; `makers` are the files behind each unit, empty if all are gone."""
    told = []
    for name, words in changes.items():
        files = ", ".join(makers.get(name) or []) or "no file any more"
        told.append(f"{words} ({files})")
    return (
        "netplan apply would change ports that are not the fabric's, nothing was changed: "
        f"{'; '.join(told)}. Expected the other netplan files to be applied already: apply them yourself with "
        "`netplan try`, or correct them, or set fabric_network_apply_others to true"
    )
