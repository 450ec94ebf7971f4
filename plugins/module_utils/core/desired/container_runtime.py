# SPDX-License-Identifier: Apache-2.0
"""Docker and what it needs for GPUs: exact packages, the daemon's settings, a running service."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from ansible_collections.firstlight.cluster.plugins.module_utils.core.state import root_file

DAEMON_FILE = "/etc/docker/daemon.json"


def daemon_json(settings: Mapping[str, Any]) -> str:
    """The daemon's settings as Docker reads them; sorted, so that equal settings are equal bytes."""
    return json.dumps(dict(settings), indent=2, sort_keys=True) + "\n"


def desired(variables: Mapping[str, Any]) -> dict[str, Any]:
    """Packages at their pins, `daemon.json`, and the service enabled and running."""
    packages = variables["container_runtime_packages"] or {}
    return {
        "packages": {str(name): None if version is None else str(version) for name, version in packages.items()},
        "files": {DAEMON_FILE: root_file(daemon_json(variables["container_runtime_daemon"]))},
        "units": {str(variables["container_runtime_service"]): {"enabled": True, "active": True}},
    }
