# SPDX-License-Identifier: Apache-2.0
"""A power loss of all four nodes: they serve again by themselves."""

from __future__ import annotations

from tests.e2e.serving.lab import Serving
from tests.e2e.support import HOSTS

TESTED_AT = "stat -c %Y /var/lib/firstlight/fabric.connectivity"


def test_all_four_lose_their_power_at_once(serving: Serving) -> None:
    """They come back with their links plugged, their fabric configured, their driver loaded, and serving.

    The next run finds nothing to do, and does not verify again what was verified.
    """
    began = serving.before_a_fault()
    verified = [serving.inside(node, TESTED_AT) for node in HOSTS]
    serving.on_all(lambda node: serving.power(node, "off"))
    serving.on_all(lambda node: serving.power(node, "on"))
    serving.record("all four power-cycled at once", began, serving.served(began))
    serving.assert_serves()
    for number, node in enumerate(HOSTS, start=10):
        assert f"192.168.100.{number}/24" in serving.inside(node, "ip -br addr show enp1s0f1np1")
        assert "580." in serving.inside(node, "nvidia-smi --query-gpu=driver_version --format=csv,noheader")
    run = serving.playbook("site.yml")
    assert set(run.changed.values()) == {0}, run.output[-6000:]
    assert [serving.inside(node, TESTED_AT) for node in HOSTS] == verified
