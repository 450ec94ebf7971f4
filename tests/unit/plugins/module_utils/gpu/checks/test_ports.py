# SPDX-License-Identifier: Apache-2.0
"""Checks of fabric ports: GB10 cages by the profile, other hardware by most ports of a kind."""

from __future__ import annotations

from typing import Any

import pytest
from ansible_collections.firstlight.cluster.plugins.module_utils.gpu.checks.ports import check_ports
from ansible_collections.firstlight.cluster.plugins.module_utils.gpu.expected import Expected, expected_of
from ansible_collections.firstlight.cluster.plugins.module_utils.gpu.kinds import read
from ansible_collections.firstlight.cluster.plugins.plugin_utils.catalog import load as catalogs
from hypothesis import given
from hypothesis import strategies as st

from tests.unit.examples import examples

HARDWARE: dict[str, Any] = catalogs.load_catalog([catalogs.BUILT_IN])["hardware"]
GB10 = expected_of("gb10", HARDWARE["gb10"])
H100 = expected_of("h100-sxm-8", HARDWARE["h100-sxm-8"])
TWINS = ("p1s0f1", "P2p1s0f1")
OTHERS = ("p1s0f0", "P2p1s0f0")


def rdma_link(*up: str, down: tuple[str, ...] = ()) -> str:
    lines = [
        f"link roce{one}/1 state {'ACTIVE physical_state LINK_UP' if one in up else 'DOWN physical_state DISABLED'} "
        f"netdev en{one}np{one[-1]}"
        for one in (*up, *down)
    ]
    return "\n".join(lines) + "\n"


def ethtool(port: str, speed: str = "200000Mb/s", link: str = "yes") -> str:
    return f"Settings for {port}:\n\tSpeed: {speed}\n\tAuto-negotiation: on\n\tLink detected: {link}\n"


def ibstat(*ports: tuple[str, str, int], firmware: str = "28.39.1002") -> str:
    return "".join(
        f"CA '{name}'\n\tCA type: MT4129\n\tNumber of ports: 1\n\tFirmware version: {firmware}\n\tPort 1:\n"
        f"\t\tState: {state}\n\t\tPhysical state: {'LinkUp' if state == 'Active' else 'Disabled'}\n\t\tRate: {rate}\n"
        "\t\tLink layer: InfiniBand\n"
        for name, state, rate in ports
    )


def checked(expected: Expected, *captures: tuple[str, str]) -> dict[str, dict[str, Any]]:
    readings = [read(kind, text, f"{number}.txt") for number, (kind, text) in enumerate(captures)]
    return {check["id"]: check for check in check_ports(readings, expected)}


def told(expected: Expected, *captures: tuple[str, str]) -> dict[str, str]:
    return {name: check["verdict"] for name, check in checked(expected, *captures).items()}


def test_no_reading_of_a_port_is_no_check() -> None:
    assert check_ports([read("ray-status", "")], GB10) == []


def test_one_cable_is_right_on_a_gb10() -> None:
    checks = checked(GB10, ("rdma-link", rdma_link(*TWINS, down=OTHERS)))
    assert {name: one["verdict"] for name, one in checks.items()} == {"port.state": "pass"}
    assert "normal for the cage without a cable" in checks["port.state"]["observed"]


def test_half_a_cage_fails() -> None:
    check = checked(GB10, ("rdma-link", rdma_link("p1s0f1", down=("P2p1s0f1",))))["port.state"]
    assert check["verdict"] == "fail"
    assert "enP2p1s0f1np1" in check["observed"]
    assert check["remedy"]


def test_a_twin_that_is_not_shown_leaves_the_cage_in_doubt() -> None:
    check = checked(GB10, ("rdma-link", rdma_link("p1s0f1", down=OTHERS)))["port.state"]
    assert (check["verdict"], check["observed"]) == (
        "could_not_check",
        "enP2p1s0f1np1, the other half of cage 1, is not shown",
    )


def test_no_link_at_all_fails() -> None:
    assert told(GB10, ("rdma-link", rdma_link(down=(*TWINS, *OTHERS)))) == {"port.state": "fail"}


def test_the_speed_of_each_port_from_a_file_of_its_own() -> None:
    files = [("ethtool", ethtool(port)) for port in ("enp1s0f1np1", "enP2p1s0f1np1")]
    dark = [("ethtool", ethtool(port, "Unknown!", "no")) for port in ("enp1s0f0np0", "enP2p1s0f0np0")]
    assert told(GB10, *files, *dark) == {"port.state": "pass", "port.speed": "pass"}


@pytest.mark.parametrize(("speed", "verdict"), [("100000", "pass"), ("40000", "fail")])
def test_a_switch_port_at_100g_serves_and_at_40g_does_not(speed: str, verdict: str) -> None:
    files = [("ethtool", ethtool(port, f"{speed}Mb/s")) for port in ("enp1s0f1np1", "enP2p1s0f1np1")]
    check = checked(GB10, *files)["port.speed"]
    assert check["verdict"] == verdict
    assert f"{speed} Mb/s, expected 200000" in check["observed"]
    assert ("about 3 % slower" in check["observed"]) == (verdict == "pass")
    assert "0.txt, 1.txt" in check["source"]


def test_before_and_after_in_one_capture_is_in_doubt() -> None:
    text = ethtool("enp1s0f1np1", "100000Mb/s") + ethtool("enp1s0f1np1")
    assert told(GB10, ("ethtool", text))["port.speed"] == "could_not_check"


def test_infiniband_fails_on_hardware_that_has_none() -> None:
    text = ibstat(("rocep1s0f1", "Active", 200), ("roceP2p1s0f1", "Active", 200))
    assert told(GB10, ("ibstat", text))["port.layer"] == "fail"


def test_eight_equal_ports_are_right() -> None:
    text = ibstat(*((f"mlx5_{number}", "Active", 400) for number in range(8)))
    assert told(H100, ("ibstat", text)) == {
        "port.state": "pass",
        "port.speed": "pass",
        "port.firmware": "pass",
    }


def test_one_of_eight_that_is_down_fails() -> None:
    ports = [(f"mlx5_{number}", "Down" if number == 3 else "Active", 400) for number in range(8)]
    check = checked(H100, ("ibstat", ibstat(*ports)))["port.state"]
    assert check["verdict"] == "fail"
    assert "mlx5_3" in check["observed"]


def test_one_of_eight_that_is_slow_fails() -> None:
    ports = [(f"mlx5_{number}", "Active", 200 if number == 3 else 400) for number in range(8)]
    assert told(H100, ("ibstat", ibstat(*ports)))["port.speed"] == "fail"


def test_another_firmware_fails() -> None:
    text = ibstat(("mlx5_0", "Active", 400)) + ibstat(("mlx5_1", "Active", 400), firmware="28.40.1000")
    assert told(H100, ("ibstat", text))["port.firmware"] == "fail"


def test_a_port_without_a_link_fails_where_the_profile_has_no_spare_ones() -> None:
    text = "mlx5_0 port 1 ==> ens1 (Up)\nmlx5_1 port 1 ==> ens2 (Down)\n"
    assert told(H100, ("ibdev2netdev", text)) == {"port.state": "fail"}


def test_tools_that_contradict_each_other_are_in_doubt() -> None:
    captures = (
        ("rdma-link", "link mlx5_0/1 state ACTIVE netdev ens1\n"),
        ("ibdev2netdev", "mlx5_0 port 1 ==> ens1 (Down)\n"),
    )
    assert told(H100, *captures) == {"port.state": "could_not_check"}


def test_a_small_rdma_mtu_fails() -> None:
    text = "hca_id:\tmlx5_0\n\t\tport:\t1\n\t\t\tstate:\tPORT_ACTIVE (4)\n\t\t\tactive_mtu:\t1024 (3)\n"
    assert told(H100, ("ibstat", text))["port.mtu"] == "fail"


HALF = rdma_link("p1s0f1", down=("P2p1s0f1", *OTHERS))


@given(st.permutations(HALF.splitlines(keepends=True)), st.integers(0, len(HALF)), st.text("\n\t x:0/\x1b", max_size=3))
@examples(80)
def test_no_damage_makes_half_a_cage_right(lines: list[str], place: int, noise: str) -> None:
    text = "".join(lines)
    for damaged in (text[:place], text[place:], text[:place] + noise + text[place:], text[:place] + text[place + 1 :]):
        assert told(GB10, ("rdma-link", damaged)).get("port.state") != "pass"


def test_the_whole_output_of_ethtool_has_other_lines_about_links() -> None:
    text = ethtool("ens801f0np0", "400000Mb/s").replace("\tSpeed", "\tLink partner advertised FEC modes: RS\n\tSpeed")
    assert told(H100, ("ethtool", text))["port.state"] == "pass"


def test_a_device_that_ibstat_could_not_ask_leaves_the_ports_in_doubt() -> None:
    ports = ibstat(("mlx5_6", "Active", 400), ("mlx5_7", "Active", 400))
    text = ports + "ibpanic: [13] main: stat of IB device 'mlx5_8' failed: No such file\n"
    found = checked(H100, ("ibstat", text))
    assert {one["verdict"] for one in found.values()} == {"could_not_check"}
    assert "mlx5_8" in found["port.state"]["observed"]


def test_infiniband_without_ip_may_well_have_a_link() -> None:
    text = "mlx5_0 port 1 ==> ibp26s0 (Down)\nmlx5_1 port 1 ==> enp27s0f0np0 (Up)\n"
    assert told(H100, ("ibdev2netdev", text))["port.state"] == "could_not_check"
    assert told(H100, ("ibdev2netdev", text.replace("ibp26s0", "enp26s0")))["port.state"] == "fail"
    assert told(H100, ("ibdev2netdev", text.replace("1 ==> ibp", "1 (DOWN  ) ==> ibp")))["port.state"] == "fail"
