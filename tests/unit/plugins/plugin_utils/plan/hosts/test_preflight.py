# SPDX-License-Identifier: Apache-2.0
"""What preflight asks of a host."""

from __future__ import annotations

from ansible_collections.firstlight.cluster.plugins.plugin_utils.comparison.differences import differences
from ansible_collections.firstlight.cluster.plugins.plugin_utils.plan.hosts.preflight import desired

from tests.unit.ideal import ideal


def test_everything_asked() -> None:
    state = desired(
        {
            "preflight_distributions": [{"distribution": "Ubuntu", "version": 24.04}],
            "preflight_gpus": {"count": 1, "name": "NVIDIA GB10"},
            "preflight_ports": ["enp1s0f1np1", "enP2p1s0f1np1"],
            "preflight_disk": {"/srv/models": "450000000000"},
        }
    )
    assert state == {
        "distributions": [{"distribution": "ubuntu", "version": "24.04"}],
        "links": {"enp1s0f1np1": {}, "enP2p1s0f1np1": {}},
        "gpus": {"count": 1, "name": "NVIDIA GB10"},
        "disk_free": {"/srv/models": 450000000000},
    }
    assert differences(state, ideal(state)) == []


def test_empty_variables_ask_nothing() -> None:
    assert (
        desired({"preflight_distributions": [], "preflight_gpus": {}, "preflight_ports": [], "preflight_disk": {}})
        == {}
    )
    assert desired({}) == {}
    assert desired({"preflight_gpus": {"count": 0, "name": ""}}) == {}
