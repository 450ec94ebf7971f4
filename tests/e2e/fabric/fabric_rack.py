# SPDX-License-Identifier: Apache-2.0
"""Hosts with a configured fabric: its playbooks, its faults, and what the hosts themselves say about it."""

from __future__ import annotations

import json
import shlex
import subprocess
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from firstlight_lab.fabric import change_fabric
from tests.e2e.own_lab import OwnLab, Run

RAIL, TWIN = "enp1s0f1np1", "enP2p1s0f1np1"
OTHER_CAGE = "enp1s0f0np0"
SUBNETS = {RAIL: "192.168.100", TWIN: "192.168.101"}
FIRST_ADDRESS = 10
MTU = 9000
NETPLAN = "/etc/netplan/40-cx7.yaml"
MANAGEMENT = "/etc/netplan/50-cloud-init.yaml"
UNREACHABLE = "10.99.0.1/24"
RECORD = "/var/lib/firstlight/fabric.connectivity"
CHANGE_IN_PROGRESS = ("/var/lib/firstlight/netplan/undo", "/etc/systemd/system/firstlight-netplan-undo.*")
PHASE = (
    *("playbooks/plan.yml", "playbooks/observe.yml"),
    *("playbooks/prepare.yml", "-e", "prepare_observed=true", "--tags", "fabric"),
)
FABRIC_RECORDS = ("fabric.", "link.")


@dataclass(frozen=True)
class Verified:
    """A run of verify.yml, and the checks of the fabric that did not pass, by host."""

    run: Run
    failed: dict[str, set[str]]


@dataclass(frozen=True)
class PendingCutOff:
    """The management address that is about to be lost, and the fabric's netplan file before the run."""

    address: str
    fabric_file: str


@dataclass(frozen=True)
class FabricRack:
    """Hosts of an inventory and the switch between them; every run is limited to these hosts."""

    own: OwnLab
    inventory: Path
    nodes: Mapping[str, str]  # each host, and the lab's name of it
    numbers: Mapping[str, int]  # the last part of each host's addresses
    login: Sequence[str]  # ssh and its options; the address follows

    # -- the product --------------------------------------------------------------------------------------------

    def fabric(self, *arguments: str, hosts: Sequence[str] = ()) -> Run:
        """Plan, observe and configure the fabric, and test its paths where anything was touched."""
        limit = ("--limit", ":".join(hosts or self.nodes))
        return self.own.command("ansible-playbook", *PHASE, "-i", str(self.inventory), *limit, *arguments, check=False)

    def verify(self) -> Verified:
        """Compare the hosts with their plan, and change nothing."""
        report = self.own.directory / "verified.json"
        report.unlink(missing_ok=True)
        limit = ("--limit", ":".join(self.nodes))
        run = self.own.command(
            *("ansible-playbook", "playbooks/verify.yml", "-i", str(self.inventory), *limit),
            *("-e", f"verify_report={report}"),
            check=False,
        )
        failed: dict[str, set[str]] = {}
        for record in json.loads(report.read_text()):
            if record["id"].startswith(FABRIC_RECORDS) and record["verdict"] not in ("pass", "not_applicable"):
                failed.setdefault(record["host"], set()).add(record["id"])
        return Verified(run, failed)

    # -- the hosts and the switch -------------------------------------------------------------------------------

    def on(self, host: str, script: str) -> str:
        """Run a script as root on a host, by SSH over the management network."""
        remote = f"sudo -n sh -ec {shlex.quote(script)}"
        address = self.own.addresses[self.nodes[host]]
        done = subprocess.run(
            [*self.login, address, remote], capture_output=True, text=True, timeout=60, check=False, env=self.own.env
        )
        assert done.returncode == 0, f"{host}: {script}\n{done.stdout}{done.stderr}"
        return done.stdout.strip()

    def switch(
        self,
        host: str | None = None,
        port: str | None = None,
        mtu: int | None = None,
        down: bool | None = None,
        cage: int | None = None,
    ) -> None:
        """Change the switch: all ports, those of one host, or a single one."""
        node = None if host is None else self.nodes[host]
        change_fabric(self.own.lab, node=node, port=port, mtu=mtu, down=down, cage=cage)

    def address(self, host: str, port: str) -> str:
        return f"{SUBNETS[port]}.{self.numbers[host]}"

    def reports(self) -> dict[str, str]:
        """When the connectivity test of each host was written; an empty string where there is none."""
        return {host: self.on(host, f"stat -c %Y {RECORD} 2> /dev/null || true") for host in self.nodes}

    # -- states -------------------------------------------------------------------------------------------------

    def port_differences(self) -> list[str]:
        """What the ports of the hosts do not have of their plan, by `ip`."""
        found = []
        for host in self.nodes:
            shown = {entry["ifname"]: entry for entry in json.loads(self.on(host, "ip -j -4 addr"))}
            for port in SUBNETS:
                entry = shown.get(port, {})
                addresses = [f"{info['local']}/{info['prefixlen']}" for info in entry.get("addr_info", [])]
                seen = (entry.get("mtu"), entry.get("operstate"), addresses)
                if seen != (MTU, "UP", [f"{self.address(host, port)}/24"]):
                    found.append(f"{host} {port}: {seen}")
        return found

    def require_tested(self) -> None:
        """Make sure that the fabric is configured and tested, whatever an earlier test left."""
        if self.port_differences() or not all(self.reports().values()):
            self.fix()

    def fix(self) -> None:
        """Bring the fabric back with the product's own run, and check the result without it."""
        run = self.fabric()
        assert run.status == 0, run.output[-6000:]
        assert self.port_differences() == []
        assert all(self.reports().values())

    @contextmanager
    def fault(self, repair: Callable[[], object]) -> Iterator[None]:
        """Within, something is broken: every host answers on the management network throughout, and it is repaired."""
        self.require_tested()
        try:
            yield
            for host in self.nodes:
                self.on(host, "true")
        finally:
            repair()

    def change_in_progress(self, host: str) -> str:
        """Files that a network change keeps until it is confirmed or rolled back."""
        script = f"ls -d {' '.join(CHANGE_IN_PROGRESS)} 2> /dev/null || true; ls -A /etc/netplan | grep '^[.]' || true"
        return self.on(host, script)

    @contextmanager
    def pending_cut_off(self, host: str) -> Iterator[PendingCutOff]:
        """A host whose next network change takes its management address away, as somebody edited the file of eth0."""
        kept = "/root/management.yaml"
        address = self.on(host, "ip -4 -o addr show eth0").split()[3]

        def repair() -> None:
            # At the console: whether the host answers SSH is what is tested.
            restore = f"if [ -e {kept} ]; then mv {kept} {MANAGEMENT}; netplan apply; fi"
            self.own.inside(self.nodes[host], restore)
            self.require_tested()

        with self.fault(repair):
            before = self.on(host, f"cat {NETPLAN}")
            # Netplan is only applied where a port differs from the plan.
            edit = f"cp -p {MANAGEMENT} {kept}; sed -i s,{address},{UNREACHABLE}, {MANAGEMENT}"
            self.on(host, f"{edit}; ip link set {RAIL} mtu 1500")
            yield PendingCutOff(address, before)
