# SPDX-License-Identifier: Apache-2.0
"""The kernel's log in every style of dmesg, journalctl and syslog."""

from __future__ import annotations

import pytest
from ansible_collections.firstlight.cluster.plugins.module_utils.parsers.kernel_log import parse_kernel_log
from hypothesis import given
from hypothesis import strategies as st

XID = "NVRM: Xid (PCI:0000:9b:00): 79, pid=2024, name=python3, GPU has fallen off the bus."
SXID = "nvidia-nvswitch3: SXid (PCI:0000:08:00.0): 20034, Fatal, Link 60 LTSSM Fault Up"
PCIE = (
    "mlx5_core 0000:9c:00.0: 252.056 Gb/s available PCIe bandwidth, limited by 32.0 GT/s PCIe x8 link at 0000:97:01.0 "
    "(capable of 504.112 Gb/s with 32.0 GT/s PCIe x16 link)"
)
STYLES = (
    "{}",
    "[  117.984502] {}",
    " 4428.423595] {}",
    "<4>[  117.984502] {}",
    "[Sun Feb 23 16:24:18 2025] {}",
    "[Feb23 16:24] {}",
    "[  +0.000123] {}",
    "kern  :err   : [  117.984502] {}",
    "2025-02-23T16:24:18,123456+00:00 {}",
    "Feb 23 16:24:18 node1 kernel: {}",
    "Feb 23 16:24:18 node1 kernel: [  117.984502] {}",
    "2025-02-23T16:24:18.123456+00:00 node1 kernel: {}",
    "Sun 2025-02-23 16:24:18 UTC node1 kernel: {}",
    "1740327858.123456 node1 kernel: {}",
    "[  117.984502] node1 kernel: {}",
    "4,1234,117984502,-;{}",
    '{{"MESSAGE":"{}","PRIORITY":"3"}}',
    "\x1b[32m[  117.984502] \x1b[0m\x1b[31m{}\x1b[0m",
)


@pytest.mark.parametrize("style", STYLES)
def test_xid_in_every_style(style: str) -> None:
    data, problems = parse_kernel_log(style.format(XID) + "\n")
    assert problems == []
    assert [(one["number"], one["bus"], one["count"]) for one in data["xids"]] == [(79, "0000:9b:00", 1)]


@pytest.mark.parametrize("style", STYLES)
def test_sxid_in_every_style(style: str) -> None:
    data, problems = parse_kernel_log(style.format(SXID) + "\n")
    assert problems == []
    assert [(one["number"], one["bus"], one["fatal"]) for one in data["sxids"]] == [(20034, "0000:08:00.0", True)]


def test_repeated_lines_are_one_event_and_the_newest_is_last() -> None:
    other = XID.replace("9b", "0f").replace("79,", "13,")
    data, _ = parse_kernel_log(f"[ 1.000000] {XID}\n[ 2.000000] {other}\n[ 3.000000] {XID}\n")
    assert [(one["number"], one["count"]) for one in data["xids"]] == [(13, 1), (79, 2)]
    assert data["xids"][-1]["first"] == "1.000000 s after boot"
    assert data["xids"][-1]["last"] == "3.000000 s after boot"


def test_lost_line_ends_hide_no_fault() -> None:
    data, _ = parse_kernel_log(f"[ 1.000000] {XID.replace('79,', '13,')} [ 2.000000] {XID} [ 3.000000] {SXID}")
    assert [one["number"] for one in data["xids"]] == [13, 79]
    assert len(data["sxids"]) == 1


def test_words_of_old_and_new_drivers() -> None:
    data, problems = parse_kernel_log(
        "[ 9.100000] NVRM: Xid (0000:01:00): 31, Ch 0000000b, engmask 00000120\n"
        "[ 9.200000] NVRM: Xid (PCI:0009:01:00): 149 NETIR_LINK_EVT Fatal XC0 i0 Link 01\n"
        "[ 9.300000] NVRM: Xid (PCI:0000:0f:00): 64, pid='<unknown>', name=<unknown>, Row Remapper Error\n"
    )
    assert problems == []
    assert [one["number"] for one in data["xids"]] == [31, 149, 64]


def test_an_sxid_s_details_belong_to_it() -> None:
    first = "[ 117.984502] nvidia-nvswitch3: SXid (PCI:0000:08:00.0): 22013, Non-fatal, Link 60 DLREQ interrupt\n"
    more = "[ 117.985304] nvidia-nvswitch3: SXid (PCI:0000:08:00.0): 22013, Severity 0 Engine instance 60\n"
    data, _ = parse_kernel_log(first + more)
    assert [(one["fatal"], one["count"]) for one in data["sxids"]] == [(False, 1)]
    assert parse_kernel_log(more)[0]["sxids"][0]["fatal"] is False
    assert parse_kernel_log(more.replace("Severity 0", "Severity 1"))[0]["sxids"][0]["fatal"] is True
    assert parse_kernel_log(more.replace("Severity 0", "Data"))[0]["sxids"][0]["fatal"] is None


@pytest.mark.parametrize(
    "line",
    [
        "[ 1.000000] NVRM: Xid (PCI:0000:9b",
        "[ 1.000000] NVRM: Xid",
        "[ 1.000000] NVRM: X",
        "[ 1.000000] NVRM:",
        "[ 1.000000] NVRM: Xi\ufffd (PCI:0000:9b:00): 79, pid=1",
        "[ 1.000000] NVRM: Xid (PCI:0000:9b:00): ",
        "[ 1.000000] NVRM: Xid (PCI:0000:9b:00): 7",
        "[ 1.000000] NVRM: Xid (PCI:0000:9b:00): x79, pid=1",
    ],
)
def test_a_damaged_xid_is_a_problem(line: str) -> None:
    data, problems = parse_kernel_log(line)
    assert len(problems) == 1
    assert list(data["doubts"].values()) == ["xid"]


def test_slow_pcie() -> None:
    data, _ = parse_kernel_log(f"[   18.617069] {PCIE}\n[   18.617069] {PCIE}\n")
    assert len(data["pcie"]) == 1
    assert data["pcie"][0]["width"] == 8
    assert data["pcie"][0]["capable_width"] == 16
    _, problems = parse_kernel_log(f"[   18.617069] {PCIE[:110]}")
    assert len(problems) == 1


@pytest.mark.parametrize(
    ("line", "what", "bus"),
    [
        ("NVRM: GPU 0000:04:00.0: GPU has fallen off the bus.", "lost", "0000:04:00.0"),
        ("NVRM: GPU 0000:04:00.0: RmInitAdapter failed! (0x26:0x56:1482)", "init", "0000:04:00.0"),
        ("NVRM: None of the NVIDIA devices were initialized.", "init", ""),
        ("NVRM: Timeout after 45s of waiting for RPC response from GPU0 GSP! Expected function 76", "gsp", ""),
    ],
)
def test_faults_without_a_number(line: str, what: str, bus: str) -> None:
    data, _ = parse_kernel_log(f"[ 1.000000] {line}\n")
    assert [(one["what"], one["bus"]) for one in data["faults"]] == [(what, bus)]


def test_ports_that_lose_their_link() -> None:
    carrier = "".join(
        f"Aug 17 06:18:{second:02d} node1 systemd-networkd[539]: ib6: lost carrier\n" for second in range(6)
    )
    data, _ = parse_kernel_log(carrier + "Aug 17 06:19:06 node1 systemd-networkd[539]: ib6: Gained carrier\n")
    assert data["ports"] == {"ib6": {"down": 6, "up": 1, "most_in_24_h": 6, "last": "up", "ended_down": False}}


def test_one_loss_told_by_several_parts_is_counted_once() -> None:
    data, _ = parse_kernel_log(
        "[ 4435.000000] mlx5_core 0000:53:00.0 enp83s0f0np0: Link up\n"
        "[ 4436.000000] mlx5_core 0000:53:00.0 enp83s0f0np0: Link down\n"
        "[ 4436.100000] mlx5_core 0000:53:00.0 mlx5_3: Port: 1 Link DOWN\n"
        "[ 4436.200000] bond0: (slave enp83s0f0np0): link status definitely down, disabling slave\n"
        "[ 4436.300000] docker0: port 1(veth1) entered disabled state\n"
        "[ 4436.400000] ixgbe 0000:54:00.0 eno1: NIC Link is Down\n"
    )
    assert data["ports"]["enp83s0f0np0"] == {"down": 1, "up": 1, "most_in_24_h": 1, "last": "down", "ended_down": True}
    assert data["ports"]["eno1"]["ended_down"] is False
    assert set(data["ports"]) == {"enp83s0f0np0", "eno1"}


def test_losses_far_apart_are_not_of_one_day() -> None:
    lines = "".join(f"[{day * 90000}.000000] mlx5_core 0000:53:00.0 ens1: Link down\n" for day in range(1, 8))
    assert parse_kernel_log(lines)[0]["ports"]["ens1"]["most_in_24_h"] == 1


def test_what_the_log_can_show() -> None:
    data, _ = parse_kernel_log(
        '$ dmesg | grep -i -E "nvrm|xid" | tail\n[    0.771499] NVRM: loading NVIDIA UNIX Open\n'
    )
    assert data["filter"] == '-i -E "nvrm|xid"'
    assert [data[key] for key in ("from_boot", "from_load", "nvidia")] == [True, True, True]
    assert not data["varied"]


@pytest.mark.parametrize(
    "text", ["", "hello\n", "dmesg: read kernel buffer failed: Operation not permitted\n", "-- No entries --\n"]
)
def test_no_log(text: str) -> None:
    data, problems = parse_kernel_log(text)
    assert data == {}
    assert len(problems) == 1


@given(st.one_of(st.text(max_size=300), st.binary(max_size=300).map(lambda raw: raw.decode("latin-1"))))
def test_any_text_is_read_without_an_error(text: str) -> None:
    data, problems = parse_kernel_log(text)
    assert data or problems
