# SPDX-License-Identifier: Apache-2.0
"""netplan_config against a host that plays netplan: what is tried, written, applied and undone."""

from __future__ import annotations

import json
import signal
from collections.abc import Callable, Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from ansible_collections.firstlight.cluster.plugins.module_utils.host import Host, Result
from ansible_collections.firstlight.cluster.plugins.modules.netplan_config import (
    Netplan,
    NetplanError,
    converge,
)

CONTENT = "network: {version: 2}\n"
PORTS = [{"port": "fab0", "address": "192.168.100.10/24", "mtu": 9000}]


class Box(Host):
    """A host with a management port and one fabric port, and a netplan that does as it is told."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.mtu = 1500
        self.address: str | None = None
        self.management = "172.20.0.3"
        self.generate_error = ""
        self.apply_error = ""
        self.on_apply: Callable[[], None] = self.obey
        self.applied: list[str | None] = []
        self.tried: list[list[str]] = []

    def obey(self) -> None:
        if self.path.exists() and self.path.read_text() == CONTENT:
            self.mtu, self.address = 9000, "192.168.100.10"

    def file_state(self, path: str) -> dict[str, Any]:
        """As root would see it, whoever runs the tests."""
        state = super().file_state(path)
        return {**state, "owner": "root", "group": "root"} if state["exists"] else state

    def run(self, argv: Sequence[str], *_limits: Any, **_options: Any) -> Result:
        """Answer the few commands there are."""
        command = tuple(argv)
        if command[:4] == ("ip", "-j", "addr", "show"):
            return Result(command, 0, self._links())
        if command[:4] == ("ip", "-j", "route", "show"):
            route = [{"dst": "default", "gateway": "172.20.0.1", "dev": "eth0"}] if self.management else []
            return Result(command, 0, json.dumps(route))
        if command[:2] == ("netplan", "generate"):
            tried = Path(command[3], "etc/netplan")
            self.tried.append(sorted(file.name for file in tried.iterdir()))
            assert (tried / self.path.name).read_text() == CONTENT
            return Result(command, 1 if self.generate_error else 0, stderr=self.generate_error)
        assert command == ("netplan", "apply")
        self.applied.append(self.path.read_text() if self.path.exists() else None)
        if self.apply_error:
            return Result(command, 1, stderr=self.apply_error)
        self.on_apply()
        return Result(command, 0)

    def _links(self) -> str:
        def link(name: str, mtu: int, address: str | None, prefix: int) -> dict[str, Any]:
            found = [{"family": "inet", "local": address, "prefixlen": prefix, "scope": "global"}] if address else []
            flags = ["BROADCAST", "UP", "LOWER_UP"]
            return {"ifname": name, "mtu": mtu, "flags": flags, "operstate": "UP", "addr_info": found}

        return json.dumps([link("eth0", 1500, self.management or None, 16), link("fab0", self.mtu, self.address, 24)])


@pytest.fixture
def box(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Box:
    monkeypatch.setattr("signal.signal", lambda *_: signal.SIG_DFL)
    monkeypatch.setattr("time.sleep", lambda _: None)
    place = tmp_path / "etc/netplan"
    place.mkdir(parents=True)
    (place / "01-network.yaml").write_text("network: {version: 2, renderer: networkd}\n")
    (place / "notes.txt").write_text("not netplan's\n")
    return Box(place / "40-firstlight-fabric.yaml")


def run(box: Box, check: bool = False, timeout: int = 0) -> dict[str, Any]:
    module: Any = SimpleNamespace(
        check_mode=check,
        params={"path": str(box.path), "content": CONTENT, "ports": PORTS, "timeout": timeout},
    )
    return converge(module, Netplan(module, box, root=str(box.path.parents[2])))


def leftovers(box: Box) -> list[str]:
    return sorted(file.name for file in box.path.parent.iterdir() if file.name.startswith("."))


def test_first_time(box: Box) -> None:
    result = run(box)
    assert result["changed"]
    assert result["diff"][0]["after"] == CONTENT
    assert any("mtu 1500" in sentence for sentence in result["differences"])
    assert box.tried == [["01-network.yaml", "40-firstlight-fabric.yaml"]]
    assert box.applied == [CONTENT]
    assert box.path.stat().st_mode & 0o7777 == 0o600
    assert leftovers(box) == []


def test_second_time_changes_nothing(box: Box) -> None:
    run(box)
    result = run(box)
    assert result == {"changed": False, "differences": [], "diff": []}
    assert box.applied == [CONTENT]


def test_check_mode_tries_but_does_not_write(box: Box) -> None:
    result = run(box, check=True)
    assert result["changed"]
    assert box.tried
    assert box.applied == []
    assert not box.path.exists()


def test_a_port_changed_by_hand_is_put_back(box: Box) -> None:
    run(box)
    box.mtu = 1500
    result = run(box)
    assert result["differences"] == ["link fab0 has mtu 1500, expected mtu 9000"]
    assert box.mtu == 9000


def test_a_file_with_open_mode_is_put_right(box: Box) -> None:
    run(box)
    box.path.chmod(0o644)
    assert run(box)["changed"]
    assert box.path.stat().st_mode & 0o7777 == 0o600


def test_what_netplan_refuses_never_lands(box: Box) -> None:
    box.generate_error = "/etc/netplan/01-network.yaml:1:1: Error in network definition"
    with pytest.raises(NetplanError, match=r"nothing was changed.*Error in network definition"):
        run(box)
    assert box.applied == []
    assert not box.path.exists()


def test_a_missing_port_changes_nothing(box: Box, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(PORTS[0], "port", "fab9")
    with pytest.raises(NetplanError, match=r"no port fab9, nothing was changed; it has eth0, fab0"):
        run(box)
    assert box.applied == []


def test_a_rail_in_the_network_of_another_port_changes_nothing(box: Box) -> None:
    box.management = "192.168.7.3"  # with a prefix of 16, which takes in the rail's network
    with pytest.raises(NetplanError, match=r"fab0 would be in 192\.168\.100\.0/24, where eth0 has 192\.168\.7\.3/16"):
        run(box)
    assert box.applied == []
    assert not box.path.exists()


def test_a_port_that_does_not_come_up_is_undone(box: Box) -> None:
    box.on_apply = lambda: None
    with pytest.raises(NetplanError, match=r"has mtu 1500.*was removed again and applied"):
        run(box)
    assert box.applied == [CONTENT, None]
    assert not box.path.exists()
    assert leftovers(box) == []


def test_the_former_file_comes_back(box: Box) -> None:
    former = "network: {version: 2, ethernets: {}}\n"
    box.path.write_text(former)
    box.path.chmod(0o640)
    box.apply_error = "systemd-networkd is not running"
    with pytest.raises(NetplanError, match=r"Putting .* back failed too"):
        run(box)
    assert box.path.read_text() == former
    assert box.path.stat().st_mode & 0o7777 == 0o640


def test_a_change_that_cuts_the_host_off_is_undone(box: Box) -> None:
    def cut() -> None:
        box.obey()
        box.management = "" if box.path.exists() else "172.20.0.3"

    box.on_apply = cut
    with pytest.raises(NetplanError, match=r"eth0 lost its address 172.20.0.3/16; the default route"):
        run(box)
    assert box.management == "172.20.0.3"
    assert not box.path.exists()
