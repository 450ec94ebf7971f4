# SPDX-License-Identifier: Apache-2.0
"""Where weights come from that do not come from a hub."""

from __future__ import annotations

from typing import Any

import pytest
from ansible_collections.firstlight.cluster.plugins.plugin_utils.intent.weights import check_weights_source
from ansible_collections.firstlight.cluster.plugins.plugin_utils.plan.refusals import Refusals


@pytest.mark.parametrize("given", ["models", "~/models", "", ["/models"], 7, True, {"path": "/models"}])
def test_anything_but_a_whole_path_is_refused(given: Any) -> None:
    refusals = Refusals()
    check_weights_source({"firstlight_weights_source": given}, refusals)
    assert [one["id"] for one in refusals.found] == ["weights.source"]


@pytest.mark.parametrize("intent", [{}, {"firstlight_weights_source": "/mnt/models"}])
def test_a_whole_path_or_none_is_taken(intent: dict[str, Any]) -> None:
    refusals = Refusals()
    check_weights_source(intent, refusals)
    assert not refusals.found
