# SPDX-License-Identifier: Apache-2.0
"""How the burn-in workload is started, how its document is read, and for how long what it found holds."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from ...parsers.reading import Reading, quoted
from ...verdicts import CONTENT
from ..check import Check
from ..checks.burn_in import FORMAT, KIND, check_burn_in
from ..expected import Expected
from ..health import sentence

RECORD_PATH = "/var/lib/firstlight/gpu-burn-in.json"
SOURCE = "burn-in"
GRACE = 30
"""Seconds by which the workload ends before its time limit: what it knows by then is more than a kill would leave."""
START = """
import base64, os, runpy, sys
memory = os.memfd_create("burn_in")
with open(memory, "wb", closefd=False) as archive:
    archive.write(base64.b64decode(sys.stdin.buffer.read()))
runpy.run_path(f"/proc/self/fd/{memory}", run_name="__main__")
"""
"""What the interpreter runs: the archive comes on its standard input, and nothing is written to a disk."""


def workload_arguments(device: str, seconds: float, timeout: float, unified: bool) -> list[str]:
    """What its interpreter is told; the program itself comes on standard input."""
    limit = max(timeout - GRACE, timeout / 2)
    shared = ["--unified"] if unified else []
    return ["-c", START, "--device", device, "--seconds", f"{seconds:g}", "--time-limit", f"{limit:g}", *shared]


def container_arguments(image: str, name: str, device: str, workload: Sequence[str]) -> list[str]:
    """The command that runs it in a container: nothing is pulled, no network, nothing of the host but its GPUs.

    The GPUs' processes talk over shared memory, of which a container has too little by itself.
    """
    # An image may ask for less than nvidia-smi, which tells clocks and power meanwhile.
    gpus = ["--gpus", "all", "--env", "NVIDIA_DRIVER_CAPABILITIES=compute,utility"] if device == "cuda" else []
    return [
        *("docker", "run", "--rm", "--interactive", "--pull=never", "--network=none", "--ipc=private"),
        *("--shm-size=4g", "--ulimit", "memlock=-1", "--security-opt=no-new-privileges", "--name", name, *gpus),
        *("--entrypoint", "python3", image, *workload),
    ]


def read_document(text: str) -> tuple[dict[str, Any], tuple[str, ...]]:
    """The workload's document in what was printed, and what is wrong with it. Images print greetings of their own."""
    begin = text.find('{\n "workload"')
    if begin < 0:
        return {}, (f"no result in what it printed: {quoted(text)}" if text.strip() else "it printed nothing",)
    try:
        document, _ = json.JSONDecoder().raw_decode(text[begin:])
    except ValueError as error:
        return {}, (f"its result is cut off ({error}): {quoted(text[-200:])}",)
    if not isinstance(document, dict) or document.get("workload") != FORMAT:
        return {}, (f"a result of another version: {quoted(text[begin : begin + 100])}",)
    return document, ()


def hashed(uuid: str) -> str:
    """A GPU in a record: it can be told from others, and nobody learns its UUID."""
    return hashlib.sha256(uuid.removeprefix("GPU-").strip().lower().encode()).hexdigest()[:16]


def without_uuids(document: Mapping[str, Any]) -> dict[str, Any]:
    """The document with each GPU's UUID hashed."""
    gpus = [{**gpu, "uuid": hashed(gpu["uuid"]) if gpu.get("uuid") else None} for gpu in document.get("gpus") or ()]
    return {**document, "gpus": gpus} if "gpus" in document else dict(document)


def valid_for(driver: str | None, uuids: Iterable[str], engine: str, device: str) -> dict[str, Any]:
    """What a result holds for: other GPUs, another driver or another engine are to be tried again."""
    gpus = sorted(hashed(uuid) for uuid in uuids)
    return {"workload": FORMAT, "driver": driver, "gpus": gpus, "engine": engine, "device": device}


def recorded(text: str | None, valid: Mapping[str, Any]) -> dict[str, Any] | None:
    """The record, when there is one and it holds for what is there now."""
    try:
        record = json.loads(text or "")
    except ValueError:
        return None
    if not isinstance(record, dict) or record.get("valid_for") != dict(valid):
        return None
    return record if isinstance(record.get("measured"), dict) else None


def evaluate_document(document: Mapping[str, Any], problems: Sequence[str], expected: Expected) -> list[Check]:
    """Every check of one run."""
    return check_burn_in([Reading(KIND, dict(document), tuple(problems), source=SOURCE)], expected)


def wrong_lines(checks: Iterable[Check], accepted: Iterable[str] = ()) -> list[str]:
    """One line for each check that is not content and that nobody accepts as it is."""
    fine = set(accepted)
    return [
        sentence(one["id"], one["expected"], one)
        for one in checks
        if one["verdict"] not in CONTENT and one["id"] not in fine
    ]


def check_lines(checks: Iterable[Check]) -> list[str]:
    """Every check for people: the verdict, what was found and what was expected."""
    return [
        f"{str(one['verdict']).replace('_', ' '):<16}{one['id']}: {one['observed']} ({one['expected']})"
        for one in checks
    ]
