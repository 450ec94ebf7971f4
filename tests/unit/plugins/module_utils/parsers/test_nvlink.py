# SPDX-License-Identifier: Apache-2.0
"""`nvidia-smi nvlink` in the forms that drivers, terminals and people leave it in."""

from __future__ import annotations

import pytest
from ansible_collections.firstlight.cluster.plugins.module_utils.parsers.nvlink import parse_nvlink
from hypothesis import given
from hypothesis import strategies as st

HEAD = "GPU 0: NVIDIA H100 80GB HBM3 (UUID: GPU-11111111-2222-3333-4444-555555555555)"
STATUS = f"{HEAD}\n\t Link 0: 26.562 GB/s\n\t Link 1: <inactive>\n"
ERRORS = f"{HEAD}\n\t Link 0: Replay Errors: 0\n\t Link 0: Recovery Errors: 2\n\t Link 0: CRC Errors: N/A\n"


def test_status() -> None:
    data, problems = parse_nvlink(STATUS)
    assert problems == []
    assert data["shows"] == ["status"]
    assert data["gpus"] == [
        {
            "index": 0,
            "name": "NVIDIA H100 80GB HBM3",
            "uuid": "GPU-11111111-2222-3333-4444-555555555555",
            "links": {"0": 26.562, "1": None},
        }
    ]


def test_errors_and_status_of_one_capture_are_of_the_same_gpu() -> None:
    data, problems = parse_nvlink(f"$ nvidia-smi nvlink -s\n{STATUS}$ nvidia-smi nvlink -e\n{ERRORS}rc=0\n")
    assert problems == []
    assert data["shows"] == ["status", "errors"]
    assert data["one_gpu"] is False
    assert data["gpus"][0]["errors"] == {"0": {"replay": 0, "recovery": 2, "crc": None}}
    assert len(data["gpus"]) == 1


def test_newer_counters() -> None:
    text = f"{HEAD}\n\t Link 3: Rx General Errors: 0\n\t Link 3: Effective BER: 15e-255\n"
    text += "\t Link 3: FEC Errors - 0: 361407\n"
    data, problems = parse_nvlink(text)
    assert problems == []
    assert data["gpus"][0]["errors"]["3"] == {"rx general": 0, "effective ber": 15e-255, "fec errors - 0": 361407}


def test_capabilities_and_far_ends() -> None:
    text = f"{HEAD}\n\t Link 0, P2P is supported: true\n\t Link 0: Remote Device 00000000:07:00.0: Link 24\n"
    data, problems = parse_nvlink(text)
    assert problems == []
    assert data["gpus"][0]["capabilities"] == {"0": {"P2P is supported": True}}
    assert data["gpus"][0]["remote"] == {"0": {"bus": "00000000:07:00.0", "link": 24}}


@pytest.mark.parametrize(
    "text",
    [
        STATUS.replace("\n", " "),
        STATUS.replace("\t ", "         "),
        STATUS.replace("\t ", ""),
        STATUS.replace("\n", "\r\n"),
        f"```\n{STATUS}```\n",
        STATUS.replace("26.562", "\x1b[1m26.562\x1b[0m"),
        STATUS.replace("<inactive>", "inActive"),
        STATUS.replace("<inactive>", "&lt;inactive&gt;"),
        STATUS.replace("26.562 GB/s", "26562 MB/s"),
    ],
)
def test_untidy_text_says_the_same(text: str) -> None:
    assert parse_nvlink(text) == parse_nvlink(STATUS)


@pytest.mark.parametrize("between", ["\n", " "])
@pytest.mark.parametrize(
    ("said", "key", "value"),
    [
        ("NVML: Unable to retrieve NVLink information as all links are inactive", "all_inactive", True),
        ("NVML: Unable to retrieve Nvlink information as all links are inActive", "all_inactive", True),
        ("Device does not have or support Nvlink", "supported", False),
        ("NVML: Unable to retrieve NVLink information: Not Supported", "supported", False),
    ],
)
def test_no_link_at_all(said: str, between: str, key: str, value: bool) -> None:
    data, problems = parse_nvlink(f"{HEAD}{between}{said}\n")
    assert problems == []
    assert data["gpus"][0][key] is value


@pytest.mark.parametrize(
    "said",
    [
        "NVIDIA-SMI has failed because it couldn't communicate with the NVIDIA driver.",
        "Failed to initialize NVML: Driver/library version mismatch",
        "Unable to determine the device handle for GPU0000:9B:00.0: Unknown Error",
        "No devices were found",
        "bash: nvidia-smi: command not found",
    ],
)
def test_no_answer(said: str) -> None:
    data, _ = parse_nvlink(said)
    assert data["trouble"] == [said]
    assert data["gpus"] == []


@pytest.mark.parametrize("text", ["", "\n", "$ nvidia-smi nvlink -s\nrc=0\n", "# source: somewhere\n\n"])
def test_a_command_that_printed_nothing(text: str) -> None:
    data, problems = parse_nvlink(text)
    assert data["silent"]
    assert problems == ["nothing was printed"]


@pytest.mark.parametrize(
    "line",
    [
        "\t Link 2: 26.562 GB",
        "\t Link 2: 26.5",
        "\t Link 2:",
        "\t Link 2: CRC Errors:",
        "\t Link",
        "[...]",
        "GPU 1: NVIDIA H100 (UUID: G",
    ],
)
def test_what_is_cut_off_is_a_problem(line: str) -> None:
    data, problems = parse_nvlink(STATUS + line)
    assert len(problems) == 1
    assert "2" not in data["gpus"][0]["links"]


def test_the_line_of_a_gpu_that_is_lost_is_noticed() -> None:
    _, problems = parse_nvlink(STATUS + STATUS.partition("\n")[2])
    assert problems


def test_two_values_for_a_link_are_a_problem_and_the_worse_one_stays() -> None:
    data, problems = parse_nvlink(STATUS + STATUS.replace("26.562", "12.5").replace("<inactive>", "26.562 GB/s"))
    assert len(problems) == 2
    assert data["gpus"][0]["links"] == {"0": 12.5, "1": None}


def test_links_of_no_gpu() -> None:
    data, problems = parse_nvlink("\t Link 0: 26.562 GB/s\n")
    assert data["gpus"][0]["index"] is None
    assert problems


def test_a_line_without_an_end_is_not_read_for_ever() -> None:
    data, problems = parse_nvlink(STATUS + "x" * 1_000_000)
    assert data["gpus"][0]["links"] == {"0": 26.562, "1": None}
    assert "not read completely" in problems[0]


def test_other_text_is_not_understood() -> None:
    data, problems = parse_nvlink("hello\nworld\n")
    assert data == {}
    assert "'hello'" in problems[0]


@given(st.one_of(st.text(max_size=300), st.binary(max_size=300).map(lambda raw: raw.decode("latin-1"))))
def test_any_text_is_read_without_an_error(text: str) -> None:
    data, problems = parse_nvlink(text)
    assert data or problems
