# SPDX-License-Identifier: Apache-2.0
"""A host's netplan as a change finds it: its files, its ports, and what prevents the change."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping, Sequence
from typing import Any

from ..host import Host
from ..parsers.network import parse_ip_addresses
from ..ssh_connection import ssh_ends
from .apply_methods import DEVICE_FIELDS, Device, Way, choose, notes, parse_devices
from .assessment import (
    Wanted,
    changed_others,
    conflict_message,
    effective_problems,
    gives_to,
    identity_of,
    others_message,
    strange_message,
)
from .generated_units import NETWORK_MANAGER, NETWORKD, PortIdentity, Unit, our_unit_names, parse_identities
from .outcome import overlaps, parse_default_routes
from .scratch import GenerateError, generate, generated_units, netplan_files, with_own_units
from .undo_program import parse_route_arguments, parse_setup_states

_UNSETTLED = ("configuring", "pending", "initialized")


class NetplanError(Exception):
    """A change that must not be made, or that did not work; the message is for the operator."""


class NetplanHost:
    """The host's netplan, its links and routes."""

    def __init__(self, host: Host, root: str = "/") -> None:
        """`root` differs from "/" only in tests."""
        self.host = host
        self.root = root
        self.identities: dict[str, PortIdentity] = {}

    # --- state -------------------------------------------------------------------------------------------------------
    def links(self) -> dict[str, dict[str, Any]]:
        """Read every link of the host; `admin_up` is whether it is set up, with or without a carrier."""
        ran = self.host.run(["ip", "-d", "-j", "addr", "show"], timeout=10)
        if not ran.ok:
            raise NetplanError(f"The host's links cannot be read ({ran.summary}): install iproute2")
        try:
            links = parse_ip_addresses(ran.stdout)
            self.identities = parse_identities(ran.stdout, {name: self._driver(name) for name in links})
        except ValueError as error:
            raise NetplanError(f"The host's links cannot be read ({error}): update iproute2") from error
        for entry in json.loads(ran.stdout or "[]"):
            if entry.get("ifname") in links:
                links[entry["ifname"]]["admin_up"] = "UP" in (entry.get("flags") or [])
        return links

    def _driver(self, port: str) -> str:
        try:
            return os.path.basename(os.readlink(os.path.join(self.root, "sys/class/net", port, "device/driver")))
        except OSError:
            return ""

    def routes(self) -> tuple[set[str], tuple[tuple[str, ...], ...]]:
        """Return the host's default routes, once to compare and once as arguments that recreate them."""
        ran = self.host.run(["ip", "-j", "-4", "route", "show", "default"], timeout=10)
        return (parse_default_routes(ran.stdout), parse_route_arguments(ran.stdout)) if ran.ok else (set(), ())

    def settled(self, ports: Sequence[str]) -> bool:
        """Whether networkd has finished with these ports; true if it does not report on them."""
        ran = self.host.run(["networkctl", "list", "--no-legend", "--no-pager"], timeout=10)
        states = parse_setup_states(ran.stdout) if ran.ok else {}
        return not any(states.get(port) in _UNSETTLED for port in ports)

    def devices(self) -> dict[str, Device] | None:
        """Return NetworkManager's devices; None if it is not installed or not running."""
        if not self.host.has("nmcli"):
            return None
        ran = self.host.run(["nmcli", "--terse", "--fields", DEVICE_FIELDS, "device", "status"], timeout=10)
        return parse_devices(ran.stdout) if ran.ok else None

    def management(self, links: Mapping[str, dict[str, Any]]) -> tuple[str | None, str]:
        """Return the interface that this run's connection came over, if known, and our address there."""
        ends = ssh_ends(self.host)
        address = ends[1] if ends else ""
        found = [name for name, link in links.items() if address and _has(link, address)]
        return (found[0] if found else None), address

    # --- the files ---------------------------------------------------------------------------------------------------
    def files(self, path: str, content: bytes | None) -> tuple[dict[str, bytes], dict[str, bytes]]:
        """Return the host's netplan files without the one at `path`, and all of them with this content there."""
        own = self._relative(path)
        try:
            others = {name: text for name, text in netplan_files(self.root).items() if name != own}
        except OSError as error:
            raise NetplanError(f"{error.filename} cannot be read ({error.strerror}): run with become") from error
        return others, ({**others, own: content} if content is not None else others)

    def _relative(self, path: str) -> str:
        return os.path.relpath(path, self.root) if self.root != "/" else path.lstrip("/")

    def generate(self, files: Mapping[str, bytes], path: str) -> list[Unit]:
        """Return the units that netplan generates from all files. Raises NetplanError if netplan refuses them."""
        try:
            return generate(self.host, files)
        except GenerateError as error:
            raise NetplanError(
                f"netplan refuses the configuration, nothing was changed: {error} (tried {os.path.basename(path)} "
                "together with the host's other netplan files): correct the fabric ports, or the file netplan names"
            ) from error

    def alone(self, files: Mapping[str, bytes]) -> list[Unit]:
        """Return the units that netplan generates from these files; none if they are incomplete without others."""
        try:
            return generate(self.host, files)
        except GenerateError:
            return []

    def takers(self, ports: Sequence[str], units: list[Unit]) -> dict[str, Unit]:
        """Return by port the first unit that matches it, for ports that have one."""
        found: dict[str, Unit] = {}
        for unit in with_own_units(units, self.root):
            for port in ports:
                if port not in found and unit.match(identity_of(port, self.identities)):
                    found[port] = unit
        return found

    # --- reasons to refuse a change ----------------------------------------------------------------------------------
    def refuse_missing(self, wanted: Wanted, links: Mapping[str, Any]) -> None:
        """Refuse ports that the host does not have, and networks that it has on other ports."""
        missing = [port for port in wanted if port not in links]
        if missing:
            raise NetplanError(
                f"The host has no port {', '.join(missing)}, nothing was changed; it has "
                f"{', '.join(sorted(name for name in links if name != 'lo')) or 'none'}: "
                "correct fabric_network_ports to the names that `ip -br link` shows"
            )
        if clashes := overlaps(wanted, links):
            raise NetplanError(
                f"The fabric's network is in use on this host, nothing was changed: {'; '.join(clashes)}. "
                "Choose another subnet in firstlight_fabric.rails, or correct the other port"
            )

    def refuse_own_connection(self, wanted: Wanted, links: Mapping[str, dict[str, Any]]) -> None:
        """Refuse a rail on the port that this run came over, which would cut off this run and everybody else."""
        port, address = self.management(links)
        given = wanted[port]["addresses"] if port is not None and port in wanted else []
        if given and not any(one.partition("/")[0] == address for one in given):
            raise NetplanError(
                f"This run came over {port}, which has {address} and would have {', '.join(given)} instead, nothing "
                "was changed. Expected fabric ports that the host is not managed over: choose another port in "
                "firstlight_fabric.rails, or reach the host by another one (ansible_host)"
            )

    def way(self, ports: Sequence[str], units: list[Unit], links: Mapping[str, Any]) -> tuple[Way, list[str]]:
        """Return how to apply a change of these ports, and notes for the operator."""
        chosen = choose(list(dict.fromkeys(ports)), generated_units(self.root), units, self.devices())
        return chosen, notes(chosen, units, self.management(links)[0])

    def refuse_conflicts(self, path: str, wanted: Wanted, others: Mapping[str, bytes], units: list[Unit]) -> None:
        """Refuse a change if other files configure our ports or match them before ours."""
        problems = effective_problems(wanted, self.identities, with_own_units(units, self.root))
        together = self.alone(others) if others else []
        if not problems and not self._given(wanted, together, problems):
            return
        conflicts = {}
        for name, content in others.items():
            found = self._given(wanted, self.alone({name: content}), problems)
            if not found and not self.alone({name: content}):
                # Incomplete by itself: find out which units are missing without it.
                rest = self.alone({other: text for other, text in others.items() if other != name})
                found = self._given(wanted, [unit for unit in together if unit not in rest], problems)
            if found:
                conflicts[f"/{name}"] = found
        raise NetplanError(conflict_message(path, conflicts) if conflicts else strange_message(path, problems))

    def _given(self, wanted: Wanted, units: Sequence[Unit], problems: Mapping[str, Any]) -> dict[str, list[str]]:
        found = {}
        for port, want in wanted.items():
            words = gives_to(identity_of(port, self.identities), units, want, wrong=port in problems)
            if words:
                found[port] = words
        return found

    def refuse_other_changes(
        self, files: Mapping[str, bytes], units: list[Unit], ours: set[str], links: Mapping[str, Any]
    ) -> None:
        """Refuse if files were edited and never applied, because an apply would put them in force as well."""
        changes = changed_others(generated_units(self.root), units, ours, links)
        if not changes:
            return
        makers: dict[str, list[str]] = {}
        for name, content in files.items():
            for unit in self.alone({name: content}):
                makers.setdefault(unit.name, []).append(f"/{name}")
        raise NetplanError(others_message(changes, makers))


def _has(link: Mapping[str, Any], address: str) -> bool:
    return any(one.partition("/")[0] == address for one in link.get("addresses") or [])


def unit_names(ports: Sequence[str]) -> set[str]:
    """Return the names of the units that netplan generates for these ports."""
    return {name for port in ports for one in (NETWORKD, NETWORK_MANAGER) for name in our_unit_names(port, one)}
