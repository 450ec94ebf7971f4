# SPDX-License-Identifier: Apache-2.0
"""The document of a report: what is in it, what is not, and what it comes to."""

from __future__ import annotations

import json
from typing import Any

import pytest
from ansible_collections.firstlight.cluster.plugins.plugin_utils.comparison.records import make_record
from ansible_collections.firstlight.cluster.plugins.plugin_utils.report.document import make_document
from ansible_collections.firstlight.cluster.plugins.plugin_utils.tune.layouts import parse_layouts
from hypothesis import given
from hypothesis import strategies as st

from tests.unit import report_samples as samples
from tests.unit.examples import examples
from tests.unit.hostile import documents

TRIED = {**samples.QUALITY, "configuration": {"plan_sha256": "1" * 64}}
"""Answers of a trial of other settings."""


def row(document: dict[str, Any], name: str) -> dict[str, Any]:
    found: dict[str, Any] = next(one for one in document["checks"] if one["id"] == name)
    return found


def material(document: dict[str, Any], name: str) -> dict[str, Any]:
    found: dict[str, Any] = next(one for one in document["materials"] if one["name"] == name)
    return found


def reasons(document: dict[str, Any], kind: str = "reasons") -> list[tuple[str, str]]:
    return [(one["where"], one["check"]) for one in document["verdict"][kind]]


@pytest.fixture(scope="module")
def right() -> dict[str, Any]:
    return samples.right()


@pytest.fixture(scope="module")
def sick() -> dict[str, Any]:
    return samples.sick()


# --- the verdict ---------------------------------------------------------------------------------------------------
@pytest.mark.parametrize("name", ["spark4", "h100x8"])
def test_a_cluster_on_which_everything_is_right_is_accepted(name: str) -> None:
    verdict = samples.right(name)["verdict"]
    assert verdict == {"verdict": "accepted", "reasons": [], "missing": []}


def test_one_sick_node_is_named_with_its_check_and_what_to_do(sick: dict[str, Any]) -> None:
    assert sick["verdict"]["verdict"] == "not accepted"
    assert reasons(sick) == [("spark-gamma", "kernel.xid")]
    assert "Xid 79" in sick["verdict"]["reasons"][0]["found"]
    assert "reboot" in sick["verdict"]["reasons"][0]["do"]
    assert ("spark-delta", "host.answer") in reasons(sick, "missing")


@pytest.mark.parametrize(
    ("changed", "verdict", "named"),
    [
        ({"bench": None, "bench_verdict": None}, "incomplete", "benchmark"),
        ({"bench": samples.bench("1" * 64)}, "incomplete", "benchmark"),
        ({"bench": samples.bench("1" * 64), "known_plans": ["0" * 64, "1" * 64]}, "accepted", ""),
        ({"bench_verdict": samples.bench_verdict("not measured")}, "incomplete", "benchmark"),
        ({"bench_verdict": samples.bench_verdict("slow")}, "not accepted", "benchmark"),
        ({"quality": {**samples.QUALITY, "status": "worse", "reasons": ["3 answers"]}}, "not accepted", "quality"),
        ({"quality": {**samples.QUALITY, "status": "could_not_ask"}}, "incomplete", "quality"),
        ({"bench": samples.bench("1" * 64), "bench_verdict": samples.bench_verdict("slow")}, "incomplete", "benchmark"),
        ({"quality": {**TRIED, "status": "worse", "reasons": ["3 answers"]}}, "accepted", ""),
        ({"quality": {**TRIED, "status": "could_not_ask"}}, "accepted", ""),
        ({"quality": None, "tune": None, "layouts": None}, "accepted", ""),
    ],
)
def test_what_was_not_measured_leaves_it_open_and_what_is_slow_refuses_it(
    changed: dict[str, Any], verdict: str, named: str
) -> None:
    document = make_document(samples.inputs(**changed))
    assert document["verdict"]["verdict"] == verdict
    told = [*reasons(document), *reasons(document, "missing")]
    assert told == ([("cluster", named)] if named else [])


def test_a_cluster_that_does_not_serve_is_not_accepted() -> None:
    given_ = samples.inputs()
    for host, part in given_.gathered["hosts"].items():
        part["serving"] = samples.serving(given_.plan, host, "failed")
    assert reasons(make_document(given_)) == [("cluster", "serving")]


@pytest.mark.parametrize(
    ("record", "why"),
    [
        ("", "no run is on record"),
        ("not base64", "cannot be read"),
        (samples.encoded({"measured": []}), "cannot be read"),
        (samples.encoded(samples.burn_in(1, driver="570.1")), "driver 570.1, now 580.1 is loaded"),
        (
            samples.encoded({**samples.burn_in(1), "valid_for": {"device": "cpu", "driver": None}}),
            "without a GPU",
        ),
        (samples.encoded(samples.burn_in(9)), "on other GPUs than the host has now"),
        (
            samples.encoded({**samples.burn_in(1), "valid_for": {"device": "cuda", "workload": 1}}),
            "with another version of the workload",
        ),
    ],
)
def test_a_burn_in_that_does_not_hold_leaves_it_open(record: str, why: str) -> None:
    given_ = samples.inputs()
    host = next(iter(given_.gathered["hosts"]))
    given_.gathered["hosts"][host]["burn_in"] = record
    document = make_document(given_)
    assert document["verdict"]["verdict"] == "incomplete"
    (one,) = document["verdict"]["missing"]
    assert (one["where"], one["check"]) == (host, "burn-in")
    assert why in one["found"]
    assert "verify_compute=true" in one["do"]


def test_a_run_with_another_image_does_not_hold() -> None:
    given_ = samples.inputs(gpu_verify={"spark-alpha": {"gpu_verify_image": "new"}})
    record = samples.burn_in(1)
    record["valid_for"]["engine"] = "old"
    given_.gathered["hosts"]["spark-alpha"]["burn_in"] = samples.encoded(record)
    assert reasons(make_document(given_), "missing") == [("spark-alpha", "burn-in")]


def test_a_host_that_was_not_asked_is_open() -> None:
    given_ = samples.inputs()
    del given_.gathered["hosts"]["spark-beta"]
    assert ("spark-beta", "host.answer") in reasons(make_document(given_), "missing")


# --- the matrix ------------------------------------------------------------------------------------------------------
def test_a_figure_stands_beside_its_minimum_and_whose_that_is(right: dict[str, Any]) -> None:
    found = row(right, "burn_in.bf16")
    assert found["minimum"] == "at least 75 TFLOP/s (60% of 125)"
    assert found["whose"] == "hardware profile gb10"
    assert found["cells"]["spark-alpha"] == {"status": "pass", "measured": "661 TFLOP/s"}
    assert right["minimums"]["source"].startswith("NVIDIA dgx-spark-playbooks")
    assert "tflops" in right["minimums"]["unverified"]


def test_what_is_right_is_counted_and_what_is_not_has_its_own_row() -> None:
    given_ = samples.inputs()
    part = given_.gathered["hosts"]["spark-beta"]
    part["records"] = [
        make_record(one["id"], "spark-beta", "1", "2", "fail", "run repin.yml") if one["id"] == name else one
        for one in part["records"]
        for name in [next(one["id"] for one in part["records"] if one["id"].startswith("package."))]
    ]
    document = make_document(given_)
    together = row(document, "package.*")["cells"]
    assert together["spark-beta"]["status"] == "fail"
    count = int(together["spark-alpha"]["measured"].split()[0])
    assert together["spark-beta"]["measured"].startswith(f"{count - 1} of {count} right")
    ((where, check),) = reasons(document)
    assert (where, check.startswith("package."), check == "package.*") == ("spark-beta", True, False)


def test_rates_of_the_fabric_are_told_by_the_least(right: dict[str, Any]) -> None:
    found = row(right, "fabric.rdma.*")
    assert found["minimum"] == "at least 85 Gb/s"
    assert found["cells"]["spark-alpha"]["measured"] == "6 of 6 right, least 96.3 Gb/s"


def test_what_applies_to_no_node_is_only_named(right: dict[str, Any]) -> None:
    assert "burn_in.all_reduce" in right["not_applicable"]
    assert "burn_in.all_reduce" not in [one["id"] for one in right["checks"]]


# --- the other parts -----------------------------------------------------------------------------------------------
def test_the_odd_one_out_is_found(right: dict[str, Any], sick: dict[str, Any]) -> None:
    assert not any(one["odd"] for one in right["materials"])
    assert material(sick, "kernel")["odd"] == ["spark-gamma"]
    assert material(right, "model revision")["planned"] == right["plan"]["revision"]
    assert "@sha256:" in material(right, "image")["planned"]


def test_without_a_majority_the_plan_decides_who_is_odd() -> None:
    given_ = samples.inputs()
    for host in ("spark-gamma", "spark-delta"):
        given_.gathered["hosts"][host]["observation"]["driver"]["flavour"] = "proprietary"
        given_.gathered["hosts"][host]["observation"]["facts"]["version"] = "25.10"
    document = make_document(given_)
    planned = material(document, "driver, modules")["planned"]
    assert planned == "open"
    assert material(document, "driver, modules")["odd"] == ["spark-gamma", "spark-delta"]
    assert len(material(document, "operating system")["odd"]) == 4, "nobody knows which is right"


def test_parts_are_those_of_the_nodes_that_answer() -> None:
    given_ = samples.inputs()
    head, other, *_ = hosts = given_.gathered["hosts"]
    hosts[head] = {"observation": {}, "problem": "unreachable", "records": []}
    del hosts[other]["observation"]["images"]
    document = make_document(given_)
    assert material(document, "kernel")["values"] == dict.fromkeys(list(hosts)[1:], "6.17.0-1014-nvidia")
    image = material(document, "image")
    assert image["planned"] == image["values"]["spark-delta"]
    assert image["values"][other] == "not known", "nobody looked"
    hosts[other]["observation"]["images"] = {}
    assert material(make_document(given_), "image")["values"][other] == "not there"


def test_links_pairs_and_counters(right: dict[str, Any]) -> None:
    link = right["links"][0]
    assert (link["host"], link["speed_mbit"], link["planned_mbit"], link["mtu"]) == (
        "spark-alpha",
        200000,
        200000,
        9000,
    )
    assert link["counters"] == {"rx dropped": 3}
    (first, second) = right["pairs"]["cells"]["spark-alpha"]["spark-beta"]
    assert first == {"port": "enp1s0f1np1", "status": "pass", "ms": 0.052, "rdma_gbit": 97.3}
    assert second["rdma_gbit"] == 96.3


def test_gpus_that_are_joined_alike_stand_together() -> None:
    (found,) = samples.right("h100x8")["topology"]
    assert found["hosts"] == ["h100"]
    assert found["cells"]["GPU0"]["GPU7"] == "NV18"


def test_where_the_time_of_a_start_went(right: dict[str, Any]) -> None:
    (start,) = right["startup"]["starts"]
    assert start["phases"] == {"read the weights": 512.0, "compile, capture, first answer": 259.0}
    assert right["startup"]["planned"]["later_s"] == 790


def test_a_point_has_the_range_of_its_runs_and_its_failures(right: dict[str, Any]) -> None:
    chat, latency = right["bench"]["workloads"]
    low, high = chat["points"][0]["range"]["output_tokens_per_s"]
    assert low < chat["points"][0]["summary"]["output_tokens_per_s"] < high
    assert latency["points"][1]["failures"] == {"HTTP 502": 64}
    assert latency["points"][1]["problems"] == ["the server did not answer"]
    assert "runs" not in chat["points"][0]


@pytest.mark.parametrize(("name", "sizes"), [("spark4", "1,2,4"), ("h100x8", "1,2,4,8")])
def test_the_command_for_layouts_names_some(name: str, sizes: str) -> None:
    command = samples.right(name)["how"]["layouts"]
    assert command == f"firstlight bench -i inventory/mine --layouts {sizes}"
    assert parse_layouts(sizes)


def test_answers_themselves_are_not_in_it() -> None:
    worst = [{"id": "one", "expected": "a long answer", "found": "another one"}]
    found = make_document(samples.inputs(quality={**samples.QUALITY, "worst": worst}))["quality"]
    assert (found["status"], found["reference"]["run"]) == ("within_limits", "20261110T000000Z-cccc")
    assert "answer" not in json.dumps(found)


def test_changes_of_packages_and_repins_are_told(right: dict[str, Any]) -> None:
    found = right["changes"]["spark-alpha"]
    assert found["packages"][0]["package"] == "docker.io"
    assert found["repins"][0] == {"at": samples.MADE, "before": "a", "after": "b", "state": "uncordoned"}


def test_the_next_report_shows_what_changed_since_the_accepted_one(right: dict[str, Any]) -> None:
    assert right["since"] is None
    same = make_document(samples.inputs(accepted=right))
    assert same["since"] == {"run": right["run"], "made": right["made"], "differences": []}


# --- what must not be in it ----------------------------------------------------------------------------------------
def test_serial_numbers_uuids_and_addresses_only_where_they_are_asked_for(right: dict[str, Any]) -> None:
    told = json.dumps(right)
    assert not any(one in told for one in (samples.SERIAL, samples.UUID, samples.MAC))
    asked = json.dumps(make_document(samples.inputs(serials=True)))
    assert samples.SERIAL in asked
    assert samples.UUID in asked


@pytest.mark.parametrize(("before", "after"), [(True, False), (False, True)])
def test_serial_numbers_of_the_accepted_report_are_no_difference(before: bool, after: bool) -> None:
    def told(xid: int, **changed: Any) -> dict[str, Any]:
        given_ = samples.inputs(**changed)
        said = f"Xid {xid} of {samples.UUID}, serial number: {samples.SERIAL}"
        given_.gathered["hosts"]["spark-beta"]["records"] += [
            make_record("gpu.same", "spark-beta", "none", f"{samples.UUID}", "fail"),
            make_record("kernel.xid", "spark-beta", "none", said, "fail" if xid == 79 else "could_not_check"),
        ]
        return make_document(given_)

    since = told(79, serials=after, accepted=told(13, serials=before))["since"]
    assert [one["what"] for one in since["differences"]] == ["kernel.xid"]
    assert samples.UUID not in json.dumps(since)
    assert samples.SERIAL not in json.dumps(since)


@pytest.mark.hostile
def test_what_names_a_device_or_is_a_secret_is_taken_out_of_every_text() -> None:
    given_ = samples.inputs()
    told = f"{samples.UUID} of {samples.MAC}, serial number: {samples.SERIAL}, token=hf_abcdefghijklmnopqrst"
    given_.gathered["hosts"]["spark-beta"]["records"].append(
        make_record("gpu.x", "spark-beta", told, told, "fail", told)
    )
    given_.gathered["diagnoses"].append(told)
    text = json.dumps(make_document(given_))
    for one in (samples.UUID, samples.MAC, samples.SERIAL, "hf_abcdefghijklmnopqrst"):
        assert one not in text


@pytest.mark.hostile
@pytest.mark.slow  # whole reports of hosts that say anything at all
@given(
    st.dictionaries(
        st.sampled_from(["observation", "records", "serving", "gpus", "burn_in", "history", "repins", "links"]),
        documents(
            ["gpu_health", "topology", "checks", "id", "verdict", "facts", "driver", "smi-xml", "packages", "fabric"]
        ),
        min_size=1,
    )
)
@examples(60)
def test_a_host_that_answers_anything_does_not_break_the_report(answer: dict[str, Any]) -> None:
    given_ = samples.inputs("h100x8")
    given_.gathered["hosts"]["h100"] |= answer
    document = make_document(given_)
    assert document["verdict"]["verdict"] in ("accepted", "not accepted", "incomplete")
    json.dumps(document, allow_nan=False)
