# SPDX-License-Identifier: Apache-2.0
"""What a hardware profile of the catalog, and a pinned stack where there is one, promise about a host's GPUs."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

MINIMUM_LINK_GB_S = 25.0
"""What a link of this generation carries at least in one direction; a driver prints 26.562."""

BY_HOST = "host"
"""What a profile has for `fabric_manager` where the machine is a guest, and the owner of its host runs the fabric."""

NVLINK = "NV"
PCIE = ("PIX", "PXB", "PHB", "NODE", "SYS")
"""Ways between two devices over PCIe, from the shortest to the longest."""


@dataclass(frozen=True)
class Expected:
    """A profile in the terms of the checks; what is None or empty is not known and is not evaluated."""

    profile: str
    gpus: int
    gpu_name: str
    memory_mib: int | None = None
    unified: bool = False
    pairs: tuple[str, ...] = ()
    """Words that `topo -m` may print between two GPUs; empty where there is one GPU."""
    links_per_gpu: int | None = None
    link_gb_s: float | None = None
    nvswitch: bool = False
    """Whether the GPUs reach each other through NVSwitches, wherever these are."""
    fabric_by_host: bool = False
    """Whether the owner of the host runs the fabric, and not this machine, its guest: as the profile says, and for the
    checks as the readings show (partition.py)."""
    power_limit_w: int | None = None
    compute_capability: str | None = None
    driver: str | None = None
    """The driver's version, where a stack pins it."""
    fabric: Mapping[str, Any] = field(default_factory=dict)
    """The profile's `fabric` as the catalog has it."""
    hardware: Mapping[str, Any] = field(default_factory=dict)
    """The whole profile, for what only one check looks at."""

    @property
    def minimum_link_gb_s(self) -> float:
        """The least that a link may show: a little under the profile's figure, as that is what a good one prints."""
        return MINIMUM_LINK_GB_S if self.link_gb_s is None else min(MINIMUM_LINK_GB_S, self.link_gb_s)

    @property
    def has_nvlink(self) -> bool:
        """Whether GPUs of this hardware are joined by NVLink."""
        return bool(self.links_per_gpu)

    @property
    def nics(self) -> int | None:
        """Network ports for the fabric; None where the profile lists none."""
        return len(self.fabric.get("ports") or ()) or None


def expected_of(profile: str, hardware: Mapping[str, Any], driver: str | None = None) -> Expected:
    """The profile's entry of catalog/hardware in these terms. A figure that it lacks is not evaluated."""
    pair = hardware.get("pair")
    link = hardware.get("link_gb_s")
    return Expected(
        profile=profile,
        gpus=int(hardware["gpus"]),
        gpu_name=str(hardware["gpu_name"]),
        memory_mib=hardware.get("memory_mib"),
        unified=bool(hardware.get("unified")),
        pairs=tuple(str(pair).split("|")) if pair and int(hardware["gpus"]) > 1 else (),
        links_per_gpu=hardware.get("links_per_gpu"),
        link_gb_s=float(link) if link else None,
        nvswitch=bool(hardware.get("nvswitch")),
        fabric_by_host=hardware.get("fabric_manager") == BY_HOST,
        power_limit_w=hardware.get("power_limit_w"),
        compute_capability=hardware.get("compute_capability"),
        driver=driver,
        fabric=hardware.get("fabric") or {},
        hardware=hardware,
    )
