# SPDX-License-Identifier: Apache-2.0
"""What a machine prints of itself, and what it is by that."""

from __future__ import annotations

import subprocess
from dataclasses import replace

import pytest
from ansible_collections.firstlight.cluster.plugins.module_utils.parsers.serial import parse_serial
from ansible_collections.firstlight.cluster.plugins.plugin_utils.catalog.load import BUILT_IN, load_catalog
from hypothesis import given
from hypothesis import strategies as st

from firstlight.discover.hardware import cages, contradictions, profile_of
from firstlight.discover.probe import (
    SCRIPT,
    Link,
    Machine,
    ProbeError,
    read_firmware,
    read_machine,
    sections,
)
from firstlight_lab.captures import captures

PROFILES = load_catalog([BUILT_IN])["hardware"]
RECORDED = """
@@firstlight hostname
spark0

@@firstlight architecture
aarch64

@@firstlight boot
6f6c3a3e-6f0b-4f3f-9d6c-0a6f3c1d2e4b

@@firstlight os
PRETTY_NAME="Ubuntu 24.04.3 LTS"
NAME="Ubuntu"
VERSION_ID="24.04"

@@firstlight virtual

@@firstlight vendor
NVIDIA

@@firstlight product
NVIDIA_DGX_Spark

@@firstlight serial

@@firstlight python
3.12.3

@@firstlight pci
000f:01:00.0 0302: 10de:2e12

@@firstlight gpus
GPU 0: NVIDIA GB10 (UUID: GPU-11111111-2222-3333-4444-555555555555)

@@firstlight topology
	GPU0	CPU Affinity	NUMA Affinity	GPU NUMA ID
GPU0	 X 	0-19	0		N/A

@@firstlight links
lo 00:00:00:00:00:00 1 -
enP7s7 02:42:AC:1D:02:0a 1 1000
enp1s0f0np0 02:42:ac:1d:02:10 0 -1
enp1s0f1np1 02:42:ac:1d:02:11 1 200000
enP2p1s0f1np1 02:42:ac:1d:02:12 - -
odd line

@@firstlight route
10.0.0.1 dev enP7s7 src 10.0.0.5 uid 1000
    cache

@@firstlight lldp
{"lldp": {"interface": {"enp1s0f1np1": {"chassis": {"leaf1": {"id": {}}}, "port": {"descr": "swp7"}}}}}

@@firstlight end
"""


def test_a_recorded_machine() -> None:
    machine = read_machine(RECORDED)
    assert (machine.hostname, machine.architecture, machine.os) == ("spark0", "aarch64", "Ubuntu 24.04.3 LTS")
    assert (machine.product, machine.serial, machine.python) == ("NVIDIA_DGX_Spark", None, "3.12.3")
    assert (machine.gpu_count, machine.gpu_names, machine.nvswitches) == (1, ("NVIDIA GB10",), 0)
    assert (machine.pair, machine.virtual) == (None, False)
    assert read_machine(RECORDED.replace("virtual\n", "virtual\nhypervisor\n")).virtual
    assert machine.mac == "02:42:ac:1d:02:0a"
    assert [link.name for link in machine.links] == ["enP7s7", "enp1s0f0np0", "enp1s0f1np1", "enP2p1s0f1np1"]
    assert machine.links[2] == Link("enp1s0f1np1", "02:42:ac:1d:02:11", True, 200000, "leaf1 swp7")
    assert profile_of(machine, PROFILES) == "gb10"
    assert cages(machine, PROFILES["gb10"]) == {0: "empty", 1: "cabled"}


@pytest.mark.parametrize(
    ("profile", "faults", "pair"),
    [
        ("h100-sxm-4", (), "NV6"),
        ("h100-sxm-4-partition", (), "NV18"),
        ("h100-sxm-8", ("nvlink_inactive:gpu=3,links=7",), None),
        ("gb10", (), None),
    ],
)
def test_the_way_between_the_gpus(profile: str, faults: tuple[str, ...], pair: str | None) -> None:
    matrix = captures(profile, faults)["topo"].text
    assert read_machine(f"\n@@firstlight topology\n{matrix}\n\n@@firstlight end\n").pair == pair
    cut = matrix[: len(matrix) // 9]
    assert read_machine(f"\n@@firstlight topology\n{cut}\n\n@@firstlight end\n").pair is None


def test_half_an_answer_is_none() -> None:
    with pytest.raises(ProbeError, match="truncated"):
        read_machine(RECORDED.replace("@@firstlight end", ""))


def test_the_script_needs_a_shell_and_nothing_else() -> None:
    done = subprocess.run(
        ["/bin/sh", "-c", SCRIPT], capture_output=True, text=True, check=False, env={"PATH": "/nowhere"}
    )
    assert set(sections(done.stdout)) == set(sections(RECORDED))
    read_machine(done.stdout)


def test_this_machine_can_be_read() -> None:
    done = subprocess.run(["/bin/sh", "-c", SCRIPT], capture_output=True, text=True, check=False)
    machine = read_machine(done.stdout)
    assert machine.hostname
    assert machine.boot
    assert machine.os


@pytest.mark.parametrize(
    "text", ["", None, "None", "Default string", "To be filled by O.E.M.", "0000000000", "N/A", "0123456789"]
)
def test_what_firmware_prints_for_nobody_is_no_serial(text: str | None) -> None:
    assert parse_serial(text) is None


@pytest.mark.hostile
@pytest.mark.parametrize("text", ["\x1b]0;pwned\x07", "S1\u202e", "9" * 500])
def test_what_no_sticker_says_is_no_serial(text: str) -> None:
    assert parse_serial(text) is None


def test_the_serial_that_only_root_reads() -> None:
    said = "\n@@firstlight serial\n1983925012345\n\n@@firstlight product\nDGX\n\n@@firstlight end\n"
    assert read_firmware(said) == {"serial": "1983925012345", "product": "DGX"}


@given(st.text(max_size=300))
def test_any_answer_is_read_or_refused(noise: str) -> None:
    for name in sections(RECORDED):
        if name != "end":
            read_machine(f"\n@@firstlight {name}\n{noise}\n\n@@firstlight end\n")


H100 = "NVIDIA H100 80GB HBM3"


@pytest.mark.parametrize(
    ("machine", "expected"),
    [
        (Machine(gpu_count=8, gpu_names=(H100,) * 8, nvswitches=4), "h100-sxm-8"),
        (Machine(gpu_count=4, gpu_names=(H100,) * 4, nvswitches=4), "h100-sxm-4-nvswitch"),
        (Machine(gpu_count=4, gpu_names=(H100,) * 4, pair="NV6"), "h100-sxm-4"),
        (Machine(gpu_count=4, gpu_names=(H100,) * 4, pair="NV18"), "h100-sxm-4-partition"),
        (Machine(gpu_count=4, gpu_names=(H100,) * 4), None),
        (Machine(gpu_count=4, gpu_names=(H100,) * 4, nvswitches=4, pair="NV18"), "h100-sxm-4-nvswitch"),
        (Machine(gpu_count=8, gpu_names=(H100,) * 8, nvswitches=4, pair="NV14"), "h100-sxm-8"),
        (Machine(gpu_count=1), None),
        (Machine(gpu_count=3, gpu_names=(H100,) * 3), None),
        (Machine(), None),
    ],
)
def test_the_profile_of_a_machine(machine: Machine, expected: str | None) -> None:
    assert profile_of(machine, PROFILES) == expected


@pytest.mark.parametrize(
    ("machine", "expected"),
    [
        (Machine(gpu_count=1, gpu_names=("NVIDIA GB10",)), []),
        (Machine(gpu_count=1), []),
        (Machine(), ["0 GPUs, not 1"]),
        (Machine(gpu_count=1, gpu_names=(H100,)), [f"{H100}, not NVIDIA GB10"]),
        (Machine(gpu_count=1, nvswitches=2), ["2 NVSwitches"]),
    ],
)
def test_what_cannot_be_a_spark(machine: Machine, expected: list[str]) -> None:
    assert contradictions(machine, PROFILES["gb10"]) == expected


@pytest.mark.parametrize("profile", ["h100-sxm-8", "h100-sxm-4-nvswitch", "h100-sxm-4-partition"])
def test_the_switches_of_a_guest_may_be_its_host_s(profile: str) -> None:
    """A machine of its own that has none is another one, or a sick one; of a guest nobody knows yet."""
    entry = PROFILES[profile]
    guest = Machine(gpu_count=entry["gpus"], gpu_names=(H100,) * entry["gpus"], virtual=True)
    assert contradictions(guest, entry) == []
    own = replace(guest, virtual=False)
    assert contradictions(own, entry) == ([] if profile == "h100-sxm-4-partition" else ["no NVSwitches"])
    whole = replace(guest, nvswitches=4)
    assert contradictions(whole, entry) == (["4 NVSwitches"] if profile == "h100-sxm-4-partition" else [])
    assert profile_of(replace(guest, pair="NV18"), PROFILES) in (None, "h100-sxm-4-partition")


def test_a_machine_without_the_ports_has_no_cages() -> None:
    empty: dict[int, str] = {}
    assert cages(Machine(), PROFILES["gb10"]) == cages(read_machine(RECORDED), None) == empty
