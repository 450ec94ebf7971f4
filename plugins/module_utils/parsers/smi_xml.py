# SPDX-License-Identifier: Apache-2.0
"""Parses `nvidia-smi -q -x` tag by tag, as a truncated document is not valid XML and still holds information."""

from __future__ import annotations

import html
import re
from typing import Any

from .fields import canonical
from .reading import quoted
from .smi_text import VERSION, Gpu, Said, document, said

_TAG = re.compile(r"<(?P<end>/?)(?P<name>[A-Za-z_][\w.-]{0,80})(?P<rest>[^<>]{0,200})>(?P<text>[^<]*)")
_ID = re.compile(r"id\s*=\s*[\"'](?P<bus>[^\"']{1,40})[\"']")
_CUDA = re.compile(r"\d{1,2}\.\d{1,2}(?=\s|$)")
_DEEPEST = 32

_POWER = {
    "power_draw": "power.draw",
    "average_power_draw": "power.draw.average",
    "instant_power_draw": "power.draw.instant",
    "power_limit": "power.limit",
    "requested_power_limit": "power.limit",
    "current_power_limit": "enforced.power.limit",
    "enforced_power_limit": "enforced.power.limit",
    "default_power_limit": "power.default_limit",
    "min_power_limit": "power.min_limit",
    "max_power_limit": "power.max_limit",
}
_ERRORS = {
    "sram_correctable": "corrected.{}.sram",
    "sram_uncorrectable": "uncorrected.{}.sram",
    "sram_uncorrectable_parity": "uncorrected.{}.sram.parity",
    "sram_uncorrectable_secded": "uncorrected.{}.sram.secded",
    "dram_correctable": "corrected.{}.dram",
    "dram_uncorrectable": "uncorrected.{}.dram",
    "sram_threshold_exceeded": "uncorrected.{}.sram.thresholdexceeded",
}
_REMAPPED = {
    "remapped_row_corr": "remapped_rows.correctable",
    "remapped_row_unc": "remapped_rows.uncorrectable",
    "remapped_row_pending": "remapped_rows.pending",
    "remapped_row_failure": "remapped_rows.failure",
}
_CLOCKS = {"graphics_clock": "graphics", "sm_clock": "sm", "mem_clock": "memory", "video_clock": "video"}
_FIELDS: dict[str, dict[str, str]] = {
    "gpu": {
        "product_name": "name",
        "uuid": "uuid",
        "persistence_mode": "persistence_mode",
        "vbios_version": "vbios_version",
        "gpu_recovery_action": "gpu_recovery_action",
        "gsp_firmware_version": "gsp_firmware_version",
        "performance_state": "pstate",
        "compute_mode": "compute_mode",
    },
    "mig_mode": {"current_mig": "mig.mode.current", "pending_mig": "mig.mode.pending"},
    "ecc_mode": {"current_ecc": "ecc.mode.current", "pending_ecc": "ecc.mode.pending"},
    "inforom_version": {"img_version": "inforom.img"},
    "gpu_virtualization_mode": {"virtualization_mode": "virtualization_mode"},
    "gpu_reset_status": {
        "reset_required": "reset_status.reset_required",
        "drain_and_reset_recommended": "reset_status.drain_and_reset_recommended",
    },
    "pcie_gen": {
        "max_link_gen": "pcie.link.gen.max",
        "current_link_gen": "pcie.link.gen.current",
        "device_current_link_gen": "pcie.link.gen.gpucurrent",
        "max_device_link_gen": "pcie.link.gen.gpumax",
        "max_host_link_gen": "pcie.link.gen.hostmax",
    },
    "link_widths": {"max_link_width": "pcie.link.width.max", "current_link_width": "pcie.link.width.current"},
    "fb_memory_usage": {key: f"memory.{key}" for key in ("total", "reserved", "used", "free")},
    "utilization": {"gpu_util": "utilization.gpu", "memory_util": "utilization.memory"},
    "volatile": {key: "ecc.errors." + name.format("volatile") for key, name in _ERRORS.items()},
    "aggregate": {key: "ecc.errors." + name.format("aggregate") for key, name in _ERRORS.items()},
    "ecc_errors": {
        "channel_repair_pending": "ecc.channel_repair_pending",
        "tpc_repair_pending": "ecc.tpc_repair_pending",
        "unrepairable_memory": "ecc.unrepairable_memory",
    },
    "retired_pages": {"pending_retirement": "retired_pages.pending"},
    "remapped_rows": _REMAPPED,
    "temperature": {
        "gpu_temp": "temperature.gpu",
        "gpu_temp_tlimit": "temperature.gpu.tlimit",
        "memory_temp": "temperature.memory",
    },
    "gpu_power_readings": _POWER,
    "power_readings": _POWER,
    "gpu_ceiling_power_limit": _POWER,  # since driver 610
    "clocks": {key: f"clocks.current.{name}" for key, name in _CLOCKS.items()},
    "max_clocks": {key: f"clocks.max.{name}" for key, name in _CLOCKS.items()},
    "fabric": {"state": "fabric.state", "status": "fabric.status", "cliqueid": "fabric.cliqueid"},
    "health": {"summary": "fabric.health.summary", "bandwidth": "fabric.health.bandwidth"},
}
_REASONS = re.compile(r"clocks_(?:event|throttle)_reason_(?P<reason>\w+)")


def parse_smi_xml(text: str) -> tuple[dict[str, Any], list[str]]:
    """Parse every GPU of the document. It is complete if it is closed and has all attached GPUs."""
    found = said(text)
    joined = "\n".join(found.lines)
    if "<nvidia_smi_log" not in joined and "&lt;nvidia_smi_log" in joined:
        joined = html.unescape(joined)
    reader = _Reader(found)
    for tag in _TAG.finditer(joined):
        reader.tag(tag, cut=tag.end() == len(joined))
    return reader.document()


class _Reader:
    """The open tags, and the GPU that they belong to."""

    def __init__(self, found: Said) -> None:
        self.found = found
        self._open: list[str] = []
        self._gpu: Gpu | None = None
        self._gpus: list[dict[str, Any]] = []
        self._cut = 0
        self._closed = False
        self._head: dict[str, str] = {}
        self._processes: list[dict[str, Any]] = []
        self._mig: list[dict[str, Any]] = []

    def tag(self, tag: re.Match[str], cut: bool) -> None:
        """Process one tag and the text after it; if the input ends there, that text may have lost its end."""
        name = tag["name"]
        if tag["end"]:
            self._close(name)
            return
        if name == "gpu":
            self._finish()
            bus = _ID.search(tag["rest"])
            self._gpu = Gpu(self.found, index=len(self._gpus))
            self._open = self._open[:1]
            if bus:
                self._gpu.take("bus", bus["bus"])
        if tag["rest"].rstrip().endswith("/") or len(self._open) >= _DEEPEST:
            return
        parent = self._open[-1] if self._open else ""
        self._open.append(name)
        value = " ".join(html.unescape(tag["text"]).split())
        if value and not cut:
            self._value(parent, name, value)
        elif name in ("mig_device", "process_info"):
            {"mig_device": self._mig, "process_info": self._processes}[name].append({"gpu": len(self._gpus)})

    def _close(self, name: str) -> None:
        if name in self._open:
            del self._open[len(self._open) - 1 - self._open[::-1].index(name) :]
        if name == "gpu":
            self._finish(closed=True)
        self._closed = self._closed or name == "nvidia_smi_log"

    def _finish(self, closed: bool = False) -> None:
        if self._gpu is not None:
            self._gpus.append(self._gpu.done())
            self._cut += not closed
        self._gpu = None

    def _value(self, parent: str, name: str, value: str) -> None:
        if self._gpu is None:
            self._head.setdefault(name, value)
        elif "mig_device" in self._open:
            if parent == "mig_device" and self._mig and name == "index" and value.isdecimal():
                self._mig[-1]["device"] = int(value[:3])
        elif parent == "process_info" and self._processes:
            self._process(name, value)
        elif parent == "gpu" and name == "remapped_rows":
            for one in _REMAPPED.values():
                self._gpu.take(one, value)
        else:
            reason = _REASONS.fullmatch(name)
            field = canonical(f"clocks_event_reasons.{reason['reason']}") if reason else None
            field = field or _FIELDS.get(parent, {}).get(name.lower())
            if field:
                self._gpu.take(field, value)

    def _process(self, name: str, value: str) -> None:
        key = {"pid": "pid", "type": "type", "process_name": "name"}.get(name)
        if key:
            self._processes[-1][key] = int(value[:10]) if key == "pid" and value.isdecimal() else value

    def document(self) -> tuple[dict[str, Any], list[str]]:
        """Return what was parsed."""
        self._finish()
        listed = self._head.get("attached_gpus", "")
        count = int(listed) if listed.isdecimal() and len(listed) < 4 else None
        if listed and count is None:
            self.found.problems.append(f"the number of attached GPUs is {quoted(listed)}")
        if self._open or self._cut:
            self.found.problems.append("the document is cut short")
        whole = self._closed and not self._cut and count == len(self._gpus)
        if not whole and count != len(self._gpus):
            for gpu in self._gpus:
                gpu.pop("index", None)  # -i shows only some: their position is not their index
        return document(
            self.found,
            self._gpus,
            {
                "driver": self._version(VERSION, "kmd_version", "driver_version"),
                "cuda": self._version(_CUDA, "cuda_umd_version", "cuda_version"),
            },
            listed=count,
            complete=whole,
            processes=[one for one in self._processes if "pid" in one] if whole else None,
            mig=self._mig,
        )

    def _version(self, pattern: re.Pattern[str], *names: str) -> str | None:
        for name in names:
            found = pattern.match(self._head.get(name, ""))
            if found:
                return found[0]
        return None
