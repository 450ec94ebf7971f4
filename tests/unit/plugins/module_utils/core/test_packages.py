# SPDX-License-Identifier: Apache-2.0
"""Which packages apt is asked for."""

from __future__ import annotations

from ansible_collections.firstlight.cluster.plugins.module_utils.core.differences import differences
from ansible_collections.firstlight.cluster.plugins.module_utils.core.packages import apt_arguments


def test_only_what_differs_is_named() -> None:
    packages = {"runc": "1.1", "docker.io": "20.10", "nvidia-container-toolkit": None, "containerd": None}
    observed = {"packages": {"runc": "1.1", "docker.io": "19", "nvidia-container-toolkit": None, "containerd": "1"}}
    found = differences({"packages": packages}, observed)
    assert apt_arguments(packages, found) == ["docker.io=20.10", "nvidia-container-toolkit"]


def test_nothing_to_do_is_an_empty_list() -> None:
    assert apt_arguments({"docker.io": None}, [{"kind": "file", "key": "docker.io"}]) == []
