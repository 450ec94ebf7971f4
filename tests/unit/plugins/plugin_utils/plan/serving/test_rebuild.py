# SPDX-License-Identifier: Apache-2.0
"""What an engine has to make anew when its shards or its weights change."""

from __future__ import annotations

from typing import Any

import pytest
from ansible_collections.firstlight.cluster.plugins.plugin_utils.launch.description import PROFILES
from ansible_collections.firstlight.cluster.plugins.plugin_utils.plan.serving.rebuild import (
    rebuild_notes,
    standing_notes,
)

SEEN = {"config": {"groups": {"server": {"model": "llama-3.3-70b", "tensor_parallel": 4}}}}


def plan(profile: str = "tensorrt-llm", size: int = 4, model: str = "llama-3.3-70b", **environment: str) -> Any:
    server = {
        "inference_server_profile": profile,
        "inference_server_tensor_parallel": size,
        "inference_server_served_name": model,
        "inference_server_environment": environment,
    }
    return {"roles": {"inference_server": server}}


@pytest.mark.parametrize("profile", PROFILES)
def test_nothing_is_said_where_nothing_changes(profile: str) -> None:
    assert rebuild_notes(SEEN, plan(profile)) == []


@pytest.mark.parametrize("profile", PROFILES)
def test_other_shards_are_told_for_every_engine(profile: str) -> None:
    (note,) = rebuild_notes(SEEN, plan(profile, size=8))
    assert note.startswith("tensor parallel changes from 4 to 8: ")
    assert "no engine files" in note
    assert note.endswith("takes as long as a first one")


def test_another_quantisation_is_another_model() -> None:
    (note,) = rebuild_notes(SEEN, plan(model="llama-3.3-70b-fp8-dynamic", size=2))
    assert (
        "tensor parallel changes from 4 to 2 and the model changes from llama-3.3-70b to llama-3.3-70b-fp8-dynamic"
        in note
    )
    assert "quantisation" in note
    assert "trtllm-build" in note


def test_what_was_tuned_and_kept_is_named() -> None:
    kept: dict[str, Any] = {"TLLM_AUTOTUNER_CACHE_PATH": "/models/tuned.json"}
    assert "/models/tuned.json" in rebuild_notes(SEEN, plan(size=8, **kept))[1]
    assert rebuild_notes(SEEN, plan(**kept)) == []
    assert len(rebuild_notes(SEEN, plan("sglang", size=8, **kept))) == 1


@pytest.mark.parametrize(
    "seen", [{}, {"config": None}, {"config": {"groups": {"a": None, "b": {"tensor_parallel": None, "model": ""}}}}]
)
def test_a_host_that_serves_nothing_yet(seen: dict[str, Any]) -> None:
    assert rebuild_notes(seen, plan(size=8)) == []
    assert rebuild_notes(SEEN, {"roles": {"inference_server": None}}) == []


@pytest.mark.parametrize("profile", [*PROFILES, "", "nothing"])
def test_a_plan_speaks_of_changes_to_come_where_somebody_would_expect_a_build(profile: str) -> None:
    notes = standing_notes(profile)
    assert len(notes) == (profile == "tensorrt-llm")
    assert all("tensor_parallel" in note and "quantisation" in note and "trtllm-build" in note for note in notes)
