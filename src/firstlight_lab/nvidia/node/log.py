# SPDX-License-Identifier: Apache-2.0
"""`nvidia-smi -q`, as text and as XML, from one layout."""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import Any

from .machine import Driver, Gpu
from .table import RENAMED_SINCE, instances, major

LABEL_WIDTH = 55


def text_log(driver: Driver, gpus: Sequence[Gpu], layout: dict[str, Any], attached: int, wanted: set[str]) -> list[str]:
    """Render the text log; `wanted` limits it to some top-level sections (`-d`)."""
    renamed = major(str(driver.loaded)) >= RENAMED_SINCE
    lines = [
        "",
        "==============NVSMI LOG==============",
        "",
        _line(0, "Timestamp", time.ctime()),
        _line(0, "KMD Version" if renamed else "Driver Version", str(driver.loaded)),
        _line(0, "CUDA UMD Version" if renamed else "CUDA Version", driver.cuda),
        "",
        _line(0, "Attached GPUs", str(attached)),
    ]
    for gpu in gpus:
        lines.append(f"GPU {gpu.bus}")
        parts = [part for part in layout["gpu"] if not wanted or part.get("tag") in wanted]
        lines += _text(parts, gpu, driver, 1)
        lines.append("")
    return lines


def xml_log(driver: Driver, gpus: Sequence[Gpu], layout: dict[str, Any], attached: int) -> list[str]:
    """Render the XML log."""
    lines = [
        '<?xml version="1.0" ?>',
        '<!DOCTYPE nvidia_smi_log SYSTEM "nvsmi_device_v13.dtd">',
        "<nvidia_smi_log>",
        f"\t<timestamp>{time.ctime()}</timestamp>",
        f"\t<driver_version>{driver.loaded}</driver_version>",
        f"\t<cuda_version>{driver.cuda}</cuda_version>",
        f"\t<attached_gpus>{attached}</attached_gpus>",
    ]
    for gpu in gpus:
        lines.append(f'\t<gpu id="{gpu.bus}">')
        lines += _xml(layout["gpu"], gpu, driver, 2)
        lines += ["\t</gpu>", ""]
    return [*lines, "</nvidia_smi_log>"]


def _line(depth: int, label: str, value: str) -> str:
    return f"{'    ' * depth + label:<{LABEL_WIDTH}}: {value}"


def _reading(gpu: Gpu, driver: Driver, path: str) -> str:
    return str(driver.loaded) if path == "gsp_firmware_version" else gpu.values.get(path, "N/A")


def _text(parts: Sequence[dict[str, Any]], gpu: Gpu, driver: Driver, depth: int) -> list[str]:
    lines: list[str] = []
    for part in parts:
        if "label" not in part:
            continue
        if "children" in part:
            lines.append("    " * depth + part["label"])
            lines += _text(part["children"], gpu, driver, depth + 1)
        elif part.get("tag") == "processes":
            lines += _text_processes(gpu, depth)
        else:
            value = part.get("shown", "{}").format(_reading(gpu, driver, part["path"]))
            lines.append(_line(depth + part.get("indent", 0), part["label"], value))
    return lines


def _text_processes(gpu: Gpu, depth: int) -> list[str]:
    if not gpu.processes:
        return [_line(depth, "Processes", "None")]
    lines = ["    " * depth + "Processes"]
    for process in gpu.processes:
        lines += [
            _line(depth + 1, "GPU instance ID", "N/A"),
            _line(depth + 1, "Compute instance ID", "N/A"),
            _line(depth + 1, "Process ID", str(process["pid"])),
            _line(depth + 2, "Type", "C"),
            _line(depth + 2, "Name", str(process["process"])),
            _line(depth + 2, "Used GPU Memory", f"{process['mib']} MiB"),
        ]
    return lines


def _xml(parts: Sequence[dict[str, Any]], gpu: Gpu, driver: Driver, depth: int) -> list[str]:
    lines: list[str] = []
    indent = "\t" * depth
    for part in parts:
        tag = part.get("tag")
        if tag is None:
            continue
        if "children" in part:
            inner = _xml(part["children"], gpu, driver, depth + 1)
        elif tag == "processes":
            inner = _xml_processes(gpu, depth + 1)
        elif tag == "mig_devices" and gpu.instances:
            inner = _xml_instances(gpu, depth + 1)
        elif "text" in part:
            inner = [f"{indent}\t{part['text']}"] if part["text"] else []
        else:
            lines.append(f"{indent}<{tag}>{_escape(_reading(gpu, driver, part['path']))}</{tag}>")
            continue
        lines += [f"{indent}<{tag}>", *inner, f"{indent}</{tag}>"]
    return lines


def _xml_processes(gpu: Gpu, depth: int) -> list[str]:
    lines: list[str] = []
    for process in gpu.processes:
        values = {
            "gpu_instance_id": "N/A",
            "compute_instance_id": "N/A",
            "pid": process["pid"],
            "type": "C",
            "process_name": process["process"],
            "used_memory": f"{process['mib']} MiB",
        }
        inner = [f"{chr(9) * (depth + 1)}<{tag}>{_escape(str(value))}</{tag}>" for tag, value in values.items()]
        lines += ["\t" * depth + "<process_info>", *inner, "\t" * depth + "</process_info>"]
    return lines


def _xml_instances(gpu: Gpu, depth: int) -> list[str]:
    lines: list[str] = []
    indent = "\t" * depth
    for number, one in enumerate(instances(gpu)):
        lines += [
            f"{indent}<mig_device>",
            f"{indent}\t<index>{number}</index>",
            f"{indent}\t<gpu_instance_id>{number + 7}</gpu_instance_id>",
            f"{indent}\t<compute_instance_id>0</compute_instance_id>",
            f"{indent}\t<fb_memory_usage>",
            f"{indent}\t\t<total>{one.mib} MiB</total>",
            f"{indent}\t\t<used>0 MiB</used>",
            f"{indent}\t\t<free>{one.mib} MiB</free>",
            f"{indent}\t</fb_memory_usage>",
            f"{indent}</mig_device>",
        ]
    return lines


def _escape(text: str) -> str:
    """Like xml.sax.saxutils, whose import would load half of the standard library on every call of every node."""
    return text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")
