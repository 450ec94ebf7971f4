# SPDX-License-Identifier: Apache-2.0
"""One vocabulary for what nvidia-smi reports about a GPU, in every output format and release.

A field has its `--query-gpu` name, as of today's drivers, and no unit. Values are plain: MiB, MHz, W and degrees as
numbers, switches as bool. None stands for the driver's "this GPU has none" (`[N/A]`).
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from .reading import quoted

_ALIASES = {
    "gpu_name": "name",
    "product_name": "name",
    "gpu_uuid": "uuid",
    "gpu_serial": "serial",
    "pci.bus_id": "bus",
    "gpu_bus_id": "bus",
    "gpu_bus": "bus",
    "kmd_version": "driver_version",
    "inforom.image": "inforom.img",
    "inforom.power": "inforom.pwr",
    "clocks.sm": "clocks.current.sm",
    "clocks.gr": "clocks.current.graphics",
    "clocks.mem": "clocks.current.memory",
    "clocks.video": "clocks.current.video",
    "clocks.max.gr": "clocks.max.graphics",
    "clocks.max.mem": "clocks.max.memory",
    "pcie.link.gen": "pcie.link.gen.current",
    "pcie.link.width": "pcie.link.width.current",
    "mig.mode": "mig.mode.current",
    "ecc.mode": "ecc.mode.current",
    "fan_speed": "fan.speed",
    "persistence": "persistence_mode",
}
_PREFIXES = (
    ("clocks_throttle_reasons_counters.", "clocks_event_reasons_counters."),
    ("clocks_throttle_reasons.", "clocks_event_reasons."),
    ("gpu_operation_mode.", "gom."),
    ("gpu_reset_status.", "reset_status."),
)
_UNIT = re.compile(r"\s*\[[^\]]{1,12}\]\s*$")

_NONE = frozenset({"n/a", "not supported", "not applicable"})
_UNTOLD = frozenset({"requested functionality has been deprecated", "deprecated", "function not found"})
"""What a driver prints for a value that it does not provide (any more): neither a value nor "has none"."""
_MASKED = re.compile(
    r"[xX*#?]{2,}|[<\[({]?(?:redacted|masked|hidden|removed|private)[>\])}]?|<[\w .-]{1,40}>", re.IGNORECASE
)
"""What a user put in place of a value before sharing the output."""
TROUBLE = re.compile(
    r"ERR!|unknown error|gpu is lost|requires? reset|reset required|fallen off the bus|"
    r"gpu access blocked|timed? ?out|no answer within",
    re.IGNORECASE,
)
"""What appears in place of a value, or in a line, if a GPU does not answer."""


@dataclass(frozen=True)
class Value:
    """The content of a cell: a value (None: the GPU has none), nothing, trouble, or something not understood."""

    value: Any = None
    told: bool = False
    trouble: str = ""
    problem: str = ""


def canonical(name: str) -> str:
    """Today's name of a field: `clocks_throttle_reasons.active [x]` is clocks_event_reasons.active."""
    plain = _UNIT.sub("", name.strip().strip("\"'")).strip().lower()
    for old, new in _PREFIXES:
        if plain.startswith(old):
            plain = new + plain[len(old) :]
    return _ALIASES.get(plain, plain)


def is_field(name: str) -> bool:
    """Whether this is the name of a field, as in a CSV heading."""
    plain = canonical(name)
    return plain in READERS or plain in _UNREAD or plain.startswith(_FAMILIES)


def read(field: str, raw: str) -> Value:
    """Parse the value of one field from its text."""
    text = " ".join(raw.split()).strip("\"'")
    plain = text[1:-1].strip() if text.startswith("[") and text.endswith("]") else text
    lowered = plain.lower()
    if lowered in _NONE:
        return Value(None, told=True)
    if lowered in _UNTOLD or lowered.startswith("deprecated") or _MASKED.fullmatch(text):
        return Value()
    if TROUBLE.search(plain):
        return Value(trouble=plain)
    reader = READERS.get(field)
    if reader is None:
        return Value(plain, told=bool(plain)) if not text.startswith("[") else Value()
    found = reader(plain) if plain == text else None
    if found is None:
        return Value(problem=f"{field} is {quoted(raw)}, which is not a valid value")
    return Value(found, told=True)


# --- readers: the value, or None where the text is none ---------------------------------------------------------------


def _number(pattern: str, kind: type[int | float]) -> Callable[[str], Any]:
    compiled = re.compile(pattern)

    def reader(text: str) -> Any:
        found = compiled.fullmatch(text)
        return kind(found[1]) if found else None

    return reader


def _words(values: dict[str, Any]) -> Callable[[str], Any]:
    return lambda text: values.get(" ".join(text.replace("_", " ").split()).lower())


def _shaped(pattern: str) -> Callable[[str], Any]:
    compiled = re.compile(pattern)
    return lambda text: text if compiled.fullmatch(text) else None


def _hexadecimal(text: str) -> int | None:
    return int(text, 16) if re.fullmatch(r"0[xX][0-9A-Fa-f]{1,16}", text) else None


def read_bus(text: str) -> str | None:
    """Normalise a PCI address to the length that nvidia-smi prints: 0000:19:00.0 becomes 00000000:19:00.0."""
    found = re.fullmatch(r"([0-9A-Fa-f]{4,8}):([0-9A-Fa-f]{2}):([0-9A-Fa-f]{2})\.([0-7])", text)
    return f"{found[1]:0>8}:{found[2]}:{found[3]}.{found[4]}".upper() if found else None


_COUNT = _number(r"(\d{1,18})", int)
_MIB = _number(r"(\d{1,12})(?: ?MiB)?", int)
_WATT = _number(r"(\d{1,6}(?:\.\d{1,3})?)(?: ?W)?", float)
_MHZ = _number(r"(\d{1,6})(?: ?MHz)?", int)
_PERCENT = _number(r"(\d{1,3}(?:\.\d{1,2})?)(?: ?%)?", float)
_CELSIUS = _number(r"(-?\d{1,3})(?: ?C)?", int)
_WIDTH = _number(r"x?(\d{1,2})x?", int)
_GENERATION = _number(r"(\d)", int)
_SWITCH = _words({"enabled": True, "disabled": False, "on": True, "off": False})
_YES = _words({"yes": True, "no": False})
_ACTIVE = _words({"active": True, "not active": False})
_VERSION = _shaped(r"\d{2,4}(?:\.\d{1,4}){1,3}")
_TEXT = _shaped(r"[\x20-\x7e]{1,120}")
_WORD = _shaped(r"[A-Za-z][A-Za-z0-9 _/-]{0,60}")
_COMPUTE_MODE = _words(
    {
        "default": "Default",
        "exclusive process": "Exclusive_Process",
        "exclusive thread": "Exclusive_Thread",
        "e. process": "Exclusive_Process",
        "e. thread": "Exclusive_Thread",
        "prohibited": "Prohibited",
    }
)

_UNCORRECTED = ("total", "dram", "sram", "device_memory", "sram.parity", "sram.secded")

READERS: dict[str, Callable[[str], Any]] = {
    "index": _number(r"(\d{1,3})", int),
    "count": _number(r"(\d{1,3})", int),
    "name": _TEXT,
    "uuid": _shaped(r"(?:GPU|MIG)-[!-~]{1,80}"),
    "bus": read_bus,
    "driver_version": _VERSION,
    "gsp_firmware_version": _VERSION,
    "vbios_version": _shaped(r"[0-9A-Fa-f]{1,4}(?:\.[0-9A-Fa-f]{1,4}){2,6}"),
    "inforom.img": _shaped(r"[A-Z0-9]{2,8}(?:\.[0-9A-Fa-f]{1,6}){2,5}"),
    "inforom.checksum_validation": _words({"valid": True, "invalid": False}),
    "compute_cap": _shaped(r"\d{1,2}\.\d"),
    "compute_mode": _COMPUTE_MODE,
    "persistence_mode": _SWITCH,
    "pstate": _shaped(r"P\d{1,2}"),
    "gpu_recovery_action": _WORD,
    "virtualization_mode": _WORD,
    "reset_status.reset_required": _YES,
    "reset_status.drain_and_reset_recommended": _YES,
    "mig.mode.current": _SWITCH,
    "mig.mode.pending": _SWITCH,
    "ecc.mode.current": _SWITCH,
    "ecc.mode.pending": _SWITCH,
    **{f"ecc.errors.{how}.{when}.{what}": _COUNT
       for how in ("corrected", "uncorrected") for when in ("volatile", "aggregate") for what in _UNCORRECTED},
    "ecc.errors.uncorrected.aggregate.sram.thresholdexceeded": _YES,
    "ecc.channel_repair_pending": _YES,
    "ecc.tpc_repair_pending": _YES,
    "ecc.unrepairable_memory": _YES,
    "retired_pages.pending": _YES,
    "remapped_rows.correctable": _COUNT,
    "remapped_rows.uncorrectable": _COUNT,
    "remapped_rows.pending": _YES,
    "remapped_rows.failure": _YES,
    "memory.total": _MIB,
    "memory.reserved": _MIB,
    "memory.used": _MIB,
    "memory.free": _MIB,
    "utilization.gpu": _PERCENT,
    "utilization.memory": _PERCENT,
    "temperature.gpu": _CELSIUS,
    "temperature.gpu.tlimit": _CELSIUS,
    "temperature.memory": _CELSIUS,
    "power.draw": _WATT,
    "power.draw.average": _WATT,
    "power.draw.instant": _WATT,
    "power.limit": _WATT,
    "enforced.power.limit": _WATT,
    "power.default_limit": _WATT,
    "power.min_limit": _WATT,
    "power.max_limit": _WATT,
    **{f"clocks.{what}.{of}": _MHZ for what in ("current", "max") for of in ("graphics", "sm", "memory", "video")},
    "clocks_event_reasons.active": _hexadecimal,
    "clocks_event_reasons.supported": _hexadecimal,
    **{f"clocks_event_reasons.{reason}": _ACTIVE
       for reason in ("gpu_idle", "applications_clocks_setting", "sw_power_cap", "hw_slowdown", "hw_thermal_slowdown",
                      "hw_power_brake_slowdown", "sw_thermal_slowdown", "sync_boost", "display_clocks_setting")},
    "pcie.link.gen.current": _GENERATION,
    "pcie.link.gen.max": _GENERATION,
    "pcie.link.gen.gpucurrent": _GENERATION,
    "pcie.link.gen.gpumax": _GENERATION,
    "pcie.link.gen.hostmax": _GENERATION,
    "pcie.link.width.current": _WIDTH,
    "pcie.link.width.max": _WIDTH,
    "fabric.state": _WORD,
    "fabric.status": _TEXT,
}  # fmt: skip
"""The parsers of the fields that a check or a report uses; other fields are kept as text."""

_UNREAD = frozenset({"timestamp", "serial", "hostname", "edpp_multiplier", "addressing_mode", "c2c.mode", "fan.speed"})
_FAMILIES = (
    "accounting.", "clocks.", "clocks_event_reasons", "display_", "dramencryption.", "driver_model.", "ecc.",
    "encoder.", "fabric.", "gom.", "gsp.", "inforom.", "memory.", "module.", "pci.", "pcie.", "platform.", "power.",
    "power_smoothing.", "protected_memory.", "remapped_rows.", "reset_status.", "retired_pages.", "temperature.",
    "utilization.", "vgpu_",
)  # fmt: skip

LEFT_OUT = frozenset({"serial", "timestamp", "platform.chassis_serial_number"})
"""Fields that say nothing about health and would make a report personal."""


def label(gpu: dict[str, Any]) -> str:
    """The name of this GPU in messages."""
    if gpu.get("index") is not None:
        return f"GPU {gpu['index']}"
    return f"GPU {gpu.get('bus') or gpu.get('uuid') or '?'}"
