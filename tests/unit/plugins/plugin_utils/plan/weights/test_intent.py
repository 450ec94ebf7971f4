# SPDX-License-Identifier: Apache-2.0
"""Where weights come from that do not come from a hub."""

from __future__ import annotations

from typing import Any

import pytest
from ansible_collections.firstlight.cluster.plugins.plugin_utils.findings import PlanErrors
from ansible_collections.firstlight.cluster.plugins.plugin_utils.plan.weights.intent import (
    check_model_files,
    check_weights_pin,
    check_weights_source,
)


@pytest.mark.parametrize("given", ["models", "~/models", "", ["/models"], 7, True, {"path": "/models"}])
def test_anything_but_a_whole_path_is_refused(given: Any) -> None:
    errors = PlanErrors()
    check_weights_source({"firstlight_weights_source": given}, errors)
    assert [one["id"] for one in errors.found] == ["weights.source"]


@pytest.mark.parametrize("intent", [{}, {"firstlight_weights_source": "/mnt/models"}])
def test_a_whole_path_or_none_is_taken(intent: dict[str, Any]) -> None:
    errors = PlanErrors()
    check_weights_source(intent, errors)
    assert not errors.found


@pytest.mark.parametrize(
    "given",
    [{"include": "*.pth"}, {"exclude": [7]}, {"exclude": [""]}, {"include": ["/etc/*"]}, {"exclude": ["../x"]}],
)
def test_files_are_named_by_patterns_of_their_paths(given: dict[str, Any]) -> None:
    for intent, model in (({"firstlight_model_files": given}, None), ({}, {"name": "m", "files": given})):
        errors = PlanErrors()
        check_model_files(intent, model, errors)
        assert [one["id"] for one in errors.found] == ["weights.files"]


@pytest.mark.parametrize(
    ("given", "identifier"),
    [(["*.pth"], "intent.type"), ({"leave": ["*.pth"]}, "intent.unknown-key"), (7, "intent.type")],
)
def test_what_is_no_mapping_of_lists_is_refused(given: Any, identifier: str) -> None:
    errors = PlanErrors()
    check_model_files({"firstlight_model_files": given}, None, errors)
    assert [one["id"] for one in errors.found] == [identifier]


def test_patterns_are_taken() -> None:
    errors = PlanErrors()
    check_model_files({"firstlight_model_files": {"include": ["original/*"], "exclude": []}}, {"name": "m"}, errors)
    assert not errors.found


PLAIN = {"firstlight_weights_endpoint": "http://u:p@hub.example"}


@pytest.mark.hostile
@pytest.mark.parametrize(
    ("intent", "stack", "pin", "found"),
    [
        (PLAIN, {}, None, ["weights.endpoint"]),
        ({}, {"weights_endpoint": "http://hub.example"}, None, ["weights.endpoint"]),
        (PLAIN, {}, "sha256:" + "0" * 64, []),
        ({**PLAIN, "firstlight_weights_source": "/mnt"}, {}, None, []),
        ({"firstlight_weights_endpoint": "https://hub.example"}, {"weights_endpoint": "http://x"}, None, []),
        ({}, {}, "sha256:main", ["weights.contents"]),
        ({}, {}, "0" * 64, ["weights.contents"]),
        ({}, None, None, []),
    ],
)
def test_a_hub_without_tls_needs_pinned_bytes(intent: Any, stack: Any, pin: str | None, found: list[str]) -> None:
    errors = PlanErrors()
    check_weights_pin(intent, stack, {"name": "m", "contents": pin}, errors)
    assert [one["id"] for one in errors.found] == found
    assert "u:p" not in str(errors.found)
