# SPDX-License-Identifier: Apache-2.0
"""Reads a target's CDI specifications and what they must agree with: its GPUs and its loaded driver."""

from __future__ import annotations

import os
from dataclasses import dataclass
from typing import Any

from ..driver.driver_probe import PROC_VERSION
from ..host import Host
from ..parsers.nvidia_driver import parse_proc_version
from ..parsers.nvidia_smi import GPU_QUERY, parse_query_gpu
from .cdi import DIRECTORIES, ENDINGS, KIND, names_kind, parse_specification, problems

_MISMATCH = "version mismatch"


@dataclass(frozen=True)
class Gpus:
    """The GPUs that the driver lists, or why it lists none and whether a reboot is needed."""

    uuids: tuple[str, ...] = ()
    driver: str = ""
    problem: str | None = None
    reboot_required: bool = False


def read_gpus(host: Host, timeout: float, root: str = "/") -> Gpus:
    """Query nvidia-smi for the GPUs. A driver that is installed but not yet loaded cannot answer before a reboot."""
    result = host.run(["nvidia-smi", f"--query-gpu={GPU_QUERY}", "--format=csv,noheader,nounits"], timeout)
    reading = parse_query_gpu(result.stdout)
    if result.ok and reading.gpus and not reading.complaints:
        return Gpus(tuple(sorted(gpu.uuid for gpu in reading.gpus)), reading.gpus[0].driver)
    if result.ok:
        return Gpus(problem="; ".join(reading.complaints) or "nvidia-smi lists no GPU")
    loaded = parse_proc_version(host.read_text(os.path.join(root, PROC_VERSION))).version
    unloaded = loaded is None and not result.problem
    return Gpus(problem=result.summary, reboot_required=unloaded or _MISMATCH in result.stdout + result.stderr)


def read_cdi(host: Host, path: str, timeout: float, root: str = "/") -> dict[str, Any]:
    """Observe one specification; `wrong` maps each differing field to its expected and found values."""
    gpus = read_gpus(host, timeout, root)
    text = host.read_text(os.path.join(root, path.lstrip("/")))
    others = other_specifications(host, path, root)
    wrong: dict[str, list[Any]] = {}
    if text is not None and not gpus.problem:
        try:
            found = problems(parse_specification(text), gpus.uuids, gpus.driver)
            wrong = {field: list(pair) for field, pair in found.items()}
        except ValueError as error:
            wrong = {"format": ["a CDI specification", str(error)]}
    if others:
        wrong["others"] = ["no other file for these GPUs", others]
    return {
        "exists": text is not None,
        "waiting": gpus.problem,
        "reboot_required": gpus.reboot_required,
        "wrong": wrong,
    }


def other_specifications(host: Host, path: str, root: str = "/") -> list[str]:
    """Other files that name the same GPUs: they conflict with ours; those in the second directory take precedence."""
    found = []
    for directory in DIRECTORIES:
        place = os.path.join(root, directory.lstrip("/"))
        for name in sorted(_names(place)):
            there = f"{directory}/{name}"
            text = host.read_text(os.path.join(place, name)) if name.endswith(ENDINGS) else None
            if there != path and text is not None and names_kind(text, KIND):
                found.append(there)
    return found


def _names(directory: str) -> list[str]:
    try:
        return os.listdir(directory)
    except OSError:
        return []
