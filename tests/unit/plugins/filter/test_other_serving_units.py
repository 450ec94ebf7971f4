# SPDX-License-Identifier: Apache-2.0
"""Units of other profiles: everything but one's own and the keeper."""

from __future__ import annotations

import pytest
from ansible.errors import AnsibleFilterError
from ansible_collections.firstlight.cluster.plugins.filter.other_serving_units import FilterModule

other_serving_units = FilterModule().filters()["other_serving_units"]


def test_ones_own_units_are_left_out() -> None:
    others = other_serving_units(["firstlight-server-0.service", "firstlight-balancer.service"])
    assert {"firstlight-server.service", "firstlight-server-1.service", "firstlight-ray.service"} <= {*others}
    assert not {"firstlight-server-0.service", "firstlight-balancer.service"} & {*others}


def test_the_keeper_is_nobodys_other() -> None:
    assert "firstlight-keeper.service" not in other_serving_units([])


def test_servers_are_stopped_before_the_ray_that_they_drive() -> None:
    others = other_serving_units([])
    assert others.index("firstlight-server.service") < others.index("firstlight-ray.service")


@pytest.mark.parametrize("own", ["firstlight-ray.service", 3, None])
def test_names_are_a_list(own: object) -> None:
    with pytest.raises(AnsibleFilterError, match="takes the names of units"):
        other_serving_units(own)
