# SPDX-License-Identifier: Apache-2.0
"""What is said of `ray status` while a cluster comes together."""

from __future__ import annotations

from pathlib import Path

import pytest
from ansible_collections.firstlight.cluster.plugins.module_utils.ray.status import status_words

FIXTURES = Path(__file__).resolve().parents[4] / "fixtures" / "ray"


def test_two_idle_nodes_in_the_older_wording() -> None:
    assert status_words((FIXTURES / "status-2.40-two-nodes.txt").read_text()) == "2 active nodes with 2 GPUs"


def test_a_cluster_that_waits_for_nodes() -> None:
    assert status_words((FIXTURES / "status-2.60-waiting.txt").read_text()) == (
        "1 active nodes with 1 GPUs, recent failures: 192.168.100.13: ray.worker (ip: 192.168.100.13), "
        "waiting: {'GPU': 1.0} * 4 (PACK): 1+ pending placement groups"
    )


@pytest.mark.parametrize("text", ["", "\n\n", "ConnectionError: Ray is trying to start at 192.168.100.10:6379\n"])
def test_something_else_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="expected the report of `ray status`"):
        status_words(text)
