# SPDX-License-Identifier: Apache-2.0
"""Parses `nvidia-smi -q`: keys and values, with a GPU's sections marked by indentation."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

from .fields import read_bus
from .reading import quoted
from .smi_text import VERSION, Gpu, Said, document, said

_GPU = re.compile(r"^\s*GPU\s+(?P<bus>[0-9A-Fa-f]{4,8}:[0-9A-Fa-f]{2}:[0-9A-Fa-f]{2}\.[0-7])\s*$")
_KEY = re.compile(r"^(?P<indent>[ \t]*)(?P<key>\S[^:]*?)\s*(?:\s:|:\s|:$)\s*(?P<value>.*?)\s*$")
_HEADING = re.compile(r"^(?P<indent>[ \t]*)(?P<key>[A-Za-z][\w .()/+-]{0,60}?)\s*$")
_CUDA = re.compile(r"\d{1,2}\.\d{1,2}(?=\s|$)")

_ANY = {
    "product name": "name",
    "gpu uuid": "uuid",
    "persistence mode": "persistence_mode",
    "vbios version": "vbios_version",
    "gpu recovery action": "gpu_recovery_action",
    "gsp firmware version": "gsp_firmware_version",
    "performance state": "pstate",
    "compute mode": "compute_mode",
}
"""Keys that mean the same in every section."""
_REASONS = {
    "idle": "gpu_idle",
    "applications clocks setting": "applications_clocks_setting",
    "sw power cap": "sw_power_cap",
    "hw slowdown": "hw_slowdown",
    "hw thermal slowdown": "hw_thermal_slowdown",
    "hw power brake slowdown": "hw_power_brake_slowdown",
    "sync boost": "sync_boost",
    "sw thermal slowdown": "sw_thermal_slowdown",
    "display clock setting": "display_clocks_setting",
}
_ERRORS = {
    "sram correctable": "corrected.{}.sram",
    "sram uncorrectable": "uncorrected.{}.sram",
    "sram uncorrectable parity": "uncorrected.{}.sram.parity",
    "sram uncorrectable sec-ded": "uncorrected.{}.sram.secded",
    "dram correctable": "corrected.{}.dram",
    "dram uncorrectable": "uncorrected.{}.dram",
    "sram threshold exceeded": "uncorrected.{}.sram.thresholdexceeded",
}
_POWER = {
    "power draw": "power.draw",
    "average power draw": "power.draw.average",
    "instantaneous power draw": "power.draw.instant",
    "power limit": "power.limit",
    "requested power limit": "power.limit",
    "current power limit": "enforced.power.limit",
    "enforced power limit": "enforced.power.limit",
    "default power limit": "power.default_limit",
    "min power limit": "power.min_limit",
    "max power limit": "power.max_limit",
}
_REMAPPED = {
    "correctable error": "remapped_rows.correctable",
    "uncorrectable error": "remapped_rows.uncorrectable",
    "pending": "remapped_rows.pending",
    "remapping failure occurred": "remapped_rows.failure",
}
_SECTIONS: dict[str, dict[str, str]] = {
    "mig mode": {"current": "mig.mode.current", "pending": "mig.mode.pending"},
    "ecc mode": {"current": "ecc.mode.current", "pending": "ecc.mode.pending"},
    "inforom version": {"image version": "inforom.img"},
    "gpu virtualization mode": {"virtualization mode": "virtualization_mode"},
    "gpu reset status": {
        "reset required": "reset_status.reset_required",
        "drain and reset recommended": "reset_status.drain_and_reset_recommended",
    },
    "pcie generation": {
        "max": "pcie.link.gen.max",
        "current": "pcie.link.gen.current",
        "device current": "pcie.link.gen.gpucurrent",
        "device max": "pcie.link.gen.gpumax",
        "host max": "pcie.link.gen.hostmax",
    },
    "link width": {"max": "pcie.link.width.max", "current": "pcie.link.width.current"},
    "clocks event reasons": {key: f"clocks_event_reasons.{name}" for key, name in _REASONS.items()},
    "clocks throttle reasons": {key: f"clocks_event_reasons.{name}" for key, name in _REASONS.items()},
    "fb memory usage": {key: f"memory.{key}" for key in ("total", "reserved", "used", "free")},
    "utilization": {"gpu": "utilization.gpu", "memory": "utilization.memory"},
    "volatile": {key: "ecc.errors." + name.format("volatile") for key, name in _ERRORS.items()},
    "aggregate": {key: "ecc.errors." + name.format("aggregate") for key, name in _ERRORS.items()},
    "ecc errors": {
        "channel repair pending": "ecc.channel_repair_pending",
        "tpc repair pending": "ecc.tpc_repair_pending",
        "unrepairable memory": "ecc.unrepairable_memory",
    },
    "retired pages": {"pending page blacklist": "retired_pages.pending"},
    "remapped rows": _REMAPPED,
    "temperature": {
        "gpu current temp": "temperature.gpu",
        "gpu t.limit temp": "temperature.gpu.tlimit",
        "gpu current t.limit temp": "temperature.gpu.tlimit",
        "memory current temp": "temperature.memory",
    },
    "gpu power readings": _POWER,
    "power readings": _POWER,
    "gpu ceiling power limit": _POWER,  # since driver 610
    "clocks": {key: f"clocks.current.{key}" for key in ("graphics", "sm", "memory", "video")},
    "max clocks": {key: f"clocks.max.{key}" for key in ("graphics", "sm", "memory", "video")},
    "fabric": {"state": "fabric.state", "status": "fabric.status", "cliqueid": "fabric.cliqueid"},
    "health": {"summary": "fabric.health.summary", "bandwidth": "fabric.health.bandwidth"},
}
_WHOLE = {"remapped rows": tuple(_REMAPPED.values())}
"""Sections that are a single line, `Remapped Rows : N/A`, if a GPU has none."""


def parse_smi_log(text: str) -> tuple[dict[str, Any], list[str]]:
    """Parse every GPU of the log. It is complete if it has all attached GPUs, each up to its processes."""
    found = said(text)
    head: dict[str, str] = {}
    blocks: list[tuple[str, list[str]]] = []
    for line in found.lines:
        start = _GPU.match(line)
        if start:
            blocks.append((str(read_bus(start["bus"])), []))
        elif blocks:
            blocks[-1][1].append(line)
        else:
            row = _KEY.match(line)
            if row:
                head.setdefault(row["key"].lower(), row["value"])
    listed = head.get("attached gpus", "")
    # Without the heading that `-q` starts with, the text is a fragment, without the bus addresses.
    if not blocks and any("Product Name" in line for line in found.lines):
        blocks = [("", found.lines)]
        found.problems.append("no line `GPU <bus address>` begins the GPU's section")
    count = int(listed) if listed.isdecimal() and len(listed) < 4 else None
    whole = count is not None and count == len(blocks)
    read = [_Block(found, bus, index if whole else None, lines) for index, (bus, lines) in enumerate(blocks)]
    if listed and count is None:
        found.problems.append(f"the number of attached GPUs is {quoted(listed)}")
    ended = bool(read) and all(block.ended for block in read)
    if read and not ended:
        found.problems.append("the log ends before the processes of a GPU, or leaves them out")
    return document(
        found,
        [block.fields for block in read],
        {
            "driver": _version(head, VERSION, "kmd version", "driver version"),
            "cuda": _version(head, _CUDA, "cuda umd version", "cuda version"),
        },
        listed=count,
        complete=whole and ended,
        processes=[row for block in read for row in block.processes] if whole and ended else None,
        mig=[row for block in read for row in block.mig],
    )


def _version(head: dict[str, str], pattern: re.Pattern[str], *names: str) -> str | None:
    """Find the version. Since driver 610 the value under the old name is followed by a remark."""
    for name in names:
        found = pattern.match(head.get(name, ""))
        if found:
            return found[0]
    return None


class _Block:
    """The section of one GPU."""

    def __init__(self, found: Said, bus: str, index: int | None, lines: list[str]) -> None:
        self.ended = False
        self.processes: list[dict[str, Any]] = []
        self.mig: list[dict[str, Any]] = []
        self._index = index
        gpu = Gpu(found, index=index, bus=bus or None)
        for section, key, value in _entries(lines):
            self._entry(gpu, section, key, value)
        self.fields = gpu.done()

    def _entry(self, gpu: Gpu, section: str, key: str, value: str) -> None:
        if section == "mig device":
            if key == "index" and value.isdecimal():
                self.mig.append({"gpu": self._index, "device": int(value[:3])})
            return
        if key == "processes" or section == "processes":
            self.ended = True
            self._process(key, value)
        elif key in _WHOLE and value:
            for name in _WHOLE[key]:
                gpu.take(name, value)
        else:
            field = _SECTIONS.get(section, {}).get(key) or _ANY.get(key)
            if field and value:
                gpu.take(field, value)

    def _process(self, key: str, value: str) -> None:
        if key == "process id" and value.isdecimal():
            self.processes.append({"gpu": self._index, "pid": int(value[:10]), "type": None, "name": None})
        elif self.processes and key in ("type", "name"):
            self.processes[-1][key] = value


def _entries(lines: list[str]) -> Iterator[tuple[str, str, str]]:
    """Yield section, key and value of every line; sections follow indentation or, if that is lost, headings."""
    flat = not any(line[:1] in (" ", "\t") for line in lines if line.strip())
    stack: list[tuple[int, str]] = []
    for line in lines:
        row = _KEY.match(line)
        found = row or _HEADING.match(line)
        if found is None:
            continue
        indent = len(found["indent"].expandtabs(4))
        key = " ".join(found["key"].lower().split())
        while stack and not flat and stack[-1][0] >= indent:
            stack.pop()
        # Inside a MIG device the sections have the same names as the GPU's own, until the key after the devices.
        if flat and key == "accounting mode":
            stack = []
        in_mig = any(name == "mig device" for _, name in stack)
        if row is None:
            if not (flat and in_mig):
                stack = [(indent, key)] if flat else [*stack, (indent, key)]
            if key == "processes":
                yield "processes", "processes", ""
            continue
        section = "mig device" if in_mig else (stack[-1][1] if stack else "")
        yield section, key, row["value"]
