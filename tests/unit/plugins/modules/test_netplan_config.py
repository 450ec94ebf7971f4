# SPDX-License-Identifier: Apache-2.0
"""netplan_config against a host that plays netplan: what is evaluated, written, applied, confirmed and taken back."""

from __future__ import annotations

import json
import os
import signal
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml
from ansible_collections.firstlight.cluster.plugins.module_utils.confirmed_change.change import ChangeError
from ansible_collections.firstlight.cluster.plugins.module_utils.netplan.change import Changer
from ansible_collections.firstlight.cluster.plugins.module_utils.netplan.netplan_host import NetplanError

from tests.unit.fake_host import Call, FakeHost, Reply, failure

CONTENT = (
    "# Managed by Firstlight: test\n"
    "network: {version: 2, ethernets: {fab0: {dhcp4: false, mtu: 9000, addresses: [192.168.100.10/24]}}}\n"
)
PORTS = [{"port": "fab0", "address": "192.168.100.10/24", "mtu": 9000}]
BY_HAND = "network: {version: 2, ethernets: {fab0: {addresses: [192.168.100.77/24]}}}\n"


def units_of(directory: Path) -> dict[str, str]:
    """What netplan makes of the files in a directory, as far as needed here: lists add up, the last value wins."""
    ethernets: dict[str, dict[str, Any]] = {}
    for file in sorted(directory.glob("*.yaml")):
        for name, stanza in (yaml.safe_load(file.read_text())["network"].get("ethernets") or {}).items():
            known = ethernets.setdefault(name, {"addresses": []})
            known.update({key: value for key, value in stanza.items() if key != "addresses"})
            known["addresses"] += [item for item in stanza.get("addresses", []) if item not in known["addresses"]]
    found = {}
    for name, stanza in ethernets.items():
        subject = (stanza.get("match") or {}).get("name", name)
        link = f"[Link]\nMTUBytes={stanza['mtu']}\n" if stanza.get("mtu") else ""
        lines = [f"Address={address}\n" for address in stanza["addresses"]]
        lines += ["DHCP=ipv4\n"] if stanza.get("dhcp4") else []
        found[f"10-netplan-{name}.network"] = f"[Match]\nName={subject}\n{link}[Network]\n{''.join(lines)}"
    return found


class Box(FakeHost):
    """A host with a management port and one fabric port, and a netplan that does as it is told."""

    def __init__(self, root: Path) -> None:
        super().__init__()
        self.root = root
        self.place = root / "etc/netplan"
        self.path = self.place / "40-cx7.yaml"
        self.mtu, self.addresses = 1500, list[str]()
        self.management = "172.20.0.3"
        self.generate_error = ""
        self.apply_code = 0
        self.on_apply: Callable[[], None] = self.obey
        self.applied: list[str | None] = []
        self.broken: set[str] = set()
        self.devices: str | None = None
        """What NetworkManager has; None where there is none."""
        self.generators = ["/usr/libexec/netplan/generate"]
        """The programs behind `netplan generate` that this host has."""
        self.programs: list[str] = []
        """Every program that a rendered one called."""

    def has(self, program: str) -> bool:
        return program in self.generators or (program == "nmcli" and self.devices is not None)

    @property
    def in_force(self) -> Path:
        return self.root / "run/systemd/network"

    def generate(self, source: Path, target: Path) -> None:
        for old in target.glob("10-netplan-*"):
            old.unlink()
        for name, text in units_of(source).items():
            (target / name).write_text(text)

    def obey(self) -> None:
        self.generate(self.place, self.in_force)
        text = (self.in_force / "10-netplan-fab0.network").read_text() if self.configures_fab0() else ""
        self.addresses = [line[8:] for line in text.splitlines() if line.startswith("Address=")]
        self.mtu = 1500  # as the commands after `netplan apply` leave it
        for line in text.splitlines():
            self.mtu = int(line[9:]) if line.startswith("MTUBytes=") else self.mtu

    def configures_fab0(self) -> bool:
        return (self.in_force / "10-netplan-fab0.network").exists()

    def answer(self, call: Call) -> Reply:
        if call.line in self.broken:
            return failure("broken")
        match call.argv:
            case ("ip", "-d", "-j", "addr", "show"):
                return self._links()
            case ("ip", "-j", "-4", "route", *_):
                route = [{"dst": "default", "gateway": "172.20.0.1", "dev": "eth0"}] if self.management else []
                return json.dumps(route)
            case ("nmcli", "--terse", *_):
                return self.devices or ""
            case ("networkctl", *_):
                return "  2 fab0 ether routable configured\n"
            case (*_, "--root-dir", scratch):
                if self.generate_error:
                    return failure(self.generate_error)
                target = Path(scratch, "run/systemd/network")
                target.mkdir(parents=True)
                self.generate(Path(scratch, "etc/netplan"), target)
                return 0
            case ("systemctl", "start", "firstlight-netplan-undo.service"):
                return self._program("undo.sh")
            case ("systemd-run", *_):
                return self._program("apply.sh")
            case ("systemctl", *_):
                return 0
        return super().answer(call)

    def _program(self, name: str) -> int:
        """Run a rendered program with programs of our own; then do what netplan would have done."""
        stub = self.root / "bin"
        stub.mkdir(exist_ok=True)
        calls = self.root / "calls"
        for program in ("ip", "systemctl", "sync", "sleep", "netplan", "nmcli", "networkctl"):
            code = self.apply_code if program == "netplan" else 0
            (stub / program).write_text(f'#!/bin/sh\necho {program} "$*" >>{calls}\nexit {code}\n')
            (stub / program).chmod(0o755)
        # `ip` finds everything there, so that nothing is added by hand.
        (stub / "ip").write_text("#!/bin/sh\necho 'inet 172.20.0.3/16 default via 172.20.0.1 dev eth0 '\n")
        environment = {"PATH": f"{stub}:{os.environ['PATH']}"}
        script = self.root / "var/lib/firstlight/netplan/undo" / name
        subprocess.run(["sh", str(script)], check=True, timeout=30, env=environment)
        self.programs += calls.read_text().splitlines()
        calls.unlink()
        self.applied.append(self.path.read_text() if self.path.exists() else None)
        self.on_apply()
        return 0

    def _links(self) -> str:
        def link(name: str, mtu: int, addresses: list[str]) -> dict[str, Any]:
            found = [
                {"family": "inet", "local": text.split("/")[0], "prefixlen": int(text.split("/")[1]), "scope": "global"}
                for text in addresses
            ]
            flags = ["BROADCAST", "UP", "LOWER_UP"]
            return {"ifname": name, "mtu": mtu, "flags": flags, "operstate": "UP", "addr_info": found}

        management = [f"{self.management}/16"] if self.management else []
        return json.dumps([link("eth0", 1500, management), link("fab0", self.mtu, self.addresses)])


@pytest.fixture
def box(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Box:
    monkeypatch.setattr("signal.signal", lambda *_: signal.SIG_DFL)
    monkeypatch.setattr("time.sleep", lambda _: None)
    box = Box(tmp_path)
    for directory in (box.place, box.in_force, tmp_path / "etc/systemd/system"):
        directory.mkdir(parents=True)
    (box.place / "01-network.yaml").write_text("network: {version: 2, renderer: networkd}\n")
    (box.place / "notes.txt").write_text("not netplan's\n")
    return box


def changer(box: Box, **changes: Any) -> Changer:
    params = {
        "path": str(box.path),
        "state": "present",
        "content": CONTENT,
        "ports": PORTS,
        "timeout": 0,
        "confirm_timeout": 60,
        "adopt": False,
        "apply_others": False,
        "change": None,
        **changes,
    }
    return Changer(params, box, root=str(box.root))


def run(box: Box, *, check: bool = False, **changes: Any) -> dict[str, Any]:
    """All steps, as the action takes them."""
    result = changer(box, **changes).apply(check_mode=check)
    if "change" in result:
        later = {**changes, "change": result["change"]}
        found = changer(box, **later).check()
        assert not found["waiting"]
        if not found["works"]:
            raise ChangeError(json.dumps(found["outcome"]))
        assert changer(box, **later).confirm()["works"]
    return result


def left(box: Box) -> list[str]:
    """Everything of a change that is still there."""
    places = [box.root / "var/lib/firstlight/netplan", box.root / "etc/systemd/system"]
    found = [path.name for place in places if place.exists() for path in place.iterdir()]
    return sorted([*found, *(path.name for path in box.place.iterdir() if path.name.startswith("."))])


def test_first_time(box: Box) -> None:
    result = run(box)
    assert result["changed"]
    assert result["diff"][0]["after"] == CONTENT
    assert result["diff"][1]["before"] == "fab0: mtu 1500, no address\n"
    assert result["diff"][1]["after"] == "fab0: mtu 9000, 192.168.100.10/24\n"
    assert box.applied == [CONTENT]
    assert box.path.stat().st_mode & 0o7777 == 0o600
    assert left(box) == ["before.json"]


def test_the_timer_is_armed_before_anything_is_written(box: Box) -> None:
    box.broken.add("systemctl enable --now firstlight-netplan-undo.timer")
    with pytest.raises(ChangeError, match=r"cannot be prepared, nothing was changed: systemctl enable failed"):
        run(box)
    assert not box.path.exists()
    assert box.applied == []
    assert left(box) == []


def test_second_time_changes_nothing(box: Box) -> None:
    run(box)
    result = run(box)
    assert not result["changed"]
    assert (result["differences"], result["diff"]) == ([], [])
    assert box.applied == [CONTENT]


def test_check_mode_evaluates_but_does_not_write(box: Box) -> None:
    result = run(box, check=True)
    assert result["changed"]
    assert not box.path.exists()
    assert left(box) == []
    (box.place / "60-x.yaml").write_text(BY_HAND)
    with pytest.raises(NetplanError, match=r"60-x\.yaml gives fab0 the address 192\.168\.100\.77/24"):
        run(box, check=True)


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
    assert not box.path.exists()


@pytest.mark.parametrize(
    ("there", "used"),
    [
        (["/usr/libexec/netplan/generate", "/lib/netplan/generate"], "/usr/libexec/netplan/generate"),
        (["/usr/libexec/netplan/configure", "/usr/libexec/netplan/generate"], "/usr/libexec/netplan/configure"),
        ([], "netplan generate"),
    ],
)
def test_files_are_evaluated_without_a_reload_of_systemd(box: Box, there: list[str], used: str) -> None:
    """`netplan generate` of 1.1 reloads it, which makes what was never applied look as if it were in force."""
    box.generators = there
    run(box, check=True)
    lines = [call.line for call in box.calls if "--root-dir" in call.line]
    assert lines
    assert all(line.startswith(f"{used} --root-dir ") for line in lines)


def test_a_missing_port_changes_nothing(box: Box) -> None:
    with pytest.raises(NetplanError, match=r"no port fab9, nothing was changed; it has eth0, fab0"):
        run(box, ports=[{**PORTS[0], "port": "fab9"}])
    assert box.applied == []


def test_a_rail_in_the_network_of_another_port_changes_nothing(box: Box) -> None:
    box.management = "192.168.7.3"  # with a prefix of 16, which takes in the rail's network
    with pytest.raises(NetplanError, match=r"fab0 would be in 192\.168\.100\.0/24, where eth0 has 192\.168\.7\.3/16"):
        run(box)
    assert not box.path.exists()


@pytest.mark.parametrize(
    ("stanza", "words"),
    [
        ("fab0: {addresses: [10.0.0.9/24]}", r"gives fab0 the address 10\.0\.0\.9/24\. Expected"),
        ("fab0: {dhcp4: true, mtu: 1500}", r"gives fab0 DHCP \(ipv4\), MTU 1500\. Expected"),
        ("all: {match: {name: 'fab*'}, dhcp4: true}", r"gives fab0 a stanza for fab\* that takes it before ours"),
    ],
)
def test_another_file_is_named(box: Box, stanza: str, words: str) -> None:
    (box.place / "50-cloud-init.yaml").write_text(f"network: {{version: 2, ethernets: {{{stanza}}}}}\n")
    with pytest.raises(NetplanError, match=r"nothing was changed: /etc/netplan/50-cloud-init\.yaml " + words):
        run(box)
    assert not box.path.exists()
    assert left(box) == []


def test_an_earlier_file_that_ours_overrides_does_no_harm(box: Box) -> None:
    (box.place / "01-network.yaml").write_text("network: {version: 2, ethernets: {fab0: {dhcp4: true, mtu: 1500}}}\n")
    assert run(box)["changed"]


def test_a_unit_of_the_hosts_own_is_named(box: Box) -> None:
    own = box.root / "etc/systemd/network"
    own.mkdir(parents=True)
    (own / "05-all.network").write_text("[Match]\nName=*\n[Network]\nDHCP=yes\n")
    with pytest.raises(NetplanError, match=r"05-all\.network \(\*\) would take it before our file"):
        run(box)


def test_files_that_were_never_applied_are_named(box: Box) -> None:
    (box.place / "70-x.yaml").write_text("network: {version: 2, ethernets: {eth0: {addresses: [10.5.5.5/24]}}}\n")
    with pytest.raises(NetplanError, match=r"would have the address 10\.5\.5\.5/24 \(/etc/netplan/70-x\.yaml\)"):
        run(box)
    assert not box.path.exists()
    assert run(box, apply_others=True)["changed"]


def test_a_port_that_does_not_come_up_is_taken_back_at_once(box: Box) -> None:
    box.on_apply = lambda: None
    with pytest.raises(ChangeError) as caught:
        run(box)
    outcome = json.loads(str(caught.value))
    assert "link fab0 has mtu 1500" in outcome["reason"]
    assert outcome["undone"]
    assert not outcome["alone"]
    assert not box.path.exists()
    assert left(box) == ["outcome"]
    changer(box).forget()
    assert left(box) == []


def test_a_change_that_costs_the_management_address_is_taken_back(box: Box) -> None:
    def cut() -> None:
        box.obey()
        box.management = "" if box.path.exists() else "172.20.0.3"

    box.on_apply = cut
    with pytest.raises(ChangeError, match=r"eth0 lost its address 172\.20\.0\.3/16; the default route"):
        run(box)
    assert box.management == "172.20.0.3"
    assert not box.path.exists()


def test_an_apply_that_fails_is_taken_back(box: Box) -> None:
    box.apply_code = 78
    with pytest.raises(ChangeError, match="netplan apply returned 78"):
        run(box)
    assert not box.path.exists()


def test_an_interrupted_run_is_taken_back_first(box: Box) -> None:
    started = changer(box).apply(check_mode=False)
    assert box.path.exists()
    assert "pending" in changer(box).apply(check_mode=True)["warnings"][0]
    result = run(box)
    assert "rolled back first" in result["warnings"][0]
    assert result["changed"]
    assert box.applied == [CONTENT, None, CONTENT]
    assert left(box) == ["before.json"]
    # Whoever still waits for the former change learns that it is not there any more.
    assert changer(box, change=started["change"]).check()["works"]


@pytest.mark.hostile
def test_a_change_of_another_run_is_left_alone_until_that_run_is_known_to_be_over(box: Box) -> None:
    started = changer(box, run="theirs").begin(check_mode=False)["change"]
    told = {"changed": False, "busy": {"change": started, "run": "theirs"}}
    assert changer(box, run="mine").begin(check_mode=False) == told
    assert changer(box, run="mine", ended="another change").begin(check_mode=False) == told
    assert box.path.exists(), "it is still in force"
    assert changer(box, change=started).check()["works"]
    assert "pending" in changer(box, run="mine").begin(check_mode=True)["warnings"][0]
    assert changer(box, change=started).confirm()["works"]
    # Kept by then, it is no leftover.
    assert not changer(box, run="mine").begin(check_mode=False)["changed"]


@pytest.mark.hostile
@pytest.mark.parametrize("known", [{"run": "theirs"}, {"run": "mine", "ended": "ended"}], ids=["its own", "over"])
def test_a_change_whose_run_is_over_is_taken_back_first(box: Box, known: dict[str, str]) -> None:
    started = changer(box, run="theirs").begin(check_mode=False)["change"]
    known = {name: started if value == "ended" else value for name, value in known.items()}
    assert "rolled back first" in changer(box, **known).begin(check_mode=False)["warnings"][0]


def test_an_undo_that_nobody_read_is_told(box: Box) -> None:
    changer(box).apply(check_mode=False)
    box.run(["systemctl", "start", "firstlight-netplan-undo.service"])
    result = run(box)
    assert "An earlier change was rolled back: the controller did not come back within 60 s" in result["warnings"][0]


def test_the_timer_waits_as_long_as_the_run_says(box: Box) -> None:
    changer(box, confirm_timeout=7).apply(check_mode=False)
    timer = box.root / "etc/systemd/system/firstlight-netplan-undo.timer"
    assert "OnActiveSec=7s\n" in timer.read_text()


def test_a_confirmation_that_comes_late_learns_of_the_undo(box: Box) -> None:
    change = changer(box).apply(check_mode=False)["change"]
    assert changer(box, change=change).check()["works"]
    box.run(["systemctl", "start", "firstlight-netplan-undo.service"])  # the timer
    found = changer(box, change=change).confirm()
    assert not found["works"]
    assert found["outcome"]["alone"]
    assert not box.path.exists()


def test_a_confirmation_whose_answer_got_lost_is_still_one(box: Box) -> None:
    change = changer(box).apply(check_mode=False)["change"]
    assert changer(box, change=change).confirm()["works"]
    assert changer(box, change=change).confirm()["works"]
    assert box.path.exists()


def test_a_look_before_netplan_is_done_waits(box: Box) -> None:
    change = changer(box).apply(check_mode=False)["change"]
    (box.root / "var/lib/firstlight/netplan/undo/apply.rc").unlink()
    assert changer(box, change=change).check()["waiting"]


def test_a_file_by_hand_in_our_place(box: Box) -> None:
    box.path.write_text(BY_HAND)
    box.path.chmod(0o644)
    with pytest.raises(NetplanError, match=r"not written by Firstlight, nothing was changed.*fabric_network_adopt"):
        run(box)
    assert run(box, adopt=True)["changed"]
    assert box.path.read_text() == CONTENT
    assert left(box) == ["adopted", "adopted.json", "before.json"]
    assert run(box, state="absent")["changed"]
    assert box.path.read_text() == BY_HAND
    assert box.path.stat().st_mode & 0o7777 == 0o644
    assert left(box) == []
    assert not run(box, state="absent")["changed"]
    assert box.path.read_text() == BY_HAND


def test_a_file_by_hand_that_has_other_ports_too_is_not_taken_over(box: Box) -> None:
    box.path.write_text("network: {version: 2, ethernets: {fab0: {}, eth0: {addresses: [172.20.0.3/16]}}}\n")
    with pytest.raises(NetplanError, match="it also configures eth0, which would lose that"):
        run(box, adopt=True)


def test_removal(box: Box) -> None:
    run(box)
    preview = run(box, state="absent", check=True)
    assert preview["changed"]
    assert box.path.exists()
    result = run(box, state="absent")
    assert result["diff"][0] == {
        "before_header": str(box.path),
        "after_header": str(box.path),
        "before": CONTENT,
        "after": "",
    }
    assert result["diff"][1]["after"] == "fab0: mtu 1500, no address\n"
    assert not box.path.exists()
    assert left(box) == []
    assert not run(box, state="absent")["changed"]


def test_ports_that_leave_the_file_are_given_back(box: Box) -> None:
    run(box)
    assert changer(box, content="network: {version: 2}\n", ports=[]).apply(check_mode=False)["changed"]
    program = (box.root / "var/lib/firstlight/netplan/undo/apply.sh").read_text()
    assert "ip addr del 192.168.100.10/24 dev fab0" in program
    assert "ip link set dev fab0 mtu 1500" in program


# --- beside NetworkManager -------------------------------------------------------------------------------------------
WIFI = "eth0:wifi:connected:2c0a9d1e:Home\nfab0:ethernet:connected:77e0a4c2:Wired connection 2\n"
KEYFILE = "[connection]\nid=netplan-NM-2c0a9d1e-Home\ntype=wifi\n"


@pytest.fixture
def spark(box: Box, monkeypatch: pytest.MonkeyPatch) -> Box:
    """A host that is managed over Wi-Fi, of which netplan has the keyfile; eth0 plays the Wi-Fi."""
    monkeypatch.setenv("SSH_CONNECTION", "172.20.0.9 50022 172.20.0.3 22")
    box.devices = WIFI
    keyfiles = box.root / "run/NetworkManager/system-connections"
    keyfiles.mkdir(parents=True)
    (keyfiles / "netplan-NM-2c0a9d1e-Home.nmconnection").write_text(KEYFILE)
    return box


def asked(box: Box) -> list[str]:
    """What was asked of those who configure networks."""
    return [line for line in box.programs if line.startswith(("netplan", "nmcli", "networkctl"))]


def test_a_host_that_is_managed_over_wifi_keeps_it(spark: Box) -> None:
    result = run(spark)
    assert result["changed"]
    assert asked(spark) == [
        "netplan generate",
        "nmcli device set fab0 managed no",
        *["nmcli --terse --fields DEVICE,STATE device status"] * 21,
        "networkctl reload",
        "networkctl reconfigure fab0",
        "nmcli connection reload",
    ]
    assert result["notes"][0].startswith(
        "NetworkManager runs eth0 (Home, over which this run came), which `netplan apply`"
    )


def test_check_mode_says_so_before(spark: Box) -> None:
    assert "over which this run came" in run(spark, check=True)["notes"][0]
    assert spark.programs == []


def test_the_undo_keeps_the_wifi_as_well(spark: Box) -> None:
    spark.on_apply = lambda: None
    with pytest.raises(ChangeError, match="s after netplan generate: link fab0 has mtu 1500"):
        run(spark)
    assert "netplan apply" not in asked(spark)
    assert asked(spark)[-3:] == [
        "nmcli device set fab0 managed yes",
        "nmcli connection reload",
        "nmcli --wait 0 connection up uuid 77e0a4c2 ifname fab0",
    ]


def test_a_networkmanager_without_other_connections_is_no_reason(box: Box) -> None:
    box.devices = "eth0:ethernet:unmanaged::\nfab0:ethernet:unmanaged::\n"
    assert run(box)["notes"] == []
    assert asked(box) == ["netplan apply"]


@pytest.mark.parametrize(("address", "refused"), [("192.168.100.5", True), ("192.168.100.10", False)])
def test_a_rail_on_the_port_that_the_run_came_over(
    box: Box, monkeypatch: pytest.MonkeyPatch, address: str, refused: bool
) -> None:
    monkeypatch.setenv("SSH_CONNECTION", f"192.168.100.1 50022 {address} 22")
    box.addresses = [f"{address}/24"]
    if refused:
        with pytest.raises(
            NetplanError, match=r"This run came over fab0, which has 192\.168\.100\.5 and would have 192"
        ):
            run(box)
        assert not box.path.exists()
    else:
        assert run(box)["changed"]
