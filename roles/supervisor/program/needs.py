# SPDX-License-Identifier: Apache-2.0
"""Whether a node could start a group now: memory, image, weights and token. The functions block, so run them in
threads."""

from __future__ import annotations

import json
import math
import os
from collections.abc import Sequence
from dataclasses import dataclass

from ansible_collections.firstlight.cluster.plugins.module_utils.host import Host
from ansible_collections.firstlight.cluster.plugins.module_utils.supervisor.config import Memory, Needs
from ansible_collections.firstlight.cluster.plugins.module_utils.text import gigabytes
from ansible_collections.firstlight.cluster.plugins.module_utils.weights.snapshot import (
    RECORD_NAME,
    parse_record,
    verify_record,
)

SMI_SECONDS = 30.0
DOCKER_SECONDS = 15.0
MEBIBYTE = 1 << 20
MEMINFO = "/proc/meminfo"
DROP_CACHES = "/proc/sys/vm/drop_caches"
LOADING_FLOOR = 8 << 30
"""The floor of unused memory in bytes below which the page cache is dropped while an engine loads: with this floor,
loads succeeded on GB10 that had failed before (github.com/tonyd2wild/GLM-5.3-Flash-NVFP4-DFlash2-2x-DGX-Spark/pull/19,
2026-09-03)."""
WORTH_DROPPING = 1 << 30
"""The least reclaimable memory in bytes for which dropping the cache is worthwhile."""


@dataclass(frozen=True)
class Free:
    """How much memory the engine could take."""

    bytes: int = 0
    total: int = 0
    where: str = "the machine"
    problem: str = ""
    """Why it could not be measured."""
    unused: int = 0
    """Bytes of the machine's memory that hold nothing at all, not even page cache."""

    @property
    def share(self) -> float:
        return self.bytes / self.total if self.total else 0.0


def free_memory(host: Host, memory: Memory) -> Free:
    """Measure the free memory of the machine, or of the fullest GPU of the group."""
    if memory.kind == "discrete":
        return _of_gpus(host, memory.gpus)
    values = dict(line.partition(":")[::2] for line in (host.read_text(MEMINFO) or "").splitlines())
    total, available, unused = (_kibibytes(values.get(name, "")) for name in ("MemTotal", "MemAvailable", "MemFree"))
    if not total:
        return Free(problem=f"{MEMINFO} does not show the memory of this machine, expected MemTotal and MemAvailable")
    return Free(available, total, unused=unused)


def _of_gpus(host: Host, gpus: tuple[int, ...]) -> Free:
    argv = ["nvidia-smi", "--query-gpu=index,memory.free,memory.total", "--format=csv,noheader,nounits"]
    result = host.run(argv, SMI_SECONDS)
    if not result.ok:
        return Free(
            problem=f"nvidia-smi did not report the GPUs' memory ({result.summary}), expected an answer: run it"
        )
    told: dict[int, Free] = {}
    for line in result.stdout.splitlines():
        cells = [cell.strip() for cell in line.split(",")]
        if len(cells) == 3 and all(cell.isdecimal() for cell in cells):
            index, free, total = (int(cell) for cell in cells)
            told[index] = Free(free * MEBIBYTE, total * MEBIBYTE, f"GPU {index}")
    missing = [str(gpu) for gpu in gpus if gpu not in told]
    if missing or not told:
        which = f"GPU {', '.join(missing)}" if missing else "any GPU"
        return Free(problem=f"nvidia-smi did not report the memory of {which}, expected it to be there: run nvidia-smi")
    return min((told[gpu] for gpu in (gpus or sorted(told))), key=lambda one: one.share)


def worth_dropping(free: Free) -> bool:
    """Whether the page cache is in the way of a loading engine.

    The driver takes whole free pages and does not wait for the kernel to reclaim page cache: with few free pages left,
    its allocations fail or the machine stalls. If the engine itself holds the memory, dropping the cache would gain
    nothing.
    """
    return 0 < free.unused < LOADING_FLOOR and free.bytes - free.unused >= WORTH_DROPPING


def drop_caches() -> str:
    """Drop the page cache, to free memory for the engine; return an error message, or an empty string."""
    try:
        with open(DROP_CACHES, "w", encoding="ascii") as stream:
            stream.write("3\n")
    except OSError as error:
        return f"{DROP_CACHES} cannot be written ({error.strerror}): the page cache stays"
    return ""


def memory_problem(free: Free, memory: Memory) -> str:
    """Return why the free memory is not enough, or an empty string."""
    if not memory.kind or not memory.share:
        return ""
    if free.problem:
        return free.problem
    # Computed like the engine does: it rounds its share up, and measures after CUDA and its communication have started.
    early = memory.overhead_mib * MEBIBYTE
    if free.bytes >= math.ceil(free.total * memory.share) + early:
        return ""
    look = "nvidia-smi" if memory.kind == "discrete" else "ps aux --sort=-rss"
    more = f" and {gigabytes(early)} for the start itself" if early else ""
    return (
        f"{gigabytes(free.bytes)} of {gigabytes(free.total)} are free on {free.where} ({free.share:.0%}), expected "
        f"{memory.share:.0%}{more}: something else holds it; {look} shows what, end it"
    )


def image_problem(host: Host, needs: Needs) -> str:
    """Return why the image is not the verified one, or an empty string."""
    if not needs.image:
        return ""
    remedy = "run playbooks/serve.yml, which provides it"
    result = host.run(["docker", "image", "inspect", "--format={{.Id}}", needs.image], DOCKER_SECONDS)
    if not result.ok:
        if "no such image" in result.stderr.lower():
            return f"the image {needs.image} is not on this node, expected it in the local Docker: {remedy}"
        return (
            f"Docker did not report whether the image {needs.image} is present ({result.summary}), expected an answer: "
            "see journalctl -u docker.service"
        )
    if not needs.image_record:
        return ""
    found, expected = result.stdout.strip(), _recorded_id(host.read_text(needs.image_record))
    if not expected:
        return f"the image {needs.image} has no record in {needs.image_record}, expected its id there: {remedy}"
    if found != expected:
        return f"the image {needs.image} is {found}, expected {expected}, which was verified: {remedy}"
    return ""


def _recorded_id(text: str | None) -> str:
    try:
        document = json.loads(text or "")
    except ValueError:
        return ""
    found = document.get("id") if isinstance(document, dict) else None
    return found if isinstance(found, str) else ""


def weights_problem(host: Host, directory: str) -> str:
    """Return which file no longer matches its verified state, or an empty string."""
    if not directory:
        return ""
    remedy = "run playbooks/serve.yml, which fetches and verifies them again"
    text = host.read_text(os.path.join(directory, RECORD_NAME))
    if text is None:
        return f"{directory} has no record of verified weights ({RECORD_NAME}), expected one: {remedy}"
    try:
        right, why = verify_record(parse_record(text), lambda name: host.size_and_mtime(os.path.join(directory, name)))
    except ValueError as error:
        right, why = False, str(error)
    return "" if right else f"the weights in {directory} are not in their verified state: {why}; {remedy}"


def token_problem(host: Host, paths: Sequence[str]) -> str:
    """Return why the nodes of the group could not authenticate each other, or an empty string."""
    lacking = [path for path in paths if not (host.read_text(path) or "").strip()]
    if not lacking:
        return ""
    named = ", ".join(lacking)
    return f"{named} missing or empty, expected a token: run playbooks/serve.yml, which creates and copies it"


def _kibibytes(text: str) -> int:
    words = text.split()
    return int(words[0]) * 1024 if words and words[0].isdecimal() else 0
