# SPDX-License-Identifier: Apache-2.0
"""The unit files of Ray's nodes and of the engine's servers.

None of them starts by itself, at boot or after it ended: what serves together starts together and in order, which is
decided for the whole group and not on one host (docs/serving.md). None of them leaves anything behind, however it ends.
"""

from __future__ import annotations

from collections.abc import Sequence

from .engine_container import OPEN_FILES, RAY_UNIT, UNLESS_DRAINED, docker_rm, docker_stop
from .launch_description import Command
from .systemd import DRIVER_UNITS, command, plain, quote, render_unit

USER = "firstlight"
"""Whom a server out of a virtual environment runs as; in a container it is the image's matter."""
CACHE = "/var/cache/firstlight"
"""Where such a server keeps the kernels it compiles, so that the next start is faster."""
SHARED_MEMORY_DIRECTORY = "/dev/shm"  # noqa: S108 - mounted anew for the unit
NVIDIA_MODPROBE = "/usr/bin/nvidia-modprobe"
# Not ProtectClock: it brings a list of allowed devices with it, on which the GPUs are not.
HARDENING = (
    "NoNewPrivileges",
    "ProtectHome",
    "PrivateTmp",
    "ProtectControlGroups",
    "ProtectKernelModules",
    "ProtectKernelTunables",
    "ProtectKernelLogs",
    "ProtectHostname",
    "RestrictSUIDSGID",
    "RestrictRealtime",
    "LockPersonality",
)

_OFTEN = (("StartLimitIntervalSec", "0"),)
"""How often it may be started, whoever starts the group decides."""
_STARTING = 120
"""Seconds a unit may take to be started, on top of what it waits for by itself."""


def container_unit(
    description: str,
    process: Command,
    *,
    stop_seconds: int,
    ended: str = "137 143",
    beside_ray: bool = False,
    first: Sequence[Sequence[str]] = (),
    waits: int = 0,
) -> str:
    """The unit of a process in a container.

    `ended` are exit statuses of a plain stop, `first` are commands that must succeed before it starts, which take
    `waits` seconds at most.
    """
    container = str(process["container"])
    ray = [RAY_UNIT] if beside_ray else []
    about = [
        ("Description", plain(description)),
        # What joins the namespaces of another container ends with it.
        *([("BindsTo", RAY_UNIT)] if beside_ray else []),
        ("Requires", "docker.service"),
        ("After", " ".join(["docker.service", "network-online.target", *DRIVER_UNITS, *ray])),
        ("Wants", "network-online.target"),
        UNLESS_DRAINED,
        *_OFTEN,
    ]
    service = [
        ("Type", "exec"),
        ("ExecStartPre", command(docker_rm(container), prefix="-")),
        *(("ExecStartPre", command(words)) for words in first),
        ("ExecStart", command(process["argv"])),
        ("ExecStop", command(docker_stop(container, stop_seconds), prefix="-")),
        # However it ended: no container stays, and with it no shared memory, no port, no rank.
        ("ExecStopPost", command(docker_rm(container), prefix="-")),
        ("Restart", "no"),
        ("SuccessExitStatus", ended),
        ("TimeoutStartSec", str(_STARTING + waits)),
        ("TimeoutStopSec", str(2 * stop_seconds)),
    ]
    return render_unit([("Unit", about), ("Service", service)])


def venv_unit(description: str, process: Command, *, model_directory: str, lock: str, shared_memory: str) -> str:
    """The unit of a server out of a virtual environment, as a user who may read the model and use the GPUs."""
    own = {"HOME": CACHE, "XDG_CACHE_HOME": CACHE, **process["env"]}
    about = [
        ("Description", plain(description)),
        ("After", " ".join(["network-online.target", *DRIVER_UNITS])),
        ("Wants", "network-online.target"),
        UNLESS_DRAINED,
        *_OFTEN,
    ]
    if lock:
        # Nothing to systemd. The link to the environment stays the same when it is switched; this does not, so that a
        # server that runs from the former environment is seen to differ.
        about.append(("X-Firstlight-Lock", lock))
    service = [
        ("Type", "exec"),
        ("User", USER),
        ("Group", USER),
        ("AmbientCapabilities", "CAP_NET_BIND_SERVICE"),  # its port is one that other users cannot take
        ("CacheDirectory", CACHE.rpartition("/")[2]),
        ("CacheDirectoryMode", "0750"),
        ("WorkingDirectory", CACHE),
        ("UMask", "0077"),
        ("EnvironmentFile", str(process["env_file"])),
        *(("Environment", _setting(f"{name}={value}")) for name, value in sorted(own.items())),
        # CUDA has its device files made by a setuid program when it starts, which NoNewPrivileges makes powerless.
        ("ExecStartPre", command([NVIDIA_MODPROBE, "-c", "0", "-u"], prefix="-+")),
        ("ExecStart", command(process["argv"])),
        ("Restart", "no"),
        ("SuccessExitStatus", "137 143"),
        ("TimeoutStartSec", str(_STARTING)),
        ("TimeoutStopSec", "60"),
        # Shared memory of its own, as a container has: it ends with the unit.
        ("PrivateIPC", "yes"),
        ("TemporaryFileSystem", f"{SHARED_MEMORY_DIRECTORY}:rw,nosuid,nodev,mode=1777,size={shared_memory}"),
        ("LimitMEMLOCK", "infinity"),
        ("LimitSTACK", "67108864"),
        ("LimitNOFILE", str(OPEN_FILES)),
        ("ReadOnlyPaths", _setting(model_directory)),
        # Devices stay visible (the GPUs), memory stays executable (compiled kernels).
        *((name, "yes") for name in HARDENING),
        ("ProtectSystem", "full"),
    ]
    return render_unit([("Unit", about), ("Service", service)])


def _setting(text: str) -> str:
    """Quoted as for a command, but here a dollar sign is a dollar sign."""
    return quote(text).replace("$$", "$")
