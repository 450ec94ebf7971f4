# SPDX-License-Identifier: Apache-2.0
"""How a file is put in force: `netplan apply` only where it takes nothing else down."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import astuple

import pytest
from ansible_collections.firstlight.cluster.plugins.module_utils.netplan.apply_methods import (
    Device,
    Way,
    backward,
    choose,
    forward,
    functions,
    notes,
    parse_devices,
)
from ansible_collections.firstlight.cluster.plugins.module_utils.netplan.generated_units import (
    NETWORK_MANAGER,
    NETWORKD,
    Unit,
    our_unit_name,
    parse_sections,
)
from hypothesis import given
from hypothesis import strategies as st

SPARK = """\
wlP9s9:wifi:connected:2c0a9d1e-6f3b-4c77-9a52-0f4f4f1a7b10:Home\\: upstairs
enp1s0f1np1:ethernet:connecting (getting IP configuration):77e0a4c2-9d0f-3d4a-8f26-1b1b6d5a2e01:Wired connection 2
docker0:bridge:connected (externally):0aa5e0f2-3e8c-4f7f-8f0b-4a9a6f1f9c11:docker0
lo:loopback:connected (externally):9a7f1c0e-55aa-4b1e-8a41-0d1e5c9a3b22:lo
enP7s7:ethernet:unavailable::
enP2p1s0f1np1:ethernet:disconnected::
tailscale0:tun:unmanaged::
p2p-dev-wlP9s9:wifi-p2p:disconnected::
"""
"""Of a DGX Spark that is managed over Wi-Fi, in the form of `nmcli --terse --fields ... device status` (1.46)."""

WIFI, PORT, TWIN = "wlP9s9", "enp1s0f1np1", "enP2p1s0f1np1"
UUID = "77e0a4c2-9d0f-3d4a-8f26-1b1b6d5a2e01"
KEYFILE = "[connection]\nid=netplan-{0}\ntype=ethernet\ninterface-name={0}\n[ipv4]\nmethod=manual\n[ipv6]\nmethod={1}\n"
OTHERS = Unit("netplan-NM-2c0a9d1e-Home.nmconnection", NETWORK_MANAGER, parse_sections("[connection]\ntype=wifi\n"))
"""What Ubuntu makes of a Wi-Fi connection of its desktop: /etc/netplan/90-NM-UUID.yaml, and out of that this."""


def unit(port: str, renderer: str, ipv6: str = "ignore") -> Unit:
    text = f"[Match]\nName={port}\n" if renderer == NETWORKD else KEYFILE.format(port, ipv6)
    return Unit(our_unit_name(port, renderer), renderer, parse_sections(text))


def units(renderer: str, *ports: str) -> list[Unit]:
    return [unit(port, renderer) for port in ports]


def chosen(after: Sequence[Unit], before: Sequence[Unit] = (), devices: str | None = SPARK) -> Way:
    return choose((PORT, TWIN), before, after, None if devices is None else parse_devices(devices))


def test_what_nmcli_prints() -> None:
    devices = parse_devices(SPARK)
    assert len(devices) == 8
    assert devices[WIFI].connection == "Home: upstairs"
    assert [name for name, one in devices.items() if one.up] == [WIFI, PORT]
    assert [name for name, one in devices.items() if not one.managed] == ["docker0", "lo", "tailscale0"]
    assert parse_devices("Error: NetworkManager is not running.\n") == {}


@given(st.lists(st.tuples(*[st.text(st.characters(blacklist_categories=["Cs", "Cc", "Zl", "Zp"]))] * 5), max_size=4))
def test_any_name_of_a_connection_is_read_as_it_is(rows: list[tuple[str, ...]]) -> None:
    def escaped(word: str) -> str:
        return word.replace("\\", "\\\\").replace(":", "\\:")

    text = "".join(":".join(escaped(word) for word in row) + "\n" for row in rows)
    assert parse_devices(text) == {row[0]: Device(*row) for row in rows if row[0]}


@pytest.mark.parametrize(
    ("after", "before", "devices"),
    [
        (units(NETWORKD, PORT, TWIN), (), None),
        (units(NETWORKD, PORT, TWIN), (), ""),
        # NetworkManager runs, and netplan has nothing for it: netplan leaves it alone.
        (units(NETWORKD, PORT, TWIN), units(NETWORKD, PORT), f"{WIFI}:wifi:connected:u:Home\n"),
        # It would be restarted, and has nothing but our ports up.
        (
            units(NETWORK_MANAGER, PORT, TWIN),
            (),
            f"{PORT}:ethernet:connected:u:netplan-{PORT}\n{WIFI}:wifi:disconnected::\n",
        ),
        (units(NETWORK_MANAGER, PORT, TWIN), (), None),
    ],
    ids=["no NetworkManager", "it has nothing", "netplan has nothing for it", "only our ports", "it does not run"],
)
def test_netplan_apply_where_it_takes_nothing_else_down(
    after: list[Unit], before: list[Unit], devices: str | None
) -> None:
    way = chosen(after, before, devices)
    assert not way.port_by_port
    assert way.command == "netplan apply"
    program = "\n".join(forward(way, 120, "log"))
    assert "timeout 120 netplan apply >>log" in program


@pytest.mark.parametrize("before", [(), (OTHERS,)], ids=["by our own keyfiles", "by the one of the Wi-Fi"])
def test_ports_of_networkmanager_beside_a_wifi_are_brought_up_alone(before: tuple[Unit, ...]) -> None:
    way = chosen([*before, *units(NETWORK_MANAGER, PORT, TWIN)], before)
    assert way == Way(spared={WIFI: "Home: upstairs"}, manager=(PORT, TWIN), former={PORT: UUID})
    assert forward(way, 120, "log") == [
        "timeout 120 netplan generate >>log 2>&1 </dev/null",
        "code=$?",
        'if [ "$code" -eq 0 ]; then',
        "  nmcli connection reload >>log 2>&1 || code=$?",
        f"  nmcli device set {PORT} managed yes >>log 2>&1",
        f"  nmcli --wait 0 connection up id netplan-{PORT} ifname {PORT} >>log 2>&1",
        f"  nmcli device set {TWIN} managed yes >>log 2>&1",
        f"  nmcli --wait 0 connection up id netplan-{TWIN} ifname {TWIN} >>log 2>&1",
        "fi",
    ]
    back = backward(way, "log")
    assert back[0] == 'timeout "$limit" netplan generate >>log 2>&1 </dev/null'
    assert back[-2:] == [
        "nmcli connection reload >>log 2>&1",
        f"nmcli --wait 0 connection up uuid {UUID} ifname {PORT} >>log 2>&1",
    ]


def test_ports_of_networkd_beside_a_wifi_are_taken_from_networkmanager_first() -> None:
    way = chosen([OTHERS, *units(NETWORKD, PORT, TWIN)], (OTHERS,))
    assert way == Way(spared={WIFI: "Home: upstairs"}, networkd=(PORT, TWIN), let_go=(PORT, TWIN), former={PORT: UUID})
    steps = forward(way, 120, "log")
    assert steps[3:6] == [
        f"  let_go {PORT} >>log 2>&1",
        f"  let_go {TWIN} >>log 2>&1",
        f"  tell_networkd {PORT} {TWIN} >>log 2>&1 || code=$?",
    ]
    back = backward(way, "log")
    assert back[3:5] == ["tell_networkd  >>log 2>&1", f"nmcli device set {PORT} managed yes >>log 2>&1"]


def test_networkmanager_lets_go_of_ports_of_networkd_that_nobody_told_it_of() -> None:
    """On Debian it takes every port; netplan does not restart it, and it reads of its ports only when it starts."""
    way = chosen(units(NETWORKD, PORT, TWIN))
    assert not way.port_by_port
    assert forward(way, 120, "log")[:2] == [f"let_go {PORT} >>log 2>&1", f"let_go {TWIN} >>log 2>&1"]
    assert "let_go()" in functions(way)
    assert f"nmcli device set {PORT} managed yes >>log 2>&1" in backward(way, "log")


def test_a_removal_beside_a_wifi_touches_only_what_was_ours() -> None:
    way = chosen([OTHERS], [OTHERS, *units(NETWORK_MANAGER, PORT)])
    assert (way.networkd, way.manager, way.let_go) == ((), (), ())
    assert forward(way, 120, "log")[3:] == ["  nmcli connection reload >>log 2>&1 || code=$?", "fi"]


def test_the_ways_of_a_host_without_networkmanager_call_nothing_of_it() -> None:
    way = chosen(units(NETWORKD, PORT, TWIN), units(NETWORKD, PORT), None)
    text = "\n".join([functions(way), *forward(way, 120, "log"), *backward(way, "log")])
    assert "nmcli" not in text
    assert "networkctl" not in text


NAMES = st.sampled_from([PORT, TWIN, WIFI, "eth0"])
STATES = st.sampled_from(["connected", "connected (externally)", "disconnected", "unmanaged", "unavailable"])
DEVICES = st.dictionaries(NAMES, STATES).map(
    lambda found: {name: Device(name, "ethernet", state, f"uuid-{name}", name) for name, state in found.items()}
)
UNITS = st.lists(st.builds(unit, NAMES, st.sampled_from([NETWORKD, NETWORK_MANAGER])), max_size=4)


@given(before=UNITS, after=UNITS, devices=st.none() | DEVICES)
def test_netplan_apply_never_runs_beside_a_connection_that_it_would_end(
    before: list[Unit], after: list[Unit], devices: dict[str, Device] | None
) -> None:
    way = choose((PORT, TWIN), before, after, devices)
    others = [name for name, one in (devices or {}).items() if one.state == "connected" and name not in (PORT, TWIN)]
    restarts = any(one.renderer == NETWORK_MANAGER for one in (*before, *after))
    program = "\n".join([*forward(way, 120, "log"), *backward(way, "log")])
    assert ("netplan apply" in program) is not bool(restarts and others)
    # Nothing is said to, or about, an interface that is none of the change's.
    assert not any(name in program for name in (WIFI, "eth0"))
    if devices is None:
        assert "nmcli" not in program


def test_the_operator_is_told_before() -> None:
    after = [OTHERS, unit(PORT, NETWORK_MANAGER), unit(TWIN, NETWORK_MANAGER, "disabled")]
    told = notes(chosen(after), after, WIFI)
    assert told[0].startswith(
        "NetworkManager runs wlP9s9 (Home: upstairs, over which this run came), which `netplan apply`"
    )
    assert told[1].startswith(f"NetworkManager configures {PORT}, and netplan does not pass `accept-ra: false`")
    assert "fabric_network_renderer" in told[1]
    assert len(told) == 2
    assert "over which" not in notes(chosen(after), after, "eth0")[0]
    assert notes(Way(), units(NETWORKD, PORT)) == []
    assert notes(Way(let_go=(PORT,)), units(NETWORKD, PORT))[0].startswith(
        f"NetworkManager runs {PORT}, which the netplan"
    )


def test_odd_names_stay_words_of_the_shell() -> None:
    way = Way(spared={"w": "x"}, networkd=("e$(id)",), manager=("a;b",), let_go=("e$(id)",), former={"a;b": "u`id`"})
    for line in [*forward(way, 1, "log"), *backward(way, "log")]:
        assert "$(id)" not in line.replace("'e$(id)'", "")
        assert "`" not in line.replace("'u`id`'", "")
        assert ";b" not in line.replace("'netplan-a;b'", "").replace("'a;b'", "").replace("; then", "")
    assert astuple(Way()) == ({}, (), (), (), (), {})
