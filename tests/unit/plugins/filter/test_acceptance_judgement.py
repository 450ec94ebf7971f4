# SPDX-License-Identifier: Apache-2.0
"""The filter's edges; what it judges by is tested with the core."""

from __future__ import annotations

import pytest
from ansible.errors import AnsibleFilterError
from ansible_collections.firstlight.cluster.plugins.filter.acceptance_judgement import FilterModule

judgement = FilterModule().filters()["acceptance_judgement"]


def test_results_of_all_hosts_are_judged_together() -> None:
    hardware = {"gpus": 1, "power_limit_w": None, "host_power_w": {"sustained": None, "transient": 240}}
    results = {host: {"hardware": hardware, "measured": {}, "checks": []} for host in ("s0", "s1")}
    judged = judgement(results, {"rack_w": 400})
    assert judged["wrong"][0].startswith("s0: accept.rack_power fails: 2 hosts may take 480 W")
    assert judgement(results, {"rack_w": 400}, accept=["accept.rack_power"])["wrong"] == []
    (record,) = judgement(results, {"rack_w": 400}, accept=["accept.rack_power"])["records"]["s0"]
    assert record["verdict"] == "not_applicable"
    assert judgement(results) == {"records": {"s0": [], "s1": []}, "wrong": []}


@pytest.mark.parametrize("results", [None, "x", ["x"], {"h0": "failed"}, {"h0": {"measured": {"gpus": ["x"]}}}])
def test_what_is_no_result_is_refused_in_words(results: object) -> None:
    with pytest.raises(AnsibleFilterError, match="acceptance_judgement"):
        judgement(results, {"rack_w": 1})
