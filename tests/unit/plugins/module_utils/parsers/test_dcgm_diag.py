# SPDX-License-Identifier: Apache-2.0
"""DCGM's diagnostic in the forms of DCGM 3 and 4, whole and broken."""

from __future__ import annotations

import json
from typing import Any

import pytest
from ansible_collections.firstlight.cluster.plugins.module_utils.gpu.checks.dcgm import check_dcgm
from ansible_collections.firstlight.cluster.plugins.module_utils.gpu.expected import Expected
from ansible_collections.firstlight.cluster.plugins.module_utils.gpu.kinds import read
from ansible_collections.firstlight.cluster.plugins.module_utils.parsers.dcgm_diag import parse_dcgm_diag

from firstlight_lab.bus_texts import dcgm_diag

TWO = Expected("two", 2, "NVIDIA H100 PCIe")


def older(status: str = "Pass", ids: str = "gpu_id", **more: Any) -> str:
    """As DCGM 3 prints it: each test by its name, GPUs as text."""
    results = [{ids: str(gpu), "status": "Pass" if gpu else status, **(more if not gpu else {})} for gpu in range(2)]
    names = ("Denylist", "NVML Library", "Inforom")
    tests = [{"name": name, "results": results} for name in names]
    skipped = {"name": "Graphics Processes", "results": [{"gpu_ids": "0,1", "status": "Skip"}]}
    root = {
        "Driver Version Detected": "535.104.05",
        "GPU Device IDs": ["2331", "2331"],
        "GPU Device Serials": {"0": "1650000000001", "1": "1650000000002"},
        "test_categories": [{"category": "Deployment", "tests": [*tests, skipped]}],
        "version": "3.3.1",
    }
    return "Successfully ran diagnostic for group.\n" + json.dumps({"DCGM GPU Diagnostic": root}, indent=3)


def verdict(text: str, expected: Expected = TWO) -> tuple[str, str]:
    (check,) = check_dcgm([read("dcgm-diag", text, "diag.json")], expected)
    assert check["id"] == "burn_in.dcgm"
    return check["verdict"], check["observed"]


def test_both_forms_are_understood() -> None:
    data, problems = parse_dcgm_diag(older())
    assert (problems, data["version"], data["driver"], data["gpu_ids"]) == ([], "3.3.1", "535.104.05", [0, 1])
    assert "1650000000001" not in str(data)
    assert verdict(older())[0] == "pass"
    assert "skipped: Graphics Processes" in verdict(older())[1]
    assert verdict(older(ids="gpu_ids"))[0] == "pass"
    assert verdict(dcgm_diag(2, "580.82.09")) == ("pass", "software on 2 GPUs, DCGM 4.2.3")
    assert verdict(f"$ dcgmi diag -r 1 -j\n{dcgm_diag(2, '580.82.09')}rc=0\n")[0] == "pass"


def test_a_plugin_that_was_left_out_is_not_a_pass() -> None:
    document = json.loads(dcgm_diag(2, "580.82.09"))
    results = [{"entity_group": "GPU", "entity_id": gpu, "status": "Skip"} for gpu in range(2)]
    hardware = {"category": "Hardware", "tests": [{"name": "memory", "results": results}]}
    document["DCGM Diagnostic"]["test_categories"].append(hardware)
    found, observed = verdict(json.dumps(document))
    assert (found, observed) == ("could_not_check", "these tests were not run: memory")
    for one in results:
        one["status"] = "Pass"
    assert verdict(json.dumps(document)) == ("pass", "software, memory on 2 GPUs, DCGM 4.2.3")


def test_a_failure_names_the_test_the_gpu_and_what_it_says() -> None:
    assert verdict(dcgm_diag(2, "580.82.09", failing=[1])) == (
        "fail",
        "software on GPU 1: Persistence mode for GPU 1 is disabled.",
    )
    old = verdict(older("FAIL", warnings=["Row remap failed."]))
    names = ("Denylist", "NVML Library", "Inforom")
    assert old == ("fail", "; ".join(f"{name} on GPU 0: Row remap failed." for name in names))
    # The summary alone is enough.
    document = json.loads(dcgm_diag(2, "580.82.09"))
    document["DCGM Diagnostic"]["test_categories"][0]["tests"][0]["test_summary"]["status"] = "Fail"
    assert verdict(json.dumps(document))[0] == "fail"


def changed(**changes: Any) -> str:
    document = json.loads(dcgm_diag(2, "580.82.09"))
    return json.dumps({**document, "DCGM Diagnostic": {**document["DCGM Diagnostic"], **changes}})


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("", "nothing"),
        ("Error: unable to establish a connection to the specified host: localhost\n", "unable to establish"),
        ('{"DCGM GPU Diagnostic": {"version": "3.3.1", "runtime_error": "Unable to run on GPU 0"}}', "Unable to run"),
        ('{"DCGM Diagnostic": {"version": "4.2.3"}}', "no test"),
        (changed(test_categories="all"), "expected a list"),
        (changed(test_categories=[{"category": "Deployment", "tests": [{"name": "software"}]}]), "no result"),
        (changed(runtime_error="the GPUs are in use"), "in use"),
        (older("Warn", warnings=["something"]), "something"),
        (older("Maybe"), "Maybe"),
        (dcgm_diag(1, "580.82.09"), "1 of 2 GPUs"),
        (dcgm_diag(2, "580.82.09") + "rc=226\n", "returned 226"),
        (dcgm_diag(2, "580.82.09").replace('"Pass"', '"Skip"'), "skipped"),
        (dcgm_diag(2, "580.82.09").replace('"Pass"', '"Skip"', 1), "no test passed on GPU 0"),
        ('{"DCGM Iterative Diagnostic": {"iterations": []}}', "Iterative"),
    ],
)
def test_what_is_not_told_is_never_right(text: str, words: str) -> None:
    found, observed = verdict(text)
    assert found == "could_not_check"
    assert words in observed


@pytest.mark.parametrize("text", [dcgm_diag(2, "580.82.09"), older()])
def test_half_a_result_is_none(text: str) -> None:
    for end in range(0, len(text.rstrip()) - 1, 40):
        assert verdict(text[:end])[0] == "could_not_check"
