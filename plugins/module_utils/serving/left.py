# SPDX-License-Identifier: Apache-2.0
"""What is left of a group that should be stopped: units, containers, ports, shared memory and memory not yet freed."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from ..engine_container import BALANCER_UNIT, SUPERVISOR_UNIT
from ..text import gigabytes

RUNNING = ("active", "activating", "deactivating", "reloading")
UNIT_PROPERTIES = "Id,LoadState,ActiveState,SubState,Result"
"""The properties requested from `systemctl show`, parsed by `parse_units`."""
LIST_CONTAINERS = ("docker", "ps", "--all", "--filter=name=firstlight-", "--format={{.Names}}\t{{.Status}}")
"""Parsed by `parse_containers`."""
_LISTENS = "0A"
"""The state of a listening socket in /proc/net/tcp."""
SEGMENT_NAMES = ("nccl-", "psm_", "sem.mp-", "plasma", "ray_", "vllm")
"""Prefixes of the shared-memory segments of the engine's libraries; those of containers vanish with their namespace."""


def parse_units(text: str) -> dict[str, dict[str, str]]:
    """Parse `systemctl show` with UNIT_PROPERTIES of several units, leaving out those not found."""
    units: dict[str, dict[str, str]] = {}
    for block in text.split("\n\n"):
        pairs = dict(line.partition("=")[::2] for line in block.splitlines() if "=" in line)
        name = pairs.get("Id", "").strip()
        if not name or pairs.get("LoadState", "not-found") == "not-found":
            continue
        units[name] = {
            "load": pairs.get("LoadState", ""),
            "active": pairs.get("ActiveState", ""),
            "sub": pairs.get("SubState", ""),
            "result": pairs.get("Result", ""),
        }
    return units


def unit_words(unit: Mapping[str, str] | None) -> str:
    """Describe a unit like systemctl does."""
    if not unit:
        return "not there"
    if unit.get("load") == "masked":
        return "masked"
    result = unit.get("result") or "success"
    return f"{unit.get('active')} ({unit.get('sub')})" + ("" if result == "success" else f", {result}")


def parse_containers(text: str) -> dict[str, str]:
    """Parse `docker ps --all --format '{{.Names}}\\t{{.Status}}'` into Firstlight's containers with their status."""
    found = {}
    for line in text.splitlines():
        name, tab, status = line.partition("\t")
        if tab and name.startswith("firstlight-"):
            found[name.strip()] = status.strip()
    return found


def listening_ports(*tables: str) -> set[int]:
    """Return the listening ports in /proc/net/tcp and /proc/net/tcp6."""
    ports = set()
    for table in tables:
        for line in table.splitlines():
            words = line.split()
            if len(words) > 3 and words[3] == _LISTENS and ":" in words[1]:
                ports.add(int(words[1].rpartition(":")[2], 16))
    return ports


def is_segment(name: str, owner: str) -> bool:
    """Whether a file in /dev/shm belongs to the engine.

    Other programs use the same libraries and thus the same names: files of a user with a login on this host are not the
    engine's, which runs as root in its container or as a user that only the container knows.
    """
    return owner == "firstlight" or (owner in ("root", "") and name.startswith(SEGMENT_NAMES))


def parse_gpu_memory(text: str) -> list[dict[str, int]]:
    """Parse `nvidia-smi --query-gpu=index,memory.total,memory.free --format=csv,noheader,nounits`, in bytes.

    A GPU without dedicated memory reports [N/A], and is left out.
    """
    found = []
    for line in text.splitlines():
        cells = [cell.strip() for cell in line.split(",")]
        if len(cells) == 3 and all(cell.isdecimal() for cell in cells):
            index, total, free = (int(cell) for cell in cells)
            found.append({"index": index, "total": total << 20, "free": free << 20})
    return found


def leftovers(look: Mapping[str, Any]) -> list[str]:
    """Report what is left of serving on a host, one sentence each; empty if everything is gone.

    The supervisor itself stays: it stopped everything, and will start it again.
    """
    return [
        *_untold(look),
        *_units(look.get("units") or {}),
        *(f"container {name} is still there ({status})" for name, status in sorted(_containers(look).items())),
        *(f"something listens on port {port}" for port in sorted(look.get("ports") or ())),
        *_segments(look.get("segments") or ()),
        *_memory(look.get("memory") or {}),
    ]


def _untold(look: Mapping[str, Any]) -> Iterable[str]:
    """Report services that did not answer, as what they manage may still be there.

    Docker may be off where no container is planned.
    """
    problems = look.get("problems") or {}
    if problems.get("systemd"):
        yield f"systemd did not report which units run ({problems['systemd']})"
    if problems.get("docker") and look.get("needs_docker"):
        yield f"Docker did not list its containers ({problems['docker']})"


def _containers(look: Mapping[str, Any]) -> Mapping[str, str]:
    found = look.get("containers")
    return found if isinstance(found, Mapping) else {}


def _units(units: Mapping[str, Mapping[str, str]]) -> Iterable[str]:
    for name, unit in sorted(units.items()):
        if name != SUPERVISOR_UNIT and unit.get("active") in RUNNING:
            yield f"{name} is {unit_words(unit)}"


def _segments(segments: Sequence[str]) -> Iterable[str]:
    if segments:
        shown = ", ".join(segments[:3]) + (" and more" if len(segments) > 3 else "")
        yield f"{len(segments)} shared-memory segments are left in /dev/shm ({shown})"


def _memory(memory: Mapping[str, Any]) -> Iterable[str]:
    share = memory.get("share")
    if not share:
        return
    for part in memory.get("parts") or ():
        total, free = int(part.get("total") or 0), int(part.get("free") or 0)
        if total and free < share * total:
            yield (
                f"{part['name']} has {gigabytes(free)} of {gigabytes(total)} free, expected {gigabytes(share * total)} "
                "once nothing serves"
            )


def of_the_group(units: Mapping[str, Any]) -> list[str]:
    """Return the units of the group itself: all but the supervisor and the balancer."""
    return [name for name in units if name not in (SUPERVISOR_UNIT, BALANCER_UNIT)]
