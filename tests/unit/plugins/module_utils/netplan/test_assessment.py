# SPDX-License-Identifier: Apache-2.0
"""Who else gives our ports something, and what else would change."""

from __future__ import annotations

from typing import Any

import pytest
from ansible_collections.firstlight.cluster.plugins.module_utils.netplan.assessment import (
    changed_others,
    conflict_message,
    effective_problems,
    gives_to,
    is_ours,
    others_message,
    strange_message,
    with_header,
)
from ansible_collections.firstlight.cluster.plugins.module_utils.netplan.generated_units import (
    NETWORK_MANAGER,
    NETWORKD,
    PortIdentity,
    Unit,
    parse_sections,
)
from hypothesis import given
from hypothesis import strategies as st

PORT = "enp1s0f1np1"
ADDRESS = "192.168.100.10/24"
WANTED: dict[str, dict[str, Any]] = {PORT: {"addresses": [ADDRESS], "mtu": 9000, "up": True}}
IDENTITIES = {PORT: PortIdentity(PORT, mac="b8:ce:f6:00:00:01", permanent_mac="b8:ce:f6:00:00:01")}


def unit(name: str, match: str, network: str = "", mtu: int | None = None) -> Unit:
    link = f"[Link]\nMTUBytes={mtu}\n" if mtu else ""
    text = f"[Match]\n{match}\n{link}[Network]\n{network}\n"
    return Unit(f"10-netplan-{name}.network", NETWORKD, parse_sections(text))


OURS = unit(PORT, f"Name={PORT}", f"Address={ADDRESS}", 9000)


def test_alone_we_are_right() -> None:
    assert effective_problems(WANTED, IDENTITIES, [OURS, unit("eth0", "Name=eth0", "DHCP=yes")]) == {}


@pytest.mark.parametrize(
    ("units", "words"),
    [
        ([], "nothing would configure it"),
        ([unit("all", "Name=en*", "DHCP=yes"), OURS], "10-netplan-all.network (en*) would take it before our file"),
        ([unit("aaa", "MACAddress=b8:ce:f6:00:00:01", "DHCP=ipv4"), OURS], "give it DHCP (ipv4)"),
        ([unit(PORT, f"Name={PORT}", f"Address={ADDRESS}\nAddress=10.0.0.1/8", 9000)], "have 10.0.0.1/8 as well"),
        ([unit(PORT, f"Name={PORT}", f"Address={ADDRESS}", 1500)], "its MTU would be 1500, not 9000"),
        ([unit(PORT, f"Name={PORT}", f"Address={ADDRESS}")], "its MTU would be left as it is, not 9000"),
        ([unit(PORT, f"Name={PORT}", f"Address={ADDRESS}\nDHCP=yes", 9000)], "ask for an address by DHCP (yes)"),
        ([unit(PORT, f"Name={PORT}", "", 9000)], f"it would not have {ADDRESS}"),
        ([unit(PORT, f"Name={PORT}", f"Address={ADDRESS}\nBond=b0", 9000)], "a member of bond b0"),
        ([unit(PORT, f"Name={PORT}", f"Address={ADDRESS}\nGateway=192.168.100.1", 9000)], "the route default via"),
    ],
)
def test_what_is_not_as_our_file_says(units: list[Unit], words: str) -> None:
    assert words in "; ".join(effective_problems(WANTED, IDENTITIES, units)[PORT])


def test_network_manager_must_have_one_choice() -> None:
    base = f"[connection]\ntype=ethernet\ninterface-name={PORT}\n[ethernet]\nmtu=9000\n[ipv4]\naddress1={ADDRESS}\n"
    ours = Unit(f"netplan-{PORT}.nmconnection", NETWORK_MANAGER, parse_sections(base + "method=manual\n"))
    rival = Unit("netplan-zz.nmconnection", NETWORK_MANAGER, parse_sections("[connection]\ntype=ethernet\n"))
    assert effective_problems(WANTED, IDENTITIES, [ours]) == {}
    found = effective_problems(WANTED, IDENTITIES, [ours, rival])
    assert found == {PORT: ["netplan-zz.nmconnection (every port) could take it, too"]}
    assert gives_to(IDENTITIES[PORT], [rival], WANTED[PORT], wrong=True) == [
        "a stanza for every port that takes it before ours, with nothing"
    ]


@pytest.mark.parametrize(
    ("other", "wrong", "words"),
    [
        (unit(PORT, f"Name={PORT}", "Address=10.0.0.1/8", 9000), False, ["the address 10.0.0.1/8"]),
        (unit(PORT, f"Name={PORT}", f"Address={ADDRESS}"), False, [f"the address {ADDRESS}"]),
        (unit("rail", "MACAddress=b8:ce:f6:00:00:01", "Address=10.0.0.1/8"), False, ["the address 10.0.0.1/8"]),
        (unit(PORT, f"Name={PORT}", "DHCP=yes", 1500), False, []),  # overridden by ours
        (unit(PORT, f"Name={PORT}", "DHCP=yes", 1500), True, ["DHCP (yes)", "MTU 1500"]),
        (unit("all", "Name=en*", "DHCP=yes"), False, ["a stanza for en* that takes it before ours, with DHCP (yes)"]),
        (unit("zzz", "Name=en*", "DHCP=yes"), False, []),  # networkd comes to ours first
        (unit("eth0", "Name=eth0", "Address=10.0.0.1/8"), True, []),
    ],
)
def test_what_another_file_gives(other: Unit, wrong: bool, words: list[str]) -> None:
    assert gives_to(IDENTITIES[PORT], [other], WANTED[PORT], wrong=wrong) == words


names = st.text(alphabet="abcenpzP019-", min_size=1, max_size=8)
patterns = st.sampled_from(["en*", "*", "e?p*", "enp1*", PORT, "eth*", "wl*", "!eth*", "!en*"])


@given(others=st.lists(st.tuples(names, patterns, st.booleans()), max_size=4))
def test_whatever_takes_our_port_is_found_and_nothing_else(others: list[tuple[str, str, bool]]) -> None:
    """Either our unit is what networkd comes to first, or there is a problem; and every problem has a culprit."""
    units = {
        f"10-netplan-{name}.network": unit(name, f"Name={pattern}", "DHCP=yes" if dhcp else "")
        for name, pattern, dhcp in others
        if name != PORT
    }
    everything = sorted([*units.values(), OURS], key=lambda item: item.name)
    problems = effective_problems(WANTED, IDENTITIES, everything)
    first = next(item for item in everything if item.match(IDENTITIES[PORT]))
    assert bool(problems) == (first is not OURS)
    culprits = [item for item in units.values() if gives_to(IDENTITIES[PORT], [item], WANTED[PORT], wrong=True)]
    assert bool(problems) <= bool(culprits)


ETH0 = unit("eth0", "Name=eth0", "Address=10.1.0.5/24\nGateway=10.1.0.1")


def test_nothing_else_changes() -> None:
    assert changed_others([ETH0], [ETH0, OURS], {OURS.name}, {}) == {}


def test_files_that_were_never_applied() -> None:
    edited = unit("eth0", "Name=eth0", "DHCP=yes")
    changes = changed_others([ETH0], [edited, OURS], {OURS.name}, {})
    assert changes == {
        ETH0.name: "eth0 has the address 10.1.0.5/24, the route default via 10.1.0.1 from netplan now "
        "and would have DHCP (yes)"
    }
    message = others_message(changes, {ETH0.name: ["/etc/netplan/50-cloud-init.yaml"]})
    assert "(/etc/netplan/50-cloud-init.yaml)" in message
    assert "fabric_network_apply_others" in message


@pytest.mark.parametrize(
    ("link", "words"),
    [
        ({"addresses": ["10.1.0.5/24"], "mtu": 1500, "up": True}, []),
        (
            {"addresses": [], "mtu": 1500, "up": True},
            ["eth0 does not have the address 10.1.0.5/24 now and would get it"],
        ),
        ({"addresses": [], "mtu": 1500, "up": False}, []),
        ({}, []),
    ],
)
def test_files_that_systemd_generated_and_nobody_applied(link: dict[str, Any], words: list[str]) -> None:
    assert list(changed_others([ETH0], [ETH0, OURS], {OURS.name}, {"eth0": link}).values()) == words


@pytest.mark.parametrize("name", ["apn@r.3P", "apn%40r.3P"])
def test_a_port_with_an_odd_name_is_ours_however_netplan_writes_it(name: str) -> None:
    odd = unit(name, "Name=apn@r.3P", f"Address={ADDRESS}", 9000)
    wanted = {"apn@r.3P": WANTED[PORT]}
    assert effective_problems(wanted, {"apn@r.3P": PortIdentity("apn@r.3P")}, [odd]) == {}


@pytest.mark.parametrize("address", ["FD00:0:0::5/64", "fe80::5/64", "169.254.7.1/16", "0.0.0.0/24"])
def test_an_address_that_ip_writes_or_reads_otherwise_is_not_missing(address: str) -> None:
    odd = unit("eth0", "Name=eth0", f"Address={address}")
    link = {"addresses": ["fd00::5/64"], "mtu": 1500, "up": True}
    assert changed_others([odd], [odd], set(), {"eth0": link}) == {}


def test_an_mtu_that_nobody_applied() -> None:
    jumbo = unit("eth0", "Name=eth0", "Address=10.1.0.5/24", 9000)
    link = {"addresses": ["10.1.0.5/24"], "mtu": 1500, "up": True}
    assert "does not have MTU 9000 now" in changed_others([jumbo], [jumbo], set(), {"eth0": link})[jumbo.name]


def test_a_file_that_is_gone() -> None:
    changes = changed_others([ETH0], [], set(), {})
    assert "would have nothing" in changes[ETH0.name]
    assert "(no file any more)" in others_message(changes, {})


def test_what_is_there_already_does_not_change_by_being_written_down() -> None:
    there = {"eth0": {"addresses": ["10.1.0.5/24"], "mtu": 1500}}
    assert changed_others([], [ETH0], set(), there) == {}
    assert changed_others([], [ETH0], set(), {"eth0": {"addresses": [], "mtu": 1500}}) != {}
    assert changed_others([], [unit("eth0", "Name=eth0", "DHCP=yes")], set(), there) != {}


def test_messages_name_file_port_and_remedy() -> None:
    message = conflict_message("/etc/netplan/40-cx7.yaml", {"/etc/netplan/60-x.yaml": {PORT: ["MTU 1500", "MTU 1500"]}})
    assert "nothing was changed: /etc/netplan/60-x.yaml gives enp1s0f1np1 MTU 1500. Expected" in message
    assert "remove these lines there" in message
    assert "\n" not in message
    assert f"{PORT}: nothing would" in strange_message("/etc/netplan/40-cx7.yaml", {PORT: ["nothing would"]})


def test_our_header() -> None:
    assert is_ours(with_header("network: {}\n"))
    assert with_header(with_header("x\n")) == with_header("x\n")
    assert not is_ours("network: {}\n")
    assert not is_ours(None)
