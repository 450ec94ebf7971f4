# SPDX-License-Identifier: Apache-2.0
"""Captures joined into one row a port, and what is said of them."""

from __future__ import annotations

import dataclasses
import json
from pathlib import Path
from typing import Any

import pytest
from ansible_collections.firstlight.cluster.plugins.module_utils.fabric.read import (
    expected_of,
    is_right,
    looks_like_twins,
    read,
)
from ansible_collections.firstlight.cluster.plugins.module_utils.fabric.read_checks import Expected
from hypothesis import given
from hypothesis import strategies as st

CAPTURES = Path(__file__).resolve().parents[4] / "fixtures" / "fabric-captures"
SPARK = Expected(
    "gb10",
    200000,
    ("enp1s0f0np0", "enP2p1s0f0np0", "enp1s0f1np1", "enP2p1s0f1np1"),
    halves=True,
)
NOTHING = Expected()


def capture(name: str) -> str:
    return (CAPTURES / f"{name}.txt").read_text(encoding="utf-8")


def said(document: dict[str, Any]) -> list[tuple[str, str]]:
    return [(one["level"], one["id"]) for one in document["findings"]]


def spark(**states: str) -> str:
    """`rdma link` of a GB10 system; ports are active unless told otherwise (f0, f0b, f1, f1b: function, half)."""
    lines = []
    for key, path in (("f0", "p1s0f0"), ("f0b", "P2p1s0f0"), ("f1", "p1s0f1"), ("f1b", "P2p1s0f1")):
        state = states.get(key, "ACTIVE physical_state LINK_UP")
        lines.append(f"link roce{path}/1 state {state} netdev en{path}np{path[-1]}\n")
    return "".join(lines)


DOWN = "DOWN physical_state DISABLED"


def test_a_spark_that_is_right() -> None:
    document = read([capture("spark-right")], SPARK)
    assert is_right(document)
    assert said(document) == [("note", "cage.dark")]
    assert "normal for the cage without a cable" in document["findings"][0]["found"]
    row = next(one for one in document["ports"] if one["netdev"] == "enp1s0f1np1")
    assert (row["device"], row["speed_mbit"], row["active_mtu"], row["cage"]) == ("rocep1s0f1", 200000, 4096, 1)
    assert (row["firmware"], row["link_layer"], row["state"]) == ("28.45.4028", "Ethernet", "ACTIVE")
    assert document["tools"] == ["rdma link", "ibv_devinfo", "ethtool"]


def test_a_spark_whose_switch_negotiated_half() -> None:
    document = read([capture("spark-100g")], SPARK)
    assert said(document) == [("wrong", "speed.low"), ("wrong", "mtu.rdma"), ("note", "cage.dark")]
    speed, mtu, _ = document["findings"]
    assert speed["found"] == (
        "enp1s0f1np1, enP2p1s0f1np1 are at 100000 Mb/s, expected 200000: the switch port negotiated 100G"
    )
    assert speed["remedy"] == "set it to 200G (200G-baseCR4), autonegotiation and FEC on the switch"
    assert mtu["found"].endswith("is 1024, expected 4096: the port MTU is 1500")
    assert not is_right(document)


def test_a_speed_that_the_profile_lets_pass_is_a_note_with_its_cost() -> None:
    slower = dataclasses.replace(SPARK, slower=((100000, "3 % slower"),))
    document = read([spark(f0=DOWN, f0b=DOWN), "Settings for enp1s0f1np1:\n\tSpeed: 100000Mb/s\n"], slower)
    assert is_right(document)
    (found,) = [one for one in document["findings"] if one["id"] == "speed.slower"]
    assert found["level"] == "note"
    assert found["found"].endswith("the switch port negotiated 100G, which serves: 3 % slower")
    assert "set it to 200G" in found["remedy"]
    other = dataclasses.replace(SPARK, slower=((50000, "slower"),))
    assert not is_right(read([spark(f0=DOWN, f0b=DOWN), "Settings for enp1s0f1np1:\n\tSpeed: 100000Mb/s\n"], other))


def test_half_a_cage_no_cage_and_all_of_them() -> None:
    half = read([spark(f0=DOWN, f0b=DOWN, f1b=DOWN)], SPARK)
    assert said(half) == [("wrong", "cage.half"), ("note", "cage.dark")]
    assert half["findings"][0]["ports"] == ["enP2p1s0f1np1"]
    assert "only one half of cage 1 is up" in half["findings"][0]["found"]
    none = read([spark(f0=DOWN, f0b=DOWN, f1=DOWN, f1b=DOWN)], SPARK)
    assert said(none) == [("wrong", "cage.none")]
    assert said(read([spark()], SPARK)) == []


def test_an_hgx_board_by_its_own_measure() -> None:
    document = read([capture("hgx-ibstat")], NOTHING)
    found = {one["id"]: one for one in document["findings"] if one["level"] == "wrong"}
    assert found["port.down"]["ports"] == ["mlx5_6"]
    assert found["speed.mixed"]["ports"] == ["mlx5_5"]
    assert "28.39.1002 on mlx5_3" in found["firmware.mixed"]["found"]
    assert [one["ports"] for one in document["findings"] if one["level"] == "note"] == [["mlx5_9"]]
    assert [row["device"] for row in document["ports"]] == [f"mlx5_{number}" for number in range(10)]


def ibstatus(device: str, rate: int, layer: str = "InfiniBand", state: str = "4: ACTIVE") -> str:
    return (
        f"Infiniband device '{device}' port 1 status:\n\tstate:\t\t {state}\n\trate:\t\t {rate} Gb/sec (4X)\n"
        f"\tlink_layer:\t {layer}\n"
    )


def test_cards_whose_type_is_not_told() -> None:
    storage = read(["".join(ibstatus(f"mlx5_{n}", 400 if n < 8 else 100) for n in range(10))], NOTHING)
    assert ("note", "speed.mixed") in said(storage)
    assert is_right(storage)
    odd = read(["".join(ibstatus(f"mlx5_{n}", 400 if n else 200) for n in range(8))], NOTHING)
    assert ("wrong", "speed.mixed") in said(odd)


def test_link_layers() -> None:
    assert said(read([ibstatus("mlx5_0", 200)], NOTHING)) == [("note", "layer.infiniband")]
    mixed = read([ibstatus("mlx5_0", 200) + ibstatus("mlx5_1", 200, "Ethernet")], NOTHING)
    assert said(mixed) == [("note", "layer.mixed")]
    assert said(read([spark() + ibstatus("rocep1s0f1", 200)], SPARK)) == [("wrong", "layer.infiniband")]


def test_a_subnet_manager_that_is_missing() -> None:
    document = read([ibstatus("mlx5_0", 200, state="2: INIT")], NOTHING)
    assert said(document)[0] == ("wrong", "port.init")
    assert "subnet manager" in document["findings"][0]["found"]


def test_the_port_s_mtu_where_the_rdma_mtu_is_not_told() -> None:
    text = spark(f0=DOWN, f0b=DOWN) + "$ ip link\n4: enp1s0f1np1: <UP,LOWER_UP> mtu 1500 qdisc mq state UP\n"
    document = read([text], SPARK)
    assert said(document)[0] == ("wrong", "mtu.port")
    assert "is 1500, so the RDMA MTU is at most 1024" in document["findings"][0]["found"]


def test_autonegotiation_off_is_named() -> None:
    text = spark(f0=DOWN, f0b=DOWN) + "Settings for enp1s0f1np1:\n\tSpeed: 100000Mb/s\n\tAuto-negotiation: off\n"
    assert "`ethtool -s PORT autoneg on`" in read([text], SPARK)["findings"][0]["remedy"]


def test_speed_told_twice() -> None:
    text = "".join(f"$ ethtool enp1s0f1np1 | grep Speed\n\tSpeed: {speed}Mb/s\n" for speed in (100000, 200000))
    document = read([text], SPARK)
    assert is_right(document)
    assert "100000 Mb/s first and 200000 Mb/s last" in document["findings"][0]["found"]


def test_files_and_hosts() -> None:
    parts = [spark(f0=DOWN, f0b=DOWN), "Settings for enp1s0f1np1:\n\tSpeed: 100000Mb/s\n"]
    assert ("wrong", "speed.low") in said(read(parts, SPARK))
    two = "".join(
        f"u@spark{number}:~$ ibdev2netdev -v\n"
        f"0000:01:00.1 rocep1s0f1 (MT4129 - X) NIC fw 28.4{number}.1000 port 1 (ACTIVE) ==> enp1s0f1np1 (Up)\n"
        for number in (0, 1)
    )
    document = read([two], NOTHING)
    assert [row["host"] for row in document["ports"]] == ["spark0", "spark1"]
    assert document["findings"][0]["found"] == (
        "firmware of enp1s0f1np1 differs: 28.40.1000 on spark0; 28.41.1000 on spark1"
    )
    slow = two.replace("u@spark1", "x\n") + "u@spark1:~$ ethtool enp1s0f1np1 | grep Speed\n Speed: 40000Mb/s\n"
    assert any(one["found"].startswith("spark1: enp1s0f1np1 is at 40000") for one in read([slow], SPARK)["findings"])


def test_names_of_one_function_belong_together() -> None:
    text = ibstatus("rocep1s0f1", 200, "Ethernet") + "Settings for enp1s0f1np1:\n\tSpeed: 200000Mb/s\n"
    (row,) = read([text], SPARK)["ports"]
    assert (row["device"], row["netdev"], row["rate_gbit"], row["speed_mbit"]) == (
        "rocep1s0f1",
        "enp1s0f1np1",
        200,
        200000,
    )


def test_ip_alone_is_enough_for_ports_that_are_known() -> None:
    text = "lo UNKNOWN 127.0.0.1/8\nenP7s7 UP 10.0.0.1/24\nenp1s0f1np1 UP\nenP2p1s0f1np1 UP\nwlP9s9 DOWN\n"
    assert [row["netdev"] for row in read([text], SPARK)["ports"]] == ["enp1s0f1np1", "enP2p1s0f1np1"]
    assert looks_like_twins([spark()])
    assert not looks_like_twins([capture("hgx-ibstat")])


@pytest.mark.parametrize("text", ["", "\n", "nothing of the kind", "Speed"])
def test_nothing_is_read_from_nothing(text: str) -> None:
    assert read([text], SPARK)["tools"] == []


def test_what_a_profile_says() -> None:
    ports = [{"port": name, "speed_mbit": 200000} for name in SPARK.ports]
    assert expected_of("gb10", {"rdma": True, "ports": ports}) == SPARK
    ports[0]["speed_mbit"] = 100000
    assert expected_of("gb10", {"ports": ports}).speed_mbit is None
    assert expected_of("h100", {"rdma": False, "ports": []}) == Expected("h100")


LINES = [line + "\n" for name in ("spark-100g", "hgx-ibstat", "spark-half") for line in capture(name).splitlines()]


@given(
    st.lists(st.one_of(st.sampled_from(LINES), st.text(max_size=10)), max_size=40), st.sampled_from([SPARK, NOTHING])
)
def test_any_mix_of_lines_is_evaluated(lines: list[str], expected: Expected) -> None:
    document = read(["".join(lines)], expected)
    json.dumps(document)
    assert all(one["found"] and "\n" not in one["found"] for one in document["findings"])


@given(st.permutations(capture("spark-right").split("$ ")[1:]))
def test_the_order_of_the_commands_does_not_matter(parts: list[str]) -> None:
    document = read(["".join(f"$ {part}" for part in parts)], SPARK)
    assert document["ports"] == read([capture("spark-right")], SPARK)["ports"]
    assert is_right(document)
