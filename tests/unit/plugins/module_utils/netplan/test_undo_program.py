# SPDX-License-Identifier: Apache-2.0
"""The undo program, run for real in a scratch root with programs that play netplan, ip and systemctl."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest
from ansible_collections.firstlight.cluster.plugins.module_utils.confirmed_change.program import (
    FormerFile,
    parse_outcome,
    render_service,
    render_timer,
)
from ansible_collections.firstlight.cluster.plugins.module_utils.netplan.apply_methods import Way
from ansible_collections.firstlight.cluster.plugins.module_utils.netplan.undo_program import (
    Former,
    FormerLink,
    former_links,
    netplan_places,
    outcome_words,
    parse_route_arguments,
    parse_setup_states,
    render_apply,
    render_undo,
)
from hypothesis import given
from hypothesis import strategies as st

STUB = """#!/bin/sh
printf '%s' "$(basename "$0")" >>"$CALLS"
for word in "$@"; do printf ' %s' "$word" >>"$CALLS"; done
echo >>"$CALLS"
"""
IP = (
    STUB
    + """
case "$*" in
  "-4 -o addr show dev eth0") [ -e "$ROOT/eth0.gone" ] || echo "2: eth0 inet 172.29.0.10/24 brd x" ;;
  "-4 route show default") [ -e "$ROOT/eth0.gone" ] || echo "default via 172.29.0.1 dev eth0 proto static " ;;
esac
"""
)


class Stage:
    """A host in a directory: a netplan directory, a journal, and programs that write down that they were called."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.places = netplan_places(str(root))
        self.file = root / "etc/netplan/40-cx7.yaml"
        self.calls = root / "calls"
        self.undo = Path(self.places.undo)
        programs = root / "bin"
        for directory in (programs, self.file.parent, self.undo, root / "etc/systemd/system"):
            directory.mkdir(parents=True)
        for name in ("netplan", "systemctl", "sync", "sleep"):
            self.program(name, STUB)
        self.program("ip", IP)
        (self.undo / "armed").write_text("")
        Path(self.places.timer).write_text("timer")
        Path(self.places.service).write_text("service")

    def program(self, name: str, text: str) -> None:
        path = self.root / "bin" / name
        path.write_text(text)
        path.chmod(0o755)

    def run(self, program: str) -> list[str]:
        script = self.root / "program.sh"
        script.write_text(program)
        environment = {
            "PATH": f"{self.root / 'bin'}:{os.environ['PATH']}",
            "CALLS": str(self.calls),
            "ROOT": str(self.root),
        }
        subprocess.run(["sh", str(script)], env=environment, check=True, timeout=30)
        return self.calls.read_text().splitlines() if self.calls.exists() else []


@pytest.fixture
def stage(tmp_path: Path) -> Stage:
    return Stage(tmp_path)


LINKS = (
    FormerLink("eth0", ("172.29.0.10/24",), 1500, True),
    FormerLink("enp1s0f1np1", (), 1500, False),
)
ROUTES = (("default", "via", "172.29.0.1", "dev", "eth0", "proto", "static"),)
NEW = {"enp1s0f1np1": ["192.168.100.10/24"]}


def former(stage: Stage, mode: int | None = None) -> Former:
    return Former(FormerFile(str(stage.file), mode, os.getuid(), os.getgid()), LINKS, ROUTES, NEW)


def undo_program(stage: Stage, mode: int | None = None) -> str:
    return render_undo(stage.places, former(stage, mode), "0f3e", 0, 60)


def outcome(stage: Stage) -> dict[str, object]:
    found = parse_outcome(Path(stage.places.outcome).read_text())
    assert found is not None
    return found


def test_a_file_that_was_not_there_goes_and_nothing_is_left(stage: Stage) -> None:
    stage.file.write_text("new")
    calls = stage.run(undo_program(stage))
    assert not stage.file.exists()
    assert not stage.undo.exists()
    assert not Path(stage.places.timer).exists()
    assert not Path(stage.places.service).exists()
    assert calls.index("netplan apply") < calls.index("ip addr del 192.168.100.10/24 dev enp1s0f1np1")
    assert "ip link set dev enp1s0f1np1 mtu 1500" in calls
    assert "ip link set dev enp1s0f1np1 down" in calls
    assert "systemctl disable firstlight-netplan-undo.timer" in calls
    assert "systemctl daemon-reload" in calls
    assert not [call for call in calls if call.startswith(("ip addr add", "ip route replace"))]
    found = outcome(stage)
    assert found["undone"]
    assert found["alone"]
    assert found["reason"] == "the controller did not come back within 60 s"


def test_the_former_file_comes_back_byte_for_byte(stage: Stage) -> None:
    content = b"# by hand\r\nnetwork: {version: 2}\xff\n"
    (stage.undo / "former").write_bytes(content)
    stage.file.write_text("new")
    stage.run(undo_program(stage, 0o640))
    assert stage.file.read_bytes() == content
    assert stage.file.stat().st_mode & 0o7777 == 0o640
    assert [path.name for path in stage.file.parent.iterdir()] == ["40-cx7.yaml"]


@pytest.mark.hostile
def test_a_full_disk_does_not_keep_the_former_file_away(stage: Stage) -> None:
    (stage.undo / "former").write_text("former")
    (stage.undo / "keep").mkdir()
    stage.file.write_text("new")
    stage.program("cp", STUB + 'printf half >"$2"\necho "cp: No space left on device" >&2\nexit 1\n')
    stage.run(undo_program(stage, 0o640))
    assert stage.file.read_text() == "former"
    assert stage.file.stat().st_mode & 0o7777 == 0o640
    assert outcome(stage)["undone"]
    assert not stage.undo.exists()


def test_what_netplan_does_not_bring_back_is_added_by_hand(stage: Stage) -> None:
    (stage.root / "eth0.gone").write_text("")
    calls = stage.run(undo_program(stage))
    assert calls.count("sleep 1") == 10
    assert "ip link set dev eth0 up" in calls
    assert "ip addr add 172.29.0.10/24 dev eth0" in calls
    assert "ip route replace default via 172.29.0.1 dev eth0 proto static" in calls
    found = outcome(stage)
    assert found["readded"] == ["172.29.0.10/24 on eth0", "route default via 172.29.0.1 dev eth0 proto static"]
    assert "the next reboot removes it" in outcome_words(found, "/etc/netplan/40-cx7.yaml")


def test_a_netplan_that_fails_is_told_and_the_rest_is_still_done(stage: Stage) -> None:
    stage.program("netplan", STUB + "echo 'systemd-networkd is not running' >&2\nexit 3\n")
    stage.file.write_text("new")
    stage.run(undo_program(stage))
    assert not stage.file.exists()
    found = outcome(stage)
    assert not found["undone"]
    assert found["problem"] == "netplan apply returned 3: systemd-networkd is not running"
    assert "host's console" in outcome_words(found, "/f")


def test_a_kept_file_that_is_lost_does_not_take_the_present_one_along(stage: Stage) -> None:
    stage.file.write_text("new")
    stage.run(undo_program(stage, 0o600))
    assert stage.file.read_text() == "new"
    assert "could not be put back" in str(outcome(stage)["problem"])
    # What is left is enough to try again.
    assert (stage.undo / "undoing").exists()


def test_a_confirmed_change_is_not_taken_back(stage: Stage) -> None:
    (stage.undo / "armed").rename(stage.undo / "confirmed")
    stage.file.write_text("new")
    assert stage.run(undo_program(stage)) == []
    assert stage.file.read_text() == "new"
    assert not Path(stage.places.outcome).exists()


def test_an_undo_that_a_power_cut_interrupted_goes_on(stage: Stage) -> None:
    (stage.undo / "armed").rename(stage.undo / "undoing")
    stage.file.write_text("new")
    stage.run(undo_program(stage))
    assert not stage.file.exists()
    assert outcome(stage)["undone"]


def test_the_reason_of_an_undo_that_was_asked_for(stage: Stage) -> None:
    (stage.undo / "reason").write_text("link fab0 has mtu 1500; $(touch pwned) `x`\nsecond line\n")
    stage.run(undo_program(stage))
    found = outcome(stage)
    assert found["reason"] == "link fab0 has mtu 1500; $(touch pwned) `x`"
    assert not found["alone"]
    assert not list(stage.root.rglob("pwned"))


def test_odd_names_stay_words(tmp_path: Path) -> None:
    stage = Stage(tmp_path / "a b'c$(x)")
    stage.file.write_text("new")
    odd = Former(FormerFile(str(stage.file)), (FormerLink("e$(id)", ("1.2.3.4/8",), 1500, True),), (), {"e$(id)": []})
    calls = stage.run(render_undo(stage.places, odd, "x'y", 0, 5))
    assert "ip link set dev e$(id) mtu 1500" in calls
    assert not stage.file.exists()


def test_the_apply_program_leaves_word(stage: Stage) -> None:
    stage.program("netplan", STUB + "echo 'cannot' >&2\nexit 4\n")
    calls = stage.run(render_apply(stage.places, [["ip", "link", "set", "dev", "p0", "mtu", "1500"]]))
    assert calls == ["sleep 1", "netplan apply", "ip link set dev p0 mtu 1500"]
    assert (stage.undo / "apply.rc").read_text() == "4\n"
    assert (stage.undo / "apply.log").read_text() == "cannot\n"
    assert not (stage.undo / "apply.rc.new").exists()


BESIDE_WIFI = Way(spared={"wlP9s9": "Home"}, manager=("enp1s0f1np1",), former={"enp1s0f1np1": "77e0a4c2"})
NMCLI = (
    STUB
    + """
case "$*" in
  *"device status") [ -e "$ROOT/let.go" ] && echo "enp1s0f1np1:unmanaged" || echo "enp1s0f1np1:connected" ;;
  "device set enp1s0f1np1 managed no") touch "$ROOT/let.go" ;;
esac
"""
)


def with_managers(stage: Stage) -> Stage:
    stage.program("nmcli", NMCLI)
    stage.program("networkctl", STUB)
    return stage


def test_beside_a_wifi_the_ports_are_put_in_force_without_netplan_apply(stage: Stage) -> None:
    calls = with_managers(stage).run(render_apply(stage.places, [], BESIDE_WIFI))
    assert calls == [
        "sleep 1",
        "netplan generate",
        "nmcli connection reload",
        "nmcli device set enp1s0f1np1 managed yes",
        "nmcli --wait 0 connection up id netplan-enp1s0f1np1 ifname enp1s0f1np1",
    ]
    assert (stage.undo / "apply.rc").read_text() == "0\n"


def test_beside_a_wifi_the_undo_leaves_it_alone_as_well(stage: Stage) -> None:
    stage.file.write_text("new")
    way = Former(FormerFile(str(stage.file)), LINKS, ROUTES, NEW, BESIDE_WIFI)
    calls = with_managers(stage).run(render_undo(stage.places, way, "0f3e", 0, 60))
    assert not stage.file.exists()
    assert "netplan apply" not in calls
    order = [
        "netplan generate",
        "nmcli connection reload",
        "nmcli --wait 0 connection up uuid 77e0a4c2 ifname enp1s0f1np1",
    ]
    assert [call for call in calls if call in order] == order
    assert "ip addr del 192.168.100.10/24 dev enp1s0f1np1" in calls
    assert outcome(stage)["undone"]


def test_files_that_netplan_refuses_touch_no_port(stage: Stage) -> None:
    stage.program("netplan", STUB + "echo 'Error in network definition' >&2\nexit 78\n")
    assert with_managers(stage).run(render_apply(stage.places, [], BESIDE_WIFI)) == ["sleep 1", "netplan generate"]
    assert (stage.undo / "apply.rc").read_text() == "78\n"
    way = Former(FormerFile(str(stage.file)), LINKS, ROUTES, NEW, BESIDE_WIFI)
    stage.run(render_undo(stage.places, way, "0f3e", 0, 60))
    assert outcome(stage)["problem"] == "netplan generate returned 78: Error in network definition"


def test_networkd_gets_a_port_once_networkmanager_has_let_it_go(stage: Stage) -> None:
    way = Way(spared={"wlP9s9": "Home"}, networkd=("enp1s0f1np1",), let_go=("enp1s0f1np1",))
    calls = with_managers(stage).run(render_apply(stage.places, [], way))
    assert calls[1:] == [
        "netplan generate",
        "nmcli device set enp1s0f1np1 managed no",
        "nmcli --terse --fields DEVICE,STATE device status",
        "systemctl --quiet is-active systemd-networkd.service",
        "networkctl reload",
        "networkctl reconfigure enp1s0f1np1",
        "nmcli connection reload",
    ]


def test_a_networkmanager_that_does_not_let_go_is_not_waited_for_for_ever(stage: Stage) -> None:
    way = Way(networkd=("enp1s0f1np1",), let_go=("enp1s0f1np1",))
    stage = with_managers(stage)
    stage.program("nmcli", STUB)
    calls = stage.run(render_apply(stage.places, [], way))
    assert calls.count("sleep 0.5") == 20
    assert calls[-1] == "netplan apply"


def test_a_networkd_that_does_not_run_is_started(stage: Stage) -> None:
    stage = with_managers(stage)
    stage.program("systemctl", STUB + 'case "$*" in *is-active*) exit 3 ;; esac\n')
    way = Way(spared={"wlP9s9": "Home"}, networkd=("enp1s0f1np1",))
    calls = stage.run(render_apply(stage.places, [], way))
    assert "systemctl start systemd-networkd.service" in calls
    assert not [call for call in calls if call.startswith("networkctl")]


def test_the_units() -> None:
    assert "ExecStart=/bin/sh /var/lib/firstlight/netplan/undo/undo.sh\n" in render_service(netplan_places())
    assert "OnActiveSec=60s\n" in render_timer(60, "network change")
    assert "WantedBy=timers.target\n" in render_timer(60, "network change")


@pytest.mark.parametrize("text", [None, "", "nonsense", "change=1\nresult=maybe\n", "result=undone\n"])
def test_no_outcome(text: str | None) -> None:
    assert parse_outcome(text) is None


def test_routes_as_they_can_be_made_again() -> None:
    text = (
        '[{"dst":"default","gateway":"10.0.0.1","dev":"eth0","protocol":"dhcp","prefsrc":"10.0.0.5","metric":100,'
        '"flags":["onlink"]},{"dst":"default","dev":"ppp0","flags":[]},{"dst":"default"}]'
    )
    first = ("default", "via", "10.0.0.1", "dev", "eth0", "proto", "dhcp", "src", "10.0.0.5", "metric", "100", "onlink")
    assert parse_route_arguments(text) == (first, ("default", "dev", "ppp0"))
    assert parse_route_arguments("Error") == ()


def test_the_ports_that_an_undo_answers_for() -> None:
    links = {
        "lo": {"addresses": ["127.0.0.1/8"], "mtu": 65536, "up": True},
        "docker0": {"addresses": ["172.17.0.1/16"], "mtu": 1500, "up": True},
        "eth0": {"addresses": ["10.0.0.5/24", "fd00::5/64"], "mtu": 1500, "up": False, "admin_up": True},
    }
    assert former_links(links) == (FormerLink("eth0", ("10.0.0.5/24",), 1500, True),)


def test_how_far_networkd_is() -> None:
    text = "  1 lo    loopback carrier  unmanaged\n  2 eth0  ether    routable configuring\nodd\n"
    assert parse_setup_states(text) == {"lo": "unmanaged", "eth0": "configuring"}


@given(st.text(alphabet="abc/ '\"$`\\;&|*?!~#\n", max_size=12), st.integers(0, 2**31), st.integers(1, 9999))
def test_every_program_is_a_program(name: str, armed_at: int, timeout: int) -> None:
    """Whatever a name is, the shell reads the program as meant."""
    places = netplan_places(f"/r{name}")
    for way in (Way(), Way({"w": name}, (name,), (name,), (name,), (name,), {name: name})):
        former = Former(FormerFile(f"/f{name}", 0o600), LINKS, ROUTES, NEW, way)
        for text in (render_undo(places, former, name, armed_at, timeout), render_apply(places, [], way)):
            read = subprocess.run(["sh", "-n"], input=text, text=True, capture_output=True, check=False)
            assert read.returncode == 0
