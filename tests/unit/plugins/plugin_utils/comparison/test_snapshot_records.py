# SPDX-License-Identifier: Apache-2.0
"""The record of a model that was read again."""

from __future__ import annotations

import pytest
from ansible.errors import AnsibleFilterError
from ansible_collections.firstlight.cluster.plugins.filter.snapshot_records import FilterModule

snapshot_records = FilterModule().filters()["snapshot_records"]


def test_a_model_that_is_whole_passes() -> None:
    (record,) = snapshot_records({"problems": [], "files": 7}, "spark0")
    assert (record["id"], record["host"], record["verdict"]) == ("weights.bytes", "spark0", "pass")
    assert record["observed"] == "all 7 files as they were verified"


def test_a_file_that_is_wrong_is_named_with_what_to_do() -> None:
    problems = [f"model-{number}.safetensors is missing" for number in range(7)]
    (record,) = snapshot_records({"problems": problems, "files": 7}, "spark0")
    assert record["verdict"] == "fail"
    assert record["observed"].startswith("model-0.safetensors is missing; ")
    assert record["observed"].endswith(" and 2 more")
    assert "-e weights_rehash=true" in record["remedy"]


@pytest.mark.parametrize("answer", [{"failed": True, "msg": "killed\nhere"}, {"unreachable": True}, {}])
def test_a_host_that_could_not_be_asked_is_not_right(answer: dict[str, object]) -> None:
    (record,) = snapshot_records(answer, "spark0")
    assert record["verdict"] == "could_not_check"
    assert "\n" not in record["observed"]


def test_anything_else_is_refused() -> None:
    with pytest.raises(AnsibleFilterError, match="snapshot_records takes"):
        snapshot_records([], "spark0")
