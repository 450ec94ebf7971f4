# SPDX-License-Identifier: Apache-2.0
"""What the playbooks that add, replace and remove hosts refuse on paper, or when nobody answers."""

from __future__ import annotations

import json
import re

import pytest

from tests.unit.ansible_runs import run_playbook

pytestmark = pytest.mark.slow  # a run of Ansible each

REST = {"serving": {"tensor_parallel": 1, "pipeline_parallel": 3}}
GIVEN = {
    "firstlight_image": "registry.example.com/vllm@sha256:" + "1" * 64,
    "firstlight_image_build": False,
    "firstlight_model_revision": "2" * 40,
    # No packet leaves this machine: nobody answers.
    "ansible_ssh_common_args": "-oProxyCommand=false",
}
SMALLER = {"firstlight_model": "llama-3.3-70b-fp8-dynamic"}


def run(playbook: str, **variables: object) -> tuple[int, str]:
    inventory = "src/firstlight/scaffold/spark4"
    done = run_playbook(f"playbooks/{playbook}.yml", "-i", inventory, "-e", json.dumps(GIVEN | variables))
    return done.returncode, " ".join(done.stdout.split())


@pytest.mark.parametrize(
    ("playbook", "variables", "said"),
    [
        ("add_nodes", {}, "no host is named, expected the new hosts: add -e nodes=spark-4"),
        ("replace_node", {"node": "spark-1"}, "spark-1 is the head"),
        ("replace_node", {"node": "spark-2", **SMALLER}, "spark-2 (spark-2.local) does not answer"),
        ("remove_node", {}, "no host is named, expected the one to remove"),
        ("remove_node", {"node": "spark-4"}, "3 x gb10 have 3 GPUs, and the model is sharded over all of them"),
        ("remove_node", {"node": "spark-4", **REST}, "29.2 GiB are missing"),
        ("remove_node", {"node": "spark-4", **REST, **SMALLER}, "spark-4 does not answer, expected an answer"),
        *(
            pytest.param(*refused, marks=pytest.mark.extended)  # the same steps; tests of the names have the reasons
            for refused in (
                ("add_nodes", {"nodes": "spark-9"}, "spark-9 is neither a host of the cluster nor a group with any"),
                ("remove_node", {"node": "spark-1"}, "spark-1 is the head"),
            )
        ),
    ],
)
def test_it_is_refused_and_nothing_was_changed(playbook: str, variables: dict[str, object], said: str) -> None:
    status, output = run(playbook, **variables)
    assert status != 0
    assert said in output
    assert set(re.findall(r" changed=(\d+)", output)) == {"0"}


@pytest.mark.extended  # runs of Ansible, some seconds
def test_a_host_that_is_gone_is_not_asked_and_the_owner_told_what_to_write() -> None:
    status, output = run("remove_node", node="spark-2", gone=True, **REST, **SMALLER)
    assert status == 0, output
    assert "of rack a: absent: [2]" in output
    assert "firstlight_serving.pipeline_parallel: 3" in output
