# SPDX-License-Identifier: Apache-2.0
"""The share of communication in traces as PyTorch's profiler writes them."""

from __future__ import annotations

import gzip
import json
import random
from pathlib import Path
from typing import Any

import pytest
from ansible_collections.firstlight.cluster.plugins.plugin_utils.bench import trace
from ansible_collections.firstlight.cluster.plugins.plugin_utils.bench.trace import TraceError, communication_share

ALL_REDUCES = (
    "ncclDevKernel_AllReduce_Sum_bf16_RING_LL(ncclDevKernelArgsStorage<4096ul>)",
    "ncclDevKernel_SendRecv(ncclDevKernelArgsStorage<4096ul>)",
    "void vllm::cross_device_reduce_1stage<__nv_bfloat16, 8>(vllm::RankData*, vllm::RankSignals, int)",
    "void sglang::cross_device_reduce_2stage<__half, 8>(sglang::RankData*)",
    "void flashinfer::trtllm_allreduce_fusion::allreduce_fusion_kernel_oneshot_lamport<2, __nv_bfloat16>()",
    "multimem_all_reduce_kernel",
)
OTHERS = (
    "nvjet_tst_128x128_64x4_1x2_h_bz_TNT",
    "void at::native::reduce_kernel<512, 1, at::native::ReduceOp<float>>()",
    "void cutlass::device_kernel<flash::enable_sm90<flash::FlashAttnFwdSm90>>()",
)


def kernel(name: str, start: float, length: float, stream: int = 7, **own: Any) -> dict[str, Any]:
    return {"ph": "X", "cat": "kernel", "name": name, "pid": 0, "tid": stream, "ts": start, "dur": length, **own}


def written(path: Path, *events: Any) -> Path:
    """As the profiler writes it: other keys first, many events that are no kernels, and lines for people."""
    around = [
        {"ph": "M", "name": "process_name", "pid": 0, "args": {"name": 'a "quoted", [odd] name'}},
        {"ph": "X", "cat": "cpu_op", "name": "aten::all_reduce", "pid": 4, "tid": 4, "ts": 0, "dur": 900},
        {"ph": "X", "cat": "gpu_memcpy", "name": "Memcpy DtoD", "pid": 0, "tid": 7, "ts": 0, "dur": 900},
        {"ph": "i", "name": "Iteration Start", "ts": 1},
    ]
    document = {
        "schemaVersion": 1,
        "deviceProperties": [{"id": 0}],
        "traceEvents": [*around, *events],
        "traceName": "x",
    }
    text = json.dumps(document, indent=1)
    path.write_bytes(gzip.compress(text.encode()) if path.suffix == ".gz" else text.encode())
    return path


@pytest.mark.parametrize("name", ALL_REDUCES)
def test_kernels_that_communicate(tmp_path: Path, name: str) -> None:
    one = written(tmp_path / "rank0.pt.trace.json", kernel(name, 0, 25), kernel(OTHERS[0], 25, 75))
    assert communication_share(one) == pytest.approx(0.25)


@pytest.mark.parametrize("name", OTHERS)
def test_kernels_that_compute(tmp_path: Path, name: str) -> None:
    assert communication_share(written(tmp_path / "a.json", kernel(name, 0, 25))) == 0


def test_only_time_in_which_nothing_else_runs_counts(tmp_path: Path) -> None:
    hidden = kernel(ALL_REDUCES[0], 10, 30, stream=20)
    one = written(tmp_path / "a.json", kernel(OTHERS[0], 0, 20), hidden, kernel(OTHERS[1], 30, 70))
    assert communication_share(one) == pytest.approx(0.1)


def test_the_median_of_the_ranks_without_the_api_server(tmp_path: Path) -> None:
    for rank, share in enumerate((10, 20, 60)):
        events = kernel(ALL_REDUCES[0], 0, share), kernel(OTHERS[0], share, 100 - share)
        written(tmp_path / f"rank{rank}.pt.trace.json.gz", *events)
    written(tmp_path / "api.async_llm.pt.trace.json.gz")
    assert communication_share(tmp_path) == pytest.approx(0.2)


def test_the_list_alone_and_figures_that_are_none(tmp_path: Path) -> None:
    odd = [kernel("x", 0, -5), kernel("x", 0, 1) | {"dur": "long"}, 7, kernel(OTHERS[0], 0, 10)]
    path = tmp_path / "a.json"
    path.write_text(json.dumps(odd), encoding="utf-8")
    assert communication_share(str(path)) == 0


@pytest.mark.parametrize("piece", [1, 7, 64])
def test_pieces_of_any_size_give_the_same(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, piece: int) -> None:
    chance = random.Random(piece)
    events, at = [], 0.0
    for _ in range(20):
        length = chance.uniform(1, 50)
        events.append(kernel(chance.choice([*ALL_REDUCES, *OTHERS]), at, length))
        at += length
    one = written(tmp_path / "a.json", *events)
    whole = communication_share(one)
    monkeypatch.setattr(trace, "_PIECE", piece)
    assert communication_share(one) == whole
    talking = sum(event["dur"] for event in events if event["name"] in ALL_REDUCES)
    assert whole == pytest.approx(talking / at)


@pytest.mark.parametrize(
    ("name", "content", "words"),
    [
        ("a.json", b"", "no list of traceEvents"),
        ("a.json", b'{"events": []}', "no list of traceEvents"),
        ("a.json", b'{"traceEvents": [{"ph": "X"}, {"ph"', "breaks off"),
        ("a.json", b'{"traceEvents": [{"ph": "X"}', "breaks off"),
        ("a.json", b'{"traceEvents": []}', "no trace with a GPU kernel"),
        ("a.json", b"\xff\xfe[", "cannot be read"),
        ("a.json.gz", b"not compressed", "cannot be read"),
        ("a.json.gz", gzip.compress(b'{"traceEvents": []}' * 999, mtime=0)[:-20], "cannot be read"),
        ("b.txt", b"", "no trace with a GPU kernel"),
    ],
    ids=range(9),
)
def test_what_cannot_be_used_says_what_to_do(tmp_path: Path, name: str, content: bytes, words: str) -> None:
    (tmp_path / name).write_bytes(content)
    with pytest.raises(TraceError, match=words) as caught:
        communication_share(tmp_path)
    assert ": " in str(caught.value)
    with pytest.raises(TraceError):
        communication_share(tmp_path / "nothing")
