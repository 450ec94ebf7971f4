# SPDX-License-Identifier: Apache-2.0
"""The same faults in every form of nvidia-smi's output give the same verdicts, and no damage makes a fault right."""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from typing import Any

import pytest
from ansible_collections.firstlight.cluster.plugins.module_utils.gpu.checks.gpus import check_gpus
from ansible_collections.firstlight.cluster.plugins.module_utils.gpu.expected import Expected
from ansible_collections.firstlight.cluster.plugins.module_utils.parsers.query_gpu import parse_query_gpu
from ansible_collections.firstlight.cluster.plugins.module_utils.parsers.reading import Reading
from ansible_collections.firstlight.cluster.plugins.module_utils.parsers.smi_list import parse_smi_list
from ansible_collections.firstlight.cluster.plugins.module_utils.parsers.smi_log import parse_smi_log
from ansible_collections.firstlight.cluster.plugins.module_utils.parsers.smi_table import parse_smi_table
from ansible_collections.firstlight.cluster.plugins.module_utils.parsers.smi_xml import parse_smi_xml
from hypothesis import given
from hypothesis import strategies as st

from tests.unit.examples import examples

from ..smi_texts import COLUMNS, HEALTHY, csv, log, machine, processes, table, xml

H100 = Expected("h100-sxm-8", 8, "NVIDIA H100 80GB HBM3", 81559, power_limit_w=700, compute_capability="9.0")
ONE = Expected("one", 1, "NVIDIA H100 80GB HBM3", 81559, power_limit_w=700, compute_capability="9.0")
GB10 = Expected("gb10", 1, "NVIDIA GB10", None, unified=True, compute_capability="12.1")

Write = Callable[[Sequence[dict[str, str]]], str]
PARSERS: dict[str, Callable[[str], tuple[dict[str, Any], list[str]]]] = {
    "query-gpu": parse_query_gpu,
    "smi-q": parse_smi_log,
    "smi-xml": parse_smi_xml,
    "smi-table": parse_smi_table,
    "smi-list": parse_smi_list,
}
FORMS: dict[str, Write] = {"query-gpu": csv, "smi-q": log, "smi-xml": xml, "smi-table": table}


def evaluated(kind: str, text: str, expected: Expected = H100) -> dict[str, dict[str, Any]]:
    data, problems = PARSERS[kind](text)
    return {one["id"]: one for one in check_gpus([Reading(kind, data, tuple(problems), "file")], expected)}


def verdicts(kind: str, text: str, expected: Expected = H100) -> dict[str, str]:
    return {name: one["verdict"] for name, one in evaluated(kind, text, expected).items()}


@pytest.mark.parametrize("kind", FORMS)
def test_a_healthy_machine_passes_everything(kind: str) -> None:
    found = verdicts(kind, FORMS[kind](machine()))
    assert set(found.values()) == {"pass"}
    assert {"gpu.answer", "gpu.count", "gpu.name", "gpu.memory", "gpu.mig", "gpu.ecc", "gpu.ecc_errors"} <= set(found)
    if kind != "smi-table":
        assert {"gpu.remapped_rows", "gpu.recovery", "gpu.throttle", "gpu.pcie", "gpu.firmware"} <= set(found)


FAULTS = {
    "gpu.name": {"name": "NVIDIA H100 PCIe"},
    "gpu.memory": {"memory": "40960 MiB"},
    "gpu.persistence": {"persistence": "Disabled"},
    "gpu.mig": {"mig": "Enabled", "mig_pending": "Enabled"},
    "gpu.ecc": {"ecc": "Disabled", "ecc_pending": "Disabled"},
    "gpu.ecc_errors": {"errors": "3"},
    "gpu.compute_mode": {"mode": "Prohibited"},
    "gpu.power_limit": {"power": "400.00 W"},
    "gpu.temperature": {"temperature": "93 C"},
    "gpu.remapped_rows": {"pending": "Yes"},
    "gpu.recovery": {"recovery": "Drain and Reset"},
    "gpu.throttle": {"slowdown": "Active"},
    "gpu.pcie": {"width": "8x"},
    "gpu.firmware": {"vbios": "96.00.30.00.01"},
}
NOT_IN_TABLE = {"gpu.remapped_rows", "gpu.recovery", "gpu.throttle", "gpu.pcie", "gpu.firmware"}


@pytest.mark.parametrize("kind", FORMS)
@pytest.mark.parametrize("name", FAULTS)
def test_a_fault_of_one_gpu_fails_its_check_and_names_it(kind: str, name: str) -> None:
    found = evaluated(kind, FORMS[kind](machine(gpu3=FAULTS[name])))
    if kind == "smi-table" and name in NOT_IN_TABLE:
        assert name not in found
        return
    assert found[name]["verdict"] == "fail"
    assert "GPU 3" in found[name]["observed"] or name == "gpu.firmware"
    assert "GPU 2" not in found[name]["observed"]
    assert found[name]["remedy"]
    others = {other: one["verdict"] for other, one in found.items() if other != name}
    assert "fail" not in others.values()


def test_a_safe_command_is_offered_and_only_for_the_product_of_the_profile() -> None:
    assert (
        evaluated("query-gpu", csv(machine(gpu0=FAULTS["gpu.persistence"])))["gpu.persistence"]["command"]
        == "nvidia-smi -pm 1"
    )
    other = {**FAULTS["gpu.name"], **FAULTS["gpu.power_limit"]}
    assert evaluated("query-gpu", csv(machine(gpu0=other)))["gpu.power_limit"]["command"] is None


@pytest.mark.parametrize(
    ("kind", "text"), [("smi-q", log(machine(7))), ("smi-table", table(machine(7))), ("query-gpu", csv(machine(7)))]
)
def test_a_gpu_that_is_missing_fails_the_count(kind: str, text: str) -> None:
    found = evaluated(kind, text)
    assert found["gpu.count"]["verdict"] == "fail"
    assert found["gpu.count"]["observed"] == "7 GPUs"


@pytest.mark.parametrize("kind", ["smi-q", "smi-xml"])
def test_one_of_eight_shown_proves_nothing_about_the_others(kind: str) -> None:
    text = {"smi-q": log, "smi-xml": xml}[kind](machine(1), listed=8)
    assert set(verdicts(kind, text).values()) == {"could_not_check"}


def test_a_table_that_is_cut_proves_nothing_about_the_rest() -> None:
    text = table(machine())
    cut = text[: text.index("|   5  NVIDIA")]
    assert set(verdicts("smi-table", cut).values()) == {"could_not_check"}


def test_the_list_shows_partitions_but_not_that_there_are_none() -> None:
    lines = [f"GPU {index}: NVIDIA H100 80GB HBM3 (UUID: GPU-{index})" for index in range(8)]
    assert verdicts("smi-list", "\n".join(lines)) == {"gpu.answer": "pass", "gpu.count": "pass", "gpu.name": "pass"}
    lines.insert(1, "  MIG 3g.40gb     Device  0: (UUID: MIG-1)")
    assert evaluated("smi-list", "\n".join(lines))["gpu.mig"]["observed"] == "1 MIG device on GPU 0"


def test_a_repeated_query_counts_each_gpu_once() -> None:
    rows = csv(machine(8)).splitlines()
    assert verdicts("query-gpu", "\n".join(rows + rows[1:]))["gpu.count"] == "pass"


@pytest.mark.parametrize(
    ("text", "remedy"),
    [
        ("Failed to initialize NVML: Driver/library version mismatch\n", "reboot the host"),
        ("NVIDIA-SMI has failed because it couldn't communicate with the NVIDIA driver.\n", "modprobe nvidia"),
        ("Unable to determine the device handle for GPU1: 0000:34:00.0: Unknown Error\n", "boot the host cold"),
        ("bash: nvidia-smi: command not found\n", "install the driver's utilities"),
        ("rc=124\n", "Xid 119"),
    ],
)
def test_complaints_fail_with_what_to_do(text: str, remedy: str) -> None:
    found = evaluated("smi-table", text)
    assert found["gpu.answer"]["verdict"] == "fail"
    assert remedy in found["gpu.answer"]["remedy"]
    assert found["gpu.count"]["verdict"] == "could_not_check"


def test_no_devices_are_a_count_too() -> None:
    assert verdicts("smi-q", "No devices were found\n") == {"gpu.answer": "fail", "gpu.count": "fail"}


def test_a_gpu_that_requires_a_reset_fails_its_recovery() -> None:
    found = evaluated("query-gpu", csv(machine(gpu2={"temperature": "[GPU requires reset]"})))
    assert found["gpu.answer"]["verdict"] == found["gpu.recovery"]["verdict"] == "fail"
    assert "GPU 2" in found["gpu.recovery"]["observed"]
    assert found["gpu.temperature"]["verdict"] == "could_not_check"


def test_text_that_is_none_of_it_is_only_could_not_check() -> None:
    for kind in PARSERS:
        assert verdicts(kind, "hello\n") == {"gpu.answer": "could_not_check"}


def test_columns_that_were_not_asked_for_are_not_checked() -> None:
    text = "name, memory.total [MiB]\n" + "NVIDIA H100 80GB HBM3, 81559 MiB\n" * 8
    assert set(verdicts("query-gpu", text)) == {"gpu.answer", "gpu.count", "gpu.name", "gpu.memory"}


def test_a_gpu_without_memory_of_its_own() -> None:
    gpu = {
        **HEALTHY,
        "name": "NVIDIA GB10",
        **dict.fromkeys(("memory", "power", "mig", "mig_pending", "ecc", "errors"), "N/A"),
    }
    gpu |= dict.fromkeys(("ecc_pending", "pending", "failure"), "N/A") | {"width": "1x"}
    for kind, write in FORMS.items():
        found = verdicts(kind, write([gpu]), GB10)
        assert "fail" not in found.values()
        assert "could_not_check" not in found.values()
        absent = {"gpu.memory", "gpu.mig", "gpu.ecc", "gpu.power_limit"}
        assert {name for name in absent if found[name] == "not_applicable"} == absent


def test_a_shortened_name_is_not_the_wrong_one() -> None:
    assert (
        verdicts("smi-table", table(machine(1, gpu0={"name": "NVIDIA H100 80G..."})), ONE)["gpu.name"]
        == "could_not_check"
    )
    assert verdicts("smi-table", table(machine(1, gpu0={"name": "NVIDIA A100-SX..."})), ONE)["gpu.name"] == "fail"


def test_what_the_gpu_looks_like_is_said() -> None:
    found = evaluated("smi-table", table(machine(1, gpu0={"name": "NVIDIA GB10"})), ONE)
    assert "DGX Spark" in found["gpu.name"]["observed"]


def test_programs_that_draw_are_right_and_those_that_compute_are_not() -> None:
    text = table(machine(1))
    start = text[: text.index("| Processes") - 92]
    draws = "|    0   N/A  N/A            2747      G   /usr/lib/xorg/Xorg                       18MiB |"
    counts = "|    0   N/A  N/A            4242      C   ./gpu_burn                             1024MiB |"
    serves = "|    0   N/A  N/A            4243      C   VLLM::Worker_TP0                       1024MiB |"
    python = "|    0   N/A  N/A            4244      C   /usr/bin/python3                       1024MiB |"
    for rows, verdict in (
        ((draws,), "pass"),
        ((draws, counts), "fail"),
        ((serves, python), "could_not_check"),  # right while a model is served, and left over otherwise
        ((serves, counts), "fail"),
    ):
        found = evaluated("smi-table", start + "\n" + "\n".join(processes(*rows)), ONE)["gpu.processes"]
        assert found["verdict"] == verdict
    assert found["observed"] == "GPU 0: VLLM::Worker_TP0 (4243); GPU 0: ./gpu_burn (4242)"


@pytest.mark.parametrize("masked", ["GPU-00000000-0000-0000-0000-000000000000", "GPU-xxxxxxxx-xxxx", "GPU-<masked>"])
def test_masked_uuids_make_no_gpus_disappear(masked: str) -> None:
    rows = [f"{place}, NVIDIA H100 80GB HBM3, {masked}, 81559 MiB" for place in range(8)]
    text = "\n".join(["index, name, uuid, memory.total [MiB]", *rows]) + "\n"
    assert set(verdicts("query-gpu", text).values()) == {"pass"}
    alone = "\n".join(["name, uuid", *[f"NVIDIA H100 80GB HBM3, {masked}"] * 8]) + "\n"
    assert verdicts("query-gpu", alone)["gpu.count"] == "pass"
    listed = "".join(f"GPU {place}: NVIDIA H100 80GB HBM3 (UUID: {masked})\n" for place in range(8))
    assert verdicts("smi-list", listed)["gpu.count"] == "pass"


def test_a_query_that_repeats_itself_shows_no_more_gpus() -> None:
    text = "index, uuid, name\n" + "0, GPU-1a, NVIDIA H100 80GB HBM3\n" * 8
    assert verdicts("query-gpu", text)["gpu.count"] == "fail"
    assert verdicts("query-gpu", "index, name\n" + "0, NVIDIA H100 80GB HBM3\n" * 8)["gpu.count"] == "fail"


def test_a_masked_version_leaves_only_the_firmware_untold() -> None:
    text = "index, name, vbios_version\n0, NVIDIA H100 80GB HBM3, [REDACTED]\n"
    found = verdicts("query-gpu", text, ONE)
    assert (found["gpu.answer"], found["gpu.firmware"]) == ("pass", "could_not_check")


def test_the_power_limit_as_driver_610_tells_it() -> None:
    limit = "        GPU Ceiling Power Limit\n            Current Power Limit  : 500.00 W\n"
    text = f"Attached GPUs : 1\nGPU 00000000:19:00.0\n    GPU Power Readings\n{limit}    Processes : None\n"
    assert evaluated("smi-q", text, ONE)["gpu.power_limit"]["observed"] == "GPU 0: 500 W"
    text = (
        '<nvidia_smi_log><attached_gpus>1</attached_gpus><gpu id="00000000:19:00.0"><gpu_power_readings>'
        "<gpu_ceiling_power_limit><current_power_limit>500 W</current_power_limit></gpu_ceiling_power_limit>"
        "</gpu_power_readings></gpu></nvidia_smi_log>\n"
    )
    assert evaluated("smi-xml", text, ONE)["gpu.power_limit"]["observed"] == "GPU 0: 500 W"


def test_a_container_that_has_lost_its_gpus() -> None:
    found = evaluated("smi-table", "Failed to initialize NVML: Unknown Error\n")["gpu.answer"]
    assert found["verdict"] == "fail"
    assert "container" in found["remedy"]


def test_a_corrupted_inforom_fails_the_firmware() -> None:
    text = table(machine()) + "WARNING: infoROM is corrupted at gpu 0000:19:00.0\n"
    assert verdicts("smi-table", text)["gpu.firmware"] == "fail"


def test_errors_of_the_past_are_mentioned_and_no_fault() -> None:
    text = "index, ecc.errors.uncorrected.volatile.total, ecc.errors.uncorrected.aggregate.total\n0, 0, 71\n"
    found = evaluated("query-gpu", text, ONE)["gpu.ecc_errors"]
    assert (found["verdict"], found["observed"]) == ("pass", "0, and 71 over its lifetime")


def test_an_idle_gpu_may_lower_its_generation_and_a_busy_one_not() -> None:
    head = "index, pcie.link.width.current, pcie.link.gen.current, pcie.link.gen.max, utilization.gpu [%]\n"
    assert verdicts("query-gpu", head + "0, 16, 1, 5, 0 %\n", ONE)["gpu.pcie"] == "pass"
    assert verdicts("query-gpu", head + "0, 16, 1, 5, 100 %\n", ONE)["gpu.pcie"] == "fail"


@examples(80)
@given(st.sampled_from(sorted(FORMS)), st.sampled_from([None, *FAULTS]), st.data())
def test_no_damage_makes_a_fault_right(kind: str, fault: str | None, data: st.DataObject) -> None:
    gpus = machine(2, gpu1=FAULTS[fault]) if fault else machine(2)
    two = Expected("two", 2, "NVIDIA H100 80GB HBM3", 81559, power_limit_w=700)
    text = FORMS[kind](gpus)
    right = {name for name, verdict in verdicts(kind, text, two).items() if verdict == "pass"}
    lines = text.splitlines(keepends=True)
    how = data.draw(st.sampled_from(["end", "begin", "drop", "bytes", "cut"]))
    place = data.draw(st.integers(0, len(lines) - 1))
    if how == "end":
        text = "".join(lines[:place])
    elif how == "begin":
        text = "".join(lines[place:])
    elif how == "drop":
        text = "".join(lines[:place] + lines[place + 1 :])
    elif how == "cut":
        text = text[: data.draw(st.integers(0, len(text)))]
    else:
        chance = random.Random(data.draw(st.integers(0, 1 << 30)))
        for _ in range(20):
            at = chance.randrange(len(text))
            text = text[:at] + chr(chance.randrange(1, 256)) + text[at + 1 :]
    now = {name for name, verdict in verdicts(kind, text, two).items() if verdict == "pass"}
    assert now <= right


@examples(20)
@given(st.permutations(range(len(COLUMNS))))
def test_the_order_of_columns_changes_nothing(order: list[int]) -> None:
    gpus = machine(gpu5=FAULTS["gpu.mig"])
    assert verdicts("query-gpu", csv(gpus, order)) == verdicts("query-gpu", csv(gpus))


def test_one_gpu_that_tells_nothing_where_the_others_do_is_not_passed_over() -> None:
    rows = [f"{place}, NVIDIA H100 80GB HBM3, 31, Disabled" for place in range(8)]
    rows[3] = "3, NVIDIA H100 80GB HBM3, [N/A], [N/A]"
    found = evaluated("query-gpu", "\n".join(["index, name, temperature.gpu, mig.mode.current", *rows]) + "\n")
    for name in ("gpu.temperature", "gpu.mig"):
        assert (found[name]["verdict"], found[name]["observed"][:5]) == ("could_not_check", "GPU 3")
