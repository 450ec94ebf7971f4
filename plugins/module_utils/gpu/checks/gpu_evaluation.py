# SPDX-License-Identifier: Apache-2.0
"""Evaluates one GPU's fields for each check: `right`, `wrong`, `none` (not applicable) or `untold`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal

from ..expected import Expected

Finding = tuple[Literal["right", "wrong", "none", "untold"], str]
"""The verdict of a rule and its text: `none` is what this hardware lacks, `untold` what the output lacks."""

Gpu = Mapping[str, Any]
_UNTOLD: Finding = ("untold", "")
TOLERANCE = 0.01
WIDTH = 16
REMAPPED_MOST = 512
HOTTEST = 90
SLOWED = {
    0x08: "hw_slowdown",
    0x20: "sw_thermal_slowdown",
    0x40: "hw_thermal_slowdown",
    0x80: "hw_power_brake_slowdown",
}
"""Reasons for lower clocks that are faults; idling, the power cap and settings are not."""
_KNOWN_REASONS = 0x1FF
VOLATILE, AGGREGATE = "ecc.errors.uncorrected.volatile", "ecc.errors.uncorrected.aggregate"
_BUSY = 50.0
PRODUCTS = {
    "H100 80GB HBM3": "an H100 SXM",
    "H100 PCIe": "an H100 PCIe card",
    "H100 NVL": "an H100 NVL card",
    "H200": "an H200 SXM",
    "H200 NVL": "an H200 NVL card",
    "GB10": "a DGX Spark or another GB10 system",
    "GH200 480GB": "a Grace Hopper superchip",
    "B200": "a B200",
    "L40S": "an L40S card, which has no NVLink",
    "A100-SXM4-80GB": "an A100 SXM of 80 GB",
    "A100-SXM4-40GB": "an A100 SXM of 40 GB",
}
"""What GPUs of these names are, for users who chose the wrong profile."""


def _switch(gpu: Gpu, field: str) -> Any:
    """The field's value, or "untold" if the field is absent."""
    return gpu.get(field, "untold")


def evaluate_name(gpu: Gpu, expected: Expected) -> Finding:
    """The name must be that of the profile's product; a known other product is described in the message."""
    name = gpu.get("name")
    if name is None:
        return _UNTOLD
    if _plain(name) == _plain(expected.gpu_name):
        return "right", expected.gpu_name
    if str(name).endswith("...") and _plain(expected.gpu_name).startswith(_plain(str(name)[:-3])):
        return "untold", f"the name is truncated: {name}"
    like = PRODUCTS.get(" ".join(str(name).split()).removeprefix("NVIDIA "))
    return "wrong", f"{name}" + (f" (this looks like {like})" if like else "")


def _plain(name: str) -> str:
    return " ".join(str(name).split()).lower().removeprefix("nvidia ")


def evaluate_memory(gpu: Gpu, expected: Expected) -> Finding:
    """The memory must be within one per cent of the profile's figure; `none` if the host's memory is shared."""
    total = _switch(gpu, "memory.total")
    if total == "untold":
        return _UNTOLD
    if expected.memory_mib is None:
        return "none", "shared with the host" if total is None else f"{total} MiB, shared with the host"
    if total is None:
        return "wrong", "the driver reports no memory (N/A)"
    right = abs(total - expected.memory_mib) <= expected.memory_mib * TOLERANCE
    return "right" if right else "wrong", f"{total} MiB"


def evaluate_mig(gpu: Gpu, _expected: Expected) -> Finding:
    """MIG must be off, and stay off after the next reset."""
    now, after = _switch(gpu, "mig.mode.current"), gpu.get("mig.mode.pending")
    if now is True or after is True:
        return "wrong", "MIG is on" if now is True else "MIG is off now and on after the next reset"
    if now == "untold":
        return _UNTOLD
    return ("none", "it has no MIG") if now is None else ("right", "off")


def evaluate_ecc(gpu: Gpu, expected: Expected) -> Finding:
    """ECC must be on, and stay on after the next reset."""
    now, after = _switch(gpu, "ecc.mode.current"), _switch(gpu, "ecc.mode.pending")
    if now is False or after is False:
        return "wrong", "ECC is off" if now is False else "ECC is on now and off after the next reset"
    if now == "untold":
        return _UNTOLD
    if now is None:
        return ("none", "it has no ECC") if expected.unified else ("untold", "the driver reports no ECC (N/A)")
    return "right", "on"


def evaluate_ecc_errors(gpu: Gpu, expected: Expected) -> Finding:
    """There must be no uncorrectable errors since the driver was loaded; earlier ones are only mentioned."""
    for flag, words in (
        (f"{AGGREGATE}.sram.thresholdexceeded", "too many SRAM errors over its lifetime: the threshold is exceeded"),
        ("ecc.unrepairable_memory", "memory that cannot be repaired"),
    ):
        if gpu.get(flag) is True:
            return "wrong", words
    since, whole = _errors(gpu, VOLATILE)
    if since:
        return "wrong", f"{since} uncorrectable since the driver was loaded"
    ever, ever_whole = _errors(gpu, AGGREGATE)
    if whole and since is not None:
        return "right", f"0, and {ever} over its lifetime" if ever else "0"
    if ever_whole and ever is not None and whole:
        # With MIG on, some drivers have no count since loading: then only the lifetime count of the board is left.
        return ("wrong", f"{ever} uncorrectable over its lifetime") if ever else ("right", "0 over its lifetime")
    if gpu.get("ecc.mode.current") is False and whole:
        return "none", "ECC is off"
    if expected.unified and (whole or gpu.get("ecc.mode.current", 0) is None):
        return "none", "it has no ECC"
    return _UNTOLD


def _errors(gpu: Gpu, when: str) -> tuple[int | None, bool]:
    """The sum of the counters (None: all are N/A), and whether every part of the sum is present."""
    total = f"{when}.total"
    if total in gpu:
        return gpu[total], True
    sram = [f"{when}.sram"] if f"{when}.sram" in gpu else [f"{when}.sram.parity", f"{when}.sram.secded"]
    dram = next((name for name in (f"{when}.dram", f"{when}.device_memory") if name in gpu), f"{when}.dram")
    names = [*sram, dram]
    there = [gpu[name] for name in names if gpu.get(name) is not None]
    return (sum(there) if there else None), all(name in gpu for name in names)


def evaluate_remapped(gpu: Gpu, _expected: Expected) -> Finding:
    """No row may be waiting to be remapped or have failed to be, and not too many may have been remapped."""
    pending, failure = _switch(gpu, "remapped_rows.pending"), _switch(gpu, "remapped_rows.failure")
    rows = gpu.get("remapped_rows.uncorrectable")
    if failure is True:
        return "wrong", "a row could not be remapped"
    if isinstance(rows, int) and rows >= REMAPPED_MOST:
        return "wrong", f"{rows} rows remapped"
    if pending is True or gpu.get("retired_pages.pending") is True:
        return "wrong", "a row remapping is pending until a reset"
    if gpu.get("ecc.channel_repair_pending") is True or gpu.get("ecc.tpc_repair_pending") is True:
        return "wrong", "a repair is pending until a reset"
    if "untold" in (pending, failure):
        return _UNTOLD
    if pending is None and failure is None:
        return "none", "not reported (MIG is on)" if gpu.get("mig.mode.current") else "it does not remap rows"
    return ("untold", "") if None in (pending, failure) else ("right", "none waits, none failed")


def evaluate_recovery(gpu: Gpu, _expected: Expected) -> Finding:
    """The driver must not ask for a reset or a reboot."""
    if gpu.get("reset_status.reset_required") is True or gpu.get("reset_status.drain_and_reset_recommended") is True:
        return "wrong", "the driver requires a reset"
    action = _switch(gpu, "gpu_recovery_action")
    if action == "untold":
        required = _switch(gpu, "reset_status.reset_required")
        return ("right", "no reset required") if required is False else _UNTOLD
    if action is None:
        return "none", "not reported"
    lowered = str(action).lower()
    if lowered == "none":
        return "right", "none"
    known = any(word in lowered for word in ("reset", "reboot", "drain", "replace", "rma"))
    return ("wrong", f"the driver requires: {action}") if known else ("untold", f"the action is {action!r}")


def evaluate_throttle(gpu: Gpu, _expected: Expected) -> Finding:
    """Clocks must not be held down by heat or a power brake."""
    active = _switch(gpu, "clocks_event_reasons.active")
    flags = {name: _switch(gpu, f"clocks_event_reasons.{name}") for name in SLOWED.values()}
    slowed = [name for name, value in flags.items() if value is True]
    if isinstance(active, int):
        slowed += [name for bit, name in SLOWED.items() if active & bit and name not in slowed]
    if slowed:
        return "wrong", "slowed down by " + ", ".join(slowed)
    if isinstance(active, int):
        return ("untold", f"the reasons are {active:#x}") if active & ~_KNOWN_REASONS else ("right", f"{active:#x}")
    if "untold" in flags.values():
        return ("none", "not reported") if active is None else _UNTOLD
    return ("none", "not reported") if all(value is None for value in flags.values()) else ("right", "none")


def evaluate_persistence(gpu: Gpu, _expected: Expected) -> Finding:
    """Persistence mode must be on."""
    mode = _switch(gpu, "persistence_mode")
    if mode == "untold":
        return _UNTOLD
    return ("none", "it has no such mode") if mode is None else ("right", "on") if mode else ("wrong", "off")


def evaluate_compute_mode(gpu: Gpu, _expected: Expected) -> Finding:
    """The compute mode must be Default."""
    mode = gpu.get("compute_mode")
    return _UNTOLD if mode is None else ("right" if mode == "Default" else "wrong", str(mode))


def evaluate_power(gpu: Gpu, expected: Expected) -> Finding:
    """The profile's power limit must be set and in force."""
    limits = {name: gpu[name] for name in ("enforced.power.limit", "power.limit") if name in gpu}
    told = {name: value for name, value in limits.items() if value is not None}
    if expected.power_limit_w is None:
        return "none", "it has no limit to set" if not told else f"{min(told.values()):g} W"
    wrong = [
        value for value in told.values() if abs(value - expected.power_limit_w) > expected.power_limit_w * TOLERANCE
    ]
    if wrong:
        return "wrong", f"{min(wrong):g} W"
    return ("right", f"{min(told.values()):g} W") if told else _UNTOLD


def evaluate_pcie(gpu: Gpu, expected: Expected) -> Finding:
    """All lanes must be in use and, under load, the highest generation that both ends support."""
    if expected.unified:
        return "none", "it is not connected to its CPU by PCIe"
    width, most = _switch(gpu, "pcie.link.width.current"), _switch(gpu, "pcie.link.width.max")
    now, best = gpu.get("pcie.link.gen.current"), gpu.get("pcie.link.gen.max")
    if isinstance(width, int) and width < WIDTH:
        return "wrong", f"x{width}" + (f" of x{most}" if isinstance(most, int) else "")
    if isinstance(most, int) and most < WIDTH:
        return "wrong", f"x{most} at most"
    # An idle GPU lowers the generation by itself; only one under load shows the real one.
    if now is not None and best is not None and now < best and (gpu.get("utilization.gpu") or 0) >= _BUSY:
        return "wrong", f"generation {now} of {best} under load"
    if not isinstance(width, int):
        return _UNTOLD
    return "right", f"x{width}" + (f", generation {best}" if best is not None else "")


def evaluate_temperature(gpu: Gpu, _expected: Expected) -> Finding:
    """The temperature must be low enough, by the GPU's own margin or in degrees."""
    now, left = _switch(gpu, "temperature.gpu"), gpu.get("temperature.gpu.tlimit")
    if left is not None and left <= 0:
        return "wrong", f"{left} C from the limit"
    if now == "untold":
        return _UNTOLD
    return ("none", "not reported") if now is None else ("right" if now < HOTTEST else "wrong", f"{now} C")
