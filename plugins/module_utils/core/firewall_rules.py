# SPDX-License-Identifier: Apache-2.0
"""Writes the rules of a firewall as one nftables table of its own, and the unit that loads them. Everything is pure."""

from __future__ import annotations

import functools
from collections.abc import Iterable, Sequence

from .firewall import RULES_PATH, TABLE, Firewall, Network, Opening, port_words
from .systemd import HEADER, command, render_unit

NFT = "/usr/sbin/nft"
COUNTERS = ("input_dropped", "fabric_dropped", "published_dropped")
"""What was not let in: to the host, over the fabric, and to published ports of containers."""


def render_rules(firewall: Firewall) -> str:
    """The file: it takes the place of the table in one step, and touches no other."""
    chains = [
        ("input", _input(firewall)),
        ("fabric", _fabric(firewall)),
        ("forward", _FORWARD),
        ("published", _published(firewall)),
    ]
    lines = [
        *_PREAMBLE,
        f"add table {TABLE}",
        f"delete table {TABLE}",
        f"table {TABLE} {{",
        *[line for name in COUNTERS for line in (f"\tcounter {name} {{", "\t}", "")],
    ]
    for name, rules in chains:
        lines += [f"\tchain {name} {{", *[f"\t\t{rule}" for rule in rules], "\t}", ""]
    return "\n".join([*lines[:-1], "}"]) + "\n"


def render_removal() -> str:
    """What takes the table away, whether it is there or not."""
    return f"add table {TABLE}\ndelete table {TABLE}\n"


def render_service(path: str = RULES_PATH) -> str:
    """The unit that loads the file at boot, before any interface is up.

    Debian's own nftables.service flushes everything when it starts: where it is in use, this one follows it.
    """
    load = command([NFT, "-f", path])
    return render_unit(
        [
            (
                "Unit",
                [
                    ("Description", "Firstlight firewall"),
                    ("DefaultDependencies", "no"),
                    ("Wants", "network-pre.target"),
                    ("Before", "network-pre.target shutdown.target"),
                    ("After", "local-fs.target nftables.service"),
                    ("Conflicts", "shutdown.target"),
                    ("PartOf", "nftables.service"),
                    ("ReloadPropagatedFrom", "nftables.service"),
                    ("ConditionPathExists", path),
                ],
            ),
            (
                "Service",
                [
                    ("Type", "oneshot"),
                    ("RemainAfterExit", "yes"),
                    ("ExecStart", load),
                    ("ExecReload", load),
                    ("ExecStop", command([NFT, f"add table {TABLE}; delete table {TABLE}"])),
                ],
            ),
            ("Install", [("WantedBy", "sysinit.target")]),
        ]
    )


_PREAMBLE = (
    *HEADER.splitlines(),
    "# The rules of others (Docker's, for one) are in tables of their own, and are left alone.",
    "# What one table drops, no other can let in.",
)

_ERRORS = (
    "icmp type { destination-unreachable, time-exceeded, parameter-problem } accept",
    "icmpv6 type { destination-unreachable, packet-too-big, time-exceeded, parameter-problem } accept",
)

_LINK = (
    "icmp type echo-request accept",
    "icmpv6 type echo-request accept",
    "icmpv6 type { nd-router-advert, nd-neighbor-solicit, nd-neighbor-advert } ip6 hoplimit 255 accept",
    "ip6 saddr fe80::/10 icmpv6 type mld-listener-query accept",
    "meta nfproto ipv4 udp sport 67 udp dport 68 accept",
    "ip6 saddr fe80::/10 udp sport 547 udp dport 546 accept",
    # Without these nobody finds a host by its .local name any more, not even the controller. No router passes them on.
    "ip daddr 224.0.0.251 udp dport 5353 accept",
    "ip6 daddr ff02::fb udp dport 5353 accept",
)
"""What a network needs of its hosts: an answer to a ping, neighbours, routers, leases, and names."""

_FORWARD = (
    "type filter hook forward priority filter - 1; policy accept;",
    "ct state established,related accept",
    "ct status dnat jump published",
)


def _input(firewall: Firewall) -> list[str]:
    ssh = f"tcp dport {{ {port_words(firewall.ssh_ports)} }}"
    return [
        "type filter hook input priority filter; policy drop;",
        'iifname "lo" accept',
        "ct state established,related accept",
        *_ERRORS,
        *[_joined(source, ssh, "accept") for source in _sources(firewall.ssh_from) or [""]],
        *([f"{_iifname(firewall.interfaces)} jump fabric"] if firewall.interfaces else []),
        *_LINK,
        *[
            _joined(source, f"{opening.protocol} dport {{ {port_words(opening.ports)} }}", _accepted(opening))
            for opening in firewall.openings
            for source in _sources(opening.sources)
        ],
        'counter name "input_dropped"',
    ]


def _fabric(firewall: Firewall) -> list[str]:
    """Peers among themselves; from anybody else nothing."""
    six = any(network.version == 6 for network in firewall.peers)
    return [
        *[f"{source} accept" for source in _sources(firewall.peers)],
        # Neighbours ask from addresses that no inventory knows.
        *(["icmpv6 type { nd-neighbor-solicit, nd-neighbor-advert } ip6 hoplimit 255 accept"] if six else []),
        'counter name "fabric_dropped" drop',
    ]


def _published(firewall: Firewall) -> list[str]:
    """New connections to ports that containers publish, by the port that was asked for.

    One rule a port or range: sets of this key are listed by nft 1.0 in a way that it cannot read back.
    """
    return [
        *[f'iifname "{name}" accept' for name in firewall.container_interfaces],
        *([f"{_iifname(firewall.interfaces)} jump fabric"] if firewall.interfaces else []),
        *[
            _joined(
                source,
                f"meta l4proto {opening.protocol} ct original proto-dst {port_words((ports,))}",
                _accepted(opening),
            )
            for opening in firewall.openings
            for source in _sources(opening.sources)
            for ports in opening.ports
        ],
        'counter name "published_dropped" drop',
    ]


def _accepted(opening: Opening) -> str:
    return f'accept comment "{opening.name}"'


def _iifname(names: Sequence[str]) -> str:
    return "iifname { " + ", ".join(f'"{name}"' for name in names) + " }"


def _sources(networks: Iterable[Network]) -> list[str]:
    """One match a family; a whole family is no set of addresses."""
    listed, found = list(networks), []
    for version, word, family in ((4, "ip", "ipv4"), (6, "ip6", "ipv6")):
        mine = [network for network in listed if network.version == version]
        if any(network.prefixlen == 0 for network in mine):
            found.append(f"meta nfproto {family}")
        elif mine:
            found.append(f"{word} saddr {{ {', '.join(_written(network) for network in mine)} }}")
    return found


# Every node of the fabric is in the rules of every host.
@functools.cache
def _written(network: Network) -> str:
    return str(network.network_address) if network.num_addresses == 1 else str(network)


def _joined(*parts: str) -> str:
    return " ".join(part for part in parts if part)
