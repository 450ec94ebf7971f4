# SPDX-License-Identifier: Apache-2.0
"""Output of tools other than NVIDIA's for a described machine: the PCI bus, modules, and DCGM's diagnostic."""

from __future__ import annotations

import json
from collections.abc import Sequence

from .nvidia import pci_files


def lspci(profile: str) -> str:
    """`lspci -D -n -d 10de:`; includes GPUs that a fault hides from the driver."""
    found: dict[str, dict[str, str]] = {}
    for path, content in pci_files(profile).items():
        address, _, name = path.partition("/")
        found.setdefault(address, {})[name] = content.strip().removeprefix("0x")
    return "".join(
        f"{address} {one['class'][:4]}: {one['vendor']}:{one['device']} (rev a1)\n" for address, one in found.items()
    )


def modules() -> str:
    """`lsmod` of a serving host, with everything that GPUDirect needs."""
    rows = (
        ("nvidia_uvm", 2150400, "4"),
        ("nvidia_peermem", 16384, "0"),
        ("nvidia", 14352384, "117 nvidia_uvm,nvidia_peermem"),
        ("mlx5_ib", 475136, "0"),
        ("ib_uverbs", 200704, "2 nvidia_peermem,mlx5_ib"),
        ("ib_core", 507904, "3 nvidia_peermem,ib_uverbs,mlx5_ib"),
    )
    return "Module                  Size  Used by\n" + "".join(
        f"{name:<20} {size:>9}  {used}\n" for name, size, used in rows
    )


def dcgm_diag(gpus: int, driver: str, failing: Sequence[int] = ()) -> str:
    """`dcgmi diag -r 1 -j` of DCGM 4; failing GPUs fail because of their persistence mode."""

    def result(gpu: int) -> dict[str, object]:
        one: dict[str, object] = {"entity_group": "GPU", "entity_group_id": 1, "entity_id": gpu, "status": "Pass"}
        if gpu in failing:
            words = f"Persistence mode for GPU {gpu} is disabled."
            one |= {"status": "Fail", "warnings": [{"error_category": 8, "error_id": 29, "warning": words}]}
        return one

    software = {
        "name": "software",
        "results": [result(gpu) for gpu in range(gpus)],
        "test_summary": {"status": "Fail" if failing else "Pass"},
    }
    document = {
        "DCGM Diagnostic": {"test_categories": [{"category": "Deployment", "tests": [software]}]},
        "entity_groups": [
            {"entity_group": "GPU", "entity_group_id": 1, "entities": [{"entity_id": gpu} for gpu in range(gpus)]}
        ],
        "metadata": {"Driver Version Detected": driver, "version": "4.2.3"},
    }
    return json.dumps(document, indent=2) + "\n"
