# SPDX-License-Identifier: Apache-2.0
"""The driver's kernel log: messages from loading it, and the errors of the described machine."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from .machine import LOADED, MACHINE, PROC_VERSION, SHARE, Machine, load_machine, read_json

INFO, ERROR = 6, 3
FIRST_SWITCH_SLOT = 5
XID_WORDS = {
    13: "Graphics SM Warp Exception on (GPC 0, TPC 1, SM 0): Out Of Range Address",
    31: "Ch 00000008, intr 00000000. MMU Fault: ENGINE GRAPHICS GPCCLIENT_T1_0 faulted @ 0x7f3a_40000000",
    43: "Ch 00000008",
    45: "Ch 00000008",
    48: "DBE (double bit error) detected on GPU",
    63: "Row Remapper: New row marked for remapping, reset gpu to activate.",
    64: "Row Remapper Error: (0x00000002eebc4100) - All reserved rows for bank are remapped",
    74: "NVLink: fatal error detected on link 7(0x10000, 0x0, 0x0, 0x0, 0x0, 0x0, 0x0)",
    79: "GPU has fallen off the bus.",
    94: "Contained: SM (0x1). RST: No, D-RST: No",
    95: "Uncontained: LTC. RST: Yes, D-RST: No",
    119: "Timeout after 6s of waiting for RPC response from GPU0 GSP! Expected function 76 (GSP_RM_CONTROL).",
}
"""The text that the driver adds to the number of common errors."""
Line = tuple[float, int, str]
"""Time (seconds since 1970), syslog severity and text."""


def kernel_lines(base: Path) -> list[Line]:
    """Return the driver's log lines, oldest first; none without a loaded driver."""
    loaded = base / LOADED
    if not loaded.exists():
        return []
    machine = load_machine(base)
    start = loaded.stat().st_mtime
    lines = [(start + 0.0004 * number, INFO, text) for number, text in enumerate(_greeting(base, machine))]
    if machine is None:
        return lines
    described = max(start + 1, (base / MACHINE).stat().st_mtime)
    errors = _errors(base, machine)
    return lines + [(described + 0.002 * number, ERROR, text) for number, text in enumerate(errors)]


def _greeting(base: Path, machine: Machine | None) -> list[str]:
    version = (base / PROC_VERSION).read_text(encoding="utf-8").splitlines()[0].removeprefix("NVRM version: ")
    switches = int(machine.profile.get("nvswitches", 0)) if machine else 0
    return [
        "nvidia: loading out-of-tree module taints kernel.",
        "nvidia-nvlink: Nvlink Core is being initialized, major device number 240",
        *(f"nvidia-nvswitch{number}: using MSI" for number in range(switches)),
        f"NVRM: loading {version}",
    ]


def _errors(base: Path, machine: Machine) -> list[str]:
    known = read_json(base / SHARE / "nvidia-smi" / "faults.json")
    lines: list[str] = []
    for fault in machine.faults:
        templates = known[fault.name].get("kernel", [])
        words: dict[str, Any] = {**fault.parameters, **_place(machine, fault.gpu)}
        if "switch" in words:
            words["slot"] = FIRST_SWITCH_SLOT + int(words["switch"])
        if fault.name == "xid":
            words["text"] = words["text"] or XID_WORDS.get(int(words["number"]), "Ch 00000008")
        for _ in range(int(words.get("count", 1))):
            lines += [template.format(**words) for template in templates]
    return lines


def _place(machine: Machine, position: int) -> dict[str, str]:
    """Return a GPU's identifiers for the kernel log; a missing GPU has no UUID."""
    for gpu in machine.gpus:
        if gpu.position == position:
            return {"pci": gpu.bus[4:].lower().rsplit(".", 1)[0], "uuid": gpu.values["uuid"]}
    return {"pci": str(machine.profile["gpus"][position]["bus"])[4:].lower().rsplit(".", 1)[0], "uuid": ""}
