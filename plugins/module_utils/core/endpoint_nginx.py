# SPDX-License-Identifier: Apache-2.0
"""The endpoint as nginx is told: nginx from the distribution, with a configuration and a unit of its own."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

from .balancer import USER
from .endpoint import (
    HEALTH_PATH,
    KEY_MAP_PATH,
    RUNTIME_DIRECTORY,
    SERVER_PEM_PATH,
    SPOOL_DIRECTORY,
    UPSTREAM_PATH,
    Key,
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
from .endpoint_answers import answers, error_pages
from .systemd import HEADER

STATUS_LISTEN = "127.0.0.1"

_RUN = f"/run/{RUNTIME_DIRECTORY}"
_TEMPORARY = ("proxy", "fastcgi", "uwsgi", "scgi")
"""Directories that nginx wants to have; nothing is written into them here."""
IN_MEMORY = r"^:[0-9]{0,5}$"
"""Transfer-Encoding and Content-Length of a request that stays in memory: it has no body, or says that it is short."""
_LONGEST_ANSWER = "3600s"
_HEALTH_RATE = 600
"""Requests a minute and address that need no key: they are a load balancer's, or somebody's who has none."""


def configuration(settings: Mapping[str, Any]) -> str:
    """The whole configuration. It holds no secret: those are in files of their own, which only root can read."""
    keys = read_keys(settings["endpoint_keys"], check_number("endpoint_rate", settings["endpoint_rate"], 0, 60_000))
    lines = [
        # Both are nginx's through other files: here they let a change of theirs be seen.
        f"# keys: {', '.join(key.name for key in keys) or 'none'}",
        f"# certificate: {', '.join(certificate_names(settings))}",
        "daemon off;",
        f"user {USER};",
        "worker_processes 2;",
        f"pid {_RUN}/nginx.pid;",
        "# Below this level nginx repeats whole requests, with whatever somebody wrote into the address.",
        "error_log stderr crit;",
        "events {",
        "    worker_connections 8192;",
        "}",
        "http {",
        *_indented([*_limits(settings), *_maps(settings, keys), *_log(), *_proxying()]),
        "    upstream engine {",
        f"        server {check_upstream(settings['endpoint_upstream'])} max_fails=0;",
        "    }",
        *_indented([*_server(settings, keys), *_plain_server(settings), *_status_server(settings)]),
        "}",
    ]
    return HEADER + "\n".join(lines) + "\n"


def _limits(settings: Mapping[str, Any]) -> list[str]:
    """Nobody holds a connection, or memory, by being slow."""
    return [
        "server_tokens off;",
        "default_type application/json;",
        "server_names_hash_bucket_size 512;",
        "types_hash_max_size 2048;",
        f"client_max_body_size {check_size('endpoint_body_limit', settings['endpoint_body_limit'])};",
        f"client_body_temp_path /var/cache/{SPOOL_DIRECTORY}/client_body;",
        "client_body_buffer_size 256k;",
        "client_header_timeout 10s;",
        "client_body_timeout 20s;",
        "send_timeout 60s;",
        "keepalive_timeout 65s;",
        "lingering_time 5s;",
        "lingering_timeout 2s;",
        "large_client_header_buffers 4 8k;",
        "reset_timedout_connection on;",
        "limit_req_status 429;",
        "limit_conn_status 429;",
        "limit_conn_zone $binary_remote_addr zone=addresses:10m;",
        "limit_conn_zone $endpoint_key zone=keys:1m;",
        "limit_conn_zone $endpoint_spooled zone=spooled:1m;",
        "limit_conn_zone $endpoint_key_spooled zone=key_spooled:1m;",
        *(f"{name}_temp_path {_RUN}/{name};" for name in _TEMPORARY),
    ]


def _maps(settings: Mapping[str, Any], keys: Sequence[Key]) -> list[str]:
    """Who asks, for what, and how often that may be."""
    wrong = check_number("endpoint_wrong_rate", settings["endpoint_wrong_rate"], 1, 60_000)
    networks = check_networks(settings["endpoint_clients"])
    lines = [
        "map $http_authorization $endpoint_key {",
        '    default "";',
        f"    include {KEY_MAP_PATH};",
        "}",
        "map $request_uri $endpoint_path {",
        '    default "";',
        f'    "~{path_pattern(all_paths(settings["endpoint_paths_more"]))}" $endpoint_asked;',
        "}",
        "map $request_method $endpoint_method {",
        '    default "";',
        *(f"    {method} {method};" for method in ("GET", "HEAD", "POST")),
        "}",
        "# Empty, and so without a limit, where the body stays in memory.",
        *(
            line
            for name, value in (("spooled", "all"), ("key_spooled", "$endpoint_key"))
            for line in (
                f'map "$http_transfer_encoding:$content_length" $endpoint_{name} {{',
                f"    default {value};",
                f'    "~{IN_MEMORY}" "";',
                "}",
            )
        ),
        "geo $endpoint_client {",
        f"    default {0 if networks else 1};",
        *(f"    {network} 1;" for network in networks),
        "}",
        f"limit_req_zone $binary_remote_addr zone=wrong:10m rate={wrong}r/m;",
        f"limit_req_zone $binary_remote_addr zone=health:10m rate={_HEALTH_RATE}r/m;",
    ]
    for rate in _rates(keys):
        lines += [
            f"map $endpoint_key $endpoint_rate_{rate} {{",
            '    default "";',
            # The backslash makes a name of what may be one of the map's own words, as `default` is.
            *(f'    "\\\\{key.name}" {key.name};' for key in keys if key.rate == rate),
            "}",
            f"limit_req_zone $endpoint_rate_{rate} zone=rate_{rate}:1m rate={rate}r/m;",
        ]
    return lines


def _log() -> list[str]:
    """One line a request into the journal: neither what was asked nor the key, nor what stood in the address."""
    fields = {
        "time": "$time_iso8601",
        "key": "$endpoint_key",
        "client": "$remote_addr",
        "method": "$request_method",
        "path": "$endpoint_path",
        "status": "$status",
        "received": "$request_length",
        "bytes": "$bytes_sent",
        "seconds": "$request_time",
        "engine_status": "$upstream_status",
        "engine_first_seconds": "$upstream_header_time",
        "engine_seconds": "$upstream_response_time",
        "request": "$request_id",
    }
    return [
        f"log_format firstlight escape=json '{json.dumps(fields)}';",
        "access_log syslog:server=unix:/dev/log,nohostname,tag=firstlight_endpoint firstlight;",
    ]


def _proxying() -> list[str]:
    """A token is handed on when it is made, and a question that was sent is never sent twice."""
    return [
        "proxy_http_version 1.1;",
        "proxy_buffering off;",
        "proxy_connect_timeout 2s;",
        f"proxy_read_timeout {_LONGEST_ANSWER};",
        f"proxy_send_timeout {_LONGEST_ANSWER};",
        "proxy_next_upstream off;",
        "proxy_ignore_headers X-Accel-Redirect X-Accel-Limit-Rate X-Accel-Buffering X-Accel-Charset;",
    ]


def _server(settings: Mapping[str, Any], keys: Sequence[Key]) -> list[str]:
    port = check_number("endpoint_port", settings["endpoint_port"], 1, 65_535)
    connections = check_number("endpoint_connections", settings["endpoint_connections"], 1, 8192)
    of_a_key = check_number("endpoint_key_connections", settings["endpoint_key_connections"], 1, 8192)
    spooled = spooled_at_once(settings["endpoint_spool_limit"], settings["endpoint_body_limit"])
    names = [name for name in certificate_names(settings) if ":" not in name]
    headers = [
        "proxy_set_header Host $http_host;",
        'proxy_set_header Connection "";',
        "proxy_set_header X-Forwarded-For $remote_addr;",
        "proxy_set_header X-Request-Id $request_id;",
    ]
    return [
        "server {",
        f"    listen {_place(settings, port)} ssl;",
        f"    server_name {' '.join(names)};",
        f"    ssl_certificate {SERVER_PEM_PATH};",
        f"    ssl_certificate_key {SERVER_PEM_PATH};",
        "    ssl_protocols TLSv1.2 TLSv1.3;",
        "    ssl_session_cache shared:sessions:10m;",
        "    ssl_session_tickets off;",
        "    merge_slashes off;",
        "    recursive_error_pages on;",
        *_indented(error_pages()),
        "    error_page 418 = @no_key;",
        "    if ($endpoint_client = 0) {",
        "        return 403;",
        "    }",
        '    if ($endpoint_path = "") {',
        "        return 404;",
        "    }",
        '    if ($endpoint_method = "") {',
        "        return 405;",
        "    }",
        "    location / {",
        '        if ($endpoint_key = "") {',
        "            return 418;",
        "        }",
        f"        limit_conn addresses {connections};",
        f"        limit_conn keys {of_a_key};",
        "        # What is on disk at most, and how much of that one key may have while there are others.",
        f"        limit_conn spooled {spooled};",
        f"        limit_conn key_spooled {spooled if len(keys) < 2 else max(1, spooled // 2)};",
        *(f"        limit_req zone=rate_{rate} burst={burst(rate)} nodelay;" for rate in _rates(keys)),
        *(f"        {header}" for header in headers),
        "        # The engine's own key in the place of the client's.",
        f"        include {UPSTREAM_PATH};",
        "        # The path as it stands in the list, never as the client wrote it.",
        "        proxy_pass http://engine$endpoint_path$is_args$args;",
        "    }",
        f"    location = {HEALTH_PATH} {{",
        f"        limit_conn addresses {connections};",
        f"        limit_req zone=health burst={burst(_HEALTH_RATE)} nodelay;",
        "        # Whoever has no key leaves nothing on disk.",
        "        client_max_body_size 1k;",
        *(f"        {header}" for header in headers),
        '        proxy_set_header Authorization "";',
        f"        proxy_pass http://engine{HEALTH_PATH};",
        "    }",
        "    # Counted by address before it is answered: whoever guesses keys does so slowly.",
        "    location @no_key {",
        f"        limit_req zone=wrong burst={burst(int(settings['endpoint_wrong_rate']))} nodelay;",
        "        error_page 403 = @invalid_api_key;",
        "        error_page 429 = @too_many;",
        "        deny all;",
        "    }",
        *_indented(answers()),
        "}",
    ]


def _plain_server(settings: Mapping[str, Any]) -> list[str]:
    """Where somebody wants it, plain HTTP says where to go, and no more."""
    port = check_number("endpoint_http_port", settings["endpoint_http_port"], 0, 65_535)
    secure = int(settings["endpoint_port"])
    if not port:
        return []
    if port == secure:
        raise ValueError(f"endpoint_http_port and endpoint_port are both {port}, expected two ports: change one")
    return [
        "server {",
        f"    listen {_place(settings, port)};",
        f"    return 308 https://$host{'' if secure == 443 else f':{secure}'}$request_uri;",
        "}",
    ]


def _status_server(settings: Mapping[str, Any]) -> list[str]:
    """For monitoring on the host itself."""
    port = check_number("endpoint_status_port", settings["endpoint_status_port"], 0, 65_535)
    if not port:
        return []
    return [
        "server {",
        f"    listen {STATUS_LISTEN}:{port};",
        "    access_log off;",
        "    location / {",
        "        return 404;",
        "    }",
        "    location = /status {",
        "        default_type text/plain;",
        "        stub_status;",
        "    }",
        "}",
    ]


def _place(settings: Mapping[str, Any], port: int) -> str:
    listen = check_address("endpoint_listen", settings["endpoint_listen"])
    # The wildcard of IPv6 is for everybody, as the engine itself has it.
    return f"[{listen}]:{port}" + (" ipv6only=off" if listen == "::" else "") if ":" in listen else f"{listen}:{port}"


def _rates(keys: Sequence[Key]) -> list[int]:
    return sorted({key.rate for key in keys if key.rate})


def _indented(lines: Sequence[str]) -> list[str]:
    return [f"    {line}" for line in lines]
