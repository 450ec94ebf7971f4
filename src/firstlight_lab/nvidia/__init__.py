# SPDX-License-Identifier: Apache-2.0
"""Stand-ins for what no lab machine has: NVIDIA's packages, in real signed apt repositories.

The packages have the real names, versions and dependencies; their nvidia-smi prints the machine described by the node's
/etc/firstlight-lab/machine.json, and reports a new driver version only after a reboot.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from .node.faults import parse_faults
from .packages import ARCHIVE, CUDA, LAMBDA, VENDOR
from .repository import COMPONENT, SUITE, RepositoryError, build_repository
from .signing import SigningError

__all__ = [
    "ARCHIVE",
    "COMPONENT",
    "CUDA",
    "LAMBDA",
    "MACHINE_PATH",
    "PCI_PATH",
    "SUITE",
    "VENDOR",
    "RepositoryError",
    "SigningError",
    "build_repository",
    "known_faults",
    "known_profiles",
    "machine_document",
    "pci_files",
]

MACHINE_PATH = "/etc/firstlight-lab/machine.json"
PCI_PATH = "/etc/firstlight-lab/pci"
_DATA = Path(__file__).resolve().parent / "data"


def known_profiles() -> list[str]:
    """Return the names of the machines that a node can simulate."""
    return sorted(path.stem for path in (_DATA / "profiles").glob("*.json"))


def known_faults() -> dict[str, str]:
    """Return the faults that a node can have, with their descriptions."""
    faults = json.loads((_DATA / "nvidia-smi" / "faults.json").read_text(encoding="utf-8"))
    return {name: str(fault["about"]) for name, fault in faults.items()}


def pci_files(profile: str) -> dict[str, str]:
    """Return a machine's NVIDIA PCI devices (GPUs and NVSwitches), as files below a directory of devices."""
    described = json.loads((_DATA / "profiles" / f"{profile}.json").read_text(encoding="utf-8"))
    kinds = {str(gpu["bus"])[4:].lower(): "0x030200" for gpu in described["gpus"]}
    kinds |= {f"0000:{5 + index:02x}:00.0": "0x068000" for index in range(int(described.get("nvswitches", 0)))}
    return {
        f"{address}/{name}": f"{value}\n"
        for address, kind in sorted(kinds.items())
        for name, value in (("vendor", "0x10de"), ("class", kind), ("device", _device(described, kind)))
    }


def _device(described: dict[str, Any], kind: str) -> str:
    """Return the PCI device id; the driver reports a GPU's as 233010DE for 0x2330."""
    while "extends" in described and "pci/pci_device_id" not in described.get("values", {}):
        below = _DATA / "profiles" / f"{described['extends']}.json"
        described = json.loads(below.read_text(encoding="utf-8"))
    return f"0x{described['values']['pci/pci_device_id'][:4].lower()}" if kind == "0x030200" else "0x22a3"


def machine_document(profile: str, faults: Sequence[Any] = (), hostname: str | None = None) -> str:
    """Return the content of a node's machine.json. Raises ValueError for a description that the node would reject."""
    if profile not in known_profiles():
        raise ValueError(f'profile "{profile}" is not known; use one of: {", ".join(known_profiles())}')
    gpus = len(json.loads((_DATA / "profiles" / f"{profile}.json").read_text(encoding="utf-8"))["gpus"])
    meanings = json.loads((_DATA / "nvidia-smi" / "faults.json").read_text(encoding="utf-8"))
    parse_faults(list(faults), meanings, gpus)
    document: dict[str, Any] = {"profile": profile, "faults": list(faults)}
    if hostname:
        document["hostname"] = hostname
    return json.dumps(document, indent=2) + "\n"
