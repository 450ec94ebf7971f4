# SPDX-License-Identifier: Apache-2.0
"""What is left of a group that was told to go: units, containers, ports, shared memory, and memory that is not back."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from ..engine_container import BALANCER_UNIT, SUPERVISOR_UNIT
from ..text import gigabytes

RUNNING = ("active", "activating", "deactivating", "reloading")
UNIT_PROPERTIES = "Id,LoadState,ActiveState,SubState,Result"
"""What `systemctl show` is asked for, and `parse_units` reads."""
LIST_CONTAINERS = ("docker", "ps", "--all", "--filter=name=firstlight-", "--format={{.Names}}\t{{.Status}}")
"""What `parse_containers` reads."""
_LISTENS = "0A"
"""The state of a socket that waits for callers, as /proc/net/tcp writes it."""
SEGMENT_NAMES = ("nccl-", "psm_", "sem.mp-", "plasma", "ray_", "vllm")
"""How the engine's libraries name their segments; with containers they are in a namespace that ends with it."""


def parse_units(text: str) -> dict[str, dict[str, str]]:
    """`systemctl show --property=Id,LoadState,ActiveState,SubState,Result` of several units, those that are there."""
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
    """A unit in the words of systemctl."""
    if not unit:
        return "not there"
    if unit.get("load") == "masked":
        return "masked"
    result = unit.get("result") or "success"
    return f"{unit.get('active')} ({unit.get('sub')})" + ("" if result == "success" else f", {result}")


def parse_containers(text: str) -> dict[str, str]:
    """`docker ps --all --format '{{.Names}}\\t{{.Status}}'`: names with what Docker says of each."""
    found = {}
    for line in text.splitlines():
        name, tab, status = line.partition("\t")
        if tab and name.startswith("firstlight-"):
            found[name.strip()] = status.strip()
    return found


def listening_ports(*tables: str) -> set[int]:
    """The ports on which somebody listens, out of /proc/net/tcp and /proc/net/tcp6."""
    ports = set()
    for table in tables:
        for line in table.splitlines():
            words = line.split()
            if len(words) > 3 and words[3] == _LISTENS and ":" in words[1]:
                ports.add(int(words[1].rpartition(":")[2], 16))
    return ports


def is_segment(name: str, owner: str) -> bool:
    """Whether a file in /dev/shm is one of the engine's.

    Others use the same libraries, and so the same names: those of a person who has a login here are not the engine's,
    which is root in its container, or a user whom only the container knows.
    """
    return owner == "firstlight" or (owner in ("root", "") and name.startswith(SEGMENT_NAMES))


def parse_gpu_memory(text: str) -> list[dict[str, int]]:
    """`nvidia-smi --query-gpu=index,memory.total,memory.free --format=csv,noheader,nounits`, in bytes.

    A GPU without memory of its own says [N/A], and is left out.
    """
    found = []
    for line in text.splitlines():
        cells = [cell.strip() for cell in line.split(",")]
        if len(cells) == 3 and all(cell.isdecimal() for cell in cells):
            index, total, free = (int(cell) for cell in cells)
            found.append({"index": index, "total": total << 20, "free": free << 20})
    return found


def leftovers(look: Mapping[str, Any]) -> list[str]:
    """What of serving is still on a host, one sentence each; nothing where all of it is gone.

    The supervisor itself stays: it is who stopped everything, and who starts it again.
    """
    return [
        *_untold(look),
        *_units(look.get("units") or {}),
        *(f"container {name} is still there ({status})" for name, status in sorted(_containers(look).items())),
        *(f"somebody listens on port {port}" for port in sorted(look.get("ports") or ())),
        *_segments(look.get("segments") or ()),
        *_memory(look.get("memory") or {}),
    ]


def _untold(look: Mapping[str, Any]) -> Iterable[str]:
    """Who did not answer: what they know of may still be there. Where no container is planned, Docker may be off."""
    problems = look.get("problems") or {}
    if problems.get("systemd"):
        yield f"systemd does not say which units run ({problems['systemd']})"
    if problems.get("docker") and look.get("needs_docker"):
        yield f"Docker does not say which containers there are ({problems['docker']})"


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
    """Units beside the supervisor and the balancer: what a group is made of."""
    return [name for name in units if name not in (SUPERVISOR_UNIT, BALANCER_UNIT)]
