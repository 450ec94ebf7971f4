# SPDX-License-Identifier: Apache-2.0
"""What the role endpoint wants of a host."""

from __future__ import annotations

from ansible_collections.firstlight.cluster.plugins.module_utils.state.vocabulary import check_vocabulary
from ansible_collections.firstlight.cluster.plugins.plugin_utils.comparison.differences import differences
from ansible_collections.firstlight.cluster.plugins.plugin_utils.plan.states import desired_state

from tests.unit.ideal import ideal

KEYS = [{"name": "alice"}, {"name": "ci", "rate": 120}]


def test_every_key_has_a_file_only_root_reads() -> None:
    files = desired_state("endpoint", {"endpoint_keys": KEYS})["files"]
    for path in ("keys/alice", "keys/ci", "keys.map", "upstream.conf", "server.pem"):
        assert files[f"/etc/firstlight/endpoint/{path}"]["mode"] == "0600"
    assert files["/etc/firstlight/endpoint/nginx.conf"]["mode"] == "0644"


def test_the_state_is_one_that_a_host_can_have() -> None:
    state = desired_state("endpoint", {})
    check_vocabulary(state)
    assert differences(state, ideal(state)) == []
    assert state["units"] == {"firstlight-endpoint.service": {"enabled": True, "active": True}}
