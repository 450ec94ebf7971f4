# SPDX-License-Identifier: Apache-2.0
"""Texts of nvidia-smi in every form, written from a few values of each GPU."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

HEALTHY: dict[str, str] = {
    "name": "NVIDIA H100 80GB HBM3",
    "memory": "81559 MiB",
    "persistence": "Enabled",
    "mig": "Disabled",
    "mig_pending": "Disabled",
    "ecc": "Enabled",
    "ecc_pending": "Enabled",
    "errors": "0",
    "pending": "No",
    "failure": "No",
    "recovery": "None",
    "slowdown": "Not Active",
    "power": "700.00 W",
    "width": "16x",
    "mode": "Default",
    "temperature": "41 C",
    "vbios": "96.00.A5.00.01",
}
VERSION = "590.48.01"


def machine(count: int = 8, **of_gpu: dict[str, str]) -> list[dict[str, str]]:
    """So many healthy GPUs; `gpu3={"mig": "Enabled"}` changes one."""
    return [{**HEALTHY, **of_gpu.get(f"gpu{index}", {})} for index in range(count)]


def bus(index: int) -> str:
    return f"00000000:{0x19 + index:02X}:00.0"


def uuid(index: int) -> str:
    return f"GPU-{index:08d}-0000-0000-0000-000000000000"


COLUMNS = (
    ("index", None),
    ("uuid", None),
    ("pci.bus_id", None),
    ("name", "name"),
    ("driver_version", None),
    ("memory.total [MiB]", "memory"),
    ("persistence_mode", "persistence"),
    ("mig.mode.current", "mig"),
    ("mig.mode.pending", "mig_pending"),
    ("ecc.mode.current", "ecc"),
    ("ecc.mode.pending", "ecc_pending"),
    ("ecc.errors.uncorrected.volatile.total", "errors"),
    ("remapped_rows.pending", "pending"),
    ("remapped_rows.failure", "failure"),
    ("gpu_recovery_action", "recovery"),
    ("clocks_event_reasons.active", "slowdown"),
    ("power.limit [W]", "power"),
    ("pcie.link.width.current", "width"),
    ("compute_mode", "mode"),
    ("temperature.gpu", "temperature"),
    ("vbios_version", "vbios"),
)


def csv(gpus: Sequence[dict[str, str]], order: Sequence[int] | None = None) -> str:
    """`--query-gpu --format=csv`, the columns in this order."""
    places = list(order if order is not None else range(len(COLUMNS)))
    lines = [", ".join(COLUMNS[place][0] for place in places)]
    for index, gpu in enumerate(gpus):
        own = {"index": str(index), "uuid": uuid(index), "pci.bus_id": bus(index), "driver_version": VERSION}
        cells = [own.get(name) or gpu[str(key)] for name, key in COLUMNS]
        cells = [_plain(name, cell) for (name, _), cell in zip(COLUMNS, cells, strict=True)]
        lines.append(", ".join(cells[place] for place in places))
    return "\n".join(lines) + "\n"


def _plain(name: str, cell: str) -> str:
    if name == "clocks_event_reasons.active":
        return {"Not Active": "0x0000000000000001", "Active": "0x0000000000000048"}.get(cell, cell)
    if name in ("pcie.link.width.current", "temperature.gpu"):
        return cell.rstrip("xC ")
    return f"[{cell}]" if cell == "N/A" else cell


def log(gpus: Sequence[dict[str, str]], listed: int | None = None, version: str = VERSION) -> str:
    """`nvidia-smi -q`, its main sections."""
    head = [
        "",
        "==============NVSMI LOG==============",
        "",
        _row(0, "Timestamp", "Tue Jul 14 08:12:38 2026"),
        _row(0, "Driver Version", version),
        _row(0, "CUDA Version", "13.1"),
        "",
        _row(0, "Attached GPUs", str(len(gpus) if listed is None else listed)),
    ]
    return "\n".join([*head, *(line for index, gpu in enumerate(gpus) for line in _log_gpu(index, gpu)), ""])


def _row(depth: int, key: str, value: str) -> str:
    return f"{'    ' * depth + key:<55}: {value}"


def _log_gpu(index: int, gpu: dict[str, str]) -> list[str]:
    def section(name: str, **rows: str) -> list[str]:
        return [f"    {name}", *(_row(2, key.replace("_", " "), value) for key, value in rows.items())]

    return [
        f"GPU {bus(index)}",
        _row(1, "Product Name", gpu["name"]),
        _row(1, "Persistence Mode", gpu["persistence"]),
        *section("MIG Mode", Current=gpu["mig"], Pending=gpu["mig_pending"]),
        _row(1, "Accounting Mode", "Disabled"),
        _row(1, "Serial Number", "1650000000000"),
        _row(1, "GPU UUID", uuid(index)),
        _row(1, "VBIOS Version", gpu["vbios"]),
        _row(1, "GPU Recovery Action", gpu["recovery"]),
        _row(1, "GSP Firmware Version", VERSION),
        "    PCI",
        "        GPU Link Info",
        "            PCIe Generation",
        _row(4, "Max", "5"),
        _row(4, "Current", "5"),
        "            Link Width",
        _row(4, "Max", "16x"),
        _row(4, "Current", gpu["width"]),
        "    Clocks Event Reasons",
        _row(2, "Idle", "Active"),
        _row(2, "HW Slowdown", gpu["slowdown"]),
        _row(3, "HW Thermal Slowdown", gpu["slowdown"]),
        _row(3, "HW Power Brake Slowdown", "Not Active"),
        _row(2, "SW Thermal Slowdown", "Not Active"),
        *section("FB Memory Usage", Total=gpu["memory"], Used="0 MiB"),
        *section("BAR1 Memory Usage", Total="131072 MiB", Used="1 MiB"),
        _row(1, "Compute Mode", gpu["mode"]),
        *section("ECC Mode", Current=gpu["ecc"], Pending=gpu["ecc_pending"]),
        "    ECC Errors",
        "        Volatile",
        _row(3, "SRAM Uncorrectable Parity", "0"),
        _row(3, "SRAM Uncorrectable SEC-DED", "0"),
        _row(3, "DRAM Uncorrectable", gpu["errors"]),
        "        Aggregate",
        _row(3, "DRAM Uncorrectable", gpu["errors"]),
        *section(
            "Remapped Rows", Uncorrectable_Error="0", Pending=gpu["pending"], Remapping_Failure_Occurred=gpu["failure"]
        ),
        *section("Temperature", GPU_Current_Temp=gpu["temperature"]),
        *section("GPU Power Readings", Current_Power_Limit=gpu["power"], Requested_Power_Limit=gpu["power"]),
        *section("Fabric", State="Completed", Status="Success"),
        _row(1, "Processes", "None"),
    ]


def xml(gpus: Sequence[dict[str, str]], listed: int | None = None) -> str:
    """`nvidia-smi -q -x`, its main elements."""
    body = "".join(_xml_gpu(index, gpu) for index, gpu in enumerate(gpus))
    return (
        '<?xml version="1.0" ?>\n<!DOCTYPE nvidia_smi_log SYSTEM "nvsmi_device_v13.dtd">\n<nvidia_smi_log>\n'
        f"\t<driver_version>{VERSION}</driver_version>\n\t<cuda_version>13.1</cuda_version>\n"
        f"\t<attached_gpus>{len(gpus) if listed is None else listed}</attached_gpus>\n{body}</nvidia_smi_log>\n"
    )


def _xml_gpu(index: int, gpu: dict[str, str]) -> str:
    tree: dict[str, Any] = {
        "product_name": gpu["name"],
        "persistence_mode": gpu["persistence"],
        "mig_mode": {"current_mig": gpu["mig"], "pending_mig": gpu["mig_pending"]},
        "uuid": uuid(index),
        "vbios_version": gpu["vbios"],
        "gpu_recovery_action": gpu["recovery"],
        "gsp_firmware_version": VERSION,
        "pci": {"pci_gpu_link_info": {"link_widths": {"max_link_width": "16x", "current_link_width": gpu["width"]}}},
        "clocks_event_reasons": {
            "clocks_event_reason_hw_slowdown": gpu["slowdown"],
            "clocks_event_reason_hw_thermal_slowdown": gpu["slowdown"],
            "clocks_event_reason_hw_power_brake_slowdown": "Not Active",
            "clocks_event_reason_sw_thermal_slowdown": "Not Active",
        },
        "fb_memory_usage": {"total": gpu["memory"]},
        "bar1_memory_usage": {"total": "131072 MiB"},
        "compute_mode": gpu["mode"],
        "ecc_mode": {"current_ecc": gpu["ecc"], "pending_ecc": gpu["ecc_pending"]},
        "ecc_errors": {"volatile": {"sram_uncorrectable": "0", "dram_uncorrectable": gpu["errors"]}},
        "remapped_rows": {"remapped_row_pending": gpu["pending"], "remapped_row_failure": gpu["failure"]},
        "temperature": {"gpu_temp": gpu["temperature"]},
        "gpu_power_readings": {"current_power_limit": gpu["power"]},
        "processes": {},
    }
    return f'\t<gpu id="{bus(index)}">\n{_elements(tree, 2)}\t</gpu>\n'


def _elements(tree: dict[str, Any], depth: int) -> str:
    pad = "\t" * depth
    return "".join(
        f"{pad}<{name}>\n{_elements(value, depth + 1)}{pad}</{name}>\n"
        if isinstance(value, dict)
        else f"{pad}<{name}>{value}</{name}>\n"
        for name, value in tree.items()
    )


def table(gpus: Sequence[dict[str, str]], header: str = "Driver Version: 590.48.01      CUDA Version: 13.1") -> str:
    """Plain `nvidia-smi`."""
    rule = "+-----------------------------------------+------------------------+----------------------+"
    wide = "+" + "-" * 89 + "+"
    lines = [
        "Tue Jul 14 08:12:38 2026       ",
        wide,
        f"| NVIDIA-SMI 590.48.01              {header:<53} |",
        rule,
        "| GPU  Name                 Persistence-M | Bus-Id          Disp.A | Volatile Uncorr. ECC |",
        "| Fan  Temp   Perf          Pwr:Usage/Cap |           Memory-Usage | GPU-Util  Compute M. |",
        "|                                         |                        |               MIG M. |",
        "|=========================================+========================+======================|",
    ]
    for index, gpu in enumerate(gpus):
        on = {"Enabled": "On", "Disabled": "Off"}.get(gpu["persistence"], gpu["persistence"])
        ecc = "Off" if gpu["ecc"] == "Disabled" else gpu["errors"]
        warm, cap = gpu["temperature"].replace(" ", ""), gpu["power"].replace(".00 W", "W")
        memory = "Not Supported" if gpu["memory"] == "N/A" else f"0MiB / {gpu['memory'].replace(' ', '')}"
        lines += [
            f"|{index:>4}  {gpu['name']:<30} {on:<4}|   {bus(index)} Off | {ecc:>20} |",
            f"| N/A  {warm:>5}    P0             69W / {cap:>5} | {memory:>22} |      0% {gpu['mode']:>12} |",
            f"|{'':41}|{'':24}|{gpu['mig']:>21} |",
            rule,
        ]
    return "\n".join([*lines, "", *processes(), ""])


def processes(*rows: str) -> list[str]:
    """The table's last part."""
    wide = "+" + "-" * 89 + "+"
    return [
        wide,
        f"| {'Processes:':<88}|",
        "|  GPU   GI   CI              PID   Type   Process name                        GPU Memory |",
        "|        ID   ID                                                               Usage      |",
        "|" + "=" * 89 + "|",
        *(rows or [f"|  {'No running processes found':<87}|"]),
        wide,
    ]
