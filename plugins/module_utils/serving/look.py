# SPDX-License-Identifier: Apache-2.0
"""Inspect once, quickly and read-only, what serves on a host."""

from __future__ import annotations

import datetime
import os
import pwd
from collections.abc import Iterable, Mapping
from typing import Any

from ..engine_container import DRAINED_PATH, RAY_SERVE_SETTINGS_PATH, SERVING_UNITS, SUPERVISOR_UNIT
from ..host import RC_NOT_FOUND, Host
from ..parsers.meminfo import total_bytes
from . import left
from .files import CONFIG_PATH, REPIN_PATH, STATE_PATH, asked_ports, memory_wants, own_units, read_document, told
from .replicas import LAST_COUNT, parse_replicas

SHARED_MEMORY = "/dev/shm"  # noqa: S108 - not a temporary file: where the kernel exposes shared memory
_GPU_QUERY = ("nvidia-smi", "--query-gpu=index,memory.total,memory.free", "--format=csv,noheader,nounits")


def look(host: Host, ports: Iterable[int] = (), *, segments: bool = True) -> dict[str, Any]:
    """Collect what shows whether and how this host serves; unreadable parts are in `problems`.

    The listed ports are those in use among `ports` and the ports on which the supervisor probes this host's servers.
    """
    problems: dict[str, str] = {}

    def document(path: str) -> dict[str, Any] | None:
        found, problem = read_document(host.read_text(path), path)
        if problem:
            problems[path] = problem
        return found

    config, state = document(CONFIG_PATH), document(STATE_PATH)
    marker = host.read_text(DRAINED_PATH)
    units = _units(host, problems)
    node = str((config or {}).get("node") or "")
    planned = own_units(config, node)
    wanted = {*ports, *asked_ports(config, node)}
    tables = (host.read_text("/proc/net/tcp") or "", host.read_text("/proc/net/tcp6") or "")
    return {
        "time": datetime.datetime.now(datetime.timezone.utc).isoformat(timespec="seconds"),
        "boot": (host.read_text("/proc/sys/kernel/random/boot_id") or "").strip(),
        "config": told(config),
        "state": state,
        "supervisor": left.unit_words(units.get(SUPERVISOR_UNIT)),
        "supervisor_active": (units.get(SUPERVISOR_UNIT) or {}).get("active", "inactive"),
        "units": units,
        "planned_units": sorted(planned),
        "needs_docker": any(planned.values()),
        "containers": _containers(host, problems),
        "ports": sorted(wanted & left.listening_ports(*tables)),
        "segments": _segments(host) if segments else [],
        "memory": _memory(host, memory_wants(config), problems),
        "drained": None if marker is None else read_document(marker, DRAINED_PATH)[0] or {},
        "repin": host.read_text(REPIN_PATH) is not None,
        "replicas": _replicas(host, problems),
        "problems": problems,
    }


def _units(host: Host, problems: dict[str, str]) -> dict[str, dict[str, str]]:
    result = host.run(["systemctl", "show", f"--property={left.UNIT_PROPERTIES}", *SERVING_UNITS], timeout=15)
    if not result.ok:
        problems["systemd"] = result.summary
    return left.parse_units(result.stdout)


def _replicas(host: Host, problems: dict[str, str]) -> dict[str, int] | None:
    """Return how many servers spread by Ray Serve answer; None if there are none or the number is unknown."""
    if host.read_text(RAY_SERVE_SETTINGS_PATH) is None:
        return None
    result = host.run(list(LAST_COUNT), timeout=20)
    if not result.ok and result.stderr.strip():
        problems["journal"] = result.summary
    return parse_replicas(result.stdout)


def _containers(host: Host, problems: dict[str, str]) -> dict[str, str]:
    result = host.run(left.LIST_CONTAINERS, timeout=20)
    if not result.ok and result.rc != RC_NOT_FOUND:
        problems["docker"] = result.summary
    return left.parse_containers(result.stdout)


def _segments(host: Host) -> list[str]:
    """Return the engine's segments, including those of a server in a virtual environment, that no process maps."""
    found = [name for name in host.names(SHARED_MEMORY) if left.is_segment(name, _owner(f"{SHARED_MEMORY}/{name}"))]
    if not found:
        return []
    used = _mapped(host)
    return [name for name in found if f"{SHARED_MEMORY}/{name}" not in used]


def _owner(path: str) -> str:
    try:
        return pwd.getpwuid(os.lstat(path).st_uid).pw_name
    except (OSError, KeyError):
        return ""


def _mapped(host: Host) -> set[str]:
    """Return the files of /dev/shm that processes have mapped."""
    found: set[str] = set()
    for process in host.names("/proc"):
        if process.isdecimal():
            lines = (host.read_text(f"/proc/{process}/maps") or "").splitlines()
            found.update(line[line.index(SHARED_MEMORY) :] for line in lines if f"{SHARED_MEMORY}/" in line)
    return found


def _memory(host: Host, wants: Mapping[str, Any], problems: dict[str, str]) -> dict[str, Any]:
    text = host.read_text("/proc/meminfo") or ""
    machine = {"name": "the memory", "total": total_bytes(text) or 0, "free": _available(text)}
    found: dict[str, Any] = {"kind": wants.get("kind") or "unified", "share": wants.get("share"), "machine": machine}
    result = host.run(list(_GPU_QUERY), timeout=20)
    if not result.ok and result.rc != RC_NOT_FOUND:
        problems["nvidia-smi"] = result.summary
    gpus = left.parse_gpu_memory(result.stdout) if result.ok else []
    found["gpus"] = gpus
    if found["kind"] == "discrete":
        mine = [gpu for gpu in gpus if not wants.get("gpus") or gpu["index"] in wants["gpus"]]
        found["parts"] = [{"name": f"GPU {gpu['index']}", "total": gpu["total"], "free": gpu["free"]} for gpu in mine]
    else:
        found["parts"] = [machine]
    return found


def _available(text: str) -> int:
    for line in text.splitlines():
        words = line.split()
        if words[:1] == ["MemAvailable:"] and len(words) > 1 and words[1].isdigit():
            return int(words[1]) * 1024
    return 0
