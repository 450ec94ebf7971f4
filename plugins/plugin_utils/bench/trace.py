# SPDX-License-Identifier: Apache-2.0
"""Measure the share of GPU time spent on communication, from the traces of an engine's profiler.

Engines use PyTorch's profiler, which writes a file per rank in the trace event format: an object with the list
`traceEvents`, or just that list. A GPU kernel is an event of category `kernel` with its start `ts` and duration `dur`
in microseconds. Files are read in pieces: a trace of hundreds of megabytes contains few kernels.
"""

from __future__ import annotations

import gzip
import json
import re
import statistics
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import IO, Any

KERNEL = "kernel"
_COMMUNICATION = re.compile(
    r"nccl|all_?reduce|all_?gather|reduce_?scatter|all_?to_?all|cross_device_reduce|one_?shot|two_?shot|multimem|sendrecv",
    re.IGNORECASE,
)
"""Communication kernels of NCCL (ncclDevKernel_AllReduce_...), vLLM and SGLang (cross_device_reduce_1stage),
FlashInfer and TensorRT-LLM (allreduce_fusion_kernel_oneshot_lamport), and PyTorch's symmetric memory
(multimem_all_reduce_kernel)."""
_LIST = re.compile(r'^\s*\[|"traceEvents"\s*:\s*\[')
_BETWEEN = re.compile(r"[\s,]*")
_PIECE = 1 << 20
_LONGEST = 1 << 26
"""Maximum length of one event, or of the text before the first, in characters."""

Spans = list[tuple[float, float]]


class TraceError(ValueError):
    """A trace cannot be used; the message includes the remedy."""


def communication_share(path: str | Path) -> float:
    """Return the share of GPU busy time with only communication: of a trace, or the median over a directory.

    A kernel that waits for the slowest rank counts as communication, as it is for the rank that waits.
    """
    place = Path(path)
    files = sorted(one for one in place.rglob("*.json*") if one.is_file()) if place.is_dir() else [place]
    shares = [share for share in map(_share, files) if share is not None]
    if not shares:
        raise TraceError(
            f"{place} has no trace with a GPU kernel, expected .json or .json.gz files of PyTorch's profiler: "
            "start the engine with its profiler, profile some requests, and name the directory that it writes to"
        )
    return statistics.median(shares)


def _share(file: Path) -> float | None:
    """Return the share of one trace; None if it has no GPU kernels, as that of an API server."""
    kernels: dict[Any, tuple[Spans, Spans]] = {}
    try:
        with _opened(file) as stream:
            for event in _events(stream, file):
                span = _span(event)
                if span is not None:
                    talking, computing = kernels.setdefault(event.get("pid"), ([], []))
                    (talking if _COMMUNICATION.search(str(event.get("name"))) else computing).append(span)
    except (OSError, EOFError, zlib.error, UnicodeDecodeError) as error:
        raise TraceError(f"{file} cannot be read ({error}): profile again, and wait until it is written") from error
    busy = alone = 0.0
    for talking, computing in kernels.values():
        whole = _covered([*talking, *computing])
        busy += whole
        alone += whole - _covered(computing)
    return alone / busy if busy > 0 else None


def _opened(file: Path) -> IO[str]:
    return gzip.open(file, "rt", encoding="utf-8") if file.suffix == ".gz" else file.open(encoding="utf-8")


def _span(event: Any) -> tuple[float, float] | None:
    """Return start and end of a kernel event; None for any other event."""
    if not isinstance(event, dict) or event.get("ph") != "X" or event.get("cat") != KERNEL:
        return None
    start, length = event.get("ts"), event.get("dur")
    if not isinstance(start, int | float) or not isinstance(length, int | float) or not 0 < length < 1e15:
        return None
    return float(start), float(start) + length


def _covered(spans: Spans) -> float:
    """Return the length of the union of the spans in microseconds."""
    total, reached = 0.0, float("-inf")
    for start, end in sorted(spans):
        if end > reached:
            total += end - max(start, reached)
            reached = end
    return total


def _events(stream: IO[str], file: Path) -> Iterator[Any]:
    """Yield the events one by one."""
    read = json.JSONDecoder().raw_decode
    text = ""
    found = None
    while found is None:
        piece = stream.read(_PIECE)
        text += piece
        found = _LIST.search(text)
        if found is None and (not piece or len(text) > _LONGEST):
            raise TraceError(
                f"{file} has no list of traceEvents, expected a trace of PyTorch's profiler: name another file"
            )
    at = found.end()
    while True:
        between = _BETWEEN.match(text, at)
        at = between.end() if between else at
        if text[at : at + 1] == "]":
            return
        try:
            event, at = read(text, at)
        except json.JSONDecodeError:
            piece = stream.read(_PIECE)
            if not piece or len(text) - at > _LONGEST:
                raise TraceError(
                    f"{file} ends or breaks off within an event, expected a whole trace: profile again, and wait until "
                    "it is written"
                ) from None
            text, at = text[at:] + piece, 0
        else:
            yield event
