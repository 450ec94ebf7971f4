# SPDX-License-Identifier: Apache-2.0
"""What may come in: read, and written as rules."""

from __future__ import annotations

import ipaddress
import itertools
import re
from typing import Any

import pytest
from ansible_collections.firstlight.cluster.plugins.module_utils.firewall.firewall import RULES_PATH, UNIT, UNIT_PATH
from ansible_collections.firstlight.cluster.plugins.module_utils.state.vocabulary import check_vocabulary
from ansible_collections.firstlight.cluster.plugins.plugin_utils.firewall_rules import (
    SettingError,
    read_firewall,
    read_networks,
    read_ports,
    render_rules,
    render_service,
)
from ansible_collections.firstlight.cluster.plugins.plugin_utils.plan.exposure.firewall import desired
from hypothesis import given
from hypothesis import strategies as st

FABRIC = {"interfaces": ["fab0", "fab1"], "peers": ["192.168.100.10", "192.168.100.11", "192.168.101.10"]}
ENDPOINT = {"name": "endpoint", "protocol": "tcp", "ports": [443], "from": ["10.20.0.0/16", "fd00:20::/64"]}


def chains(**variables: Any) -> dict[str, list[str]]:
    """The rules of each chain."""
    text = render_rules(read_firewall({f"firewall_{name}": value for name, value in variables.items()}))
    found: dict[str, list[str]] = {}
    for name, body in re.findall(r"\tchain (\w+) \{\n(.*?)\n\t\}", text, re.DOTALL):
        found[name] = [line.strip() for line in body.splitlines()]
    return found


# --- rules -----------------------------------------------------------------------------------------------------------
def test_a_host_is_closed_but_for_ssh() -> None:
    rules = chains()
    assert rules["input"][0] == "type filter hook input priority filter; policy drop;"
    assert rules["input"][-1] == 'counter name "input_dropped"'
    assert [rule for rule in rules["input"] if "tcp" in rule] == ["tcp dport { 22 } accept"]
    assert not [rule for rule in rules["input"] if "jump" in rule]
    assert rules["published"] == ['iifname "docker0" accept', 'counter name "published_dropped" drop']


def test_the_file_replaces_its_own_table_and_no_other() -> None:
    lines = render_rules(read_firewall({})).splitlines()
    commands = [line for line in lines if line and line[0] not in "#\t}"]
    assert commands == ["add table inet firstlight", "delete table inet firstlight", "table inet firstlight {"]
    assert "flush" not in "\n".join(lines)


def test_peers_are_let_in_as_a_whole_and_only_on_the_fabric() -> None:
    rules = chains(fabric=FABRIC)
    assert rules["fabric"] == [
        "ip saddr { 192.168.100.10, 192.168.100.11, 192.168.101.10 } accept",
        'counter name "fabric_dropped" drop',
    ]
    jump = 'iifname { "fab0", "fab1" } jump fabric'
    assert jump in rules["input"]
    assert jump in rules["published"]
    assert not [rule for name in ("input", "published") for rule in rules[name] if "192.168." in rule]


def test_on_the_fabric_only_ssh_and_errors_come_before_the_peers() -> None:
    rules = chains(fabric=FABRIC, openings=[ENDPOINT])["input"]
    before = rules[1 : rules.index('iifname { "fab0", "fab1" } jump fabric')]
    assert before == [
        'iifname "lo" accept',
        "ct state established,related accept",
        "icmp type { destination-unreachable, time-exceeded, parameter-problem } accept",
        "icmpv6 type { destination-unreachable, packet-too-big, time-exceeded, parameter-problem } accept",
        "tcp dport { 22 } accept",
    ]


def test_a_closed_host_is_still_found_by_its_local_name() -> None:
    """By the groups of multicast DNS alone: a question to the host's own address is not answered."""
    rules = chains(fabric=FABRIC)["input"]
    names = [rule for rule in rules if "5353" in rule]
    assert names == ["ip daddr 224.0.0.251 udp dport 5353 accept", "ip6 daddr ff02::fb udp dport 5353 accept"]
    assert rules.index(names[0]) > rules.index('iifname { "fab0", "fab1" } jump fabric')


def test_peers_of_ipv6_can_find_each_other() -> None:
    rules = chains(fabric={"interfaces": ["fab0"], "peers": ["fd00::10", "192.168.100.10"]})["fabric"]
    assert rules[:3] == [
        "ip saddr { 192.168.100.10 } accept",
        "ip6 saddr { fd00::10 } accept",
        "icmpv6 type { nd-neighbor-solicit, nd-neighbor-advert } ip6 hoplimit 255 accept",
    ]


def test_an_opening_is_one_for_the_host_and_for_containers() -> None:
    rules = chains(openings=[{**ENDPOINT, "ports": ["443", "8000-8010"]}])
    assert 'ip saddr { 10.20.0.0/16 } tcp dport { 443, 8000-8010 } accept comment "endpoint"' in rules["input"]
    assert 'ip6 saddr { fd00:20::/64 } tcp dport { 443, 8000-8010 } accept comment "endpoint"' in rules["input"]
    assert [rule for rule in rules["published"] if "ip saddr" in rule] == [
        'ip saddr { 10.20.0.0/16 } meta l4proto tcp ct original proto-dst 443 accept comment "endpoint"',
        'ip saddr { 10.20.0.0/16 } meta l4proto tcp ct original proto-dst 8000-8010 accept comment "endpoint"',
    ]


def test_everybody_is_a_family_and_no_set_of_addresses() -> None:
    rules = chains(openings=[{**ENDPOINT, "from": ["0.0.0.0/0", "10.0.0.0/8"]}])["input"]
    assert 'meta nfproto ipv4 tcp dport { 443 } accept comment "endpoint"' in rules
    assert not [rule for rule in rules if "nfproto ipv6" in rule]


def test_ssh_can_be_for_some() -> None:
    rules = chains(ssh_ports=[22, 2222], ssh_from=["10.0.0.0/8", "10.1.0.0/16"])["input"]
    assert [rule for rule in rules if "tcp" in rule] == ["ip saddr { 10.0.0.0/8 } tcp dport { 22, 2222 } accept"]


def test_published_ports_are_closed_and_everything_else_is_left_to_docker() -> None:
    assert chains()["forward"] == [
        "type filter hook forward priority filter - 1; policy accept;",
        "ct state established,related accept",
        "ct status dnat jump published",
    ]
    assert chains(container_interfaces=["docker0", "br-*"])["published"][:2] == [
        'iifname "br-*" accept',
        'iifname "docker0" accept',
    ]


def test_what_is_dropped_is_counted_by_name() -> None:
    text = render_rules(read_firewall({}))
    for name in ("input_dropped", "fabric_dropped", "published_dropped"):
        assert f"\tcounter {name} {{" in text
        assert f'counter name "{name}"' in text


def test_the_unit_loads_before_the_network_and_after_what_flushes() -> None:
    text = render_service()
    assert "Before=network-pre.target shutdown.target\n" in text
    assert "After=local-fs.target nftables.service\n" in text
    assert "PartOf=nftables.service\n" in text
    assert "-f" in text.split("ExecStart=")[1]
    assert '"add table inet firstlight; delete table inet firstlight"' in text.split("ExecStop=")[1]


# --- errors --------------------------------------------------------------------------------------------------------
@pytest.mark.parametrize(
    ("variables", "words"),
    [
        ({"firewall_ssh_ports": []}, "firewall_ssh_ports is empty, expected at least one port"),
        ({"firewall_ssh_ports": [0]}, "expected a port from 1 to 65535"),
        ({"firewall_ssh_ports": ["9-8"]}, "expected a port from 1 to 65535"),
        ({"firewall_ssh_ports": [True]}, "expected a port from 1 to 65535"),
        ({"firewall_ssh_ports": ["²"]}, "expected a port from 1 to 65535"),
        ({"firewall_ssh_ports": 22}, "expected a list"),
        ({"firewall_ssh_from": ["10.0.0.1/8"]}, "has host bits set"),
        ({"firewall_ssh_from": ["office"]}, "which is not a network"),
        ({"firewall_ssh_from": ["fe80::1%eth0"]}, "without a zone"),
        ({"firewall_ssh_from": [10]}, "which is not a network"),
        ({"firewall_fabric": {"interfaces": ['x"; drop']}}, "expected the name of a network interface"),
        ({"firewall_fabric": {"interfaces": ["fab*"]}}, "expected the name of a network interface"),
        ({"firewall_fabric": {"interfaces": ["lo"]}}, "lo, which is always open"),
        ({"firewall_fabric": {"peers": ["192.168.100.0/24"]}}, "name every node by its own address"),
        ({"firewall_fabric": {"peers": ["0.0.0.0"]}}, "name every node by its own address"),
        ({"firewall_fabric": {"nodes": []}}, "firewall_fabric has nodes, expected only interfaces, peers"),
        ({"firewall_openings": [{**ENDPOINT, "from": []}]}, "firewall_openings[0].from is empty"),
        ({"firewall_openings": [{**ENDPOINT, "from": None}]}, "firewall_openings[0].from is None"),
        ({"firewall_openings": [{**ENDPOINT, "protocol": "icmp"}]}, "expected tcp or udp"),
        ({"firewall_openings": [{**ENDPOINT, "name": 'a" drop'}]}, "lowercase letters, digits"),
        ({"firewall_openings": [{**ENDPOINT, "port": 1}]}, "has port, expected only name, protocol, ports, from"),
        ({"firewall_openings": [ENDPOINT, ENDPOINT]}, "two entries named endpoint"),
        ({"firewall_openings": ["endpoint"]}, "expected a mapping"),
        ({"firewall_container_interfaces": ["*"]}, "optionally ending in *"),
    ],
)
def test_what_no_rules_can_be_made_of_is_refused(variables: dict[str, Any], words: str) -> None:
    with pytest.raises(SettingError) as caught:
        read_firewall(variables)
    assert words in str(caught.value)


# --- any input -------------------------------------------------------------------------------------------------------
networks = st.builds(
    lambda number, prefix: str(ipaddress.ip_network((number, prefix), strict=False)),
    st.integers(0, 2**32 - 1),
    st.integers(0, 32),
)


@given(st.lists(networks, max_size=12), st.integers(0, 2**32 - 1))
def test_networks_never_overlap_and_hold_the_same_addresses(listed: list[str], number: int) -> None:
    found = read_networks(listed, "here")
    assert all(not one.overlaps(other) for one in found for other in found if one is not other)
    address = ipaddress.IPv4Address(number)
    given_ones = [ipaddress.IPv4Network(one) for one in listed]
    assert any(address in one for one in found) == any(address in one for one in given_ones)
    for one in given_ones:
        assert any(one.subnet_of(other) for other in found if isinstance(other, ipaddress.IPv4Network))


@given(st.lists(st.tuples(st.integers(1, 65535), st.integers(1, 65535)), min_size=1, max_size=8))
def test_port_ranges_never_touch_and_hold_the_same_ports(pairs: list[tuple[int, int]]) -> None:
    found = read_ports([f"{min(pair)}-{max(pair)}" for pair in pairs], "here")
    assert all(one[1] + 1 < other[0] for one, other in itertools.pairwise(found))
    for pair in pairs:
        assert any(first <= min(pair) and max(pair) <= last for first, last in found)
    ends = {end for pair in pairs for end in pair}
    assert {end for one in found for end in one} <= ends


@given(
    st.text(max_size=20),
    st.sampled_from(["interface", "name", "peer", "source", "port", "container"]),
)
def test_no_text_becomes_a_rule(text: str, place: str) -> None:
    places: dict[str, dict[str, Any]] = {
        "interface": {"firewall_fabric": {"interfaces": [text]}},
        "peer": {"firewall_fabric": {"interfaces": ["fab0"], "peers": [text]}},
        "name": {"firewall_openings": [{**ENDPOINT, "name": text}]},
        "source": {"firewall_openings": [{**ENDPOINT, "from": [text]}]},
        "port": {"firewall_ssh_ports": [text]},
        "container": {"firewall_container_interfaces": [text]},
    }
    try:
        rules = render_rules(read_firewall(places[place]))
    except SettingError:
        return
    plain = re.compile(r"[\w\s{},;:./\-\"@+*#()']*", re.ASCII)
    assert plain.fullmatch(rules)
    assert rules.count("{") == rules.count("}")
    assert rules.count('"') % 2 == 0


# --- the desired state -----------------------------------------------------------------------------------------------
def test_the_state_has_the_rules_in_the_file_and_in_force() -> None:
    state = desired({"firewall_fabric": FABRIC})
    check_vocabulary(state)
    assert set(state["files"]) == {RULES_PATH, UNIT_PATH}
    assert state["units"] == {UNIT: {"enabled": True, "active": True}}
    assert state["rulesets"] == {RULES_PATH: {"loaded": True}}
    assert "fab0" in state["files"][RULES_PATH]["content"]


def test_a_firewall_that_is_gone_has_no_rules_in_force() -> None:
    state = desired({"firewall_state": "absent"})
    check_vocabulary(state)
    assert state == {
        "units": {UNIT: {"enabled": False, "active": False, "if_present": True}},
        "rulesets": {RULES_PATH: {"loaded": False}},
    }
