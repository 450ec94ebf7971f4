# SPDX-License-Identifier: Apache-2.0
"""The burn-in workload: a program of its own, which needs Python and PyTorch and nothing else.

`program` packs it and its parts into one archive, which is fed to an interpreter on standard input, in a container or
in a virtual environment. It prints one JSON document: what every GPU computed, how fast, and the clocks, power and
temperature meanwhile. It evaluates nothing.

Each GPU has a process of its own, and all of them work at the same time, as they will when they serve: only then does a
power supply or fan that is too small show. The process that starts them never touches CUDA, so that a GPU that hangs
cannot keep it from reporting its results when the time is up.
"""

from __future__ import annotations

import argparse
import importlib
import json
import multiprocessing
import multiprocessing.connection
import os
import signal
import sys
import tempfile
import time
from collections.abc import Callable
from typing import Any

from .measure import Worker
from .messages import one_line
from .sampling import Sampler

FORMAT = 2
"""The version of the document; a reader does not evaluate a version it does not know."""
PATIENCE = 3.0
"""Seconds for a process that has reported everything to end, and for a killed one to go away."""
LONGEST_COUNT = 60.0
"""Seconds for CUDA to count its devices; with eight GPUs and no persistence mode it takes ten."""


def _apart(work: Callable[..., None], *arguments: Any) -> None:
    """Run `work` in a child process after detaching it from our outputs.

    A reader of our outputs waits until every holder has closed them, and a process that hangs in a driver may never do
    so.
    """
    nowhere = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, 1)
    os.dup2(nowhere, 2)
    work(*arguments)


def _devices(torch: Any, pipe: Any) -> None:
    """Count the devices, in a child process: asking CUDA for them is the first thing that can hang."""
    try:
        pipe.send(torch.cuda.device_count())
    except Exception as error:  # noqa: BLE001 - whatever it is, it is the answer
        pipe.send(one_line(error))


def _count(torch: Any, context: Any, deadline: float) -> int | str:
    ours, theirs = context.Pipe(duplex=False)
    process = context.Process(target=_apart, args=(_devices, torch, theirs), daemon=True)
    process.start()
    theirs.close()
    try:
        answer: int | str = (
            ours.recv() if ours.poll(max(1.0, min(LONGEST_COUNT, deadline - time.monotonic()))) else "no answer"
        )
    except EOFError:
        answer = "the process died"
    _end(process, patience=0)
    if answer == 0:
        return "PyTorch sees no CUDA device"
    return answer if isinstance(answer, int) else f"CUDA could not be queried for its devices: {answer}"


def _end(*processes: Any, patience: float) -> None:
    """Wait for the processes, then kill the remaining ones; those that the kernel does not release are left to it."""
    for last, seconds in ((False, patience), (True, PATIENCE)):
        until = time.monotonic() + seconds
        for process in processes:
            process.join(max(0.0, until - time.monotonic()))
            if process.is_alive() and not last:
                os.kill(process.pid, signal.SIGKILL)


def _keep(gpu: dict[str, Any], facts: dict[str, Any]) -> None:
    for key, value in facts.items():
        if key == "phase":
            gpu["phases"].append(value)
        elif key == "problems":
            gpu["problems"].append(value)
        elif key == "answers":
            gpu["answers"].update(value)
        else:
            gpu[key] = value


def _listen(pipes: dict[Any, dict[str, Any]], deadline: float) -> None:
    """Receive the workers' facts until all are done or the time is up."""
    while pipes:
        left = deadline - time.monotonic()
        if left <= 0:
            for gpu in pipes.values():
                gpu["problems"].append("not finished within the time limit")
            return
        for ready in multiprocessing.connection.wait(list(pipes), timeout=left):
            facts = _received(ready)
            if facts is not None:
                _keep(pipes[ready], facts)
            if facts is None or "done" in facts:
                del pipes[ready]


def _received(pipe: Any) -> dict[str, Any] | None:
    """Receive a worker's facts; None if it is gone."""
    try:
        facts: dict[str, Any] = pipe.recv()
    except (EOFError, OSError):
        return None
    return facts


def run(options: argparse.Namespace) -> dict[str, Any]:
    """Run the workload and return the whole document."""
    began = time.monotonic()
    deadline = began + options.time_limit
    document: dict[str, Any] = {"workload": FORMAT, "device": options.device, "gpus": [], "problems": []}
    os.environ.update(CUDA_DEVICE_ORDER="PCI_BUS_ID", CUBLAS_WORKSPACE_CONFIG=":4096:8")
    # Every GPU is to be tested, including those that an image or a login hides.
    os.environ.pop("CUDA_VISIBLE_DEVICES", None)
    try:
        torch: Any = importlib.import_module("torch")
    except Exception as error:  # noqa: BLE001 - a damaged installation raises anything
        return {**document, "problems": [f"PyTorch cannot be imported: {one_line(error)}"]}
    document.update(torch=str(torch.__version__), cuda=torch.version.cuda)
    context = multiprocessing.get_context("fork")
    count = _count(torch, context, deadline) if options.device == "cuda" else options.processes
    if isinstance(count, str):
        return {**document, "problems": [count], "seconds": round(time.monotonic() - began, 1)}
    if options.device == "cpu":
        torch.set_num_threads(1)
    with tempfile.TemporaryDirectory(prefix="burn-in-") as scratch:
        _measure(torch, context, options, count, os.path.join(scratch, "meeting"), deadline, document)
    document["seconds"] = round(time.monotonic() - began, 1)
    return document


def _measure(
    torch: Any,
    context: Any,
    options: argparse.Namespace,
    count: int,
    rendezvous: str,
    deadline: float,
    document: dict[str, Any],
) -> None:
    meeting = context.Barrier(count)
    pipes: dict[Any, dict[str, Any]] = {}
    processes = []
    for rank in range(count):
        ours, theirs = context.Pipe(duplex=False)
        worker = Worker(torch, options, rank, count, meeting, theirs)
        process = context.Process(target=_apart, args=(worker.work, rendezvous), daemon=True)
        process.start()
        theirs.close()
        gpu: dict[str, Any] = {"index": rank, "uuid": None, "problems": [], "answers": {}, "phases": []}
        pipes[ours] = gpu
        document["gpus"].append(gpu)
        processes.append(process)
    sampler = Sampler()
    if options.device == "cuda":
        sampler.start()
    _listen(dict(pipes), deadline)
    done = {gpu["index"]: gpu.pop("done", False) for gpu in document["gpus"]}
    _end(*processes, patience=PATIENCE if all(done.values()) else 0)
    for gpu, process in zip(document["gpus"], processes, strict=True):
        # One that has reported everything may take its time to release its GPU, or be killed meanwhile.
        if not done[gpu["index"]]:
            gpu["problems"].append(f"its process exited with {process.exitcode}")
    sampler.done.set()
    document["problems"] += sampler.problems
    for gpu in document["gpus"]:
        gpu["load"] = sampler.of_gpu(gpu)
        gpu["phases"] = {name: round(end - begin, 1) for name, begin, end in gpu["phases"]}


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="workload", description="Measure what every GPU of this host computes.")
    parser.add_argument("--device", choices=("cuda", "cpu"), default="cuda")
    parser.add_argument(
        "--processes", type=int, default=1, help="with --device cpu: how many processes run at the same time"
    )
    parser.add_argument("--seconds", type=float, default=5.0, help="seconds per measurement under load")
    parser.add_argument("--repeats", type=int, default=100, help="repeats of the product that must always be the same")
    parser.add_argument(
        "--time-limit", type=float, default=240.0, help="seconds after which the results so far are printed"
    )
    parser.add_argument("--memory-limit", type=int, default=0, help="bytes per GPU; 0: chosen automatically")
    parser.add_argument("--unified", action="store_true", help="the GPU shares its memory with the operating system")
    return parser.parse_args()


def main() -> None:
    """Print the document and exit, whatever a GPU still holds on to."""
    document = run(_options())
    sys.stdout.write(json.dumps(document, indent=1) + "\n")
    sys.stdout.flush()
    problems = document["problems"] or any(gpu["problems"] for gpu in document["gpus"])
    os._exit(0 if document["gpus"] and not problems else 1)
