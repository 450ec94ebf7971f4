# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import pytest
from ansible.errors import AnsibleFilterError
from ansible_collections.firstlight.cluster.plugins.filter.driver_problems import FilterModule, driver_problems


def test_problems_are_told() -> None:
    on = {"mig": {"current": True}}
    assert "MIG is on" in driver_problems(on, {"nvidia-dkms-580": "1"})[0]
    assert driver_problems(on, ["nvidia-dkms-580"], True, False) == []
    assert FilterModule().filters() == {"driver_problems": driver_problems}


@pytest.mark.parametrize("wrong", [(None, []), ({}, "nvidia-dkms-580"), ({}, 3)])
def test_wrong_use_is_refused(wrong: tuple[object, object]) -> None:
    with pytest.raises(AnsibleFilterError, match="takes the driver of an observation"):
        driver_problems(*wrong)
