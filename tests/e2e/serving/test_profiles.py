# SPDX-License-Identifier: Apache-2.0
"""The other ways to serve, on nodes of the same lab. Each takes the place of the one before it."""

from __future__ import annotations

from tests.e2e.serving.lab import MULTINODE, REPLICAS, SINGLE, Serving
from tests.e2e.serving.places import take_place


def test_vllm_multinode_answers_from_two_nodes(serving: Serving) -> None:
    take_place(serving, MULTINODE)
    for node in MULTINODE.nodes:
        assert serving.inside(node, "docker ps --format '{{.Names}}'").split() == ["firstlight-server"]


def test_vllm_single_answers_from_two_gpus_of_one_node(serving: Serving) -> None:
    take_place(serving, SINGLE)


def test_vllm_replicas_answer_behind_one_address(serving: Serving) -> None:
    take_place(serving, REPLICAS)
    names = serving.inside(REPLICAS.head, "docker ps --format '{{.Names}}'").split()
    assert sorted(names) == ["firstlight-server-0", "firstlight-server-1"]
