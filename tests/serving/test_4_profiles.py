# SPDX-License-Identifier: Apache-2.0
"""The other ways to serve, on nodes of the same lab. Each takes the place of the one before it."""

from __future__ import annotations

from tests.serving.lab import MULTINODE, REPLICAS, SINGLE, Profile, Serving


def clear(serving: Serving) -> None:
    """Take down what serves; nothing of it is left."""
    serving.playbook("playbooks/teardown.yml", "-e", f"teardown_confirm={serving.profile.head}")
    serving.on_all(serving.assert_clean, serving.profile.nodes)


def bring_up(serving: Serving, profile: Profile) -> None:
    serving.profile = profile
    for node in profile.nodes:
        serving.machine(node, profile.hardware)
    serving.playbook("site.yml")
    serving.assert_serves()


def test_vllm_multinode_answers_from_two_nodes(serving: Serving) -> None:
    clear(serving)
    bring_up(serving, MULTINODE)
    for node in MULTINODE.nodes:
        assert serving.inside(node, "docker ps --format '{{.Names}}'").split() == ["firstlight-server"]


def test_vllm_single_answers_from_two_gpus_of_one_node(serving: Serving) -> None:
    clear(serving)
    bring_up(serving, SINGLE)


def test_vllm_replicas_answer_behind_one_address(serving: Serving) -> None:
    clear(serving)
    bring_up(serving, REPLICAS)
    names = serving.inside(REPLICAS.head, "docker ps --format '{{.Names}}'").split()
    assert sorted(names) == ["firstlight-server-0", "firstlight-server-1"]
