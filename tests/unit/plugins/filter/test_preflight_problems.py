# SPDX-License-Identifier: Apache-2.0
"""The filter as Ansible calls it."""

from __future__ import annotations

from typing import Any

import pytest
from ansible.errors import AnsibleFilterError
from ansible_collections.firstlight.cluster.plugins.filter.preflight_problems import FilterModule

preflight_problems = FilterModule().filters()["preflight_problems"]


def test_problems() -> None:
    told = preflight_problems({"links": {"fab0": {"exists": False}}}, {"links": {"fab0": {}}})
    assert len(told) == 1
    assert told[0].startswith("link fab0 is missing")


@pytest.mark.parametrize(("observation", "expected"), [([], {}), ({}, []), ({}, {"no such word": {}})])
def test_wrong_input_is_refused(observation: Any, expected: Any) -> None:
    with pytest.raises(AnsibleFilterError, match="preflight_problems"):
        preflight_problems(observation, expected)
