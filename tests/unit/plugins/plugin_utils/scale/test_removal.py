# SPDX-License-Identifier: Apache-2.0
"""A host that goes: the others stay where they are, and the owner is told what to write."""

from __future__ import annotations

from typing import Any

import pytest
from ansible_collections.firstlight.cluster.plugins.plugin_utils.scale.removal import (
    inventory_words,
    removal_problems,
    stops,
)


def plans(profile: str = "vllm-ray", **addresses: int) -> dict[str, dict[str, Any]]:
    return {
        host: {
            "cluster": {"profile": profile, "hosts": list(addresses)},
            "host": {"name": host, "fabric": [{"address": f"192.168.100.{number}/24"}]},
        }
        for host, number in addresses.items()
    }


def test_hosts_that_stay_where_they_are() -> None:
    assert removal_problems(plans(a=10, b=11, c=12), plans(a=10, b=11)) == []
    assert stops(plans(c=12)["c"], []) == ""
    assert inventory_words("c", {}, {}) == ["take c out of hosts.yml"]


def test_a_host_that_would_move_is_refused() -> None:
    assert removal_problems(plans(a=10, b=11, c=12), plans(a=10, c=11)) == [
        (
            "c would move from 192.168.100.12/24 to 192.168.100.11/24 on the fabric, expected every other host to "
            "stay where it "
            "is: give it firstlight_fabric_number in the inventory, or describe the hosts as a rack (docs/racks.md)"
        )
    ]


def test_what_to_write_of_a_rack_and_of_serving() -> None:
    place = {"name": "a", "position": 4, "serial": "S4"}
    assert inventory_words("c", place, {"pipeline_parallel": 3}) == [
        "of rack a: absent: [4], in addition to those already absent",
        "and take position 4 (S4) out of its serials",
        "firstlight_serving.pipeline_parallel: 3",
    ]


@pytest.mark.parametrize(("profile", "where"), [("vllm-ray", "a, b, c"), ("ray-serve", "c")])
def test_what_stops(profile: str, where: str) -> None:
    said = stops(plans(profile, a=10, b=11, c=12)["c"], ["firstlight-ray.service runs"])
    assert said == f"{profile} serves on c (firstlight-ray.service runs) and stops on {where}"
