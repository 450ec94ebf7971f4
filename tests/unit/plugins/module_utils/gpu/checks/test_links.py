# SPDX-License-Identifier: Apache-2.0
"""NVLink evaluated by profile: links, speed, errors, and which GPUs are shown."""

from __future__ import annotations

import random
import re
from collections.abc import Iterable, Mapping

import pytest
from ansible_collections.firstlight.cluster.plugins.module_utils.gpu.checks.links import check_links
from ansible_collections.firstlight.cluster.plugins.module_utils.gpu.expected import Expected
from ansible_collections.firstlight.cluster.plugins.module_utils.parsers.nvlink import parse_nvlink
from ansible_collections.firstlight.cluster.plugins.module_utils.parsers.reading import Reading
from hypothesis import given
from hypothesis import strategies as st

from tests.unit.examples import examples

H100 = "NVIDIA H100 80GB HBM3"
SWITCHED = Expected("eight", 8, H100, links_per_gpu=18, link_gb_s=26.562, nvswitch=True)
MESH = Expected("four", 4, H100, links_per_gpu=18, link_gb_s=26.562)
PCIE = Expected("pcie", 2, "NVIDIA H100 PCIe", links_per_gpu=0)
GB10 = Expected("gb10", 1, "NVIDIA GB10", links_per_gpu=0, unified=True)


def status(
    gpus: Iterable[int] = range(8),
    links: int = 18,
    name: str = H100,
    values: Mapping[tuple[int, int], str] | None = None,
) -> str:
    lines = []
    for gpu in gpus:
        lines.append(f"GPU {gpu}: {name} (UUID: GPU-0000000{gpu}-0000-0000-0000-000000000000)")
        lines += [f"\t Link {link}: {(values or {}).get((gpu, link), '26.562 GB/s')}" for link in range(links)]
    return "\n".join(lines) + "\n"


def errors(gpus: Iterable[int] = range(8), values: Mapping[tuple[int, int, str], int] | None = None) -> str:
    lines = []
    for gpu in gpus:
        lines.append(f"GPU {gpu}: {H100} (UUID: GPU-0000000{gpu}-0000-0000-0000-000000000000)")
        for link in range(18):
            names = ("Replay", "Recovery", "CRC")
            lines += [f"\t Link {link}: {name} Errors: {(values or {}).get((gpu, link, name), 0)}" for name in names]
            lines.append("")
    return "\n".join(lines) + "\n"


def reading(text: str) -> Reading:
    data, problems = parse_nvlink(text)
    return Reading("nvlink", data, tuple(problems), "nvlink.txt", "node")


def verdicts(text: str, expected: Expected = SWITCHED) -> dict[str, str]:
    return {one["id"]: one["verdict"] for one in check_links([reading(text)], expected)}


def observed(text: str, name: str, expected: Expected = SWITCHED) -> str:
    return next(str(one["observed"]) for one in check_links([reading(text)], expected) if one["id"] == name)


@pytest.mark.parametrize(("expected", "gpus"), [(SWITCHED, range(8)), (MESH, range(4))])
def test_a_healthy_machine(expected: Expected, gpus: range) -> None:
    assert verdicts(status(gpus), expected) == {"nvlink.links": "pass", "nvlink.speed": "pass", "nvlink.gpus": "pass"}
    assert verdicts(errors(gpus), expected) == {"nvlink.errors": "pass", "nvlink.gpus": "pass"}


def test_inactive_links_are_named() -> None:
    text = status(values={(3, 7): "<inactive>", (3, 12): "<inactive>"})
    assert verdicts(text) == {"nvlink.links": "fail", "nvlink.speed": "pass", "nvlink.gpus": "pass"}
    assert observed(text, "nvlink.links") == "GPU 3: 16 of 18 links active, 7 and 12 are not"


def test_a_slow_link_is_named() -> None:
    text = status(values={(5, 2): "1.562 GB/s"})
    assert verdicts(text) == {"nvlink.links": "pass", "nvlink.speed": "fail", "nvlink.gpus": "pass"}
    assert observed(text, "nvlink.speed") == "GPU 5: link 2 1.562 GB/s"


def test_one_gpu_speaks_for_itself() -> None:
    assert verdicts(status([3])) == {"nvlink.links": "pass", "nvlink.speed": "pass", "nvlink.gpus": "could_not_check"}
    assert observed(status([3]), "nvlink.gpus") == "only GPU 3 is shown"


def test_one_gpu_where_all_were_asked_for_is_cut_off() -> None:
    assert "pass" not in verdicts("$ nvidia-smi nvlink -s\n" + status([0])).values()


def test_some_gpus_speak_for_none() -> None:
    assert set(verdicts(status(range(5))).values()) == {"could_not_check"}


def test_all_links_inactive_is_a_fabric_manager_that_does_not_run() -> None:
    text = "".join(
        f"GPU {gpu}: {H100} (UUID: GPU-{gpu})\nNVML: Unable to retrieve NVLink information as all links are inactive\n"
        for gpu in range(8)
    )
    found = {one["id"]: one for one in check_links([reading(text)], SWITCHED)}
    assert found["nvlink.links"]["verdict"] == "fail"
    assert found["nvlink.links"]["command"] == "systemctl restart nvidia-fabricmanager"
    assert "nvlink.speed" not in found
    one = check_links([reading(text.split("GPU 1:")[0])], SWITCHED)
    assert [check["command"] for check in one if check["id"] == "nvlink.links"] == [None]


def test_another_board_is_a_fault_not_a_cut() -> None:
    found = verdicts(status(links=12, name="NVIDIA A100-SXM4-80GB"))
    assert found["gpu.name"] == "fail"
    assert found["nvlink.links"] == "fail"
    assert verdicts(status(links=12))["nvlink.links"] == "fail"
    assert observed(status(links=12), "nvlink.links") == "12 links on each of 8 GPUs"


def test_more_gpus_than_the_profile_has() -> None:
    assert verdicts(status(), MESH)["nvlink.gpus"] == "fail"


def test_error_counts() -> None:
    text = errors(values={(2, 4, "Replay"): 3, (2, 4, "CRC"): 1})
    assert verdicts(text) == {"nvlink.errors": "fail", "nvlink.gpus": "pass"}
    assert observed(text, "nvlink.errors") == "GPU 2 link 4: crc 1, replay 3"


def test_corrections_of_the_coding_are_no_errors() -> None:
    names = ("Malformed packet Errors", "Rx Errors", "Tx discards", "Symbol Errors")
    lines = [f"GPU 0: {H100} (UUID: GPU-0)"]
    for link in range(18):
        lines += [f"\t Link {link}: {name}: 0" for name in names]
        lines += [f"\t Link {link}: FEC Errors - 0: 36140749276", f"\t Link {link}: Symbol BER: 15e-255"]
    text = "\n".join(lines)
    assert verdicts(text)["nvlink.errors"] == "pass"
    assert verdicts(text.replace("Link 3: Tx discards: 0", "Link 3: Tx discards: 1"))["nvlink.errors"] == "fail"


def test_lines_left_out_are_not_counted_as_right() -> None:
    text = re.sub(r"\t Link 3:.*\n(?:.*\n)*?(?=\t Link 17: Replay)", "\t [...]\n", errors([0]), count=1)
    assert "[...]" in text
    assert verdicts(text)["nvlink.errors"] == "could_not_check"


@pytest.mark.parametrize(("expected", "name", "count"), [(GB10, "NVIDIA GB10", 1), (PCIE, "NVIDIA H100 PCIe", 2)])
@pytest.mark.parametrize(
    "said",
    ["Device does not have or support Nvlink", "NVML: Unable to retrieve Nvlink information as all links are inActive"],
)
def test_hardware_without_nvlink(expected: Expected, name: str, count: int, said: str) -> None:
    text = "".join(f"GPU {gpu}: {name} (UUID: GPU-{gpu})\n{said}\n" for gpu in range(count))
    assert verdicts(text, expected) == {"nvlink.links": "not_applicable", "nvlink.gpus": "pass"}


def test_nothing_printed() -> None:
    assert verdicts("", GB10) == {"nvlink.links": "not_applicable"}
    assert verdicts("", SWITCHED) == {"nvlink.links": "could_not_check"}


def test_nvlink_where_none_should_be() -> None:
    assert verdicts(status([0, 1], links=12, name="NVIDIA H100 PCIe"), PCIE) == {"nvlink.links": "fail"}


@pytest.mark.parametrize("expected", [SWITCHED, GB10])
def test_no_answer_is_a_fault_of_the_gpu(expected: Expected) -> None:
    found = verdicts("Failed to initialize NVML: Driver/library version mismatch\n", expected)
    assert found.pop("gpu.answer") == "fail"
    assert "pass" not in found.values()


@pytest.mark.parametrize("expected", [SWITCHED, GB10])
def test_other_text(expected: Expected) -> None:
    assert verdicts("hello\n", expected) == {"nvlink.links": "could_not_check"}


FAULTY = status(values={(7, 17): "<inactive>"})


@pytest.mark.parametrize("cut", [*range(400, len(FAULTY), 97), len(FAULTY) - 2])
def test_no_cut_of_a_faulty_machine_passes(cut: int) -> None:
    """A first GPU that is whole is what -i prints, and says so; everything longer must show the fault or not pass."""
    found = verdicts(FAULTY[:cut])
    assert found.get("nvlink.gpus") != "pass" or found["nvlink.links"] != "pass"
    if found["nvlink.links"] == "pass":
        assert len(parse_nvlink(FAULTY[:cut])[0]["gpus"]) == 1


@examples(60)
@given(st.randoms(use_true_random=False))
def test_no_damage_hides_a_fault(chance: random.Random) -> None:
    damaged = list(status(range(4), values={(2, 9): "<inactive>"}))
    for _ in range(chance.randint(1, 12)):
        place = chance.randrange(len(damaged))
        damaged[place] = chance.choice(["", "\x00", "\x1b[4m", " ", "\n", "7", "x", "\ufffd"])
    found = verdicts("".join(damaged), MESH)
    assert found["nvlink.links"] != "pass" or "nvlink.gpus" not in found or found["nvlink.gpus"] != "pass"


@pytest.mark.parametrize("lost", [*range(0, 76, 5), 75])
def test_a_lost_line_is_never_a_pass(lost: int) -> None:
    lines = status(range(4)).splitlines(keepends=True)
    del lines[lost]
    assert verdicts("".join(lines), MESH)["nvlink.links"] != "pass"


def test_mig_is_named_where_it_hides_the_links() -> None:
    said = "Nvlink queries are not supported for Devices in MIG mode\n"
    text = "".join(f"GPU {one}: {H100} (UUID: GPU-0000000{one})\n{said}" for one in range(8))
    assert verdicts(text) == {"gpu.mig": "fail", "nvlink.links": "could_not_check", "nvlink.gpus": "pass"}
    one = f"GPU 0: NVIDIA GB10 (UUID: GPU-00)\n{said}"
    assert verdicts(one, GB10)["gpu.mig"] == "fail"
