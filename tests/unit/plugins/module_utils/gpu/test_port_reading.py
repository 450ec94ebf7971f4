# SPDX-License-Identifier: Apache-2.0
"""Ports as a reading: what is missing is told, and what several tools say of one port is joined."""

from __future__ import annotations

from ansible_collections.firstlight.cluster.plugins.module_utils.gpu.port_reading import merged_rows, parse_ports

IBSTAT = (
    "CA 'mlx5_0'\n\tCA type: MT4129\n\tNumber of ports: 1\n\tFirmware version: 28.39.1002\n\tPort 1:\n"
    "\t\tState: Active\n\t\tPhysical state: LinkUp\n\t\tRate: 400\n\t\tLink layer: InfiniBand\n"
)


def test_a_port_with_all_that_is_told() -> None:
    data, problems = parse_ports(IBSTAT)
    assert problems == []
    assert data["tools"] == ["ibstat"]
    (row,) = data["ports"]
    assert (row["device"], row["state"], row["rate_gbit"], row["link_layer"]) == ("mlx5_0", "ACTIVE", 400, "InfiniBand")


def test_a_device_without_its_port_is_cut_off() -> None:
    cut = IBSTAT + IBSTAT.replace("mlx5_0", "mlx5_1").split("\tPort 1:", maxsplit=1)[0]
    assert parse_ports(cut)[1] == ["mlx5_1: 0 of 1 ports shown, the text is cut off"]


def test_a_port_without_its_last_lines_is_cut_off() -> None:
    _, problems = parse_ports(IBSTAT.split("\t\tRate:", maxsplit=1)[0])
    assert problems == ["mlx5_0: neither rate nor link layer is shown, the text is cut off"]


def test_a_line_that_names_no_port_is_quoted() -> None:
    _, problems = parse_ports("mlx5_0 port 1 ==> ens1 (Up)\nmlx5_1 po\ufffdt 1 ==> ens2 (Down)\n")
    assert problems == ['not understood: "mlx5_1 po\ufffdt 1 ==> ens2 (Down)"']


def test_other_text_is_quoted() -> None:
    assert parse_ports("hello\n") == ({}, ['no port in "hello"'])
    assert parse_ports("") == ({}, ["the text is empty"])


def test_tools_that_tell_of_the_same_port_are_joined() -> None:
    link = parse_ports("link rocep1s0f1/1 state ACTIVE physical_state LINK_UP netdev enp1s0f1np1\n")[0]["ports"]
    speed = parse_ports("Settings for enp1s0f1np1:\n\tSpeed: 200000Mb/s\n\tLink detected: yes\n")[0]["ports"]
    ((row,), conflicts) = merged_rows([link, speed])
    assert (row["device"], row["speed_mbit"], row["link"], conflicts) == ("rocep1s0f1", 200000, True, [])


def test_tools_that_contradict_each_other_are_told() -> None:
    link = parse_ports("link mlx5_0/1 state ACTIVE physical_state LINK_UP netdev ens1\n")[0]["ports"]
    other = parse_ports("link mlx5_0/1 state DOWN physical_state DISABLED netdev ens1\n")[0]["ports"]
    assert merged_rows([link, other])[1] == ["ens1: state is ACTIVE in one and DOWN in another"]
