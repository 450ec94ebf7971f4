# SPDX-License-Identifier: Apache-2.0
"""The endpoint for clients: nginx with TLS, keys and limits in front of the engine."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ansible_collections.firstlight.cluster.plugins.module_utils.endpoint.endpoint import (
    CONFIGURATION_PATH,
    HEALTH_PATH,
    KEY_MAP_PATH,
    KEYS_DIRECTORY,
    RUNTIME_DIRECTORY,
    SERVER_CERTIFICATE_PATH,
    SERVER_PEM_PATH,
    SPOOL_DIRECTORY,
    UNIT,
    UPSTREAM_PATH,
    all_paths,
    burst,
    certificate_names,
    check_address,
    check_networks,
    check_number,
    check_size,
    check_upstream,
    path_pattern,
    read_keys,
    spooled_at_once,
)
from ansible_collections.firstlight.cluster.plugins.module_utils.engine_container import UNIT_DIRECTORY
from ansible_collections.firstlight.cluster.plugins.module_utils.state.vocabulary import root_file, root_secret
from ansible_collections.firstlight.cluster.plugins.plugin_utils.launch.balancer import MEMORY_MAX, NGINX, USER
from ansible_collections.firstlight.cluster.plugins.plugin_utils.launch.description import ENGINE_PORT
from ansible_collections.firstlight.cluster.plugins.plugin_utils.templates import render

IN_MEMORY = r"^:[0-9]{0,5}$"
"""Transfer-Encoding and Content-Length of a request that stays in memory: it has no body, or declares a short one."""
_HEALTH_RATE = 600
"""Requests per minute and address on the path that needs no key: load balancers use it, but so can anybody else."""

DEFAULTS: dict[str, Any] = {
    "endpoint_listen": "127.0.0.1",
    "endpoint_port": 443,
    "endpoint_http_port": 0,
    "endpoint_names": [],
    "endpoint_clients": [],
    "endpoint_upstream": f"http://127.0.0.1:{ENGINE_PORT}",
    "endpoint_extra_paths": [],
    "endpoint_keys": [{"name": "default"}],
    "endpoint_rate": 600,
    "endpoint_auth_failure_rate": 30,
    "endpoint_connections": 512,
    "endpoint_key_connections": 512,
    "endpoint_body_limit": "16m",
    "endpoint_spool_limit": "4g",
    "endpoint_status_port": 8480,
    "endpoint_packages": {"nginx": None, "openssl": None},
}
"""The role's defaults, for a plan that leaves them out."""


def desired(variables: Mapping[str, Any]) -> dict[str, Any]:
    """Return the desired packages, configuration, secret files and unit."""
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


def configuration(settings: Mapping[str, Any]) -> str:
    """Render the nginx configuration. It holds no secret: those are in separate files that only root can read."""

    def number(name: str, least: int, most: int) -> int:
        return check_number(f"endpoint_{name}", settings[f"endpoint_{name}"], least, most)

    keys = read_keys(settings["endpoint_keys"], number("rate", 0, 60_000))
    names = certificate_names(settings)
    port, http_port = number("port", 1, 65_535), number("http_port", 0, 65_535)
    if port == http_port:
        raise ValueError(f"endpoint_http_port and endpoint_port are both {port}, expected two ports: change one")
    auth_failure_rate = number("auth_failure_rate", 1, 60_000)
    spooled = spooled_at_once(settings["endpoint_spool_limit"], settings["endpoint_body_limit"])
    return render(
        "endpoint",
        "nginx.conf",
        keys=[key.name for key in keys],
        names=names,
        server_names=[name for name in names if ":" not in name],
        user=USER,
        run_directory=f"/run/{RUNTIME_DIRECTORY}",
        spool_directory=f"/var/cache/{SPOOL_DIRECTORY}",
        key_map_path=KEY_MAP_PATH,
        server_pem_path=SERVER_PEM_PATH,
        upstream_path=UPSTREAM_PATH,
        upstream=check_upstream(settings["endpoint_upstream"]),
        body_limit=check_size("endpoint_body_limit", settings["endpoint_body_limit"]),
        path_pattern=path_pattern(all_paths(settings["endpoint_extra_paths"])),
        in_memory=IN_MEMORY,
        clients=check_networks(settings["endpoint_clients"]),
        auth_failure_rate=auth_failure_rate,
        auth_failure_burst=burst(auth_failure_rate),
        health_path=HEALTH_PATH,
        health_rate=_HEALTH_RATE,
        health_burst=burst(_HEALTH_RATE),
        rates=[
            {"rate": rate, "burst": burst(rate), "names": [key.name for key in keys if key.rate == rate]}
            for rate in sorted({key.rate for key in keys if key.rate})
        ],
        listen=_place(settings, port),
        http_listen=_place(settings, http_port) if http_port else "",
        https_port="" if port == 443 else f":{port}",
        connections=number("connections", 1, 8192),
        key_connections=number("key_connections", 1, 8192),
        spooled=spooled,
        key_spooled=spooled if len(keys) < 2 else max(1, spooled // 2),
        status_port=number("status_port", 0, 65_535),
    )


def endpoint_unit() -> str:
    """Render the systemd unit of the endpoint."""
    return render(
        "endpoint",
        "endpoint.service",
        nginx=NGINX,
        configuration_path=CONFIGURATION_PATH,
        runtime_directory=RUNTIME_DIRECTORY,
        cache_directory=SPOOL_DIRECTORY,
        memory_max=MEMORY_MAX,
    )


def _place(settings: Mapping[str, Any], port: int) -> str:
    listen = check_address("endpoint_listen", settings["endpoint_listen"])
    # The IPv6 wildcard serves IPv4 clients too, as it does in the engine.
    return f"[{listen}]:{port}" + (" ipv6only=off" if listen == "::" else "") if ":" in listen else f"{listen}:{port}"
