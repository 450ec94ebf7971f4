# SPDX-License-Identifier: Apache-2.0
"""One node with four H100: no Ray, no fabric, the same playbook."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator

import pytest

from tests.e2e.support import CHECKOUT, Checkout, Outcome

Site = Callable[..., Outcome]


@pytest.fixture(scope="module")
def checkout() -> Checkout:
    return Checkout(CHECKOUT, "h100x4")


@pytest.fixture(scope="module")
def site(checkout: Checkout) -> Iterator[Site]:
    """site.yml on a converged node."""

    def run(*arguments: str) -> Outcome:
        command = ".venv/bin/ansible-playbook site.yml -i inventory/lab-h100x4"
        return checkout.run(f"{command} {' '.join(arguments)}")

    try:
        up = checkout.run(".venv/bin/firstlight lab up --nodes 1 --profile h100-sxm-4-nvswitch")
        assert up.status == 0, up.output
        first = run()
        assert first.status == 0, first.output[-6000:]
        assert "-tp4" in first.output
        yield run
    finally:
        checkout.run(".venv/bin/firstlight lab down")


def on_node(checkout: Checkout, command: str) -> str:
    return checkout.run(f".venv/bin/firstlight lab ssh gpu0 {command}").output


def test_the_node_shows_four_gpus_behind_an_nvswitch(checkout: Checkout, site: Site) -> None:
    assert on_node(checkout, "nvidia-smi -L").count("NVIDIA H100 80GB HBM3") == 4
    assert on_node(checkout, "nvidia-smi topo -m").count("NV18") == 12


def test_a_single_node_runs_no_ray(checkout: Checkout, site: Site) -> None:
    assert on_node(checkout, "docker ps --format {{.Names}}").split() == ["firstlight-server"]


@pytest.mark.extended  # Molecule's gpu_verify names such a GPU, too
def test_a_gpu_that_is_gone_is_named_before_anything_is_done(checkout: Checkout, site: Site) -> None:
    machine = "/etc/firstlight-lab/machine.json"
    before = json.loads(on_node(checkout, f"cat {machine}"))
    broken = json.dumps({**before, "faults": ["gpu_missing:2"]})
    on_node(checkout, f"\"echo '{json.dumps(broken)[1:-1]}' > {machine}\"")
    try:
        outcome = site()
    finally:
        on_node(checkout, f"\"echo '{json.dumps(json.dumps(before))[1:-1]}' > {machine}\"")
    assert outcome.status != 0
    assert outcome.recap["gpu0"]["changed"] == 0
    assert "look for the missing GPU" in outcome.output, outcome.output[-3000:]
    healthy = site()
    assert healthy.status == 0, healthy.output[-6000:]
    assert healthy.recap["gpu0"]["changed"] == 0
