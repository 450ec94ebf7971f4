# SPDX-License-Identifier: Apache-2.0
"""What `ray status` prints in the wordings of several releases."""

from __future__ import annotations

from pathlib import Path

import pytest
from ansible_collections.firstlight.cluster.plugins.module_utils.core.ray_status import parse_ray_status

FIXTURES = Path(__file__).resolve().parents[4] / "fixtures" / "ray"


def test_two_idle_nodes_in_the_older_wording() -> None:
    status = parse_ray_status((FIXTURES / "status-2.40-two-nodes.txt").read_text())
    assert (status.active, status.gpus, status.pending, status.failures, status.demands) == (
        2,
        2.0,
        (),
        (),
        (),
    )
    assert status.resources["memory"] == ("0B", "180.21GiB")
    assert status.words == "2 active nodes with 2 GPUs"


def test_a_cluster_that_waits_for_nodes() -> None:
    status = parse_ray_status((FIXTURES / "status-2.60-waiting.txt").read_text())
    assert status.active == 1
    assert status.resources["GPU"] == ("1.0", "1.0")
    assert status.pending == ("192.168.100.12: ray.worker, setting-up",)
    assert status.words == (
        "1 active nodes with 1 GPUs, recent failures: 192.168.100.13: ray.worker (ip: 192.168.100.13), "
        "waiting: {'GPU': 1.0} * 4 (PACK): 1+ pending placement groups"
    )


@pytest.mark.parametrize("text", ["", "\n\n", "ConnectionError: Ray is trying to start at 192.168.100.10:6379\n"])
def test_something_else_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="expected the report of `ray status`"):
        parse_ray_status(text)
