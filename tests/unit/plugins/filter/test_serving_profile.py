# SPDX-License-Identifier: Apache-2.0
"""Filter serving_profile."""

from __future__ import annotations

import pytest
from ansible.errors import AnsibleFilterError
from ansible_collections.firstlight.cluster.plugins.filter.serving_profile import FilterModule

serving_profile = FilterModule().filters()["serving_profile"]


def test_what_a_profile_needs() -> None:
    assert serving_profile("sglang")["engine"] == "sglang"
    assert serving_profile("sglang")["ranked"]
    assert serving_profile("vllm-ray")["on_ray"]
    assert serving_profile("vllm-replicas")["replicated"]
    assert serving_profile("tensorrt-llm")["by_mpi"]


def test_a_name_that_is_none() -> None:
    with pytest.raises(AnsibleFilterError, match="expected one of vllm-ray"):
        serving_profile("vllm")
