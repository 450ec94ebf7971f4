# SPDX-License-Identifier: Apache-2.0
"""One node with four H100: no Ray, no fabric, the same playbook."""

from __future__ import annotations

import pytest

from tests.e2e.serving.lab import Serving


def test_the_node_shows_four_gpus_behind_an_nvswitch(node: Serving) -> None:
    assert node.inside("gpu0", "nvidia-smi -L").count("NVIDIA H100 80GB HBM3") == 4
    assert node.inside("gpu0", "nvidia-smi topo -m").count("NV18") == 12


def test_a_single_node_runs_no_ray(node: Serving) -> None:
    assert node.inside("gpu0", "docker ps --format '{{.Names}}'").split() == ["firstlight-server"]


@pytest.mark.extended  # Molecule's gpu_verify names such a GPU, too
def test_a_gpu_that_is_gone_is_named_before_anything_is_done(node: Serving) -> None:
    fault = ("firstlight", "lab", "fault", "--name", node.name, "gpu0")
    node.command(*fault, "gpu_missing:2")
    try:
        run = node.playbook("site.yml", fails=True)
    finally:
        node.command(*fault)
    assert run.changed == {"gpu0": 0}
    assert "look for the missing GPU" in run.output, run.output[-3000:]
    assert node.playbook("site.yml").changed == {"gpu0": 0}
