# SPDX-License-Identifier: Apache-2.0
"""One GPU's share of the burn-in workload: rates, bandwidth, and products that must always give the same result."""

from __future__ import annotations

import argparse
import hashlib
import os
import statistics
import threading
import time
from collections.abc import Callable
from datetime import timedelta
from typing import Any

from .host_copy import LARGEST, copy_rates
from .messages import one_line

SEED = 20261115
SIZES = (8192, 4096, 2048, 1024, 512, 256)
"""Rows of the square matrices: the largest that memory allows is used; smaller ones do not fill a large GPU."""
CPU_SIZE = 128
"""A processor only proves that the program works, not its speed; its FP8 is very slow."""
CPU_MEMORY = 64 << 20
KNOWN_DEPTH = 2048
"""Products of this depth of the numbers -1, 0 and 1 stay below 256: exact in bf16 and FP8 in any summation order."""
FIRST_WITH_FP8 = (8, 9)
"""The first compute capability with FP8 matrix products. The profile of a GPU without them says so."""
MOST_MEMORY = 8 << 30
SHARED_MEMORY_SHARE = 0.1
"""The share of the available memory to use if the GPU shares it with the operating system: more can hang the host."""
COPY_BYTES = 2 << 30
REDUCE_BYTES = 1 << 30
WARM_UP = 3
BETWEEN_LOOKS = 0.25
"""Seconds of work between two looks at the clock: each look makes the GPU idle briefly."""
MEETING = 60
"""Seconds that a GPU waits for the others before a phase."""


class Worker:
    """One GPU's share of the work, in its own process."""

    def __init__(self, torch: Any, options: argparse.Namespace, rank: int, count: int, meeting: Any, pipe: Any) -> None:
        self.torch, self.options, self.rank, self.count = torch, options, rank, count
        self.meeting, self.pipe = meeting, pipe
        self.on_gpu = options.device == "cuda"
        self.has_fp8 = True
        self.shares_memory = bool(options.unified)
        self.alone = False
        self.device = torch.device("cuda", rank) if self.on_gpu else torch.device("cpu")

    def work(self, rendezvous: str) -> None:
        """Do all the work, then report that it is complete, which a process that dies never does."""
        self._work(rendezvous)
        self._tell(done=True)

    def _work(self, rendezvous: str) -> None:
        """Run the phases one after the other; one that fails does not affect the others."""
        try:
            self._tell(**self._about())
            self.budget = self._memory_budget()
            self.size = next((size for size in SIZES if 16 * size * size <= self.budget), SIZES[-1])
            if not self.on_gpu:
                self.size = min(self.size, CPU_SIZE)
            self._tell(memory_budget_bytes=self.budget, size=self.size)
        except Exception as error:  # noqa: BLE001 - whatever PyTorch trips over is what this GPU has to tell
            self._tell(problems=f"the GPU could not be set up: {one_line(error)}")
            # The others need not wait for this one.
            self.meeting.abort()
            return
        self._phase("answers_cold", lambda: self._answers("cold"))
        self._phase("bf16", self._bf16)
        if self.has_fp8:
            self._phase("fp8", self._fp8)
        else:
            self._meet("fp8")
        self._phase("bandwidth", self._bandwidth)
        self._phase("answers_hot", lambda: self._answers("hot"))
        self._copy_with_host()
        if self.count > 1:
            self._meet("all_reduce")
        if self.count > 1 and not self.alone:
            self._phase("all_reduce", lambda: self._all_reduce(rendezvous))

    def _copy_with_host(self) -> None:
        """Copy on one GPU at a time, as those behind one PCIe switch share its uplink. Skipped for shared memory."""
        if self.shares_memory:
            return
        for turn in range(self.count):
            if turn == self.rank:
                self._phase("host_copy", self._host_copy)
            else:
                self._meet("host_copy")

    def _host_copy(self) -> dict[str, Any]:
        free = _memory_available() * SHARED_MEMORY_SHARE / self.count
        size = int(min(LARGEST, self.budget, free))
        return copy_rates(self.torch, self.device, self.on_gpu, size, self._timed, self.options.seconds)

    def _meet(self, name: str) -> None:
        """Wait for the other GPUs; if one stays away, report it once and do not wait for it again."""
        if self.alone:
            return
        try:
            self.meeting.wait(MEETING)
        except threading.BrokenBarrierError:
            self.alone = True
            self._tell(problems=f"the other GPUs did not reach {name}: this one continues alone, without all-reduce")

    def _phase(self, name: str, body: Callable[[], dict[str, Any]]) -> None:
        """Start a phase together with the other GPUs, and report its result or failure and its start and end."""
        self._meet(name)
        begin = time.monotonic()
        try:
            self._tell(**body())
        except Exception as error:  # noqa: BLE001 - as above
            self._tell(problems=f"{name}: {one_line(error)}")
        finally:
            if self.on_gpu:
                self.torch.cuda.empty_cache()
            self._tell(phase=[name, begin, time.monotonic()])

    def _tell(self, **facts: Any) -> None:
        self.pipe.send(facts)

    def _about(self) -> dict[str, Any]:
        if not self.on_gpu:
            return {"name": "cpu", "uuid": None, "capability": None, "memory_bytes": None, "unified": True}
        self.torch.cuda.set_device(self.device)
        found = self.torch.cuda.get_device_properties(self.device)
        self.has_fp8 = (found.major, found.minor) >= FIRST_WITH_FP8
        self.shares_memory = self.shares_memory or bool(getattr(found, "is_integrated", False))
        uuid = getattr(found, "uuid", None)
        return {
            "name": found.name,
            "uuid": None if uuid is None else str(uuid).removeprefix("GPU-"),
            "capability": f"{found.major}.{found.minor}",
            "memory_bytes": found.total_memory,
            "unified": bool(getattr(found, "is_integrated", False)),
        }

    def _memory_budget(self) -> int:
        """Bytes that this process may allocate on its GPU."""
        most = self.options.memory_limit or MOST_MEMORY
        if self.on_gpu:
            found = self.torch.cuda.get_device_properties(self.device)
            if not getattr(found, "is_integrated", False) and not self.options.unified:
                free, _ = self.torch.cuda.mem_get_info(self.device)
                return int(min(most, free // 2))
            # CUDA counts the operating system's file cache as used memory, although it is freed on demand.
        else:
            most = min(most, CPU_MEMORY)
        return int(min(most, _memory_available() * SHARED_MEMORY_SHARE / self.count))

    def _normal(self, rows: int, columns: int, seed: int) -> Any:
        source = self.torch.Generator(device=self.device).manual_seed(SEED + seed)
        return self.torch.randn(rows, columns, generator=source, device=self.device, dtype=self.torch.float32)

    def _bf16_product(self) -> Callable[[], Any]:
        left = self._normal(self.size, self.size, 1).to(self.torch.bfloat16)
        right = self._normal(self.size, self.size, 2).to(self.torch.bfloat16)
        return lambda: left @ right

    def _fp8_product(self, left: Any, right: Any) -> Callable[[], Any]:
        """An FP8 product as engines call it: both operands with one scale per tensor, the right one column-major."""
        kind = self.torch.float8_e4m3fn
        one = self.torch.ones((), device=self.device, dtype=self.torch.float32)
        first, second = left.to(kind), right.t().contiguous().to(kind).t()
        multiply = self.torch._scaled_mm
        return lambda: multiply(first, second, scale_a=one, scale_b=one, out_dtype=self.torch.bfloat16)

    def _bf16(self) -> dict[str, Any]:
        return self._rate("bf16", self._bf16_product())

    def _fp8(self) -> dict[str, Any]:
        return self._rate(
            "fp8", self._fp8_product(self._normal(self.size, self.size, 3), self._normal(self.size, self.size, 4))
        )

    def _rate(self, name: str, product: Callable[[], Any]) -> dict[str, Any]:
        """Measure TFLOP/s: over the whole time, which cooling and power supply sustain, and in the best moment."""
        times = self._timed(product, 2.0 * self.size**3, self.options.seconds)
        return {f"{name}_tflops": round(times[0] / 1e12, 2), f"{name}_best_tflops": round(times[1] / 1e12, 2)}

    def _bandwidth(self) -> dict[str, Any]:
        """Measure a copy that is far larger than the caches; bytes read and bytes written both count."""
        length = int(min(COPY_BYTES, self.budget // 2)) // 8
        source = self.torch.arange(length, device=self.device, dtype=self.torch.int64)
        target = self.torch.empty_like(source)
        whole, best = self._timed(lambda: target.copy_(source), 2.0 * 8 * length, self.options.seconds)
        same = bool(self.torch.equal(source, target))
        facts = {"bandwidth_gb_s": round(whole / 1e9, 1), "bandwidth_best_gb_s": round(best / 1e9, 1)}
        return {**facts, "copy_bytes": 8 * length, "copy_is_equal": same}

    def _timed(self, step: Callable[[], Any], work: float, seconds: float) -> tuple[float, float]:
        """Return units of work per second over the given time: overall, and in the best moment."""
        # The first calls choose kernels and allocate memory; only then is the duration of a call known.
        self._seconds(step, WARM_UP)
        often = max(1, round(BETWEEN_LOOKS * WARM_UP / max(self._seconds(step, WARM_UP), 1e-6)))
        spent: list[float] = []
        end = time.monotonic() + seconds
        while not spent or time.monotonic() < end:
            spent.append(self._seconds(step, often))
        return work * often * len(spent) / sum(spent), work * often / min(spent)

    def _seconds(self, step: Callable[[], Any], often: int) -> float:
        if not self.on_gpu:
            begin = time.perf_counter()
            for _ in range(often):
                step()
            return time.perf_counter() - begin
        first, last = (self.torch.cuda.Event(enable_timing=True) for _ in range(2))
        first.record()
        for _ in range(often):
            step()
        last.record()
        last.synchronize()
        return float(first.elapsed_time(last)) / 1000

    def _wait(self) -> None:
        if self.on_gpu:
            self.torch.cuda.synchronize(self.device)

    def _answers(self, when: str) -> dict[str, Any]:
        """Repeat a product, and compute products of known result: a GPU that corrupts silently gives different answers.

        Every repeat is summed as integers, for which the order of addition does not matter; the first and the last are
        also hashed bit by bit.
        """
        product = self._bf16_product()
        sums: dict[int, int] = {}
        digests: set[str] = set()
        for turn in range(self.options.repeats):
            result = product()
            total = int(self.torch.sum(result.view(self.torch.int32), dtype=self.torch.int64).item())
            sums[total] = sums.get(total, 0) + 1
            if turn in (0, self.options.repeats - 1):
                digests.add(hashlib.sha256(result.view(self.torch.int16).cpu().numpy().tobytes()).hexdigest())
        answers = {
            "repeats": self.options.repeats,
            "different_sums": len(sums),
            "digests": sorted(digests),
            "known": self._known(),
        }
        return {"answers": {when: answers}}

    def _known(self) -> dict[str, bool | None]:
        """Whether products of small integers are right, verified with a vector in another order and type."""
        rows, depth = min(self.size, 4096), min(self.size, KNOWN_DEPTH)
        left, right = (self._whole(rows, depth, 5), self._whole(depth, rows, 6))
        probe = self._whole(rows, 1, 7).double() * 1000
        wanted = left.double() @ (right.double() @ probe)
        products: dict[str, Callable[[], Any]] = {
            "bf16": lambda: left.to(self.torch.bfloat16) @ right.to(self.torch.bfloat16),
            "fp8": lambda: self._fp8_product(left, right)(),  # noqa: PLW0108 - what it raises belongs to its call
        }
        return {name: self._is_right(product, probe, wanted) for name, product in products.items()}

    def _is_right(self, product: Callable[[], Any], probe: Any, wanted: Any) -> bool | None:
        try:
            return bool(self.torch.equal(product().double() @ probe, wanted))
        except (RuntimeError, AttributeError, TypeError):
            return None  # this device has no such product; its phase says why

    def _whole(self, rows: int, columns: int, seed: int) -> Any:
        source = self.torch.Generator(device=self.device).manual_seed(SEED + seed)
        return self.torch.randint(-1, 2, (rows, columns), generator=source, device=self.device).to(self.torch.float32)

    def _all_reduce(self, rendezvous: str) -> dict[str, Any]:
        """Measure bus bandwidth as nccl-tests define it: 2 (n - 1) / n of the buffer per time of an all-reduce."""
        distributed = self.torch.distributed
        backend = "nccl" if self.on_gpu else "gloo"
        # One host, and in a container without a network: only the loopback is available to meet on.
        os.environ.update(NCCL_SOCKET_IFNAME="lo", GLOO_SOCKET_IFNAME="lo")
        # CUDA host memory needs NUMA calls that Docker forbids, and not every NCCL notices; /dev/shm always works.
        os.environ["NCCL_CUMEM_HOST_ENABLE"] = "0"
        distributed.init_process_group(
            backend,
            init_method=f"file://{rendezvous}",
            rank=self.rank,
            world_size=self.count,
            timeout=timedelta(seconds=MEETING),
        )
        length = int(min(REDUCE_BYTES, self.budget // 4)) // 4
        buffer = self.torch.ones(length, device=self.device, dtype=self.torch.float32)
        distributed.all_reduce(buffer)
        self._wait()
        right = bool((buffer == float(self.count)).all().item())
        spent = []
        for _ in range(5 if self.on_gpu else 1):
            buffer.fill_(1.0)
            spent.append(self._seconds(lambda: distributed.all_reduce(buffer), 4) / 4)
        distributed.barrier()
        share = 2 * (self.count - 1) / self.count
        rate = round(4 * length * share / statistics.median(spent) / 1e9, 1)
        return {"all_reduce": {"bus_gb_s": rate, "bytes": 4 * length, "right": right, "gpus": self.count}}


def _memory_available() -> int:
    with open("/proc/meminfo", encoding="ascii") as stream:
        for line in stream:
            if line.startswith("MemAvailable:"):
                return int(line.split()[1]) * 1024
    return 1 << 30
