# SPDX-License-Identifier: Apache-2.0
"""The address clients ask: nginx with TLS, keys and limits before the engine."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ansible_collections.firstlight.cluster.plugins.module_utils.core.endpoint import (
    CONFIGURATION_PATH,
    KEY_MAP_PATH,
    KEYS_DIRECTORY,
    SERVER_CERTIFICATE_PATH,
    SERVER_PEM_PATH,
    UPSTREAM_PATH,
    read_keys,
)
from ansible_collections.firstlight.cluster.plugins.module_utils.core.endpoint_nginx import configuration
from ansible_collections.firstlight.cluster.plugins.module_utils.core.endpoint_unit import UNIT, endpoint_unit
from ansible_collections.firstlight.cluster.plugins.module_utils.core.engine_container import UNIT_DIRECTORY
from ansible_collections.firstlight.cluster.plugins.module_utils.core.launch_description import ENGINE_PORT
from ansible_collections.firstlight.cluster.plugins.module_utils.core.state import root_file, root_secret

DEFAULTS: dict[str, Any] = {
    "endpoint_listen": "127.0.0.1",
    "endpoint_port": 443,
    "endpoint_http_port": 0,
    "endpoint_names": [],
    "endpoint_clients": [],
    "endpoint_upstream": f"http://127.0.0.1:{ENGINE_PORT}",
    "endpoint_paths_more": [],
    "endpoint_keys": [{"name": "default"}],
    "endpoint_rate": 600,
    "endpoint_wrong_rate": 30,
    "endpoint_connections": 512,
    "endpoint_key_connections": 512,
    "endpoint_body_limit": "16m",
    "endpoint_spool_limit": "4g",
    "endpoint_status_port": 8480,
    "endpoint_packages": {"nginx": None, "openssl": None},
}
"""What the role's defaults say too, for a plan that leaves them out."""


def desired(variables: Mapping[str, Any]) -> dict[str, Any]:
    """The packages, the configuration, the secrets' files and the unit."""
    settings = {**DEFAULTS, **variables}
    keys = read_keys(settings["endpoint_keys"], 0)
    secrets = [KEY_MAP_PATH, UPSTREAM_PATH, SERVER_PEM_PATH, *(f"{KEYS_DIRECTORY}/{key.name}" for key in keys)]
    return {
        "packages": dict(settings["endpoint_packages"]),
        "files": {
            CONFIGURATION_PATH: root_file(configuration(settings)),
            f"{UNIT_DIRECTORY}/{UNIT}": root_file(endpoint_unit()),
            SERVER_CERTIFICATE_PATH: {"mode": "0644", "owner": "root", "group": "root"},
            **{path: root_secret() for path in secrets},
        },
        "units": {UNIT: {"enabled": True, "active": True}},
    }
