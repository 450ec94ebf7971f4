# SPDX-License-Identifier: Apache-2.0
"""The parsers of what hosts print about their fabric ports, with all that happens to captures on the way."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from ansible_collections.firstlight.cluster.plugins.module_utils.parsers import captures
from ansible_collections.firstlight.cluster.plugins.module_utils.parsers.ethtool import ethtool_readings, parse_ethtool
from ansible_collections.firstlight.cluster.plugins.module_utils.parsers.host_ports import (
    parse_ip,
    parse_sysfs_net,
    parse_sysfs_rdma,
)
from ansible_collections.firstlight.cluster.plugins.module_utils.parsers.ibdev2netdev import parse_ibdev2netdev
from ansible_collections.firstlight.cluster.plugins.module_utils.parsers.ibstat import parse_ibstat
from ansible_collections.firstlight.cluster.plugins.module_utils.parsers.ibstatus import parse_ibstatus
from ansible_collections.firstlight.cluster.plugins.module_utils.parsers.ibv_devinfo import parse_ibv_devinfo
from ansible_collections.firstlight.cluster.plugins.module_utils.parsers.rdma_link import parse_rdma_link
from hypothesis import given
from hypothesis import strategies as st

CAPTURES = Path(__file__).resolve().parents[4] / "fixtures" / "fabric-captures"
PARSERS: tuple[Callable[[str], dict[str, Any]], ...] = (
    parse_ethtool,
    parse_ibdev2netdev,
    parse_ibstat,
    parse_ibstatus,
    parse_ibv_devinfo,
    parse_ip,
    parse_rdma_link,
    parse_sysfs_net,
    parse_sysfs_rdma,
)

IBSTAT = """CA 'mlx5_0'
\tCA type: MT4129
\tNumber of ports: 1
\tFirmware version: 28.43.2026
\tNode GUID: 0x0200000000000001
\tPort 1:
\t\tState: Active
\t\tPhysical state: LinkUp
\t\tRate: 400
\t\tBase lid: 7
\t\tPort GUID: 0x0200000000000001
\t\tLink layer: InfiniBand
"""
IBSTATUS = """Infiniband device 'mlx5_0' port 1 status:
\tdefault gid:\t fe80:0000:0000:0000:0200:00ff:fe00:0001
\tbase lid:\t 0x0
\tsm lid:\t\t 0x0
\tstate:\t\t 4: ACTIVE
\tphys state:\t 5: LinkUp
\trate:\t\t 200 Gb/sec (4X HDR)
\tlink_layer:\t Ethernet
"""
DEVINFO = """hca_id:\tmlx5_0
\ttransport:\t\t\tInfiniBand (0)
\tfw_ver:\t\t\t\t28.45.4028
\tnode_guid:\t\t\t0200:00ff:fe00:0001
\tphys_port_cnt:\t\t\t1
\t\tport:\t1
\t\t\tstate:\t\t\tPORT_ACTIVE (4)
\t\t\tmax_mtu:\t\t4096 (5)
\t\t\tactive_mtu:\t\t1024 (3)
\t\t\tport_lid:\t\t0
\t\t\tlink_layer:\t\tEthernet
\t\t\tactive_width:\t\t4X (2)
\t\t\tactive_speed:\t\t50.0 Gbps (64)
\t\t\tphys_state:\t\tLINK_UP (5)
\t\t\tGID[  3]:\t\t::ffff:192.168.100.10, RoCE v2
"""
ETHTOOL = """Settings for enp1s0f1np1:
\tSupported ports: [ Backplane ]
\tSupported link modes:   100000baseCR4/Full
\t                        200000baseCR4/Full
\tSupports auto-negotiation: Yes
\tSpeed: 200000Mb/s
\tDuplex: Full
\tAuto-negotiation: on
\tPort: Direct Attach Copper
\tTransceiver: internal
\tLink detected: yes
"""
RDMA = "link rocep1s0f1/1 state ACTIVE physical_state LINK_UP netdev enp1s0f1np1 \n"
WHOLE = (
    (parse_ibstat, IBSTAT),
    (parse_ibstatus, IBSTATUS),
    (parse_ibv_devinfo, DEVINFO),
    (parse_ethtool, ETHTOOL),
    (parse_rdma_link, RDMA),
    (parse_ibdev2netdev, "mlx5_0 port 1 ==> ens1f0 (Up)\n"),
)


class TestWhatEachTells:
    def test_ibstat(self) -> None:
        assert parse_ibstat(IBSTAT)["mlx5_0"][1] == {
            "state": "ACTIVE",
            "phys_state": "LINK_UP",
            "rate_gbit": 400,
            "link_layer": "InfiniBand",
            "lid": 7,
            "port_guid": "0x0200000000000001",
            "firmware": "28.43.2026",
            "type": "MT4129",
            "node_guid": "0x0200000000000001",
        }

    def test_ibstat_of_one_port_and_through_grep(self) -> None:
        one = "CA: 'mlx5_3'\nPort 2:\nState: Initializing\nPhysical state: LinkUp\nRate: 100\nLink layer: IB\n"
        assert parse_ibstat(one)["mlx5_3"][2]["state"] == "INIT"
        assert parse_ibstat(one)["mlx5_3"][2]["link_layer"] == "InfiniBand"
        kept = "CA 'mlx5_0'\n\t\tState: Active\n\t\tRate: 100\nCA 'mlx5_1'\n\t\tState: Down\n\t\tRate: 40\n"
        assert {name: ports[1]["state"] for name, ports in parse_ibstat(kept).items()} == {
            "mlx5_0": "ACTIVE",
            "mlx5_1": "DOWN",
        }

    def test_ibstatus(self) -> None:
        port = parse_ibstatus(IBSTATUS)["mlx5_0"][1]
        assert (port["state"], port["phys_state"], port["rate_gbit"]) == ("ACTIVE", "LINK_UP", 200)
        assert (port["rate"], port["link_layer"]) == ("200 Gb/sec (4X HDR)", "Ethernet")

    def test_ibv_devinfo(self) -> None:
        port = parse_ibv_devinfo(DEVINFO)["mlx5_0"][1]
        assert (port["state"], port["phys_state"], port["link_layer"]) == ("ACTIVE", "LINK_UP", "Ethernet")
        assert (port["max_mtu"], port["active_mtu"], port["rate_gbit"]) == (4096, 1024, 200)
        assert port["firmware"] == "28.45.4028"
        assert port["gids"] == [{"index": 3, "address": "::ffff:192.168.100.10", "type": "RoCE v2"}]

    def test_ibv_devinfo_of_two_ports_and_without_v(self) -> None:
        text = (
            "hca_id: mlx4_0\n fw_ver: 2.42.5000\n  port: 1\n   state: PORT_ACTIVE (4)\n   active_mtu: 4096 (5)\n"
            "  port: 2\n   state: PORT_DOWN (1)\n   active_mtu: invalid MTU (0)\n   link_layer: IB\n"
        )
        ports = parse_ibv_devinfo(text)["mlx4_0"]
        assert [ports[number]["state"] for number in (1, 2)] == ["ACTIVE", "DOWN"]
        assert [ports[number]["active_mtu"] for number in (1, 2)] == [4096, None]
        assert [ports[number]["phys_state"] for number in (1, 2)] == [None, None]
        assert ports[2]["firmware"] == "2.42.5000"

    def test_ethtool(self) -> None:
        assert parse_ethtool(ETHTOOL) == {
            "enp1s0f1np1": {
                "speed_mbit": 200000,
                "duplex": "Full",
                "autonegotiation": True,
                "port_type": "Direct Attach Copper",
                "link": True,
                "link_reason": None,
                "fec": None,
                "driver": None,
                "firmware": None,
                "pci": None,
            }
        }

    @pytest.mark.parametrize(
        ("value", "speed"),
        [
            ("Unknown!", None),
            ("Unknown! (65535)", None),
            ("65535Mb/s", None),
            ("4294967295Mb/s", None),
            ("100000Mb/s", 100000),
            ("200Gb/s", 200000),
            ("***", None),
            ("", None),
        ],
    )
    def test_ethtool_speed(self, value: str, speed: int | None) -> None:
        assert parse_ethtool(f"Settings for eth0:\n\tSpeed: {value}\n\tDuplex: Unknown! (255)\n") == {
            "eth0": {**parse_ethtool(ETHTOOL.replace("enp1s0f1np1", "eth0"))["eth0"]}
            | dict.fromkeys(("duplex", "autonegotiation", "port_type", "link"))
            | {"speed_mbit": speed}
        }

    def test_ethtool_link_reason_driver_and_fec(self) -> None:
        text = (
            "Settings for eth0:\n\tAuto-negotiation: off\n\tLink detected: no (No cable)\n"
            "$ ethtool -i eth1\ndriver: mlx5_core\nversion: 6.17\nfirmware-version: 28.45.4028 (XX_0000000001)\n"
            "bus-info: 0000:01:00.1\n$ ethtool --show-fec eth1\nFEC parameters for eth1:\nActive FEC encoding: RS\n"
        )
        found = parse_ethtool(text)
        assert (found["eth0"]["link"], found["eth0"]["link_reason"]) == (False, "No cable")
        assert found["eth0"]["autonegotiation"] is False
        assert found["eth1"]["firmware"] == "28.45.4028"
        assert (found["eth1"]["pci"], found["eth1"]["fec"]) == ("0000:01:00.1", "RS")

    @pytest.mark.parametrize(
        "text",
        [
            "$ sudo ethtool eth0 | grep Speed\n\tSpeed: 100000Mb/s\n$ ethtool eth1 | grep Speed\n\tSpeed: 200000Mb/s\n",
            "u@h:~$ ethtool eth0 | grep Speed\n\tSpeed: 100000Mb/s\nu@h:~$ ethtool eth1|grep Speed\n Speed: 200000Mb/s",
            "[root@h ~]# ethtool eth0\n\tSpeed: 100000Mb/s\n[root@h ~]# /usr/sbin/ethtool eth1\n\tSpeed: 200000Mb/s\n",
            "eth0\n\tSpeed: 100000Mb/s\neth1\n\tSpeed: 200000Mb/s\n",
            "=== eth0 ===\n\tSpeed: 100000Mb/s\n=== eth1 ===\n\tSpeed: 200000Mb/s\n",
            "eth0: Speed: 100000Mb/s\neth1:\tSpeed: 200000Mb/s\n",
            "Settings for eth0:\n Speed: 100000Mb/s\nSettings for eth1:\n Speed: 200000Mb/s",
        ],
    )
    def test_ethtool_finds_the_port_of_a_bare_speed(self, text: str) -> None:
        assert {port: one["speed_mbit"] for port, one in parse_ethtool(text).items()} == {
            "eth0": 100000,
            "eth1": 200000,
        }

    def test_ethtool_before_and_after(self) -> None:
        text = "$ ethtool eth0 | grep Speed\n Speed: 100000Mb/s\n$ ethtool eth0 | grep Speed\n Speed: 200000Mb/s\n"
        assert [values["speed_mbit"] for _, values in ethtool_readings(text)] == [100000, 200000]
        assert parse_ethtool(text)["eth0"]["speed_mbit"] == 200000
        assert parse_ethtool("\tSpeed: 200000Mb/s\n")[""]["speed_mbit"] == 200000

    @pytest.mark.parametrize(
        "text",
        [
            RDMA,
            "1/1: rocep1s0f1/1: state ACTIVE physical_state LINK_UP netdev enp1s0f1np1\n",
            "LINK rocep1s0f1/1 STATE active PHYSICAL_STATE link_up NETDEV enp1s0f1np1",
            json.dumps(
                [
                    {
                        "ifindex": 1,
                        "ifname": "rocep1s0f1",
                        "port": 1,
                        "state": "ACTIVE",
                        "physical_state": "LINK_UP",
                        "netdev": "enp1s0f1np1",
                        "netdev_index": 4,
                    }
                ]
            ),
        ],
    )
    def test_rdma_link(self, text: str) -> None:
        assert parse_rdma_link(text) == {
            "rocep1s0f1": {1: {"state": "ACTIVE", "phys_state": "LINK_UP", "netdev": "enp1s0f1np1", "lid": None}}
        }

    def test_rdma_link_of_infiniband_pretty_and_cut_short(self) -> None:
        text = (
            "link mlx5_0/1 subnet_prefix fe80:0000:0000:0000 lid 13 sm_lid 1 lmc 0 state INIT physical_state LINK_UP\n"
        )
        assert parse_rdma_link(text)["mlx5_0"][1] == {
            "state": "INIT",
            "phys_state": "LINK_UP",
            "netdev": None,
            "lid": 13,
        }
        listed = [{"ifname": f"mlx5_{number}", "port": 1, "state": "DOWN"} for number in range(3)]
        cut = json.dumps(listed, indent=2)[:-30]
        assert list(parse_rdma_link(f"$ rdma -jp link\n{cut}\n")) == ["mlx5_0", "mlx5_1"]

    def test_ibdev2netdev(self) -> None:
        text = (
            "mlx5_0 port 1 ==> ens1f0 (Up)\nmlx5_1 port 1 ==&gt; ens1f1 (Down)\n"
            "0000:01:00.0 roce0 (MT4129 - X1) NIC adapter, two ports fw 28.45.4028 port 1 (ACTIVE) ==> eth2 (Up)\n"
            "mlx5_4 port 2 ==> (Down)\n"
        )
        found = parse_ibdev2netdev(text)
        assert [found[name][1]["up"] for name in ("mlx5_0", "mlx5_1")] == [True, False]
        assert found["roce0"][1] == {
            "netdev": "eth2",
            "up": True,
            "state": "ACTIVE",
            "pci": "0000:01:00.0",
            "firmware": "28.45.4028",
            "type": "MT4129",
        }
        assert found["mlx5_4"][2]["netdev"] is None

    def test_ibdev2netdev_with_a_long_description(self) -> None:
        about = "adapter card, HDR IB (200Gb/s) and 200GbE, two ports" + " " * 200
        text = f"# 0000:01:00.0 mlx5_0 (MT4123 - X    ) {about} fw 20.28.1002 port 1 (DOWN  ) ==> ib4 (Down) (o2ib)"
        port = parse_ibdev2netdev(text)["mlx5_0"][1]
        assert (port["state"], port["netdev"], port["firmware"]) == ("DOWN", "ib4", "20.28.1002")

    @pytest.mark.parametrize(
        "text", ["link mlx5_0/1: state ACTIVE netdev eth0", "# Output: link mlx5_0/1 state ACTIVE netdev eth0"]
    )
    def test_rdma_link_as_others_write_it_down(self, text: str) -> None:
        assert parse_rdma_link(text)["mlx5_0"][1]["netdev"] == "eth0"

    def test_the_device_of_the_command(self) -> None:
        text = (
            "$ ibv_devinfo -d ibp23s0 | grep -E 'state|layer'\n\tstate:\tPORT_ACTIVE (4)\n\tlink_layer:\tInfiniBand\n"
        )
        assert parse_ibv_devinfo(text)["ibp23s0"][1]["state"] == "ACTIVE"
        text = "$ ibstat mlx5_3 | grep -E 'State|Rate'\n\t\tState: Active\n\t\tRate: 200\n"
        assert parse_ibstat(text)["mlx5_3"][1]["rate_gbit"] == 200

    def test_ports_without_a_name(self) -> None:
        text = "$ ibstat | grep -E 'State|Rate'\n State: Active\n Rate: 400\n State: Down\n Rate: 40\n"
        found = parse_ibstat(text)
        assert {name: ports[1]["state"] for name, ports in found.items()} == {"?1": "ACTIVE", "?2": "DOWN"}
        text = "state: 4: ACTIVE\nphys state: 5: LinkUp\nstate: 1: DOWN\nphys state: 3: Disabled\n"
        assert [ports[1]["phys_state"] for ports in parse_ibstatus(text).values()] == ["LINK_UP", "DISABLED"]
        assert parse_ibstat(text) == {}
        assert parse_ibstatus(text.replace("phys", "Physical")) == {}

    def test_remarks_beside_values(self) -> None:
        text = (
            "CA 'mlx5_0'\n Port 1:\n  State:  Active   <-- must be Active, Down is bad\n  Link layer: Ethernet # RoCE\n"
        )
        port = parse_ibstat(text)["mlx5_0"][1]
        assert (port["state"], port["link_layer"]) == ("ACTIVE", "Ethernet")

    def test_sysfs(self) -> None:
        text = (
            "$ cat /sys/class/infiniband/rocep1s0f1/ports/1/rate /sys/class/infiniband/rocep1s0f1/ports/1/state\n"
            "200 Gb/sec (4X HDR)\n4: ACTIVE\n"
            "$ grep . /sys/class/infiniband/*/ports/1/link_layer\n"
            "/sys/class/infiniband/rocep1s0f1/ports/1/link_layer:Ethernet\n"
            "$ cat /sys/class/infiniband/*/ports/1/rate\n40 Gb/sec (4X QDR)\n"
            "$ head /sys/class/net/eth0/mtu /sys/class/net/eth0/speed\n"
            "==> /sys/class/net/eth0/mtu <==\n9000\n\n==> /sys/class/net/eth0/speed <==\n-1\n"
        )
        port = parse_sysfs_rdma(text)["rocep1s0f1"][1]
        assert (port["rate_gbit"], port["state"], port["link_layer"]) == (200, "ACTIVE", "Ethernet")
        assert parse_sysfs_net(text) == {"eth0": {"speed_mbit": None, "mtu": 9000, "up": None, "carrier": None}}

    def test_ip(self) -> None:
        brief = "lo UNKNOWN 127.0.0.1/8 ::1/128 \neth0             UP             192.168.100.10/24 \neth1@if9 DOWN\n"
        assert parse_ip(brief) == {
            "lo": {"up": None, "mtu": None, "addresses": ["127.0.0.1/8", "::1/128"]},
            "eth0": {"up": True, "mtu": None, "addresses": ["192.168.100.10/24"]},
            "eth1": {"up": False, "mtu": None, "addresses": []},
        }
        full = (
            "2: eth0@if3: <BROADCAST,MULTICAST,UP,LOWER_UP> mtu 9000 qdisc mq state UP group default qlen 1000\n"
            "    link/ether 02:00:00:00:00:01 brd ff:ff:ff:ff:ff:ff\n    inet 192.168.100.10/24 scope global eth0\n"
            "3: eth1: <NO-CARRIER,BROADCAST,MULTICAST,UP> mtu 1500 qdisc mq state DOWN\n"
        )
        assert parse_ip(full)["eth0"] == {"up": True, "mtu": 9000, "addresses": ["192.168.100.10/24"]}
        assert parse_ip(full)["eth1"] == {"up": False, "mtu": 1500, "addresses": None}
        listed = [{"ifname": "eth0", "operstate": "UP", "mtu": 9000, "addr_info": [{"local": "::1", "prefixlen": 128}]}]
        assert parse_ip(json.dumps(listed)) == {"eth0": {"up": True, "mtu": 9000, "addresses": ["::1/128"]}}
        assert parse_ip("eth0 UP 02:00:00:00:00:01 <BROADCAST,UP>\n")["eth0"]["addresses"] is None


DISGUISES: dict[str, Callable[[str], str]] = {
    "carriage returns": lambda text: text.replace("\n", "\r\n"),
    "colours": lambda text: "".join(f"\x1b[0;32m{line}\x1b[0m\n" for line in text.splitlines()),
    "a source line and a fence": lambda text: f"# source: a wiki\n```console\n{text}```\n",
    "a prompt around it": lambda text: f"admin@spark0:~$ some command\n{text}admin@spark0:~$ \n",
    "blanks for tabs": lambda text: text.replace("\t", "        "),
    "no indentation": lambda text: "".join(line.lstrip() + "\n" for line in text.splitlines()),
    "quoted in a reply": lambda text: "".join(f"> {line}\n" for line in text.splitlines()),
    "blank lines between": lambda text: text.replace("\n", "\n\n"),
    "a page": lambda text: "".join(f'<span class="q">&gt; &gt;&gt; {line}</span><br>\n' for line in text.splitlines()),
    "hard blanks": lambda text: text.replace(" ", "\u00a0"),
    "no newline at the end": lambda text: text.rstrip("\n"),
    "twice": lambda text: text + text,
}


@pytest.mark.parametrize("disguise", DISGUISES)
@pytest.mark.parametrize(("parse", "text"), WHOLE, ids=[parse.__name__ for parse, _ in WHOLE])
def test_a_capture_reads_the_same_however_it_was_pasted(
    parse: Callable[[str], dict[str, Any]], text: str, disguise: str
) -> None:
    assert parse(DISGUISES[disguise](text)) == parse(text)


def test_outputs_in_a_row_do_not_leak_into_each_other() -> None:
    text = "".join(one for _, one in WHOLE)
    backwards = "".join(one for _, one in reversed(WHOLE))
    for parse, alone in WHOLE:
        assert parse(text) == parse(alone)
        assert parse(backwards) == parse(alone)


def test_masked_values_are_not_told() -> None:
    text = IBSTAT.replace("28.43.2026", "xx.xx.xxxx").replace("Active", "****").replace("400", "<masked>")
    port = parse_ibstat(text.replace("0x0200000000000001", "[redacted]"))["mlx5_0"][1]
    assert [port[name] for name in ("firmware", "state", "rate_gbit", "node_guid")] == [None, None, None, None]
    assert port["link_layer"] == "InfiniBand"


@pytest.mark.parametrize("path", sorted(CAPTURES.glob("*.txt")), ids=lambda path: path.stem)
def test_a_capture_cut_anywhere_tells_only_what_the_whole_tells(path: Path) -> None:
    text = path.read_text(encoding="utf-8")
    for parse in PARSERS:
        whole = parse(text)
        for end in range(0, len(text), 97):
            assert set(parse(text[:end])) - set(whole) <= {""} | _cut_names(whole)


def _cut_names(whole: dict[str, Any]) -> set[str]:
    """A name that the end of the capture cut short."""
    return {name[:length] for name in whole for length in range(len(name))}


PIECES = st.sampled_from(
    [
        *(line + "\n" for _, text in WHOLE for line in text.splitlines()),
        "$ ethtool ",
        "$ cat /sys/class/infiniband/x/ports/1/rate\n",
        '[{"ifname":',
        "{" * 50,
        '"port":1}]',
        "==> ",
        "\x1b[",
        "\r",
    ]
)


@given(st.one_of(st.text(), st.lists(st.one_of(PIECES, st.text(max_size=8)), max_size=30).map("".join)))
def test_no_text_crashes_a_parser(text: str) -> None:
    for parse in PARSERS:
        found = parse(text)
        assert all(isinstance(name, str) for name in found)
        json.dumps(found)


@given(
    st.dictionaries(
        st.from_regex(r"(mlx5_|rocep|irdma|bnxt_re)[0-9]{1,3}", fullmatch=True),
        st.tuples(st.sampled_from(["Active", "Down", "Initializing"]), st.integers(1, 1600)),
        max_size=8,
    )
)
def test_every_device_of_an_ibstat_is_found(devices: dict[str, tuple[str, int]]) -> None:
    text = "".join(
        f"CA '{name}'\n\tCA type: MT4129\n\tPort 1:\n\t\tState: {state}\n\t\tRate: {rate}\n"
        for name, (state, rate) in devices.items()
    )
    assert {name: ports[1]["rate_gbit"] for name, ports in parse_ibstat(text).items()} == {
        name: rate for name, (_, rate) in devices.items()
    }


class TestByHost:
    def test_prompts_ssh_and_ansible_name_the_host(self) -> None:
        text = (
            "u@spark0:~$ rdma link\none\nu@spark1:~$ rdma link\ntwo\n$ ssh -p 22 u@spark2 'rdma link'\nthree\n"
            "spark3 | CHANGED | rc=0 >>\nfour\n"
        )
        parts = captures.by_host(text)
        assert list(parts) == ["spark0", "spark1", "spark2", "spark3"]
        assert all(word in parts[host] for host, word in zip(parts, ("one", "two", "three", "four"), strict=True))
        assert "$ rdma link" in parts["spark2"]

    def test_one_host_owns_the_whole_capture(self) -> None:
        assert list(captures.by_host("before\nu@spark0:~$ rdma link\nafter\n")) == ["spark0"]
        assert list(captures.by_host("nobody\n")) == [""]
