# SPDX-License-Identifier: Apache-2.0
"""The texts of described machines: every kind, stable, and of one machine."""

from __future__ import annotations

import pytest
from ansible_collections.firstlight.cluster.plugins.module_utils.parsers.reading import KINDS

from firstlight_lab.captures import captures, ray_status, vllm_metrics
from firstlight_lab.nvidia import known_profiles


def test_every_kind_can_be_written() -> None:
    assert {one.kind for one in captures("gb10").values()} == set(KINDS)


@pytest.mark.parametrize("profile", known_profiles())
def test_every_machine_prints_all_that_its_tools_have(profile: str) -> None:
    texts = captures(profile)
    silent = {name for name, one in texts.items() if not one.text.strip()}
    # A GPU that was passed through alone says nothing about links.
    assert silent == ({"nvlink", "nvlink-errors"} if profile == "h200-sxm-1" else set())


def test_a_dead_fabric_manager_leaves_a_state_that_looks_right() -> None:
    texts = captures("h100-sxm-8", ("fabric_manager_dead",))
    assert "Active: failed (Result: signal)" in texts["fabricmanager"].text
    assert texts["query-gpu"].text.count("Completed, Success") == 8


def test_a_cluster_and_a_server_in_trouble() -> None:
    assert " {'GPU': 1.0}: 1+ pending" in ray_status(2, 1, demands=[" {'GPU': 1.0}: 1+ pending"])
    assert 'num_requests_waiting{engine="0",model_name="tiny"} 80.0' in vllm_metrics(waiting=80)
