# SPDX-License-Identifier: Apache-2.0
"""inference_server with SGLang and TensorRT-LLM, on one node and on several."""

from __future__ import annotations

from typing import Any

import pytest
from ansible_collections.firstlight.cluster.plugins.plugin_utils.plan.serving.inference_server import desired

NODES = [{"name": "spark0", "address": "192.168.100.10"}, {"name": "spark1", "address": "192.168.100.11"}]
KEY, MPI = "/etc/firstlight/server.env", "/etc/firstlight/mpi.key"
UNIT = "/etc/systemd/system/firstlight-server.service"


def state(profile: str, rank: int = 0, nodes: list[dict[str, str]] = NODES, **more: Any) -> dict[str, Any]:
    return desired(
        {
            "inference_server_profile": profile,
            "inference_server_image": "registry.example/engine@sha256:" + "0f" * 32,
            "inference_server_model_directory": "/models/m",
            "inference_server_served_name": "tiny",
            "inference_server_tensor_parallel": 2,
            "inference_server_nodes": nodes,
            "inference_server_rank": rank,
            "inference_server_node_address": (nodes or NODES)[rank]["address"],
            **more,
        }
    )


@pytest.mark.parametrize("profile", ["sglang", "tensorrt-llm"])
@pytest.mark.parametrize("nodes", [[], NODES[:1]])
def test_one_node_has_one_server_and_no_ranks(profile: str, nodes: list[dict[str, str]]) -> None:
    found = state(profile, nodes=nodes)
    assert found["units"] == {"firstlight-server.service": {"enabled": False, "active": True}}
    assert list(found["containers"]) == ["firstlight-server"]
    assert KEY in found["files"]
    assert MPI not in found["files"]
    assert "rank" not in found["files"][UNIT]["content"].split("[Service]")[0]


def test_sglang_has_its_key_where_it_answers() -> None:
    head, worker = state("sglang"), state("sglang", 1)
    assert KEY in head["files"]
    assert KEY not in worker["files"]
    assert "/usr/local/lib/firstlight/sglang_server.py" in head["files"]
    assert f"--env-file={KEY}" in head["files"][UNIT]["content"]
    assert "sglang.launch_server" in worker["files"][UNIT]["content"]
    for one, rank in ((head, 0), (worker, 1)):
        assert f"--node-rank={rank}" in one["files"][UNIT]["content"]
        assert "--dist-init-addr=192.168.100.10:29501" in one["files"][UNIT]["content"]


def test_tensorrt_llm_shares_the_heads_key_and_waits_for_the_others() -> None:
    settings = {"max_seq_len": 256, "kv_cache_config": {"dtype": "fp8"}}
    head = state("tensorrt-llm", inference_server_settings=settings)
    worker = state("tensorrt-llm", 1, inference_server_settings=settings)
    assert head["files"][MPI]["same_as"] is None
    assert worker["files"][MPI]["same_as"] == "spark0"
    text = head["files"]["/etc/firstlight/tensorrt-llm.yml"]["content"]
    assert text == '---\nmax_seq_len: 256\nkv_cache_config:\n  dtype: "fp8"\n'
    assert "/dev/tcp/$$node/2233" in head["files"][UNIT]["content"]
    assert "192.168.100.10:1,192.168.100.11:1" in head["files"][UNIT]["content"]
    assert "StrictHostKeyChecking=yes" in head["files"][UNIT]["content"]
    assert "ListenAddress=192.168.100.11" in worker["files"][UNIT]["content"]
    assert "/dev/tcp" not in worker["files"][UNIT]["content"]


def test_an_engines_own_flags_are_refused_by_its_own_names() -> None:
    with pytest.raises(ValueError, match="inference_server_flags has --tp-size"):
        state("sglang", inference_server_flags=["--tp-size=4"])
    with pytest.raises(ValueError, match="inference_server_flags has --config"):
        state("tensorrt-llm", inference_server_flags=["--config=/x"])
