# SPDX-License-Identifier: Apache-2.0
"""What container_runtime makes of its variables."""

from __future__ import annotations

import json
from typing import Any

import pytest
from ansible_collections.firstlight.cluster.plugins.module_utils.core.desired.container_runtime import desired
from ansible_collections.firstlight.cluster.plugins.module_utils.core.differences import differences
from ansible_collections.firstlight.cluster.plugins.module_utils.core.state import ideal

DAEMON: dict[str, Any] = {
    "log-opts": {"max-size": "50m", "max-file": "3"},
    "live-restore": True,
    "log-driver": "local",
}

PACKAGES = {"docker.io": "20.10.24+dfsg1-1+deb12u1", "nvidia-container-toolkit": None}

GOLDEN = """\
{
  "live-restore": true,
  "log-driver": "local",
  "log-opts": {
    "max-file": "3",
    "max-size": "50m"
  }
}
"""


def variables(**changes: Any) -> dict[str, Any]:
    return {
        "container_runtime_packages": {
            "docker.io": "20.10.24+dfsg1-1+deb12u1",
            "nvidia-container-toolkit": None,
        },
        "container_runtime_daemon": DAEMON,
        "container_runtime_service": "docker.service",
        **changes,
    }


def test_state() -> None:
    state = desired(variables())
    assert state == {
        "packages": PACKAGES,
        "files": {"/etc/docker/daemon.json": {"content": GOLDEN, "mode": "0644", "owner": "root", "group": "root"}},
        "units": {"docker.service": {"enabled": True, "active": True}},
    }
    assert differences(state, ideal(state)) == []


def test_equal_settings_are_equal_bytes() -> None:
    reordered = dict(reversed(DAEMON.items()))
    assert desired(variables())["files"] == desired(variables(container_runtime_daemon=reordered))["files"]


def test_a_version_that_yaml_took_for_a_number_is_a_version() -> None:
    assert desired(variables(container_runtime_packages={"docker.io": 20.1}))["packages"] == {"docker.io": "20.1"}


@pytest.mark.parametrize("settings", [{}, {"insecure": ["é"], "n": 1}])
def test_settings_survive_the_file(settings: dict[str, Any]) -> None:
    content = desired(variables(container_runtime_daemon=settings))["files"]["/etc/docker/daemon.json"]["content"]
    assert json.loads(content) == settings
