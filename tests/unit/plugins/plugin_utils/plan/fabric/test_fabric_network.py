# SPDX-License-Identifier: Apache-2.0
"""What fabric_network makes of its variables: the netplan file byte by byte, and what it refuses."""

from __future__ import annotations

from typing import Any

import pytest
import yaml
from ansible_collections.firstlight.cluster.plugins.plugin_utils.comparison.differences import differences
from ansible_collections.firstlight.cluster.plugins.plugin_utils.plan.fabric.fabric_network import (
    arp_state,
    desired,
    netplan_yaml,
)
from hypothesis import given
from hypothesis import strategies as st

from tests.unit.ideal import ideal

FILE = "/etc/netplan/40-cx7.yaml"
RECORD = "/var/lib/firstlight/fabric.connectivity"
FIRMWARE = "/var/lib/firstlight/fabric.firmware"

PORTS = [
    {"port": "enp1s0f1np1", "address": "192.168.100.10/24", "mtu": 9000},
    {"port": "enP2p1s0f1np1", "address": "192.168.101.10/24", "mtu": 9000},
]

PEERS = [
    {"host": "spark1", "port": "enp1s0f1np1", "address": "192.168.100.11", "mtu": 9000},
    {"host": "spark1", "port": "enP2p1s0f1np1", "address": "192.168.101.11", "mtu": 9000},
]

GOLDEN = """\
# Managed by Firstlight (role fabric_network): changes here are overwritten.
# Each rail's subnet is on link, so no route is needed, and none leads out of the fabric.
network:
  version: 2
  ethernets:
    "enp1s0f1np1":
      dhcp4: false
      dhcp6: false
      accept-ra: false
      link-local: []
      optional: true
      mtu: 9000
      addresses:
        - "192.168.100.10/24"
    "enP2p1s0f1np1":
      dhcp4: false
      dhcp6: false
      accept-ra: false
      link-local: []
      optional: true
      mtu: 9000
      addresses:
        - "192.168.101.10/24"
"""

GOLDEN_RECORD = """\
{
  "tested": [
    {
      "address": "192.168.101.11",
      "host": "spark1",
      "mtu": 9000,
      "port": "enP2p1s0f1np1"
    },
    {
      "address": "192.168.100.11",
      "host": "spark1",
      "mtu": 9000,
      "port": "enp1s0f1np1"
    }
  ]
}
"""


def variables(**changes: Any) -> dict[str, Any]:
    return {"fabric_network_ports": PORTS, "fabric_network_file": FILE, **changes}


def with_port(**changes: Any) -> dict[str, Any]:
    return variables(fabric_network_ports=[{**PORTS[0], **changes}])


def test_state() -> None:
    state = desired(variables())
    arp = arp_state(["enp1s0f1np1", "enP2p1s0f1np1"])
    assert state == {
        "files": {FILE: {"content": GOLDEN, "mode": "0600", "owner": "root", "group": "root"}, **arp["files"]},
        "sysctl": arp["sysctl"],
        "ledgers": arp["ledgers"],
        "links": {
            "enp1s0f1np1": {"mtu": 9000, "addresses": ["192.168.100.10/24"], "up": True},
            "enP2p1s0f1np1": {"mtu": 9000, "addresses": ["192.168.101.10/24"], "up": True},
        },
    }
    assert differences(state, ideal(state)) == []


def test_the_ports_belong_to_whoever_has_the_hosts_other_ones() -> None:
    """A second manager on a host clears up after others: networkd removes routing rules that it did not make."""
    assert "renderer" not in GOLDEN
    assert desired(variables(fabric_network_renderer="")) == desired(variables())


@pytest.mark.parametrize("renderer", ["networkd", "NetworkManager"])
def test_a_renderer_that_is_asked_for_is_named_at_every_port(renderer: str) -> None:
    text = desired(variables(fabric_network_renderer=renderer))["files"][FILE]["content"]
    network = yaml.safe_load(text)["network"]
    assert "renderer" not in network
    for port in network["ethernets"].values():
        assert port["renderer"] == renderer
        # netplan refuses these settings where the renderer is another one.
        own = {"passthrough": {"ipv6.method": "disabled"}} if renderer == "NetworkManager" else None
        assert port.get("networkmanager") == own
        assert (port["mtu"], port["accept-ra"], port["link-local"]) == (9000, False, [])


def test_a_renderer_that_netplan_does_not_know_is_refused() -> None:
    with pytest.raises(ValueError, match="fabric_network_renderer is 'systemd', expected networkd, NetworkManager, or"):
        desired(variables(fabric_network_renderer="systemd"))


def test_the_connectivity_test_is_part_of_the_state_once_there_are_peers() -> None:
    state = desired(variables(fabric_network_peers=PEERS, fabric_network_record=RECORD))
    assert state["files"][RECORD]["content"] == GOLDEN_RECORD
    untested = ideal(state)
    untested["files"][RECORD]["exists"] = False
    assert [item["key"] for item in differences(state, untested)] == [RECORD]
    other = ideal(state)
    other["firmware"][FIRMWARE] |= {"recorded": {"bios": "1"}, "now": {"bios": "2"}}
    assert [item["key"] for item in differences(state, other)] == [FIRMWARE]


def test_the_record_does_not_depend_on_the_order_of_peers() -> None:
    one = desired(variables(fabric_network_peers=PEERS))
    other = desired(variables(fabric_network_peers=PEERS[::-1]))
    assert one == other


def test_another_set_of_peers_needs_another_test() -> None:
    grown = [*PEERS, {"host": "spark2", "port": "enp1s0f1np1", "address": "192.168.100.12", "mtu": 9000}]
    assert desired(variables(fabric_network_peers=PEERS)) != desired(variables(fabric_network_peers=grown))


@pytest.mark.parametrize("ports", [[], None])
def test_a_single_node_has_no_fabric(ports: object) -> None:
    assert desired(variables(fabric_network_ports=ports, fabric_network_peers=[])) == {}


def test_the_file_has_no_route_and_means_what_it_says() -> None:
    network = yaml.safe_load(GOLDEN)["network"]
    assert network["version"] == 2
    assert "routes" not in GOLDEN
    assert "gateway" not in GOLDEN
    assert network["ethernets"]["enp1s0f1np1"] == {
        "dhcp4": False,
        "dhcp6": False,
        "accept-ra": False,
        "link-local": [],
        "optional": True,
        "mtu": 9000,
        "addresses": ["192.168.100.10/24"],
    }


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"port": ""}, "is not a network interface name"),
        ({"port": "a-name-of-16-char"}, "is not a network interface name"),
        ({"port": "eth 0"}, "is not a network interface name"),
        ({"port": 'eth"0'}, "is not a network interface name"),
        ({"port": "eth0\n"}, "is not a network interface name"),
        ({"mtu": 576}, "MTU of fabric port enp1s0f1np1 is 576, expected 1280 to 9216"),
        ({"mtu": 90000}, "set firstlight_fabric.mtu to 9000"),
        ({"address": "192.168.100.10"}, "not a host address with a prefix length"),
        ({"address": "192.168.100.0/24"}, "not a host address with a prefix length"),
        ({"address": "192.168.100.255/24"}, "not a host address with a prefix length"),
        ({"address": "192.168.100.300/24"}, "expected an IPv4 address with its prefix"),
        ({"address": "fd00::1/64"}, "expected an IPv4 address with its prefix"),
    ],
)
def test_what_is_no_port_is_refused(changes: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        desired(with_port(**changes))


def test_two_rails_in_one_subnet_are_refused() -> None:
    ports = [PORTS[0], {**PORTS[1], "address": "192.168.100.110/25"}]
    with pytest.raises(ValueError, match="give each rail its own subnet"):
        desired(variables(fabric_network_ports=ports))


def test_a_port_listed_twice_is_refused() -> None:
    ports = [PORTS[0], {**PORTS[0], "address": "192.168.101.10/24"}]
    with pytest.raises(ValueError, match="enp1s0f1np1 is listed twice"):
        desired(variables(fabric_network_ports=ports))


@given(
    name=st.text(alphabet="abcdefghijklmnopqrstuvwxyzP0123456789e.-_@", min_size=1, max_size=15),
    mtu=st.integers(1280, 9216),
    host=st.integers(1, 254),
)
def test_every_port_survives_yaml(name: str, mtu: int, host: int) -> None:
    port = {"port": name, "address": f"10.1.2.{host}/24", "mtu": mtu}
    read = yaml.safe_load(netplan_yaml([port]))["network"]["ethernets"]
    assert read[name]["mtu"] == mtu
    assert read[name]["addresses"] == [f"10.1.2.{host}/24"]


def test_packages_of_any_version_are_part_of_the_state() -> None:
    rdma = [{"port": "enp1s0f1np1"}]
    state = desired(variables(fabric_network_packages=["iperf3", "perftest"], fabric_network_rdma=rdma))
    assert state["packages"] == {"iperf3": None, "perftest": None}


def test_without_rdma_its_packages_are_not_wanted() -> None:
    names = ["rdma-core", "ibverbs-utils", "perftest", "iperf3"]
    assert desired(variables(fabric_network_packages=names))["packages"] == {"iperf3": None}
    assert "packages" not in desired(variables(fabric_network_packages=names[:3]))


def test_ports_are_to_be_given_back_for_as_long_as_there_is_a_ledger() -> None:
    wanted = desired(variables(fabric_network_state="absent", fabric_network_packages=["iperf3"]))
    assert wanted == {"ledgers": {"/var/lib/firstlight/fabric_network/ledger.json": {"keeps": []}}}


def test_of_a_port_that_is_still_to_be_found_only_the_packages_are_known() -> None:
    ports = [{**PORTS[0], "port": None, "cage": 1, "half": 0}]
    state = desired(variables(fabric_network_ports=ports, fabric_network_packages=["iperf3"]))
    assert state == {"packages": {"iperf3": None}}


@pytest.mark.parametrize("name", [".", "..", "renderer", "eth*", "a;b", "a[0]", "a?b", "é"])
def test_names_that_mean_something_else_to_netplan_are_refused(name: str) -> None:
    with pytest.raises(ValueError, match="is not a network interface name"):
        desired(with_port(port=name))
