# SPDX-License-Identifier: Apache-2.0
"""The filter around the judgement of a fabric."""

from __future__ import annotations

import pytest
from ansible.errors import AnsibleFilterError
from ansible_collections.firstlight.cluster.plugins.filter.fabric_matrix import FilterModule, fabric_matrix

PARTS = {"spark0": {"ports": [], "peers": [], "result": {"msg": "Failed to connect\nto the host"}}}


def test_a_host_that_did_not_answer() -> None:
    found = fabric_matrix(PARTS, ["spark0", "spark1"])
    assert not found["passed"]
    assert found["diagnoses"][0].startswith("spark0 did not take part (Failed to connect to the host)")
    assert found["records"]["spark0"][0]["verdict"] == "could_not_check"


@pytest.mark.parametrize(("parts", "members"), [([], []), ({}, "spark0")])
def test_other_things_are_refused(parts: object, members: object) -> None:
    with pytest.raises(AnsibleFilterError, match="fabric_matrix takes"):
        fabric_matrix(parts, members)


def test_results_of_another_shape_are_refused() -> None:
    with pytest.raises(AnsibleFilterError, match="cannot judge"):
        fabric_matrix({"spark0": {"result": {"proof": {"paths": [{}]}}}}, ["spark0"])


def test_its_name() -> None:
    assert list(FilterModule().filters()) == ["fabric_matrix"]
