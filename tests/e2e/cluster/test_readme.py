# SPDX-License-Identifier: Apache-2.0
"""The README's commands, as a newcomer runs them in a fresh clone."""

from __future__ import annotations

import re

from tests.e2e.support import HOSTS, Checkout


def outcome_of(cluster: Checkout, words: str) -> str:
    """The output of the first README command that contains these words."""
    return next(outcome.output for outcome in cluster.outcomes if words in outcome.command)


def test_the_demo_ends_with_a_completion_from_four_nodes(cluster: Checkout) -> None:
    output = outcome_of(cluster, "make demo")
    assert "-tp4" in output
    assert re.findall(r"^(\S+) +: ok=\d+ +changed=[1-9]", output, re.MULTILINE) == list(HOSTS)


def test_plain_ansible_output_is_available(cluster: Checkout) -> None:
    output = outcome_of(cluster, "ANSIBLE_STDOUT_CALLBACK=default")
    assert "PLAY RECAP" in output
    assert "TASK [" in output


def test_the_lab_shows_its_nodes(cluster: Checkout) -> None:
    output = outcome_of(cluster, "lab status")
    for host in HOSTS:
        assert host in output
    assert output.count("enP2p1s0f1np1") == len(HOSTS)
