# SPDX-License-Identifier: Apache-2.0
"""Predictions against what servers on a real H200 said when they started, from the argv that the plan renders."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from ansible_collections.firstlight.cluster.plugins.plugin_utils.catalog.load import load_catalog
from ansible_collections.firstlight.cluster.plugins.plugin_utils.findings import PlanErrors
from ansible_collections.firstlight.cluster.plugins.plugin_utils.sizing.fit.budget import Fit, fit
from ansible_collections.firstlight.cluster.plugins.plugin_utils.sizing.models.config import read_config

ROOT = Path(__file__).parents[6]
RECORD = json.loads((ROOT / "tests/fixtures/performance/h200-vllm-0.26.0.json").read_text(encoding="utf-8"))["models"]
H200 = load_catalog([ROOT / "catalog"])["hardware"]["h200-sxm-1"]
GIB = 1 << 30


def predicted(config: dict[str, Any]) -> Fit:
    errors = PlanErrors()
    shape = read_config(config, "recorded", errors)
    assert shape is not None, errors.found
    return fit(shape, H200, gpus=1, tensor_parallel=1, utilisation=0.92, context=8192)


@pytest.mark.parametrize("name", RECORD)
def test_memory_of_a_server_on_an_h200(name: str) -> None:
    server, found = RECORD[name], predicted(RECORD[name]["config"])
    assert found.weights_bytes / GIB == pytest.approx(server["weights_gib"], rel=0.015)
    assert found.kv_bytes / GIB == pytest.approx(server["cache_gib"], rel=0.01)
    assert found.kv_tokens == pytest.approx(server["cache_tokens"], rel=0.01)


@pytest.mark.parametrize("name", [name for name, one in RECORD.items() if "num_experts" in one["config"]])
def test_activations_of_a_mixture_of_experts(name: str) -> None:
    """Sampling, not routing, is their peak: 2.68 GiB in bf16 and in FP8."""
    found = predicted(RECORD[name]["config"])
    assert found.activation_bytes / GIB == pytest.approx(RECORD[name]["activation_gib"], rel=0.03)
