# SPDX-License-Identifier: Apache-2.0
"""How the burn-in workload is started, how its document is read, and how long its result stays valid."""

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
"""Seconds before its time limit at which the workload ends itself: its partial results beat those of a kill."""
START = """
import base64, os, runpy, sys
memory = os.memfd_create("burn_in")
with open(memory, "wb", closefd=False) as archive:
    archive.write(base64.b64decode(sys.stdin.buffer.read()))
runpy.run_path(f"/proc/self/fd/{memory}", run_name="__main__")
"""
"""The program that the interpreter runs: it reads the archive from standard input and writes nothing to disk."""


def workload_arguments(device: str, seconds: float, timeout: float, unified: bool) -> list[str]:
    """Arguments of the workload's interpreter; the program itself arrives on standard input."""
    limit = max(timeout - GRACE, timeout / 2)
    shared = ["--unified"] if unified else []
    return ["-c", START, "--device", device, "--seconds", f"{seconds:g}", "--time-limit", f"{limit:g}", *shared]


def container_arguments(image: str, name: str, device: str, workload: Sequence[str]) -> list[str]:
    """The command that runs the workload in a container: no pull, no network, and only the GPUs of the host.

    The GPUs' processes communicate over shared memory, of which a container has too little by default.
    """
    # An image may request fewer capabilities than nvidia-smi needs, which samples clocks and power meanwhile.
    gpus = ["--gpus", "all", "--env", "NVIDIA_DRIVER_CAPABILITIES=compute,utility"] if device == "cuda" else []
    return [
        *("docker", "run", "--rm", "--interactive", "--pull=never", "--network=none", "--ipc=private"),
        *("--shm-size=4g", "--ulimit", "memlock=-1", "--security-opt=no-new-privileges", "--name", name, *gpus),
        *("--entrypoint", "python3", image, *workload),
    ]


def read_document(text: str) -> tuple[dict[str, Any], tuple[str, ...]]:
    """Extract the workload's document from its output, and list its problems. Images print greetings of their own."""
    begin = text.find('{\n "workload"')
    if begin < 0:
        return {}, (f"no result in its output: {quoted(text)}" if text.strip() else "it printed nothing",)
    try:
        document, _ = json.JSONDecoder().raw_decode(text[begin:])
    except ValueError as error:
        return {}, (f"its result is cut off ({error}): {quoted(text[-200:])}",)
    if not isinstance(document, dict) or document.get("workload") != FORMAT:
        return {}, (f"its result has another format version: {quoted(text[begin : begin + 100])}",)
    return document, ()


def hashed(uuid: str) -> str:
    """Hash a GPU's UUID for a record: it stays distinguishable without being disclosed."""
    return hashlib.sha256(uuid.removeprefix("GPU-").strip().lower().encode()).hexdigest()[:16]


def without_uuids(document: Mapping[str, Any]) -> dict[str, Any]:
    """The document with each GPU's UUID hashed."""
    gpus = [{**gpu, "uuid": hashed(gpu["uuid"]) if gpu.get("uuid") else None} for gpu in document.get("gpus") or ()]
    return {**document, "gpus": gpus} if "gpus" in document else dict(document)


def valid_for(driver: str | None, uuids: Iterable[str], engine: str, device: str) -> dict[str, Any]:
    """What a result is valid for: other GPUs, another driver or another engine need a new run."""
    gpus = sorted(hashed(uuid) for uuid in uuids)
    return {"workload": FORMAT, "driver": driver, "gpus": gpus, "engine": engine, "device": device}


def recorded(text: str | None, valid: Mapping[str, Any]) -> dict[str, Any] | None:
    """Parse a record; None if there is none or it is not valid for the current GPUs, driver and engine."""
    try:
        record = json.loads(text or "")
    except ValueError:
        return None
    if not isinstance(record, dict) or record.get("valid_for") != dict(valid):
        return None
    return record if isinstance(record.get("measured"), dict) else None


def evaluate_document(document: Mapping[str, Any], problems: Sequence[str], expected: Expected) -> list[Check]:
    """Return every check of one run."""
    return check_burn_in([Reading(KIND, dict(document), tuple(problems), source=SOURCE)], expected)


def wrong_lines(checks: Iterable[Check], accepted: Iterable[str] = ()) -> list[str]:
    """One line for each check that is neither satisfied nor accepted."""
    fine = set(accepted)
    return [
        sentence(one["id"], one["expected"], one)
        for one in checks
        if one["verdict"] not in CONTENT and one["id"] not in fine
    ]


def check_lines(checks: Iterable[Check]) -> list[str]:
    """One line for each check, for people: the verdict, what was found and what was expected."""
    return [
        f"{str(one['verdict']).replace('_', ' '):<16}{one['id']}: {one['observed']} ({one['expected']})"
        for one in checks
    ]
