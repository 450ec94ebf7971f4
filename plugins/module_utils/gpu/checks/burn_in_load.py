# SPDX-License-Identifier: Apache-2.0
"""Checks of clocks, power and slowdown reasons while the burn-in loaded the GPUs fully."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from ...parsers.reading import Reading
from ..check import Check, could_not_check, failed, not_applicable, passed
from ..expected import Expected

HARD = ("bf16", "fp8")
"""The phases that load a GPU fully."""
OVER_LIMIT = 1.05
"""The factor by which a regulated power draw may exceed its limit, as it swings around it."""
CAUSES = {
    "hw_thermal_slowdown": "the GPU is too hot: check fans, air flow, dust and the inlet temperature",
    "sw_thermal_slowdown": "the GPU is too hot: check fans, air flow, dust and the inlet temperature",
    "hw_power_brake_slowdown": "the power supply slows the GPU down: check supplies, cables and the rack's budget",
    "hw_slowdown": "the board slows the GPU down: check temperature, power supplies and cables",
}
"""Slowdown reasons that are faults, with the remedy for each."""
HARMLESS = frozenset({"gpu_idle", "applications_clocks_setting", "sw_power_cap", "sync_boost", "display_clock_setting"})
"""Reasons that are not faults. A full load draws all the limit allows, so the limit sets the clocks, by design."""

_UNSAMPLED = "nvidia-smi printed nothing while the GPU was under load"
_AGAIN = "check that nvidia-smi answers where the burn-in runs, then run it again"


def check_throttle(reading: Reading, gpus: Sequence[Mapping[str, Any]]) -> Check:
    """Check that neither heat nor the power supply held a GPU back."""
    name, want = "burn_in.throttle", "no thermal or power-supply slowdown under load"
    bad: dict[str, list[int]] = {}
    unread, strange, silent = [], [], []
    for gpu in gpus:
        loads = dict(_loads(gpu))
        if _unsampled(gpu):
            unread.append(gpu["index"])
        for load in loads.values():
            reasons = load.get("reasons")
            if reasons == "N/A":
                silent.append(gpu["index"])
            elif not isinstance(reasons, Mapping):
                unread.append(gpu["index"])
            else:
                for reason in reasons:
                    if reason in CAUSES:
                        bad.setdefault(reason, []).append(gpu["index"])
                    elif reason not in HARMLESS:
                        strange.append(f"GPU {gpu['index']}: {reason}")
    if bad:
        listed = "; ".join(f"GPU {_listed(indices)}: {reason}" for reason, indices in bad.items())
        return failed(name, reading, want, listed, "; ".join(dict.fromkeys(CAUSES[reason] for reason in bad)))
    if strange:
        return could_not_check(name, reading, want, f"unknown reasons: {'; '.join(strange)}", _AGAIN)
    if unread:
        return could_not_check(name, reading, want, f"GPU {_listed(unread)}: {_UNSAMPLED}", _AGAIN)
    if silent:
        return not_applicable(name, reading, want, f"GPU {_listed(silent)}: no clock reasons reported")
    return passed(name, reading, want, _hottest(gpus))


def check_clocks(reading: Reading, gpus: Sequence[Mapping[str, Any]], minimum: Any) -> Check:
    """Check that clocks under load are as high as the power limit allows, and not held down by a forgotten setting."""
    name = "burn_in.clocks"
    shares: dict[int, tuple[float, float, float]] = {}
    unread, silent = [], []
    for gpu in gpus:
        loads = [load for _, load in _loads(gpu)]
        pairs = [(load["sm_mhz"]["middle"], load["max_sm_mhz"]) for load in loads if _has_clocks(load)]
        if _unsampled(gpu) or 0 < len(pairs) < len(loads):
            unread.append(gpu["index"])
        elif not pairs:
            silent.append(gpu["index"])
        if pairs:
            clock, most = min(pairs)
            shares[gpu["index"]] = (clock / most, clock, most)
    want = (
        f"at least {float(minimum):.0%} of the highest SM clock under load" if minimum else "no minimum in the profile"
    )
    low = [
        f"GPU {gpu}: {clock:.0f} of {most:.0f} MHz"
        for gpu, (share, clock, most) in shares.items()
        if minimum and share < float(minimum)
    ]
    if low:
        remedy = "check burn_in.throttle and burn_in.power; if the clocks were locked by hand, unlock them"
        return failed(name, reading, want, ", ".join(low), remedy, "nvidia-smi -rgc")
    if unread:
        return could_not_check(name, reading, want, f"GPU {_listed(unread)}: {_UNSAMPLED}", _AGAIN)
    if silent:
        return not_applicable(name, reading, want, f"GPU {_listed(silent)}: no clocks reported")
    told = ", ".join(dict.fromkeys(f"{clock:.0f} of {most:.0f} MHz" for _, clock, most in shares.values()))
    return (
        passed(name, reading, want, told) if minimum else not_applicable(name, reading, want, f"{told}, not evaluated")
    )


def check_power(reading: Reading, gpus: Sequence[Mapping[str, Any]], expected: Expected) -> Check:
    """Check that each GPU keeps to its power limit, on which the power supplies and the rack's budget rely."""
    name, want = "burn_in.power", f"at most {OVER_LIMIT - 1:.0%} above its limit"
    over, unread, silent, told = [], [], [], []
    for gpu in gpus:
        loads = [load for _, load in _loads(gpu)]
        pairs = [(load["power_w"]["middle"], load["power_limit_w"]) for load in loads if _has_power(load)]
        over += [
            f"GPU {gpu['index']}: {draw:.0f} W of {limit:.0f} W" for draw, limit in pairs if draw > limit * OVER_LIMIT
        ]
        if pairs and len(pairs) == len(loads) and not _unsampled(gpu):
            told.append("{:.0f} of {:.0f} W".format(*max(pairs)))
        elif loads and not pairs and expected.power_limit_w is None:
            silent.append(gpu["index"])
        else:
            unread.append(gpu["index"])
    if over:
        remedy = "check `nvidia-smi -q -d POWER`; replace a GPU that exceeds its limit"
        return failed(name, reading, want, ", ".join(dict.fromkeys(over)), remedy)
    if unread:
        return could_not_check(name, reading, want, f"GPU {_listed(unread)}: no power reading under load", _AGAIN)
    if silent:
        return not_applicable(name, reading, want, f"GPU {_listed(silent)}: the driver reports no power limit")
    return passed(name, reading, want, ", ".join(dict.fromkeys(told)))


def peak_power(gpu: Mapping[str, Any]) -> float | None:
    """The highest power draw of a GPU in any phase, in W."""
    draws = [load["power_w"]["most"] for load in (gpu.get("load") or {}).values() if load.get("power_w")]
    return max(draws) if draws else None


def power_limit(gpu: Mapping[str, Any]) -> float | None:
    """The power limit of a GPU in W, as the driver reported it during the run."""
    limits = [load["power_limit_w"] for load in (gpu.get("load") or {}).values() if load.get("power_limit_w")]
    return max(limits) if limits else None


def _loads(gpu: Mapping[str, Any]) -> Iterator[tuple[str, Mapping[str, Any]]]:
    for phase in HARD:
        load = (gpu.get("load") or {}).get(phase)
        if isinstance(load, Mapping):
            yield phase, load


def _unsampled(gpu: Mapping[str, Any]) -> bool:
    """Whether a phase of full load has no samples."""
    seen = {phase for phase, _ in _loads(gpu)}
    return not seen or any(phase in gpu["phases"] and phase not in seen for phase in HARD)


def _has_clocks(load: Mapping[str, Any]) -> bool:
    return bool(load.get("sm_mhz") and load.get("max_sm_mhz"))


def _has_power(load: Mapping[str, Any]) -> bool:
    return bool(load.get("power_w") and load.get("power_limit_w"))


def _hottest(gpus: Sequence[Mapping[str, Any]]) -> str:
    temperatures = [
        load["temperature_c"]["most"] for gpu in gpus for _, load in _loads(gpu) if load.get("temperature_c")
    ]
    return f"none, at most {max(temperatures):.0f} degrees Celsius" if temperatures else "none"


def _listed(indices: Sequence[int]) -> str:
    return ", ".join(str(index) for index in dict.fromkeys(indices))
