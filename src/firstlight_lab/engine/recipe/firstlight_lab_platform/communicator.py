# SPDX-License-Identifier: Apache-2.0
"""A communicator whose ranks may live on different hosts."""

from __future__ import annotations

from vllm.distributed.device_communicators.cpu_communicator import CpuCommunicator


class NetworkCommunicator(CpuCommunicator):
    """Always use gloo.

    vLLM's CPU communicator takes the shared-memory path when the ranks agree on a segment's name. Under Ray
    they always agree, also across hosts, where no memory is shared.
    """

    def _all_group_ranks_share_shm_group_name(self) -> bool:
        return False
