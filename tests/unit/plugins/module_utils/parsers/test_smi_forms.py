# SPDX-License-Identifier: Apache-2.0
"""The forms in which nvidia-smi tells of GPUs, and what people and terminals make of them."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest
from ansible_collections.firstlight.cluster.plugins.module_utils.parsers.query_gpu import parse_query_gpu
from ansible_collections.firstlight.cluster.plugins.module_utils.parsers.smi_list import parse_smi_list
from ansible_collections.firstlight.cluster.plugins.module_utils.parsers.smi_log import parse_smi_log
from ansible_collections.firstlight.cluster.plugins.module_utils.parsers.smi_table import parse_smi_table
from ansible_collections.firstlight.cluster.plugins.module_utils.parsers.smi_xml import parse_smi_xml
from hypothesis import given
from hypothesis import strategies as st

from tests.unit.examples import examples

from ..gpu.smi_texts import HEALTHY, csv, log, machine, processes, table, xml

Parse = Callable[[str], tuple[dict[str, Any], list[str]]]
FORMS: list[tuple[Parse, str]] = [
    (parse_query_gpu, csv(machine(2))),
    (parse_smi_log, log(machine(2))),
    (parse_smi_xml, xml(machine(2))),
    (parse_smi_table, table(machine(2))),
]
LIST = "GPU 0: NVIDIA H200 (UUID: GPU-1)\nGPU 1: NVIDIA H200 (UUID: GPU-2)\n"


@pytest.mark.parametrize(("parse", "text"), FORMS)
def test_every_form_tells_the_same(parse: Parse, text: str) -> None:
    data, problems = parse(text)
    assert not problems
    assert data["driver"] == "590.48.01"
    assert data["complete"] is True
    assert [gpu["index"] for gpu in data["gpus"]] == [0, 1]
    one = data["gpus"][1]
    assert one["name"] == "NVIDIA H100 80GB HBM3"
    assert one["bus"] == "00000000:1A:00.0"
    assert one["memory.total"] == 81559
    assert one["mig.mode.current"] is False
    assert one["ecc.mode.current"] is True
    assert one["persistence_mode"] is True
    assert one["temperature.gpu"] == 41
    assert one.get("power.limit", one.get("enforced.power.limit")) == 700.0
    json.dumps(data)


@pytest.mark.parametrize(("parse", "text"), FORMS)
@pytest.mark.parametrize(
    "spoil",
    [
        lambda text: text.replace("\t", "    "),
        lambda text: text.replace("\n", "\r\n"),
        lambda text: "\n".join(line.strip() for line in text.splitlines()),
        lambda text: text.replace("NVIDIA", "\x1b[4mNVIDIA\x1b[0m"),
        lambda text: "```\n" + text + "```\n",
        lambda text: "# source: somewhere\n" + text + "rc=0\n",
        lambda text: "root@node1:~# nvidia-smi\n" + text + "root@node1:~#\n",
    ],
)
def test_what_terminals_and_chats_do_changes_nothing(parse: Parse, text: str, spoil: Callable[[str], str]) -> None:
    assert parse(spoil(text)) == parse(text)


@pytest.mark.parametrize("parse", [parse for parse, _ in FORMS] + [parse_smi_list])
@pytest.mark.parametrize(
    "complaint",
    [
        "NVIDIA-SMI has failed because it couldn't communicate with the NVIDIA driver.",
        "Failed to initialize NVML: Driver/library version mismatch",
        "Failed to initialize NVML: Unknown Error",
        "No devices were found",
        "Unable to determine the device handle for GPU0000:17:00.0: Unknown Error",
        "Unable to determine the device handle for GPU 0000:05:00.0: GPU is lost.  Reboot the system",
        "bash: nvidia-smi: command not found",
        "sh: 1: nvidia-smi: not found",
        "NVML: GPU requires reset",
    ],
)
def test_a_complaint_is_trouble_in_every_form(parse: Parse, complaint: str) -> None:
    data, problems = parse(complaint + "\n")
    assert data["trouble"] == [" ".join(complaint.split())]
    assert not data["gpus"]
    assert not problems


@pytest.mark.parametrize("parse", [parse for parse, _ in FORMS] + [parse_smi_list])
@pytest.mark.parametrize("text", ["", "\n\n", "hello\n", "a, b\nc, d\n", "<html>\n", "| x | y | z |\n"])
def test_what_is_no_output_gives_nothing_and_says_so(parse: Parse, text: str) -> None:
    data, problems = parse(text)
    assert data == {}
    assert problems


def test_a_command_that_had_to_be_ended_is_trouble() -> None:
    data, _ = parse_query_gpu("$ nvidia-smi --query-gpu=name --format=csv\nrc=124\n")
    assert "no answer" in data["trouble"][0]


class TestQuery:
    def test_old_names_are_todays(self) -> None:
        data, _ = parse_query_gpu(
            "gpu_name, gpu_uuid, clocks_throttle_reasons.active\nNVIDIA H200, GPU-1, 0x0000000000000008\n"
        )
        assert data["gpus"] == [{"name": "NVIDIA H200", "uuid": "GPU-1", "clocks_event_reasons.active": 8}]

    def test_without_heading_the_command_names_the_columns(self) -> None:
        text = (
            "$ nvidia-smi --query-gpu=index,name,memory.total --format=csv,noheader,nounits\n0, NVIDIA H200, 143771\n"
        )
        assert parse_query_gpu(text)[0]["gpus"] == [{"index": 0, "name": "NVIDIA H200", "memory.total": 143771}]

    def test_without_heading_and_command_only_what_tells_itself_apart_is_taken(self) -> None:
        data, problems = parse_query_gpu("0, NVIDIA H200, 143771, 580.159.04, 00000000:06:00.0\n")
        assert data["gpus"] == [{"name": "NVIDIA H200", "bus": "00000000:06:00.0", "driver_version": "580.159.04"}]
        assert "no header names the columns" in problems[0]

    def test_none_is_not_untold(self) -> None:
        data, problems = parse_query_gpu(
            "name, memory.total [MiB], power.management\n"
            "NVIDIA GB10, [N/A], [Requested functionality has been deprecated]\n"
        )
        assert data["gpus"] == [{"name": "NVIDIA GB10", "memory.total": None}]
        assert not problems

    def test_a_heading_that_was_shortened_names_its_beginning(self) -> None:
        data, _ = parse_query_gpu("name, memory.total [MiB], ...\nNVIDIA GB10, [N/A], 39, 3.74 W\n")
        assert data["gpus"] == [{"name": "NVIDIA GB10", "memory.total": None}]

    @pytest.mark.parametrize("cell", ["Disab", "", "700.00 W", "yes"])
    def test_a_value_that_is_none_is_quoted_and_not_told(self, cell: str) -> None:
        data, problems = parse_query_gpu(f"index, mig.mode.current\n3, {cell}\n")
        assert "mig.mode.current" not in data["gpus"][0]
        assert f'GPU 3: mig.mode.current is "{cell}"' in problems[0]

    def test_a_row_that_lost_cells_proves_nothing_by_place(self) -> None:
        data, problems = parse_query_gpu("index, name, mig.mode.current, persistence_mode\n0, NVIDIA H200, Enabled\n")
        assert data["gpus"] == [{"name": "NVIDIA H200"}]
        assert data["cut"]
        assert "3 cells, expected 4" in problems[0]

    def test_a_gpu_that_wants_a_reset(self) -> None:
        data, _ = parse_query_gpu(
            "index, temperature.gpu, memory.used [MiB]\n0, [GPU requires reset], 0 MiB\n1, 41, 0 MiB\n"
        )
        assert data["trouble"] == ['GPU 0: "GPU requires reset" in place of temperature.gpu']
        assert data["gpus"][1] == {"index": 1, "temperature.gpu": 41, "memory.used": 0}

    def test_a_refused_field(self) -> None:
        data, problems = parse_query_gpu('Field "foo" is not a valid field to query.\n')
        assert data == {}
        assert "refused" in problems[0]

    def test_serial_numbers_are_left_out(self) -> None:
        assert "serial" not in parse_query_gpu("name, serial\nNVIDIA H200, 1650000000000\n")[0]["gpus"][0]

    def test_a_field_told_twice_in_two_ways_is_not_told(self) -> None:
        data, problems = parse_query_gpu("index, name, gpu_name\n0, NVIDIA H200, NVIDIA GB10\n")
        assert "name" not in data["gpus"][0]
        assert "NVIDIA H200" in problems[0]

    def test_processes(self) -> None:
        data, _ = parse_query_gpu("pid, process_name, used_gpu_memory [MiB]\n4242, python3, 1024 MiB\n")
        assert [row["pid"] for row in data["processes"]] == [4242]


class TestList:
    def test_mig_devices_are_no_gpus(self) -> None:
        text = "GPU 0: NVIDIA H200 (UUID: GPU-1)\n  MIG 3g.71gb     Device  0: (UUID: MIG-1)\n"
        data, problems = parse_smi_list(text)
        assert len(data["gpus"]) == 1
        assert data["mig"] == [{"gpu": 0, "device": 0, "profile": "3g.71gb", "uuid": "MIG-1"}]
        assert not problems

    def test_a_line_that_is_cut(self) -> None:
        data, problems = parse_smi_list(LIST[:-12])
        assert len(data["gpus"]) == 1
        assert data["cut"]
        assert problems


class TestLog:
    NEW = (
        "590.48.01 [Deprecated; will be removed in CUDA 14.0. Use KMD Version instead]\n"
        "KMD Version                                            : 610.57.04"
    )

    def test_driver_610_has_the_version_under_another_name(self) -> None:
        assert parse_smi_log(log(machine(1), version=self.NEW))[0]["driver"] == "610.57.04"
        assert parse_smi_log(log(machine(1), version="610.57.04 [Deprecated; see KMD]"))[0]["driver"] == "610.57.04"

    def test_one_of_several_has_no_number(self) -> None:
        data, _ = parse_smi_log(log(machine(1), listed=8))
        assert (data["listed"], data["complete"], data["processes"]) == (8, False, None)
        assert "index" not in data["gpus"][0]

    def test_a_mig_device_has_memory_of_its_own(self) -> None:
        device = (
            "    MIG Device\n        Index                             : 0\n        FB Memory Usage\n"
            "            Total                         : 19968 MiB\n"
        )
        whole = log(machine(1)).replace("    Accounting Mode", device + "    Accounting Mode")
        for text in (whole, "\n".join(line.strip() for line in whole.splitlines())):
            data, problems = parse_smi_log(text)
            assert data["gpus"][0]["memory.total"] == 81559
            assert data["mig"] == [{"gpu": 0, "device": 0}]
            assert not problems

    def test_rows_are_not_remapped_at_all(self) -> None:
        text = "\n".join(line for line in log(machine(1)).splitlines() if "Remapping Failure" not in line)
        text = text.replace("    Remapped Rows\n", "    Remapped Rows                                      : N/A\n")
        assert parse_smi_log(text)[0]["gpus"][0]["remapped_rows.failure"] is None

    def test_processes(self) -> None:
        rows = (
            "    Processes\n        GPU instance ID                   : N/A\n"
            "        Process ID                        : 7\n"
            "            Type                          : C\n            Name                          : python3\n"
        )
        text = log(machine(1)).replace(log(machine(1)).splitlines()[-1], rows)
        assert parse_smi_log(text)[0]["processes"] == [{"gpu": 0, "pid": 7, "type": "C", "name": "python3"}]


class TestXml:
    def test_a_document_that_is_cut_tells_what_it_has(self) -> None:
        text = xml(machine(2))
        data, problems = parse_smi_xml(text[: text.index("<fb_memory_usage>")])
        assert data["listed"] == 2
        assert not data["complete"]
        assert data["gpus"][0]["mig.mode.current"] is False
        assert "memory.total" not in data["gpus"][0]
        assert "cut short" in problems[0]

    def test_a_value_at_the_end_may_have_lost_its_end(self) -> None:
        text = xml(machine(1))
        place = text.index("81559")
        assert "memory.total" not in parse_smi_xml(text[: place + 4])[0]["gpus"][0]

    def test_processes_and_mig_devices(self) -> None:
        text = xml(machine(1)).replace(
            "\t\t<processes>\n",
            "\t\t<mig_devices>\n<mig_device>\n<index>0</index>\n<fb_memory_usage><total>1 MiB</total></fb_memory_usage>"
            "</mig_device>\n</mig_devices>\n<processes>\n<process_info>\n<pid>7</pid><type>G</type>"
            "<process_name>/usr/lib/xorg/Xorg</process_name></process_info>\n",
        )
        data, _ = parse_smi_xml(text)
        assert data["processes"] == [{"gpu": 0, "pid": 7, "type": "G", "name": "/usr/lib/xorg/Xorg"}]
        assert data["mig"] == [{"gpu": 0, "device": 0}]
        assert data["gpus"][0]["memory.total"] == 81559


class TestTable:
    def test_driver_610(self) -> None:
        data, problems = parse_smi_table(table(machine(1), header="KMD Version: 610.57.04     CUDA UMD Version: 13.3"))
        assert (data["driver"], data["cuda"]) == ("610.57.04", "13.3")
        assert not problems

    def test_unified_memory(self) -> None:
        gpu = {**HEALTHY, "name": "NVIDIA GB10", "memory": "N/A", "power": "N/A", "errors": "N/A", "mig": "N/A"}
        data, problems = parse_smi_table(table([gpu]))
        assert not problems
        read = data["gpus"][0]
        assert [read[name] for name in ("memory.total", "enforced.power.limit", "ecc.mode.current")] == [None] * 3

    def test_a_star_is_a_mode_that_waits(self) -> None:
        data, _ = parse_smi_table(table(machine(1, gpu0={"mig": "Disabled*"})))
        assert (data["gpus"][0]["mig.mode.current"], data["gpus"][0]["mig.mode.pending"]) == (False, True)

    def test_a_gpu_that_does_not_answer(self) -> None:
        lost = {"name": "ERR!", "errors": "ERR!", "temperature": "ERR!", "power": "ERR!", "mig": "ERR!"}
        data, _ = parse_smi_table(table(machine(2, gpu1=lost)))
        assert data["trouble"] == ['GPU 1: "ERR!" in place of name and 4 more']
        assert not data["complete"]

    def test_before_its_processes_it_is_not_complete(self) -> None:
        text = table(machine(2))
        data, problems = parse_smi_table(text[: text.index("| Processes")])
        assert len(data["gpus"]) == 2
        assert not data["complete"]
        assert problems == ["the table ends before its processes"]

    def test_processes_of_both_widths(self) -> None:
        rows = (
            "|    0   N/A  N/A            2747      G   /usr/lib/xorg/Xorg                       18MiB |",
            "|    1     26617      C   python                                     15859MiB |",
        )
        text = table(machine(2))
        data, _ = parse_smi_table(text[: text.index("| Processes") - 92] + "\n" + "\n".join(processes(*rows)) + "\n")
        assert [(row["gpu"], row["pid"], row["type"]) for row in data["processes"]] == [(0, 2747, "G"), (1, 26617, "C")]

    def test_a_warning_behind_it(self) -> None:
        text = table(machine(1)) + "WARNING: infoROM is corrupted at gpu 0000:19:00.0\n"
        assert parse_smi_table(text)[0]["warnings"] == ["WARNING: infoROM is corrupted at gpu 0000:19:00.0"]


@examples(60)
@given(st.sampled_from(FORMS), st.data())
def test_any_text_gives_an_answer(form: tuple[Parse, str], data: st.DataObject) -> None:
    parse, text = form
    start = data.draw(st.integers(0, len(text)))
    end = data.draw(st.integers(start, len(text)))
    junk = data.draw(st.text(max_size=40))
    found, problems = parse(text[:start] + junk + text[end:])
    json.dumps(found)
    assert found or problems
