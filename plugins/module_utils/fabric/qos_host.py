# SPDX-License-Identifier: Apache-2.0
"""Read the lossless class of a host's ports, and change it through the unit that also sets it at boot."""

from __future__ import annotations

import os
import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from ansible_collections.firstlight.cluster.plugins.module_utils.fabric.qos import (
    RDMA_CM,
    UNIT,
    UNIT_DIRECTORY,
    Qos,
    instance,
    nccl_traffic_class,
    qos_problems,
)
from ansible_collections.firstlight.cluster.plugins.module_utils.host import Host, Result, write_file
from ansible_collections.firstlight.cluster.plugins.module_utils.parsers.dcb import (
    parse_dcb_app,
    parse_dcb_dcbx,
    parse_dcb_pfc,
)

_INSTANCE = re.compile(r"^firstlight-roce-qos@.+\.service$")
_NOT_LOADED = 5
"""Exit status of systemctl for an unknown unit."""
_ECN_COUNTER = "np_ecn_marked_roce_packets"


class QosError(Exception):
    """What a host cannot do or did not do; the message is shown unchanged."""


@dataclass(frozen=True)
class PortClass:
    """The priorities of a port as it reports them."""

    pfc: tuple[bool, ...] | None
    dscp: dict[int, int]

    def with_class(self, qos: Qos) -> PortClass:
        """Return the expected state once the class is set; mappings of other DSCPs are kept."""
        return PortClass(qos.pfc, {**self.dscp, qos.dscp: qos.priority})

    def words(self, port: str) -> str:
        """Format the lossless priorities and the mappings for a diff."""
        on = [str(number) for number, paused in enumerate(self.pfc or ()) if paused]
        mapped = [f"{dscp}:{priority}" for dscp, priority in sorted(self.dscp.items())]
        return f"{port} prio-pfc on {' '.join(on) or 'none'}, dscp-prio {' '.join(mapped) or 'none'}\n"


class QosHost:
    """A host and its ports. `root` is the root of its files, for tests."""

    def __init__(self, host: Host, *, check_mode: bool = False, root: str = "/") -> None:
        self.host = host
        self.check_mode = check_mode
        self.root = root
        self.unit_path = self._path(f"{UNIT_DIRECTORY}/{UNIT}")

    def _path(self, path: str) -> str:
        return os.path.join(self.root, path.lstrip("/"))

    def converge(self, ports: Sequence[str], qos: Qos | None, unit: str | None) -> dict[str, Any]:
        """Apply the class through this unit and verify it. Raises QosError if the host cannot, or does not show it."""
        before = self.host.read_text(self.unit_path)
        wanted = unit if qos and ports else None
        # Read all ports before changing the first: if one has no DCB, the others are left alone.
        shown = {port: self.read_port(port) for port in ports} if qos else {}
        problems = self._problems(shown, qos)
        units = [instance(port) for port in ports] if wanted else []
        surplus = [unit for unit in self.instances() if unit not in units]
        asleep = [unit for unit in units if not self._is_set(unit)]
        changed = bool(before != wanted or surplus or asleep or problems)
        result: dict[str, Any] = {"changed": changed, "problems": problems}
        after = "".join(one.with_class(qos).words(port) for port, one in shown.items()) if qos else ""
        result["diff"] = {
            "before": "".join(one.words(port) for port, one in shown.items()) + (before or ""),
            "after": after + (wanted or ""),
        }
        if changed and not self.check_mode:
            self._change(before, wanted, units, surplus)
            left = self._problems({port: self.read_port(port) for port in ports} if qos else {}, qos)
            if left:
                raise QosError(
                    f"{'; '.join(left)}, after {UNIT} has set it: another program also sets the ports (lldpad, the "
                    "NIC's own DCBX): stop it, or remove fabric_network_qos"
                )
        if qos:
            result["notes"] = [note for port in ports for note in self.notes(port, qos)]
        return result

    def read_port(self, port: str) -> PortClass:
        """Return the class that a port reports. Raises QosError if it cannot report any."""
        pfc = self._dcb(port, "pfc")
        app = self._dcb(port, "app")
        return PortClass(parse_dcb_pfc(pfc.stdout), parse_dcb_app(app.stdout))

    def _dcb(self, port: str, what: str) -> Result:
        found = self.host.run(["dcb", "-j", what, "show", "dev", port])
        if found.ok:
            return found
        if found.problem:
            raise QosError(
                f"the lossless class of port {port} cannot be read ({found.problem}), expected dcb of iproute2 5.11 "
                "or newer: install iproute2, or remove fabric_network_qos"
            )
        said = found.stderr.strip() or found.stdout.strip()
        if "not supported" in said.lower():
            raise QosError(
                f"port {port} has no DCB ({said.splitlines()[-1]}), expected a driver with it such as mlx5_core: "
                "remove fabric_network_qos, nothing was changed"
            )
        raise QosError(f"the lossless class of port {port} cannot be read: {found.summary}; check the port's name")

    @staticmethod
    def _problems(shown: dict[str, PortClass], qos: Qos | None) -> list[str]:
        if qos is None:
            return []
        return [f"{port}: {one}" for port, has in shown.items() for one in qos_problems(qos, has.pfc, has.dscp)]

    def instances(self) -> list[str]:
        """Return the enabled instances, for any port."""
        directory = self._path(UNIT_DIRECTORY)
        found = []
        for name in sorted(os.listdir(directory)) if os.path.isdir(directory) else []:
            if name.endswith(".wants") and os.path.isdir(os.path.join(directory, name)):
                listed = sorted(os.listdir(os.path.join(directory, name)))
                found += [unit for unit in listed if _INSTANCE.match(unit)]
        return list(dict.fromkeys(found))

    def _is_set(self, unit: str) -> bool:
        return unit in self.instances() and self.host.run(["systemctl", "is-active", "--quiet", unit]).ok

    def _change(self, before: str | None, wanted: str | None, units: Sequence[str], surplus: Sequence[str]) -> None:
        """Apply through the unit, so that what is set now is what a boot sets.

        The old template unsets what it set, so it is stopped before it is replaced.
        """
        former = self.instances() if before is not None and before != wanted else []
        for unit in dict.fromkeys([*former, *surplus]):
            self._systemctl("stop", unit)
        for unit in surplus:
            self._systemctl("disable", unit)
        if wanted is None:
            if before is not None:
                os.unlink(self.unit_path)
            self._systemctl("daemon-reload")
            return
        if before != wanted:
            os.makedirs(os.path.dirname(self.unit_path), mode=0o755, exist_ok=True)
            write_file(self.unit_path, wanted, 0o644)
            self._systemctl("daemon-reload")
        for unit in units:
            self._systemctl("enable", unit)
            self._systemctl("restart", unit)

    def _systemctl(self, *words: str) -> None:
        done = self.host.run(["systemctl", *words], timeout=60)
        if words[0] == "stop" and done.rc == _NOT_LOADED:
            return  # the template was removed by hand: its settings stay, and nothing is left that could unset them
        if not done.ok:
            raise QosError(
                f"`systemctl {' '.join(words)}` failed: {done.summary}; look at `journalctl -u {words[-1]}` on the host"
                if len(words) > 1
                else f"`systemctl {words[0]}` failed: {done.summary}; see `systemctl status` on the host"
            )

    # --- what cannot be set here -------------------------------------------------------------------------------------

    def notes(self, port: str, qos: Qos) -> list[str]:
        """Return what the operator should know about a port that cannot be set here."""
        said = []
        dcbx = self.host.run(["dcb", "-j", "dcbx", "show", "dev", port])
        if dcbx.ok and "lld-managed" in parse_dcb_dcbx(dcbx.stdout):
            said.append(f"{port}: the NIC's firmware speaks DCBX with the switch and may change the class again")
        devices = self._listed(f"/sys/class/net/{port}/device/infiniband")
        switch = self.host.read_text(self._path(f"/sys/class/net/{port}/ecn/roce_rp/enable/{qos.priority}"))
        if switch is not None and switch.strip() == "0":
            said.append(
                f"{port}: ECN is off for priority {qos.priority} in the vendor's driver "
                f"(/sys/class/net/{port}/ecn): turn roce_np and roce_rp on there"
            )
        elif devices and not any(self._counts_ecn(device) for device in devices):
            said.append(f"{port}: {devices[0]} has no counters of ECN marks and may not react to them: only PFC works")
        for device in devices:
            has = self.host.read_text(self._path(f"{RDMA_CM}/{device}/ports/1/default_roce_tos"))
            if has is None:
                said.append(
                    f"{port}: the kernel offers no traffic class for librdmacm ({RDMA_CM} without {device}); "
                    f"programs that use it must set {nccl_traffic_class(qos.dscp)} themselves, NCCL by NCCL_IB_TC"
                )
        return said

    def _listed(self, path: str) -> list[str]:
        place = self._path(path)
        return sorted(os.listdir(place)) if os.path.isdir(place) else []

    def _counts_ecn(self, device: str) -> bool:
        return os.path.exists(self._path(f"/sys/class/infiniband/{device}/ports/1/hw_counters/{_ECN_COUNTER}"))
