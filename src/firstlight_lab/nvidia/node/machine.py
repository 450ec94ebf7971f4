# SPDX-License-Identifier: Apache-2.0
"""The simulated machine of this node: its profile, its faults, and the driver loaded at the last boot."""

from __future__ import annotations

import hashlib
import json
import os
import platform
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from .faults import Fault, apply, parse_faults, release_fault

ROOT_VARIABLE = "FIRSTLIGHT_LAB_ROOT"
MACHINE = "etc/firstlight-lab/machine.json"
SHARE = "usr/share/firstlight-lab"
LIBRARY = f"{SHARE}/nvidia/library.json"
MODULE = f"{SHARE}/nvidia/module.json"
PCI = "etc/firstlight-lab/pci"
LOADED = "run/nvidia-driver-loaded"
PROC_DRIVER = "run/firstlight-lab/proc-driver"
"""The directory that lab-init uses as /proc/driver of the node."""
PROC_VERSION = f"{PROC_DRIVER}/nvidia/version"
PROC_GPUS = f"{PROC_DRIVER}/nvidia/gpus"
PROC_NVSWITCHES = f"{PROC_DRIVER}/nvidia-nvswitch/devices"
NO_READING = "GPU requires reset"
"""Replaces values that a GPU does not report before a reset."""
FABRIC_CONFIGURED = "run/firstlight-lab/fabric-configured"


class DescriptionError(Exception):
    """The machine's description is invalid; the message says what to change."""


class ModuleError(Exception):
    """The kernel module could not be built or loaded; the message is that of the real tool."""


@dataclass
class Gpu:
    """A GPU: its position on the board and every reading that nvidia-smi can report."""

    position: int
    index: int
    bus: str
    cpus: str
    numa: int
    values: dict[str, str]
    links: list[str | None]
    trouble: str | None = None
    lost: bool = False
    processes: list[dict[str, Any]] = field(default_factory=list)
    link_errors: dict[int, dict[str, int]] = field(default_factory=dict)
    """Nonzero error counters by link."""
    instances: list[int] = field(default_factory=list)
    """The slices of each MIG instance, out of seven in total."""

    @property
    def name(self) -> str:
        """The product name, as it appears in every listing."""
        return self.values["product_name"]

    @property
    def title(self) -> str:
        """The line that introduces this GPU in `-L` and `nvlink -s`."""
        return f"GPU {self.index}: {self.name} (UUID: {self.values['uuid']})"


@dataclass
class Machine:
    """The described machine with its faults applied."""

    hostname: str
    profile: dict[str, Any]
    gpus: list[Gpu]
    faults: list[Fault]

    @property
    def has_nvswitch(self) -> bool:
        """Whether the machine has NVSwitches for a fabric manager."""
        return int(self.profile.get("nvswitches", 0)) > 0

    @property
    def is_partition(self) -> bool:
        """Whether its GPUs use NVSwitches that belong to the host and are not on this machine's bus."""
        return is_partition(self.profile)


@dataclass(frozen=True)
class Driver:
    """Versions on disk and in the kernel; None if not installed or not loaded."""

    library: str | None
    module: str | None
    loaded: str | None
    cuda: str


def is_partition(profile: dict[str, Any]) -> bool:
    """Return whether a profile is a guest with GPUs of an NVSwitch system but none of its NVSwitches."""
    return profile["nvlink"].get("wiring") == "switch" and not int(profile.get("nvswitches", 0))


def root() -> Path:
    """Return the base of all paths: `/` on a node, a temporary directory in tests."""
    return Path(os.environ.get(ROOT_VARIABLE) or "/")


def read_json(path: Path) -> Any:
    """Read a JSON file. Raises DescriptionError, which names the file."""
    try:
        return json.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError as error:
        raise DescriptionError(f"{path} is missing") from error
    except ValueError as error:
        raise DescriptionError(f"{path} is not valid JSON: {error}") from error


def read_driver(base: Path) -> Driver:
    """Return the driver versions that packages installed and that the last boot loaded."""
    library = read_json(base / LIBRARY) if (base / LIBRARY).exists() else {}
    module = read_json(base / MODULE) if (base / MODULE).exists() else {}
    loaded = base / LOADED
    return Driver(
        library=library.get("version"),
        module=module.get("version"),
        loaded=(loaded.read_text(encoding="utf-8").strip() or None) if loaded.exists() else None,
        cuda=str(library.get("cuda", "13.0")),
    )


def fault_of_release(base: Path, name: str, version: str) -> dict[str, Any] | None:
    """Return the parameters of a fault of this driver release on this node, or None if it does not have it."""
    path = base / MACHINE
    try:
        return release_fault(read_json(path), name, version) if path.exists() else None
    except ValueError as error:
        raise DescriptionError(f"{path}: {error}") from error


def build_module(base: Path) -> str:
    """Simulate the build of the module when its package is configured; there is nothing to build."""
    version = str(read_json(base / MODULE)["version"])
    slow = fault_of_release(base, "module_build_slow", version)
    if slow is not None:
        time.sleep(float(slow.get("seconds", 600)))
    if fault_of_release(base, "module_build_failed", version) is not None:
        raise ModuleError(f"Error! Bad return status for module build on kernel: {platform.release()}")
    return f"built: {version}"


def load_module(base: Path) -> str:
    """Simulate a boot: load the installed kernel module, unless one is already loaded."""
    loaded = base / LOADED
    if loaded.exists():
        return f"already loaded: {loaded.read_text(encoding='utf-8').strip()}"
    module = read_json(base / MODULE)
    version, flavour = str(module["version"]), str(module["flavour"])
    if fault_of_release(base, "module_unloadable", version) is not None:
        raise ModuleError("modprobe: ERROR: could not insert 'nvidia': No such device")
    cpu = platform.machine()
    kind = f"Open Kernel Module for {cpu}" if flavour == "open" else f"{cpu} Kernel Module"
    text = (
        f"NVRM version: NVIDIA UNIX {kind}  {version}  Release Build  (root@{platform.node()})  \n"
        "GCC version:  gcc version 12.2.0 (Debian 12.2.0-14) \n"
    )
    proc = base / PROC_VERSION
    proc.parent.mkdir(parents=True, exist_ok=True)
    proc.write_text(text, encoding="utf-8")
    _list_nvswitches(base)
    _list_gpus(base, version)
    loaded.write_text(version + "\n", encoding="utf-8")
    return f"loaded: {version}"


def _list_nvswitches(base: Path) -> None:
    """List the NVSwitches by PCI address, as the driver does; a node without a description has none."""
    folder = base / PCI
    for device in sorted(folder.iterdir()) if folder.is_dir() else []:
        if (device / "class").read_text(encoding="ascii").startswith("0x0680"):
            (base / PROC_NVSWITCHES / device.name).mkdir(parents=True, exist_ok=True)


def _list_gpus(base: Path, version: str) -> None:
    """List the GPUs with some information about each, as the driver does."""
    try:
        machine = load_machine(base)
    except DescriptionError:
        return  # the tools that interpret the description are not installed
    for gpu in machine.gpus if machine else []:
        address = gpu.bus[4:].lower()
        rows = [
            f"Model: \t\t {gpu.name}",
            f"IRQ:   \t\t {41 + gpu.position}",
            f"GPU UUID: \t {gpu.values['uuid']}",
            f"Video BIOS: \t {gpu.values['vbios_version'].lower()}",
            "Bus Type: \t PCIe",
            "DMA Size: \t 52 bits",
            "DMA Mask: \t 0xfffffffffffff",
            f"Bus Location: \t {address}",
            f"Device Minor: \t {gpu.values['minor_number']}",
            f"GPU Firmware: \t {version}",
            "GPU Excluded:\t No",
        ]
        path = base / PROC_GPUS / address / "information"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("\n".join(rows) + "\n", encoding="utf-8")


def load_profile(base: Path, name: str) -> dict[str, Any]:
    """Read a profile, merged with those it extends."""
    folder = base / SHARE / "profiles"
    path = folder / f"{name}.json"
    if not path.exists():
        known = ", ".join(sorted(found.stem for found in folder.glob("*.json")))
        raise DescriptionError(f'profile "{name}" is not known; use one of: {known}')
    profile: dict[str, Any] = read_json(path)
    if "extends" in profile:
        below = load_profile(base, profile["extends"])
        profile = {**below, **profile, "values": {**below["values"], **profile["values"]}}
    return profile


def load_machine(base: Path, hostname: str | None = None) -> Machine | None:
    """Return the machine of this node, or None without a description, which means a machine without GPUs."""
    path = base / MACHINE
    if not path.exists():
        return None
    document = read_json(path)
    if not isinstance(document, dict) or "profile" not in document:
        raise DescriptionError(f'{path} needs {{"profile": NAME, "faults": []}}')
    profile = load_profile(base, str(document["profile"]))
    known = read_json(base / SHARE / "nvidia-smi" / "faults.json")
    try:
        faults = parse_faults(document.get("faults", []), known, len(profile["gpus"]))
    except ValueError as error:
        raise DescriptionError(f"{path}: {error}") from error
    host = hostname or str(document.get("hostname") or platform.node())
    configured = (base / FABRIC_CONFIGURED).exists()
    if is_partition(profile):
        # The driver queries the host's fabric manager, over the NVLinks.
        loaded = read_driver(base).loaded or ""
        configured = release_fault(document, "partition_inactive", loaded) is None
    gpus = [_gpu(profile, position, host, configured) for position in range(len(profile["gpus"]))]
    for fault in faults:
        apply(fault, known[fault.name], gpus)
    gpus = [gpu for gpu in gpus if gpu.trouble != "missing"]
    for index, gpu in enumerate(gpus):
        gpu.index = index
    return Machine(hostname=host, profile=profile, gpus=gpus, faults=faults)


def _gpu(profile: dict[str, Any], position: int, host: str, fabric_configured: bool) -> Gpu:
    """Return a healthy GPU, with an identity that is stable for its host and slot."""
    place = profile["gpus"][position]
    digest = hashlib.sha256(f"{host}/{position}".encode()).hexdigest()
    domain, bus, rest = str(place["bus"]).split(":")
    values = {
        **profile["values"],
        "uuid": f"GPU-{digest[:8]}-{digest[8:12]}-{digest[12:16]}-{digest[16:20]}-{digest[20:32]}",
        "serial": f"165{int(digest[32:44], 16) % 10**10:010d}",
        "pdi": f"0x{digest[44:60]}",
        "minor_number": str(position),
        "board_id": str(place.get("board") or f"0x{int(bus, 16):x}00"),
        "platformInfo/module_id": str(place.get("module", position + 1)),
        "pci/pci_domain": domain[-4:],
        "pci/pci_bus": bus,
        "pci/pci_device": rest.split(".")[0],
        "pci/pci_bus_id": str(place["bus"]),
    }
    if profile["nvlink"].get("wiring") == "switch":
        # The driver keeps the fabric manager's last state even after that has died.
        values["fabric/state"] = "Completed" if fabric_configured else "In Progress"
        values["fabric/status"] = "Success" if fabric_configured else "N/A"
    link = profile["nvlink"]
    links: list[str | None] = [str(link.get("speed"))] * int(link["links"])
    return Gpu(position, position, str(place["bus"]), str(place["cpus"]), int(place["numa"]), values, links)
