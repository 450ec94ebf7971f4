# SPDX-License-Identifier: Apache-2.0
"""What netplan's generator writes, as it was recorded, and which ports it is for."""

from __future__ import annotations

import json

import pytest
from ansible_collections.firstlight.cluster.plugins.module_utils.netplan.generated_units import (
    NETWORK_MANAGER,
    NETWORKD,
    Given,
    PortIdentity,
    Unit,
    parse_identities,
    parse_sections,
    read_units,
)

PORT = PortIdentity("enp1s0f1np1", frozenset({"enxb8ce"}), "b8:ce:f6:00:00:01", "b8:ce:f6:00:00:02", "mlx5_core", "")

OURS = """\
[Match]
Name=enp1s0f1np1

[Link]
RequiredForOnline=no
MTUBytes=9000

[Network]
LinkLocalAddressing=no
Address=192.168.100.10/24
IPv6AcceptRA=no
"""

MERGED = """\
[Match]
Name=x*

[Link]
MTUBytes=1400

[Network]
DHCP=ipv4
LinkLocalAddressing=no
Address=1.2.3.9/24
Address=1.2.3.8/24
Gateway=1.2.3.1
DNS=1.1.1.1
Bond=bond0

[Route]
Destination=0.0.0.0/0
Gateway=1.2.3.2

[Route]
Destination=10.0.0.0/8
Gateway=1.2.3.3

[DHCP]
RouteMetric=100
"""

KEYFILE = """\
[connection]
id=netplan-enp1s0f1np1
type=ethernet
interface-name=enp1s0f1np1

[ethernet]
wake-on-lan=0
mtu=1500

[ipv4]
method=auto
address1=192.168.100.10/24
address2=10.9.9.9/24
route1=0.0.0.0/0,10.9.9.1

[ipv6]
method=ignore
"""

CATCH_ALL_KEYFILE = """\
[connection]
id=netplan-all
type=ethernet

[match]
interface-name=en*;

[ipv4]
method=auto
"""


def networkd(text: str) -> Unit:
    return Unit("10-netplan-a.network", NETWORKD, parse_sections(text))


def keyfile(text: str) -> Unit:
    return Unit("netplan-a.nmconnection", NETWORK_MANAGER, parse_sections(text))


def test_a_networkd_unit() -> None:
    assert networkd(OURS).given == Given(addresses=("192.168.100.10/24",), mtu=9000)
    assert networkd(OURS).subject == "enp1s0f1np1"
    assert networkd(OURS).match(PORT) == "itself"


def test_everything_a_networkd_unit_can_give() -> None:
    given = networkd(MERGED).given
    assert given.addresses == ("1.2.3.8/24", "1.2.3.9/24")
    assert given.routes == ("10.0.0.0/8 via 1.2.3.3", "default via 1.2.3.1", "default via 1.2.3.2")
    assert (given.dhcp, given.mtu, given.member) == ("ipv4", 1400, "bond bond0")
    assert "membership in bond bond0" in given.sentence()


def test_a_keyfile_of_network_manager() -> None:
    unit = keyfile(KEYFILE)
    assert unit.given == Given(
        addresses=("10.9.9.9/24", "192.168.100.10/24"), dhcp="ipv4", routes=("default via 10.9.9.1",), mtu=1500
    )
    assert unit.match(PORT) == "itself"
    assert keyfile(CATCH_ALL_KEYFILE).match(PORT) == "pattern"
    assert keyfile(CATCH_ALL_KEYFILE).match(PortIdentity("wlan0")) == ""
    assert keyfile(CATCH_ALL_KEYFILE).subject == "en*"
    assert keyfile(KEYFILE.replace("type=ethernet", "type=wifi")).match(PORT) == ""


@pytest.mark.parametrize(
    ("conditions", "how"),
    [
        ("Name=enp1s0f1np1", "itself"),
        ("Name=eth0 enp1s0f1np1", "itself"),
        ("Name=en*", "pattern"),
        ("Name=e?p1s0f[01]np1", "pattern"),
        ("Name=enxb8*", "pattern"),
        ("Name=!en*", ""),
        ("Name=!eth* wl*", "pattern"),
        ("Name=eth0", ""),
        ("Name=", "pattern"),
        ("", "pattern"),
        ("MACAddress=B8:CE:F6:00:00:01", "itself"),
        ("PermanentMACAddress=b8:ce:f6:00:00:02", "itself"),
        ("PermanentMACAddress=b8:ce:f6:00:00:02\nName=foo0", ""),
        ("MACAddress=00:11:22:33:44:55", ""),
        ("Driver=mlx5_core", "pattern"),
        ("Driver=mlx4_*", ""),
        ("Type=ether", "pattern"),
        ("Type=wlan", ""),
        ("Kind=veth", ""),
        ("Host=somewhere", "pattern"),
    ],
)
def test_which_port_a_unit_is_for(conditions: str, how: str) -> None:
    assert networkd(f"[Match]\n{conditions}\n").match(PORT) == how


def test_units_are_in_the_order_of_their_names_and_empty_ones_are_none() -> None:
    files = {"20-b.network": OURS, "10-a.network": OURS, "05-masked.network": "", "10-a.link": "[Match]\n"}
    assert [unit.name for unit in read_units(files, NETWORKD)] == ["10-a.network", "20-b.network"]


def test_comments_and_odd_lines_are_passed_over() -> None:
    assert parse_sections("early=1\n# c\n; c\n[A]\nx = 1\nnonsense\n\n[B]\n") == [("A", [("x", "1")]), ("B", [])]


def test_identities() -> None:
    text = json.dumps(
        [
            {"ifname": "lo", "address": "00:00:00:00:00:00"},
            {"ifname": "p0", "address": "AA:00:00:00:00:01", "permaddr": "AA:00:00:00:00:02", "altnames": ["x"]},
            {"ifname": "v0", "address": "aa:00:00:00:00:03", "linkinfo": {"info_kind": "veth"}},
            {},
        ]
    )
    found = parse_identities(text, {"p0": "mlx5_core"})
    assert found["p0"] == PortIdentity(
        "p0", frozenset({"x"}), "aa:00:00:00:00:01", "aa:00:00:00:00:02", "mlx5_core", ""
    )
    assert found["v0"].kind == "veth"
    assert found["v0"].permanent_mac == "aa:00:00:00:00:03"
    with pytest.raises(ValueError, match="did not print JSON"):
        parse_identities("nonsense", {})
