# SPDX-License-Identifier: Apache-2.0
"""The platform class: vLLM's CPU platform, made to work across hosts and on every CPU alike."""

from __future__ import annotations

import contextlib
import importlib
import os
from typing import Any

import torch
from vllm.platforms.cpu import CpuPlatform
from vllm.platforms.interface import CpuArchEnum, Platform


def _unsupported() -> bool:
    """Answer for an instruction set the lab's image does not use, whatever this CPU could do."""
    return False


class LabPlatform(CpuPlatform):
    """CPU workers that Ray places on its logical GPUs and that talk over the network."""

    ray_device_key = "GPU"

    @classmethod
    def get_device_communicator_cls(cls) -> str:
        """Name the communicator that works between hosts."""
        return "firstlight_lab_platform.communicator.NetworkCommunicator"

    @classmethod
    def check_and_update_config(cls, vllm_config: Any) -> None:
        """Let the engine's core be a fork of the server, as vLLM does by itself where no GPU library forbids it.

        The CPU platform asks for a fresh process, which imports everything once more before it starts.
        """
        super().check_and_update_config(vllm_config)
        os.environ["VLLM_WORKER_MULTIPROC_METHOD"] = "fork"

    @classmethod
    def import_kernels(cls) -> None:
        """Load the one kernel library the image carries.

        vLLM ships three for x86 and picks by CPU. The smallest serves every machine, and a lab that runs the
        same code everywhere fails the same way everywhere. Its module name differs from its file name,
        so the import raises after the library has registered its operators; vLLM ignores that too.
        """
        if Platform.get_cpu_architecture() != CpuArchEnum.X86:
            super().import_kernels()
            return
        for name in ("_is_avx512_supported", "_is_avx512_bf16_supported", "_is_vnni_supported",
                     "_is_amx_tile_supported", "_is_amx_fp16_supported"):  # fmt: skip
            if hasattr(torch.cpu, name):
                setattr(torch.cpu, name, _unsupported)
        with contextlib.suppress(ImportError):
            importlib.import_module("vllm._C_AVX2")
        if not hasattr(torch.ops._C, "silu_and_mul"):
            raise RuntimeError("vllm/_C_AVX2.abi3.so registered no operators; rebuild the lab's image")
