# SPDX-License-Identifier: Apache-2.0
"""The rules for every GPU: one rule per check, over the fields of parsers/fields.py."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from ..expected import Expected
from .gpu_evaluation import (
    AGGREGATE,
    HOTTEST,
    REMAPPED_MOST,
    SLOWED,
    VOLATILE,
    WIDTH,
    Finding,
    Gpu,
    evaluate_compute_mode,
    evaluate_ecc,
    evaluate_ecc_errors,
    evaluate_memory,
    evaluate_mig,
    evaluate_name,
    evaluate_pcie,
    evaluate_persistence,
    evaluate_power,
    evaluate_recovery,
    evaluate_remapped,
    evaluate_temperature,
    evaluate_throttle,
)


@dataclass(frozen=True)
class Rule:
    """One check of every GPU. A source that has none of `fields` is not asked for it.

    `always` lists the kinds that must report it, so that its absence is a gap. `command` fixes it and is safe to run.
    """

    id: str
    fields: tuple[str, ...]
    expected: Callable[[Expected], str]
    evaluate: Callable[[Gpu, Expected], Finding]
    remedy: str
    command: Callable[[Expected], str | None] = lambda _: None
    always: tuple[str, ...] = ("smi-q", "smi-xml")


RULES: tuple[Rule, ...] = (
    Rule(
        "gpu.name",
        ("name",),
        lambda expected: expected.gpu_name,
        evaluate_name,
        "use this machine's profile, or find out why it has another GPU",
        always=("smi-q", "smi-xml", "smi-table", "smi-list"),
    ),
    Rule(
        "gpu.memory",
        ("memory.total",),
        lambda expected: (
            f"{expected.memory_mib} MiB, within 1 %"
            if expected.memory_mib
            else "not checked: the memory is shared with the host"
        ),
        evaluate_memory,
        "check whether this is the board that the profile is for; a GPU with less memory than its kind is faulty",
    ),
    Rule(
        "gpu.mig",
        ("mig.mode.current", "mig.mode.pending"),
        lambda _: "MIG off",
        evaluate_mig,
        "turn MIG off with `nvidia-smi -mig 0` once the partitions are unused, and reset the GPU: with MIG, GPUs "
        "cannot work together",
    ),
    Rule(
        "gpu.ecc",
        ("ecc.mode.current", "ecc.mode.pending"),
        lambda expected: "ECC on" if not expected.unified else "no ECC to set",
        evaluate_ecc,
        "turn ECC on and reset the GPU or reboot",
        lambda _: "nvidia-smi -e 1",
    ),
    Rule(
        "gpu.ecc_errors",
        tuple(f"{when}.{what}" for when in (VOLATILE, AGGREGATE) for what in ("total", "dram", "sram", "sram.parity")),
        lambda expected: "no uncorrectable errors" if not expected.unified else "no ECC to count errors",
        evaluate_ecc_errors,
        "drain the host and reset the GPU; if errors recur, run `dcgmi diag -r 3` and have the board replaced",
    ),
    Rule(
        "gpu.remapped_rows",
        ("remapped_rows.pending", "remapped_rows.failure"),
        lambda _: f"no row remapping pending or failed, fewer than {REMAPPED_MOST} rows remapped",
        evaluate_remapped,
        "drain the host and reset the GPU so that the row is remapped; have the board replaced if remapping failed",
    ),
    Rule(
        "gpu.recovery",
        ("gpu_recovery_action", "reset_status.reset_required"),
        lambda _: "no recovery action required by the driver",
        evaluate_recovery,
        "drain the host, then do what the driver requires: reset the GPU (`nvidia-smi --gpu-reset -i N`) or reboot",
        always=(),
    ),
    Rule(
        "gpu.throttle",
        ("clocks_event_reasons.active", *(f"clocks_event_reasons.{name}" for name in SLOWED.values())),
        lambda _: "clocks not slowed down by heat or a power brake",
        evaluate_throttle,
        "check fans, inlet temperature and power supplies; a slow GPU slows down all others",
    ),
    Rule(
        "gpu.persistence",
        ("persistence_mode",),
        lambda _: "persistence mode on",
        evaluate_persistence,
        "turn persistence mode on, and enable nvidia-persistenced so that it stays on",
        lambda _: "nvidia-smi -pm 1",
    ),
    Rule(
        "gpu.compute_mode",
        ("compute_mode",),
        lambda _: "compute mode Default",
        evaluate_compute_mode,
        "restore the compute mode: an engine opens a GPU from several processes",
        lambda _: "nvidia-smi -c 0",
    ),
    Rule(
        "gpu.power_limit",
        ("power.limit", "enforced.power.limit"),
        lambda expected: f"{expected.power_limit_w} W" if expected.power_limit_w else "no power limit to set",
        evaluate_power,
        "set the power limit of the profile, unless the rack's budget is the reason for another",
        lambda expected: f"nvidia-smi -pl {expected.power_limit_w}" if expected.power_limit_w else None,
    ),
    Rule(
        "gpu.pcie",
        ("pcie.link.width.current", "pcie.link.width.max"),
        lambda expected: f"PCIe x{WIDTH}" if not expected.unified else "no PCIe link to evaluate",
        evaluate_pcie,
        "reseat the board and check riser and slot; in a virtual machine, check how the GPU is passed through",
    ),
    Rule(
        "gpu.temperature",
        ("temperature.gpu", "temperature.gpu.tlimit"),
        lambda _: f"below {HOTTEST} C",
        evaluate_temperature,
        "check fans and inlet temperature",
    ),
)
