# SPDX-License-Identifier: Apache-2.0
"""What a hardware profile of the catalog, and a pinned stack if there is one, promise about a host's GPUs."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

MINIMUM_LINK_GB_S = 25.0
"""The least that a link of this generation carries in one direction; a driver prints 26.562."""

BY_HOST = "host"
"""The profile's value of `fabric_manager` if the machine is a guest and the owner of its host runs the fabric."""

NVLINK = "NV"
PCIE = ("PIX", "PXB", "PHB", "NODE", "SYS")
"""Paths between two devices over PCIe, from shortest to longest."""


@dataclass(frozen=True)
class Expected:
    """A profile in the terms of the checks; a value that is None or empty is unknown and not evaluated."""

    profile: str
    gpus: int
    gpu_name: str
    memory_mib: int | None = None
    unified: bool = False
    pairs: tuple[str, ...] = ()
    """Connections that `topo -m` may print between two GPUs; empty if there is one GPU."""
    links_per_gpu: int | None = None
    link_gb_s: float | None = None
    nvswitch: bool = False
    """Whether the GPUs are connected through NVSwitches, wherever these are."""
    fabric_by_host: bool = False
    """Whether the owner of the host, rather than this guest, runs the fabric: as the profile says; for the checks, as
    the readings show (partition.py).
    """
    power_limit_w: int | None = None
    compute_capability: str | None = None
    driver: str | None = None
    """The driver's version, if a stack pins it."""
    fabric: Mapping[str, Any] = field(default_factory=dict)
    """The profile's `fabric` as it stands in the catalog."""
    hardware: Mapping[str, Any] = field(default_factory=dict)
    """The whole profile, for fields that only one check uses."""

    @property
    def minimum_link_gb_s(self) -> float:
        """The least that a link may show: never above the profile's figure, as a healthy link may print just that."""
        return MINIMUM_LINK_GB_S if self.link_gb_s is None else min(MINIMUM_LINK_GB_S, self.link_gb_s)

    @property
    def has_nvlink(self) -> bool:
        """Whether this hardware's GPUs are connected by NVLink."""
        return bool(self.links_per_gpu)

    @property
    def nics(self) -> int | None:
        """The number of network ports for the fabric; None if the profile lists none."""
        return len(self.fabric.get("ports") or ()) or None


def expected_of(profile: str, hardware: Mapping[str, Any], driver: str | None = None) -> Expected:
    """Build the Expected of an entry of catalog/hardware. A figure that the entry lacks is not evaluated."""
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
