# SPDX-License-Identifier: Apache-2.0
"""What faces others on a host, from an observation of it."""

from __future__ import annotations

import pytest
from ansible.errors import AnsibleFilterError
from ansible_collections.firstlight.cluster.plugins.filter.facing_found import FilterModule

facing_found = FilterModule().filters()["facing_found"]


def test_only_what_is_loaded() -> None:
    units = {"firstlight-endpoint.service": {"load": "loaded"}, "firstlight-firewall.service": {"load": "not-found"}}
    assert facing_found({"units": units}) == ["endpoint"]


@pytest.mark.parametrize("value", [None, "text", []])
def test_what_is_no_observation_is_refused(value: object) -> None:
    with pytest.raises(AnsibleFilterError, match="facing_found takes an observation"):
        facing_found(value)
