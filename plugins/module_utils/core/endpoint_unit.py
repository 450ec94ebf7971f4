# SPDX-License-Identifier: Apache-2.0
"""The unit of the endpoint."""

from __future__ import annotations

from .balancer import MEMORY_MAX, NGINX
from .endpoint import CONFIGURATION_PATH, RUNTIME_DIRECTORY, SPOOL_DIRECTORY
from .systemd import command, render_unit

UNIT = "firstlight-endpoint.service"


def endpoint_unit() -> str:
    """The unit file. The master is root's, to read keys anew on a reload; who talks to clients is not."""
    about = [
        ("Description", "Firstlight endpoint: the OpenAI-compatible address of this cluster"),
        ("After", "network-online.target"),
        ("Wants", "network-online.target"),
        # An address that comes late, as one of a link that is down at boot, must not leave it down for good.
        ("StartLimitIntervalSec", "0"),
    ]
    service = [
        ("Type", "exec"),
        ("RuntimeDirectory", RUNTIME_DIRECTORY),
        ("RuntimeDirectoryMode", "0711"),
        ("CacheDirectory", SPOOL_DIRECTORY),
        ("CacheDirectoryMode", "0711"),
        ("ExecStart", command([NGINX, "-c", CONFIGURATION_PATH])),
        ("ExecReload", command([NGINX, "-t", "-q", "-c", CONFIGURATION_PATH])),
        ("ExecReload", "/bin/kill -HUP $MAINPID"),
        ("KillSignal", "SIGQUIT"),  # answers that are being given are given to their end
        ("KillMode", "mixed"),
        ("TimeoutStopSec", "20"),
        ("Restart", "on-failure"),
        ("RestartSec", "5"),
        ("LimitNOFILE", "65536"),
        # What clients make it hold is never taken from the engine; a worker that is ended is started again by nginx.
        ("MemoryMax", MEMORY_MAX),
        ("OOMPolicy", "continue"),
        ("LogRateLimitIntervalSec", "0"),
        ("CapabilityBoundingSet", "CAP_NET_BIND_SERVICE CAP_SETUID CAP_SETGID CAP_CHOWN CAP_KILL"),
        ("NoNewPrivileges", "yes"),
        ("ProtectHome", "yes"),
        ("PrivateTmp", "yes"),
        ("PrivateDevices", "yes"),
        ("ProtectSystem", "strict"),
        ("ProtectKernelTunables", "yes"),
        ("ProtectKernelModules", "yes"),
        ("ProtectControlGroups", "yes"),
        ("RestrictAddressFamilies", "AF_INET AF_INET6 AF_UNIX"),
        ("RestrictSUIDSGID", "yes"),
    ]
    return render_unit([("Unit", about), ("Service", service), ("Install", [("WantedBy", "multi-user.target")])])
