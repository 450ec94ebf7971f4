# SPDX-License-Identifier: Apache-2.0
"""Find and inspect machines: every source adds what it knows, and each source is optional."""

from __future__ import annotations

import ipaddress
import shutil
import subprocess
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from firstlight.errors import UsageError
from firstlight.ssh.faults import Fault, LostError, NodeError, duplicate_address, duplicate_serial, lost
from firstlight.ssh.host_keys import HostKey
from firstlight.ssh.options import shown_key
from firstlight.ssh.session import Credentials, closing
from firstlight.ssh.targets import Target
from firstlight.ssh.together import together
from firstlight.ssh.trust import Trust

from . import arp, mdns
from .look import read_node
from .network import Port, parse_lldp, parse_neighbours, parse_port
from .probe import Machine


@dataclass
class Candidate:
    """An address, the machine that uses it, and how it was found."""

    address: str
    macs: list[str] = field(default_factory=list)
    name: str | None = None
    found_by: list[str] = field(default_factory=list)
    key: HostKey | None = None
    key_state: str = ""
    machine: Machine | None = None
    faults: list[Fault] = field(default_factory=list)

    @property
    def target(self) -> Target:
        return Target(self.address, self.address)


def own_port(name: str) -> Port:
    """Return the named interface of this machine. Raises UsageError."""
    port = parse_port(_said("ip", "-j", "addr", "show"), name)
    if port is None:
        raise UsageError(
            f"this machine has no interface {name!r} with an IPv4 address; expected the one on the management network. "
            "See `ip -br addr`."
        )
    return port


@dataclass
class Findings:
    """Candidates among the wanted addresses, and the sources that were not available."""

    port: Port | None
    wanted: set[str]
    found: dict[str, Candidate] = field(default_factory=dict)
    missing: list[str] = field(default_factory=list)

    def add(self, address: str, by: str, macs: Sequence[str] = (), name: str | None = None) -> None:
        if address not in self.wanted or (self.port is not None and address == self.port.address):
            return
        one = self.found.setdefault(address, Candidate(address))
        one.name = one.name or name
        if by not in one.found_by:
            one.found_by.append(by)
        one.macs += [mac for mac in macs if mac not in one.macs]

    def ask_network(self, port: Port, addresses: Sequence[str]) -> None:
        """Query the port's own network actively, with ARP and multicast DNS."""
        try:
            for address, macs in arp.sweep(port, addresses).items():
                self.add(address, "ARP", macs)
        except PermissionError:
            self.missing.append("ARP (needs root: two machines with one address are not detected)")
        try:
            for address, name in mdns.ask(port).items():
                self.add(address, "mDNS", name=name)
        except OSError as error:
            self.missing.append(f"mDNS ({error})")

    def ask_this_machine(self) -> None:
        """Read this machine's neighbour table and LLDP."""
        for address, macs in parse_neighbours(_said("ip", "-j", "-4", "neigh", "show")).items():
            known = self.found.get(address)
            # The table may still list the previous owner of an address: a current ARP reply takes precedence.
            self.add(address, "neighbours", () if known and known.macs else macs)
        if not shutil.which("lldpctl"):
            self.missing.append("LLDP (no lldpctl here)")
            return
        for neighbour in parse_lldp(_said("lldpctl", "-f", "json")):
            for address in () if neighbour.switch else neighbour.addresses:
                self.add(address, "LLDP", name=neighbour.name)


def find(port: Port | None, addresses: Sequence[str], named: Sequence[str]) -> tuple[dict[str, Candidate], list[str]]:
    """Return candidates and unavailable sources. Addresses in `named` are candidates whether they answer or not."""
    findings = Findings(port, set(addresses))
    for address in named:
        findings.add(address, "list")
    if port is not None:
        findings.ask_network(port, addresses)
    findings.ask_this_machine()
    return findings.found, findings.missing


def _said(*words: str) -> str:
    done = subprocess.run(words, capture_output=True, text=True, check=False, timeout=20)
    return done.stdout


def look(
    found: dict[str, Candidate], others: Sequence[str], port: int, trusted: Trust, who: Credentials | None
) -> list[Candidate]:
    """Inspect the candidates and the other addresses that answer SSH, and return them sorted by address."""

    def one(candidate: Candidate) -> None:
        key = shown_key(candidate.target, port, trusted)
        if isinstance(key, Fault):
            candidate.key_state = "no SSH"
            return
        candidate.key = key
        verdict = trusted.evaluate(candidate.target, port, key)
        if isinstance(verdict, Fault):
            candidate.key_state = "CHANGED" if "unknown" not in verdict.kind else "unknown"
            if candidate.key_state != "unknown":
                candidate.faults.append(verdict)
            return
        candidate.key_state = verdict
        if len(candidate.macs) < 2 and who is not None:
            _read(candidate, port, trusted, who)

    silent = [Candidate(address, found_by=["SSH"]) for address in others if address not in found]
    candidates = [*found.values(), *silent]
    for _ in together(one, candidates):
        pass
    kept = [each for each in candidates if each.key is not None or each.found_by != ["SSH"]]
    _compare(kept)
    return sorted(kept, key=lambda each: ipaddress.IPv4Address(each.address))


def _read(candidate: Candidate, port: int, trusted: Trust, who: Credentials) -> None:
    try:
        with closing(trusted.open(candidate.target, port)) as session:
            session.log_in(who)
            candidate.machine = read_node(session)
    except NodeError as error:
        candidate.faults.append(error.fault)
    except LostError:
        candidate.faults.append(lost("first look", 0))


def _compare(candidates: Sequence[Candidate]) -> None:
    """Add faults for several machines at one address, and for one serial number at several addresses."""
    owners: dict[str, list[str]] = {}
    for one in candidates:
        if len(one.macs) > 1:
            one.faults.append(duplicate_address(one.address, " and ".join(one.macs)))
        if one.machine and one.machine.serial:
            owners.setdefault(one.machine.serial, []).append(one.address)
    for one in candidates:
        serial = one.machine.serial if one.machine else None
        others = [address for address in owners.get(serial or "", []) if address != one.address]
        if serial and others:
            one.faults.append(duplicate_serial(serial, ", ".join(others)))


def as_document(candidate: Candidate, hardware: str | None, cages: dict[int, str]) -> dict[str, Any]:
    """Return everything known about a candidate as a document."""
    return {
        "address": candidate.address,
        "name": name_of(candidate),
        "macs": candidate.macs,
        "found_by": candidate.found_by,
        "host_key": {"kind": candidate.key.kind, "fingerprint": candidate.key.fingerprint} if candidate.key else None,
        "host_key_state": candidate.key_state,
        "hardware": hardware,
        "cages": {str(cage): state for cage, state in cages.items()},
        "machine": candidate.machine.as_document() if candidate.machine else None,
        "faults": [fault.as_document() for fault in candidate.faults],
    }


def name_of(candidate: Candidate) -> str | None:
    return (candidate.machine.hostname if candidate.machine else None) or candidate.name
