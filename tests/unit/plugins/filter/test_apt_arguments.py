# SPDX-License-Identifier: Apache-2.0
"""The filter as Ansible calls it."""

from __future__ import annotations

from typing import Any

import pytest
from ansible.errors import AnsibleFilterError
from ansible_collections.firstlight.cluster.plugins.filter.apt_arguments import FilterModule

apt_arguments = FilterModule().filters()["apt_arguments"]


def test_names() -> None:
    assert apt_arguments({"docker.io": "20.10"}, [{"kind": "package", "key": "docker.io"}]) == ["docker.io=20.10"]


@pytest.mark.parametrize(("packages", "found"), [([], []), ({}, {}), ({"a": None}, [{"key": "a"}])])
def test_wrong_input_is_refused(packages: Any, found: Any) -> None:
    with pytest.raises(AnsibleFilterError, match="apt_arguments"):
        apt_arguments(packages, found)
