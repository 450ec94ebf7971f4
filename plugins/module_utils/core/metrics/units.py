# SPDX-License-Identifier: Apache-2.0
"""The units that make a node readable: our program, and the exporters behind it, on loopback."""

from __future__ import annotations

from collections.abc import Sequence

from ..engine_container import DOCKER, docker_rm, docker_stop
from ..image import local_name
from ..places import LOOPBACK
from ..systemd import command, render_unit

UNIT = "firstlight-metrics.service"
DCGM_CONTAINER = "firstlight-dcgm-exporter"


def metrics_unit(argv: Sequence[str], *, firewall: bool) -> str:
    """The unit of the program. It runs as nobody in particular, with two rights: firewall counters and kernel log."""
    rights = "CAP_NET_ADMIN CAP_SYSLOG" if firewall else "CAP_SYSLOG"
    return render_unit(
        [
            (
                "Unit",
                [
                    ("Description", "Firstlight metrics of this node"),
                    ("After", "network-online.target"),
                    ("Wants", "network-online.target"),
                    # Its address may come late; it tries until it has it.
                    ("StartLimitIntervalSec", "0"),
                ],
            ),
            (
                "Service",
                [
                    ("ExecStart", command(argv)),
                    ("Restart", "always"),
                    ("RestartSec", "5"),
                    # A wrong configuration stays wrong.
                    ("RestartPreventExitStatus", "2"),
                    ("SyslogIdentifier", UNIT.removesuffix(".service")),
                    ("DynamicUser", "yes"),
                    ("SupplementaryGroups", "systemd-journal"),
                    ("AmbientCapabilities", rights),
                    ("CapabilityBoundingSet", rights),
                    ("NoNewPrivileges", "yes"),
                    ("ProtectHome", "yes"),
                    ("ProtectControlGroups", "yes"),
                    ("RestrictSUIDSGID", "yes"),
                    ("MemoryMax", "256M"),
                    ("TasksMax", "64"),
                    # Whoever is short of processor or memory is told of, not pushed aside, by it.
                    ("Nice", "5"),
                    ("OOMScoreAdjust", "200"),
                ],
            ),
            ("Install", [("WantedBy", "multi-user.target")]),
        ]
    )


def node_drop_in(own_port: int) -> str:
    """Binds the distribution's exporter to loopback; its own unit would listen to everybody."""
    argv = [
        "/usr/bin/prometheus-node-exporter",
        f"--web.listen-address={LOOPBACK}:{own_port}",
        "--web.disable-exporter-metrics",
    ]
    return render_unit([("Service", [("ExecStart", ""), ("ExecStart", command(argv))])])


def dcgm_unit(image: str, own_port: int) -> str:
    """The exporter of NVIDIA's GPU manager, in the image that is named, on loopback."""
    if "@sha256:" not in image:
        raise ValueError(
            f"monitoring_dcgm_image is {image!r}, expected REPOSITORY@sha256:DIGEST: a tag may move to another image"
        )
    argv = [
        DOCKER,
        "run",
        "--rm",
        "--pull=never",  # a start never downloads
        f"--name={DCGM_CONTAINER}",
        f"--publish={LOOPBACK}:{own_port}:9400",
        "--gpus=all",
        "--cap-drop=ALL",
        # Else its entry point gives itself a right that it has not got, and ends. Profiling is what it lacks without.
        "--env=NO_SETCAP=1",
        "--security-opt=no-new-privileges",
        "--log-driver=local",
        # Its name on the node: an image out of an archive has no digest of a registry there.
        local_name(image),
    ]
    return render_unit(
        [
            (
                "Unit",
                [
                    ("Description", "Firstlight exporter of the GPUs"),
                    ("After", "docker.service"),
                    ("Requires", "docker.service"),
                    ("StartLimitIntervalSec", "0"),
                ],
            ),
            (
                "Service",
                [
                    ("ExecStartPre", command(docker_rm(DCGM_CONTAINER), "-")),
                    ("ExecStart", command(argv)),
                    ("ExecStop", command(docker_stop(DCGM_CONTAINER, 10), "-")),
                    ("Restart", "always"),
                    ("RestartSec", "15"),
                ],
            ),
            ("Install", [("WantedBy", "multi-user.target")]),
        ]
    )
