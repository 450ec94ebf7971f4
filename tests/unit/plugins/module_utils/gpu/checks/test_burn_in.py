# SPDX-License-Identifier: Apache-2.0
"""The evaluation of the burn-in: a real run of an H200, and every fault that a run can show."""

from __future__ import annotations

import copy
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml
from ansible_collections.firstlight.cluster.plugins.module_utils.gpu.burn_in import workload
from ansible_collections.firstlight.cluster.plugins.module_utils.gpu.checks.burn_in import (
    FORMAT,
    KIND,
    check_burn_in,
)
from ansible_collections.firstlight.cluster.plugins.module_utils.gpu.expected import Expected, expected_of
from ansible_collections.firstlight.cluster.plugins.module_utils.parsers.reading import Reading
from hypothesis import given
from hypothesis import strategies as st

ROOT = Path(__file__).parents[6]
RUN = json.loads((ROOT / "tests/fixtures/gpu-burn-in/h200.json").read_text(encoding="utf-8"))
Document = dict[str, Any]


def profile(name: str, **changes: Any) -> Expected:
    entry = yaml.safe_load((ROOT / f"catalog/hardware/{name}.yml").read_text(encoding="utf-8"))
    return expected_of(name, {**entry, **changes})


H200 = profile("h200-sxm-1")
HGX = profile("h200-sxm-8")


def eight(document: Document = RUN, bus_gb_s: float = 440.0) -> Document:
    """The same run as eight GPUs would have told it."""
    one = document["gpus"][0]
    reduced = {"bus_gb_s": bus_gb_s, "bytes": 1 << 30, "right": True, "gpus": 8}
    gpus = [{**copy.deepcopy(one), "index": index, "all_reduce": dict(reduced)} for index in range(8)]
    return {**copy.deepcopy(document), "gpus": gpus}


def checks(document: Document, expected: Expected = H200, problems: tuple[str, ...] = ()) -> dict[str, dict[str, Any]]:
    found = check_burn_in([Reading("topo"), Reading(KIND, document, problems, source="run", host="h0")], expected)
    assert len({one["id"] for one in found}) == len(found)
    assert all(one["source"] == "run" and one["host"] == "h0" for one in found)
    assert all(one["remedy"] for one in found if one["verdict"] in ("fail", "could_not_check"))
    return {one["id"]: one for one in found}


def verdicts(document: Document, expected: Expected = H200) -> dict[str, str]:
    return {name: one["verdict"] for name, one in checks(document, expected).items()}


def changed(change: Callable[[Document, Document], Any], document: Document = RUN, gpu: int = 0) -> Document:
    own = copy.deepcopy(document)
    change(own, own["gpus"][gpu])
    return own


def test_the_workload_and_its_evaluate_speak_of_the_same_document() -> None:
    assert workload.FORMAT == FORMAT


def test_a_real_run_on_an_h200_is_right() -> None:
    found = checks(RUN)
    assert found.pop("burn_in.all_reduce")["verdict"] == "not_applicable"
    assert found.pop("burn_in.dcgm")["verdict"] == "not_applicable"
    assert {one["verdict"] for one in found.values()} == {"pass"}
    assert found["burn_in.bf16"]["observed"] == "661 TFLOP/s"
    assert found["burn_in.bf16"]["expected"] == "at least 574 TFLOP/s (58% of 989)"
    assert found["burn_in.fp8_ratio"]["observed"] == "1.83 times"
    assert found["burn_in.bandwidth"]["observed"] == "4249 GB/s"
    assert found["burn_in.clocks"]["observed"] == "1335 of 1980 MHz"
    assert found["burn_in.power"]["observed"] == "693 of 700 W"
    assert found["burn_in.host_copy"]["observed"] == "55.4 GB/s to the GPU and 55.3 GB/s from the GPU"
    assert found["burn_in.throttle"]["observed"] == "none, at most 68 degrees Celsius"


def test_eight_gpus_that_do_the_same_are_right() -> None:
    found = checks(eight(), HGX)
    assert found.pop("burn_in.dcgm")["verdict"] == "not_applicable"
    assert {one["verdict"] for one in found.values()} == {"pass"}
    assert found["burn_in.all_reduce"]["observed"] == "440 GB/s"


FAULTS: list[tuple[str, Callable[[Document, Document], Any], str, str]] = [
    ("FP8 as slow as bf16", lambda _, g: g.update(fp8_tflops=660.5), "burn_in.fp8_ratio", "GPU 0: 0.999 times"),
    ("slow bf16", lambda _, g: g.update(bf16_tflops=408.8), "burn_in.bf16", "GPU 0: 409 TFLOP/s"),
    ("slow FP8", lambda _, g: g.update(fp8_tflops=809.7), "burn_in.fp8", "GPU 0: 810 TFLOP/s"),
    (
        "half the lanes",
        lambda _, g: g["host_copy"].update(to_device_gb_s=26.9),
        "burn_in.host_copy",
        "GPU 0: 26.9 GB/s to the GPU",
    ),
    (
        "a link that corrupts",
        lambda _, g: g["host_copy"].update(is_equal=False),
        "burn_in.host_copy",
        "GPU 0: changed",
    ),
    ("slow memory", lambda _, g: g.update(bandwidth_gb_s=2286.0), "burn_in.bandwidth", "GPU 0: 2286 GB/s"),
    (
        "another sum once",
        lambda _, g: g["answers"]["hot"].update(different_sums=2),
        "burn_in.repeatable",
        "GPU 0: different results of the same product in 100 repeats (hot)",
    ),
    (
        "other bits when hot",
        lambda _, g: g["answers"]["hot"].update(digests=["0" * 64]),
        "burn_in.repeatable",
        "GPU 0: different results when cold and when hot",
    ),
    (
        "a wrong FP8 product",
        lambda _, g: g["answers"]["cold"]["known"].update(fp8=False),
        "burn_in.repeatable",
        "GPU 0: a wrong fp8 product (cold)",
    ),
    (
        "a copy that differs",
        lambda _, g: g.update(copy_is_equal=False),
        "burn_in.repeatable",
        "differs from the original",
    ),
    (
        "heat",
        lambda _, g: g["load"]["fp8"].update(reasons={"sw_power_cap": 9, "hw_thermal_slowdown": 1}),
        "burn_in.throttle",
        "GPU 0: hw_thermal_slowdown",
    ),
    (
        "a power brake",
        lambda _, g: g["load"]["bf16"].update(reasons={"hw_power_brake_slowdown": 18}),
        "burn_in.throttle",
        "GPU 0: hw_power_brake_slowdown",
    ),
    (
        "a clock that somebody locked",
        lambda _, g: g["load"]["bf16"]["sm_mhz"].update(middle=900.0),
        "burn_in.clocks",
        "GPU 0: 900 of 1980 MHz",
    ),
    (
        "a limit that is not kept",
        lambda _, g: g["load"]["fp8"]["power_w"].update(middle=760.0),
        "burn_in.power",
        "GPU 0: 760 W of 700 W",
    ),
    (
        "a GPU that died",
        lambda _, g: g["problems"].append("bf16: CUDA error"),
        "burn_in.ran",
        "GPU 0: bf16: CUDA error",
    ),
    ("one GPU more than it has", lambda d, g: d["gpus"].append({**g, "index": 1}), "burn_in.ran", "2 GPUs took part"),
]


@pytest.mark.parametrize(("change", "name", "words"), [one[1:] for one in FAULTS], ids=[one[0] for one in FAULTS])
def test_each_fault_fails_its_check_and_says_so(
    change: Callable[[Document, Document], Any], name: str, words: str
) -> None:
    check = checks(changed(change))[name]
    assert check["verdict"] == "fail"
    assert words in check["observed"]


def test_only_a_locked_clock_has_a_command_that_is_safe_to_run() -> None:
    found = checks(changed(lambda _, gpu: gpu["load"]["bf16"]["sm_mhz"].update(middle=900.0)))
    assert found["burn_in.clocks"]["command"] == "nvidia-smi -rgc"


def test_of_eight_gpus_the_one_that_deviates_is_named() -> None:
    def other(_: Document, gpu: Document) -> None:
        for one in gpu["answers"].values():
            one["digests"] = ["0" * 64]

    found = checks(changed(other, eight(), gpu=5), HGX)
    assert found["burn_in.repeatable"]["observed"] == "GPU 5: bits differ from those of the other GPUs"
    slow = checks(changed(lambda _, gpu: gpu.update(bf16_tflops=300.0), eight(), gpu=3), HGX)
    assert slow["burn_in.bf16"]["observed"] == "GPU 3: 300 TFLOP/s"


@pytest.mark.parametrize(("bus", "verdict"), [(440.0, "pass"), (40.0, "fail")])
def test_an_all_reduce_over_pcie_is_too_slow_for_nvlink(bus: float, verdict: str) -> None:
    assert verdicts(eight(bus_gb_s=bus), HGX)["burn_in.all_reduce"] == verdict


def test_a_wrong_sum_fails_at_any_speed() -> None:
    found = checks(changed(lambda _, gpu: gpu["all_reduce"].update(right=False), eight(), gpu=2), HGX)
    assert found["burn_in.all_reduce"]["observed"] == "GPU 2 got a wrong sum from an all-reduce"


def test_gpus_that_did_not_take_part_leave_nothing_right() -> None:
    found = verdicts({**eight(), "gpus": eight()["gpus"][:7]}, HGX)
    assert found.pop("burn_in.ran") == "fail"
    assert found.pop("burn_in.dcgm") == "not_applicable"
    assert set(found.values()) == {"could_not_check"}


@pytest.mark.parametrize(
    ("document", "problems", "verdict", "words"),
    [
        ({}, ("docker gave no answer within 300 s",), "could_not_check", "docker gave no answer"),
        ({"workload": 1, "gpus": []}, (), "could_not_check", "workload"),
        (
            {"workload": FORMAT, "gpus": [], "problems": ["PyTorch cannot be imported: x"]},
            (),
            "could_not_check",
            "imported",
        ),
        (
            {"workload": FORMAT, "gpus": [], "torch": "2", "problems": ["PyTorch sees no CUDA device"]},
            (),
            "fail",
            "no CUDA",
        ),
        ({"workload": FORMAT, "device": "cuda", "gpus": ["what"], "problems": []}, (), "could_not_check", "damaged"),
    ],
)
def test_a_run_that_was_none_proves_nothing(
    document: Document, problems: tuple[str, ...], verdict: str, words: str
) -> None:
    found = checks(document, problems=problems)
    assert set(found) == {"burn_in.ran"}
    assert found["burn_in.ran"]["verdict"] == verdict
    assert words in found["burn_in.ran"]["observed"]


def test_a_run_on_the_processor_says_nothing_of_the_gpus() -> None:
    assert verdicts({**RUN, "device": "cpu"}) == {"burn_in.ran": "not_applicable"}
    broken = changed(lambda _, gpu: gpu["problems"].append("bf16: no"), {**RUN, "device": "cpu"})
    assert verdicts(broken) == {"burn_in.ran": "fail"}


def test_small_matrices_are_not_evaluated_by_their_rate() -> None:
    found = checks(changed(lambda _, gpu: gpu.update(size=4096, bf16_tflops=671.0, fp8_tflops=736.0)))
    assert {found[f"burn_in.{name}"]["verdict"] for name in ("fp8_ratio", "bf16", "fp8")} == {"could_not_check"}
    assert "4096 rows" in found["burn_in.fp8_ratio"]["observed"]
    assert found["burn_in.bandwidth"]["verdict"] == found["burn_in.repeatable"]["verdict"] == "pass"


def test_what_the_profile_does_not_know_is_shown_and_not_evaluated() -> None:
    found = checks(RUN, profile("h200-sxm-1", burn_in=None))
    assert found["burn_in.bf16"]["observed"] == "661 TFLOP/s, not evaluated"
    assert found["burn_in.clocks"]["verdict"] == found["burn_in.bandwidth"]["verdict"] == "not_applicable"
    assert found["burn_in.fp8_ratio"]["verdict"] == "pass"  # what FP8 units are, no profile needs to say


def test_hardware_without_fp8_is_not_asked_for_it() -> None:
    def without(_: Document, gpu: Document) -> None:
        del gpu["fp8_tflops"], gpu["load"]["fp8"], gpu["phases"]["fp8"]
        for one in gpu["answers"].values():
            one["known"]["fp8"] = None

    old = profile("h200-sxm-1", fp8=False, tflops={"bf16": 989.4, "fp8": None})
    found = verdicts(changed(without), old)
    assert found["burn_in.fp8"] == found["burn_in.fp8_ratio"] == "not_applicable"
    assert found["burn_in.repeatable"] == found["burn_in.throttle"] == "pass"


def test_a_gb10_has_no_limit_and_may_tell_no_reasons() -> None:
    def spark(_: Document, gpu: Document) -> None:
        gpu.update(bf16_tflops=95.0, fp8_tflops=185.0, bandwidth_gb_s=230.0)
        for load in gpu["load"].values():
            load.update(power_limit_w=None, reasons="N/A")

    found = verdicts(changed(spark), profile("gb10"))
    assert found["burn_in.power"] == found["burn_in.throttle"] == found["burn_in.all_reduce"] == "not_applicable"
    assert found["burn_in.bf16"] == found["burn_in.fp8_ratio"] == found["burn_in.bandwidth"] == "pass"


@pytest.mark.parametrize("name", ["burn_in.throttle", "burn_in.clocks", "burn_in.power"])
def test_a_load_that_nobody_looked_at_is_not_right(name: str) -> None:
    assert verdicts(changed(lambda _, gpu: gpu["load"].clear()))[name] == "could_not_check"
    assert verdicts(changed(lambda _, gpu: gpu["load"].pop("fp8")))[name] == "could_not_check"


def test_a_reason_that_nobody_knows_is_not_right() -> None:
    strange = changed(lambda _, gpu: gpu["load"]["bf16"].update(reasons={"0x200": 3}))
    assert verdicts(strange)["burn_in.throttle"] == "could_not_check"


@pytest.mark.parametrize("value", [None, "x", []])
def test_reasons_and_problems_that_were_not_told_are_not_none(value: Any) -> None:
    strange = changed(lambda _, gpu: gpu["load"]["fp8"].update(reasons=value))
    assert verdicts(strange)["burn_in.throttle"] == "could_not_check"
    assert verdicts(changed(lambda _, gpu: gpu["load"]["fp8"].pop("reasons")))["burn_in.throttle"] == "could_not_check"
    assert verdicts(changed(lambda _, gpu: gpu.pop("problems"))) == {"burn_in.ran": "could_not_check"}
    assert verdicts(changed(lambda document, _: document.pop("problems"))) == {"burn_in.ran": "could_not_check"}


def places(value: Any, where: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    """Every place in a document."""
    inside = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    return [place for key, one in inside for place in ((*where, key), *places(one, (*where, key)))]


@given(st.data())
def test_damage_never_makes_a_fault_right(data: st.DataObject) -> None:
    _, change, name, _ = data.draw(st.sampled_from([one for one in FAULTS if "took part" not in one[3]]))
    document = changed(change)
    # A reason that is left out was not in force, and problems that are left out did not happen: no damage can be seen.
    silent = {"reasons", "problems"}
    *path, last = data.draw(st.sampled_from([place for place in places(document) if not silent & {*place}]))
    inside = document
    for key in path:
        inside = inside[key]
    if data.draw(st.booleans()):
        del inside[last]
    else:
        inside[last] = data.draw(st.sampled_from([None, "x", [], {}]))
    assert checks(document).get(name, {}).get("verdict") != "pass"


def test_copies_with_the_host_are_evaluated_only_where_there_is_a_link_and_when_whole() -> None:
    assert verdicts(RUN, profile("h200-sxm-1", unified=True))["burn_in.host_copy"] == "not_applicable"
    minimums = {**H200.hardware["burn_in"], "host_copy_gb_s": None}
    shown = checks(RUN, profile("h200-sxm-1", burn_in=minimums))["burn_in.host_copy"]
    assert (shown["verdict"], "not evaluated" in shown["observed"]) == ("not_applicable", True)
    for change in (
        lambda _, gpu: gpu.pop("host_copy"),
        lambda _, gpu: gpu["host_copy"].pop("from_device_gb_s"),
        lambda _, gpu: gpu["host_copy"].update(is_equal=None),
        lambda _, gpu: gpu.update(host_copy="fast"),
    ):
        assert verdicts(changed(change))["burn_in.host_copy"] == "could_not_check"


def test_the_diagnostic_is_a_part_of_the_run() -> None:
    def run(dcgm: Document) -> Document:
        return checks({**RUN, "dcgm": dcgm})["burn_in.dcgm"]

    assert run({"absent": True})["verdict"] == "not_applicable"
    passing = {"name": "software", "category": "Deployment", "status": "pass", "gpus": [0], "says": []}
    good = {"tests": [passing], "gpu_ids": [0], "version": "4.2.3", "error": None, "rc": 0}
    assert run({"data": good, "problems": []})["observed"] == "software on 1 GPU, DCGM 4.2.3"
    assert run({"data": {}, "problems": ["dcgmi gave no answer within 180 s"]})["verdict"] == "could_not_check"
    assert run({"data": {**good, "rc": 226}, "problems": []})["verdict"] == "could_not_check"
