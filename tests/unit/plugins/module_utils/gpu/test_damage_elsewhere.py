# SPDX-License-Identifier: Apache-2.0
"""Damaged text hides nothing where several texts or other tools tell of a fault, and takes no long time to read."""

from __future__ import annotations

import time

import pytest
from ansible_collections.firstlight.cluster.plugins.module_utils.gpu.diagnose import Capture, diagnose
from ansible_collections.firstlight.cluster.plugins.module_utils.verdicts import FAIL, PASS

from firstlight_lab.captures import captures, ray_status, vllm_metrics

from .damage import EXPECTED, FORMS, SLICE, cuts, hardware, hidden, verdicts

pytestmark = pytest.mark.slow  # every text in every way it can be damaged

# --- The fabric manager, whose state is told by several texts together ----------------------------------------------

FABRIC = ("fabricmanager", "fabricmanager-version", "query-gpu", "smi-xml", "proc-version", "smi-version")


def fabric_verdicts(texts: dict[str, str]) -> set[str]:
    kinds = captures(SLICE)
    document = diagnose([Capture(name, "", text, kinds[name].kind) for name, text in texts.items()], EXPECTED)
    found = {one["verdict"] for one in document["checks"] if one["id"] == "fabric_manager.service"}
    found |= {one["verdict"] for one in document["checks"] if one["id"] == "fabric_manager.state"}
    return found


def test_a_dead_fabric_manager_is_not_hidden_by_any_cut() -> None:
    texts = {name: captures(SLICE, ("fabric_manager_dead",))[name].text for name in FABRIC}
    assert FAIL in fabric_verdicts(texts)
    right = {name: captures(SLICE)[name].text for name in FABRIC}
    assert fabric_verdicts(right) == {PASS}
    for name in FABRIC[:2]:
        lines = texts[name].splitlines(keepends=True)
        for end in range(len(lines)):
            found = fabric_verdicts({**texts, name: "".join(lines[:end])})
            assert found != {PASS}, (name, end)
    for name in FABRIC:
        assert fabric_verdicts({name: texts[name]}) != {PASS}, name


# --- Ports ------------------------------------------------------------------------------------------------------------


def last_replaced(text: str, old: str, new: str) -> str:
    head, _, tail = text.rpartition(old)
    return head + new + tail


SPARK = {name: one.text for name, one in captures("gb10").items()}
PORTS = {
    "rdma-link": (
        last_replaced(SPARK["rdma-link"], "ACTIVE physical_state LINK_UP", "DOWN physical_state DISABLED"),
        "port.state",
    ),
    "ibdev2netdev": (last_replaced(SPARK["ibdev2netdev"], "(Up)", "(Down)"), "port.state"),
    "ibstat": (
        last_replaced(last_replaced(SPARK["ibstat"], "State: Active", "State: Down"), "LinkUp", "Disabled"),
        "port.state",
    ),
    "ethtool": (last_replaced(SPARK["ethtool"], "Speed: 200000Mb/s", "Speed: 40000Mb/s"), "port.speed"),
}


@pytest.mark.parametrize("kind", PORTS)
def test_a_port_in_trouble_is_not_hidden(kind: str) -> None:
    text, check = PORTS[kind]
    expected = hardware("gb10")
    told = verdicts(text, kind, expected)
    failing = {name for name, found in told.items() if FAIL in found}
    assert check in failing
    for form in FORMS.values():
        assert not hidden(verdicts(form(text), kind, expected), failing)
    for cut in cuts(text):
        assert not hidden(verdicts(cut, kind, expected), failing), f"cut after {cut[-120:]!r}"


# --- Ray and vLLM -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("kind", "text"),
    [
        ("ray-status", ray_status(4, 1, failures=[" 0a1b2c: NodeTerminated (ip: 192.168.100.12)"])),
        ("ray-status", ray_status(3, 1, demands=[" {'GPU': 1.0}: 4+ pending tasks/actors"])),
        ("vllm-metrics", vllm_metrics(waiting=500, kv_cache=1.0, preemptions=900)),
    ],
)
def test_trouble_in_serving_is_not_hidden_by_any_cut(kind: str, text: str) -> None:
    expected = hardware("gb10")
    failing = {name for name, told in verdicts(text, kind, expected).items() if FAIL in told}
    lines = text.splitlines(keepends=True)
    for end in range(len(lines)):
        cut = "".join(lines[:end])
        assert not hidden(verdicts(cut, kind, expected), failing), f"cut after {cut[-120:]!r}"


# --- Time -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", sorted(captures("gb10")))
def test_a_long_text_takes_no_long_time(name: str) -> None:
    one = captures("gb10")[name]
    for text in (one.text * (100_000 // len(one.text)), one.text.replace("\n", " ") * (40_000 // len(one.text))):
        start = time.process_time()
        diagnose([Capture(name, "", text, one.kind)], hardware("gb10"))
        assert time.process_time() - start < 1.5
