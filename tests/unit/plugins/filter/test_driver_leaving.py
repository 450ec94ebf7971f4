# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import pytest
from ansible.errors import AnsibleFilterError
from ansible_collections.firstlight.cluster.plugins.filter.driver_leaving import FilterModule, driver_leaving


def test_the_former_driver_goes() -> None:
    observed = {"installed": "580.95.05", "related": ["nvidia-utils-580"], "mixed": []}
    assert driver_leaving(observed, {"version": "590.48.01"}) == ["nvidia-utils-580"]
    assert driver_leaving(observed, {"branch": "580"}) == []
    assert FilterModule().filters() == {"driver_leaving": driver_leaving}


@pytest.mark.parametrize("wrong", [(None, {}), ({}, "590")])
def test_wrong_use_is_refused(wrong: tuple[object, object]) -> None:
    with pytest.raises(AnsibleFilterError, match="takes the driver of an observation"):
        driver_leaving(*wrong)
