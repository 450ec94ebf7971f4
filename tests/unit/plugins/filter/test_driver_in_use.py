# SPDX-License-Identifier: Apache-2.0
"""The filter as Ansible calls it."""

from __future__ import annotations

from typing import Any

import pytest
from ansible.errors import AnsibleFilterError
from ansible_collections.firstlight.cluster.plugins.filter.driver_in_use import FilterModule

driver_in_use = FilterModule().filters()["driver_in_use"]
MOVED = [{"kind": "package", "key": "nvidia-utils-580", "expected": "2", "observed": "1"}]


def test_problems_are_told() -> None:
    serving = {"units": {"firstlight-ray.service": {"active": True}}}
    assert driver_in_use(MOVED, serving, "install") == [
        "package nvidia-utils-580 is version 1, expected version 2, while firstlight-ray.service runs"
    ]
    assert driver_in_use([], {}, "install") == []


@pytest.mark.parametrize("wrong", [(None, {}, "install"), ([], [], "install"), ([], {}, None), ([{}], {}, "install")])
def test_wrong_use_is_refused(wrong: tuple[Any, Any, Any]) -> None:
    with pytest.raises(AnsibleFilterError, match="driver_in_use"):
        driver_in_use(*wrong)
