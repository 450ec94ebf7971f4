# SPDX-License-Identifier: Apache-2.0
"""A balancer for several replicas on a host: the distribution's nginx, with a configuration of its own."""

from __future__ import annotations

from typing import Any

from ansible_collections.firstlight.cluster.plugins.module_utils.engine_container import UNLESS_DRAINED
from ansible_collections.firstlight.cluster.plugins.module_utils.systemd import HEADER, command, plain, render_unit

NGINX = "/usr/sbin/nginx"
CONFIGURATION_PATH = "/etc/firstlight/balancer.conf"
USER = "www-data"
"""The account that Debian and Ubuntu provide for web servers."""
MEMORY_MAX = "1G"
"""Memory limit of nginx: about ten times what it needs for the connections it accepts; the rest is the engine's."""
REPLICA_LISTEN = "127.0.0.1"
"""Listen address of replicas: only the balancer on their own host connects to them."""

_DIRECTORY = "firstlight-balancer"
_TEMPORARY = ("client_body", "proxy", "fastcgi", "uwsgi", "scgi")
_LONGEST_ANSWER = "3600s"
_LARGEST_QUESTION = "64m"
_DOWN = '{"error": {"message": "no replica answers yet", "type": "service_unavailable", "code": 503}}'


def replica_port(port: int, number: int) -> int:
    """Return the port of replica `number`, when clients use `port`."""
    return port + 1 + number


def balancer_argv() -> list[str]:
    """Return the command that runs the balancer in the foreground."""
    return [NGINX, "-c", CONFIGURATION_PATH]


def balancer_command(listen: str, port: int, replicas: int) -> dict[str, Any]:
    """Return the balancer as one of the processes of a launch."""
    return {
        "name": "balancer",
        "argv": balancer_argv(),
        "env": {},
        "engine_argv": [],
        "env_file": None,
        "files": {CONFIGURATION_PATH: configuration(listen, port, replicas)},
        "container": None,
    }


def configuration(listen: str, port: int, replicas: int) -> str:
    """Render the nginx configuration: the least busy replica gets a request, responses pass through unbuffered."""
    place = f"[{listen}]:{port}" if ":" in listen else f"{listen}:{port}"
    # The IPv6 wildcard serves IPv4 clients too, as it does in the engine.
    place += " ipv6only=off" if listen == "::" else ""
    lines = [
        "daemon off;",
        "worker_processes 2;",
        f"pid /run/{_DIRECTORY}/nginx.pid;",
        "error_log stderr warn;",
        "events {",
        "    worker_connections 8192;",
        "}",
        "http {",
        "    access_log off;",
        "    server_tokens off;",
        "    # Nobody expects nginx's 1 MB for a question: long contexts and images are larger.",
        f"    client_max_body_size {_LARGEST_QUESTION};",
        *(f"    {name}_temp_path /run/{_DIRECTORY}/{name};" for name in _TEMPORARY),
        "    upstream replicas {",
        "        least_conn;",
        "        # One that does not take a connection is left out for a moment. Connections are not kept: the engine",
        "        # closes idle ones by itself, and a question that meets such a close would be lost.",
        *(
            f"        server {REPLICA_LISTEN}:{replica_port(port, number)} max_fails=1 fail_timeout=5s;"
            for number in range(replicas)
        ),
        "    }",
        "    server {",
        f"        listen {place};",
        "        location / {",
        "            proxy_pass http://replicas;",
        "            proxy_http_version 1.1;",
        "            proxy_set_header Host $http_host;",
        "            proxy_set_header X-Forwarded-For $proxy_add_x_forwarded_for;",
        "            # A token is handed on when it is made, a question as it comes: /run is memory.",
        "            proxy_buffering off;",
        "            proxy_request_buffering off;",
        "            proxy_connect_timeout 2s;",
        f"            proxy_read_timeout {_LONGEST_ANSWER};",
        f"            proxy_send_timeout {_LONGEST_ANSWER};",
        "            # Only what no replica has seen is asked elsewhere: a question that was sent is never sent twice.",
        "            proxy_next_upstream error timeout;",
        "            error_page 502 504 = @down;",
        "        }",
        "        location @down {",
        "            default_type application/json;",
        "            add_header Retry-After 5 always;",
        f"            return 503 '{_DOWN}';",
        "        }",
        "    }",
        "}",
    ]
    return HEADER + "\n".join(lines) + "\n"


def balancer_unit(served_name: str) -> str:
    """Render the unit. Unlike the servers, which are started as a group, it starts by itself and at boot."""
    about = [
        ("Description", plain(f"Firstlight balancer for the replicas of {served_name}")),
        ("After", "network-online.target"),
        ("Wants", "network-online.target"),
        UNLESS_DRAINED,
        # An address that appears late, such as that of a link that is down at boot, must not leave it down for good.
        ("StartLimitIntervalSec", "0"),
    ]
    service = [
        ("Type", "exec"),
        ("User", USER),
        ("Group", USER),
        ("RuntimeDirectory", _DIRECTORY),
        ("RuntimeDirectoryMode", "0700"),
        ("ExecStart", command(balancer_argv())),
        ("ExecReload", "/bin/kill -HUP $MAINPID"),
        ("KillSignal", "SIGQUIT"),  # responses in progress are completed
        ("TimeoutStopSec", "20"),
        ("Restart", "on-failure"),
        ("RestartSec", "5"),
        ("LimitNOFILE", "65536"),
        ("MemoryMax", MEMORY_MAX),
        ("OOMPolicy", "continue"),
        ("AmbientCapabilities", "CAP_NET_BIND_SERVICE"),
        ("CapabilityBoundingSet", "CAP_NET_BIND_SERVICE"),
        ("NoNewPrivileges", "yes"),
        ("ProtectHome", "yes"),
        ("PrivateTmp", "yes"),
        ("ProtectSystem", "strict"),
        ("ProtectKernelTunables", "yes"),
        ("ProtectKernelModules", "yes"),
        ("ProtectControlGroups", "yes"),
        ("RestrictSUIDSGID", "yes"),
    ]
    return render_unit([("Unit", about), ("Service", service), ("Install", [("WantedBy", "multi-user.target")])])
