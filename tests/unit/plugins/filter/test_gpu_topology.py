# SPDX-License-Identifier: Apache-2.0
"""The topology for people, as a table and as a picture."""

from __future__ import annotations

from typing import Any
from xml.etree import ElementTree

import pytest
from ansible.errors import AnsibleFilterError
from ansible_collections.firstlight.cluster.plugins.filter.gpu_topology import FilterModule, gpu_topology

HEALTH: dict[str, Any] = {
    "checks": [],
    "topology": {
        "gpus": ["GPU0", "GPU1"],
        "nics": ["NIC0"],
        "cells": {
            "GPU0": {"GPU1": "NV18", "NIC0": "PIX"},
            "GPU1": {"GPU0": "NV18", "NIC0": "SYS"},
            "NIC0": {"GPU0": "PIX", "GPU1": "SYS"},
        },
        "affinity": {},
        "nic_names": {"NIC0": "mlx5_0"},
        "complete": True,
    },
}


def test_a_table_for_the_terminal() -> None:
    told = gpu_topology(HEALTH)
    assert isinstance(told, list)
    assert any("GPU1" in line and "NV18" in line and "SYS" in line for line in told)


def test_a_picture_with_a_title() -> None:
    told = gpu_topology(HEALTH, svg=True, title="gpu3 & more")
    assert isinstance(told, str)
    assert ElementTree.fromstring(told).tag.endswith("svg")
    assert "gpu3 &amp; more" in told


@pytest.mark.parametrize("wrong", [[], {}, {"topology": None}, {"checks": []}])
def test_what_has_no_topology_is_refused(wrong: object) -> None:
    with pytest.raises(AnsibleFilterError, match=r"takes observation\.gpu_health of a host with a topology"):
        FilterModule().filters()["gpu_topology"](wrong)


def test_a_topology_that_is_none_is_one_message() -> None:
    with pytest.raises(AnsibleFilterError, match="cannot show this topology"):
        gpu_topology({"topology": {"gpus": 3, "cells": 4}})
