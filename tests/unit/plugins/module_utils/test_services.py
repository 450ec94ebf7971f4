# SPDX-License-Identifier: Apache-2.0
"""Files are written, systemd reads them, units start: in this order, in one go, and only where something differs."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path
from typing import Any

import pytest
from ansible_collections.firstlight.cluster.plugins.module_utils.host import Result
from ansible_collections.firstlight.cluster.plugins.module_utils.problems import SettingsError
from ansible_collections.firstlight.cluster.plugins.module_utils.services import Around, Services

from tests.unit.fake_host import Call, Reply
from tests.unit.plugins.module_utils.tuning.conftest import CutTree, Machine, Rack, rack

__all__ = ["rack"]

UNIT = "/etc/systemd/system/one.service"
CONFIG = "/etc/firstlight/one.json"
PROGRAM = "/usr/local/lib/firstlight/one.pyz"
CONTENTS = {PROGRAM: b"PK\x03\x04\xff\x00print()\n"}
BY_ROOT: dict[str, Any] = {"mode": "0644"}  # tests do not run as root: no owner is asked for
DESIRED: dict[str, Any] = {
    "files": {
        PROGRAM: {"sha256": hashlib.sha256(CONTENTS[PROGRAM]).hexdigest(), **BY_ROOT},
        CONFIG: {"content": "{}\n", **BY_ROOT},
        UNIT: {"content": "[Service]\n", **BY_ROOT},
        "/etc/firstlight/one.token": {"secret": True, "mode": "0600", "same_as": "head"},
    },
    "units": {"one.service": {"enabled": True, "active": True}},
    "groups": {"server": {"phase": "serving"}},
}


def services(machine: Machine, **more: Any) -> Services:
    return Services(machine, CutTree(machine), **more)


def done(machine: Machine, since: int) -> list[str]:
    return [words for words in machine.did[since:] if " show" not in words]


def test_files_come_before_the_reload_and_units_start_last(rack: Rack) -> None:
    machine = rack.machine()
    result = services(machine).converge(DESIRED, CONTENTS)
    assert result["changed"]
    assert {path: machine.place(path).read_bytes() for path in (PROGRAM, CONFIG, UNIT)} == {
        **CONTENTS,
        CONFIG: b"{}\n",
        UNIT: b"[Service]\n",
    }
    assert machine.place(CONFIG).stat().st_mode & 0o777 == 0o644
    assert machine.place("/usr/local/lib/firstlight").stat().st_mode & 0o777 == 0o755
    assert done(machine, 0) == [
        "systemctl daemon-reload",
        "systemctl enable one.service",
        "systemctl start one.service",
    ]
    assert not machine.place("/etc/firstlight/one.token").exists()


def test_a_second_call_does_nothing(rack: Rack) -> None:
    machine = rack.machine()
    services(machine).converge(DESIRED, CONTENTS)
    before, ran = machine.everything(), len(machine.did)
    result = services(machine).converge(DESIRED, CONTENTS)
    assert (result["changed"], result["differences"], result["diff"]) == (False, [], [])
    assert machine.everything() == before
    assert done(machine, ran) == []


def test_check_mode_tells_all_of_it_and_changes_nothing(rack: Rack) -> None:
    machine = rack.machine()
    machine.write(PROGRAM, "print(1)\n")
    before = machine.everything()
    result = services(machine).converge(DESIRED, CONTENTS, check_mode=True)
    assert machine.everything() == before
    assert result["changed"]
    assert result["differences"][1:] == [
        f"file {CONFIG} is missing, expected it to exist",
        f"file {UNIT} is missing, expected it to exist",
        "unit one.service is not installed, expected enabled yes, active yes",
    ]
    shown = {one["after_header"].partition(" ")[0]: one for one in result["diff"]}
    assert shown[CONFIG]["after"] == "{}\n"
    assert shown[PROGRAM]["before"] == hashlib.sha256(b"print(1)\n").hexdigest() + "\n"
    assert shown[PROGRAM]["after"] == hashlib.sha256(CONTENTS[PROGRAM]).hexdigest() + "\n"
    assert "unit one.service" in shown["settings"]["after"]


def test_a_unit_that_goes_is_stopped_while_its_file_is_there(rack: Rack) -> None:
    machine = rack.machine()
    services(machine).converge(DESIRED, CONTENTS)
    ran = len(machine.did)
    leaving = {"units": {"one.service": {"enabled": False, "active": False, "if_present": True}}}
    assert services(machine).converge(leaving, {}, remove=[UNIT, CONFIG, "/run/nothing"])["changed"]
    assert done(machine, ran) == [
        "systemctl disable one.service",
        "systemctl stop one.service",
        "systemctl daemon-reload",
    ]
    assert not machine.place(UNIT).exists()
    assert not machine.place(CONFIG).exists()
    assert not services(machine).converge(leaving, {}, remove=[UNIT, CONFIG])["changed"]


def test_what_goes_is_in_no_diff(rack: Rack) -> None:
    machine = rack.machine()
    machine.write("/etc/firstlight/one.token", "SECRET\n")
    result = services(machine).converge({}, {}, remove=["/etc/firstlight/one.token"], check_mode=True)
    assert result["changed"]
    assert "/etc/firstlight/one.token" in result["diff"][0]["before_header"]
    assert "SECRET" not in str(result)


def test_what_has_to_read_anew_is_restarted_only_where_it_runs(rack: Rack) -> None:
    machine = rack.machine()
    services(machine).converge(DESIRED, CONTENTS, restart=["one.service"])
    assert not [words for words in machine.did if "restart" in words]
    result = services(machine).converge(DESIRED, CONTENTS, restart=["one.service"])
    assert result["differences"] == ["unit one.service runs with its former files, expected a restart"]
    assert done(machine, 0)[-1] == "systemctl restart one.service"


MARKER = "/etc/firstlight/one.pending"
READS = Around(reload={"one.service": MARKER})


def test_what_reads_anew_is_reloaded_once_it_runs_and_its_files_changed(rack: Rack) -> None:
    machine = rack.machine()
    services(machine).converge(DESIRED, CONTENTS, around=READS)
    assert not [words for words in machine.did if "reload " in words], "who starts reads everything"
    changed = {**DESIRED, "files": {**DESIRED["files"], CONFIG: {"content": "[]\n", **BY_ROOT}}}
    ran = len(machine.did)
    result = services(machine).converge(changed, CONTENTS, around=READS)
    assert done(machine, ran) == ["systemctl reload one.service"]
    assert "unit one.service runs with its former files, expected a reload" in result["differences"]
    assert not services(machine).converge(changed, CONTENTS, around=READS)["changed"]
    assert not machine.place(MARKER).exists()


def test_what_was_not_read_because_a_run_was_cut_off_is_read_by_the_next(rack: Rack) -> None:
    machine = rack.machine()
    services(machine).converge(DESIRED, CONTENTS)
    machine.write(MARKER, "")
    assert services(machine).converge(DESIRED, CONTENTS, around=READS, check_mode=True)["changed"]
    ran = len(machine.did)
    assert services(machine).converge(DESIRED, CONTENTS, around=READS)["changed"]
    assert done(machine, ran) == ["systemctl reload one.service"]
    assert not machine.place(MARKER).exists()


def test_a_unit_that_is_restarted_is_not_reloaded_too(rack: Rack) -> None:
    machine = rack.machine()
    services(machine).converge(DESIRED, CONTENTS)
    machine.write(MARKER, "")
    services(machine).converge(DESIRED, CONTENTS, restart=["one.service"], around=READS)
    assert not [words for words in machine.did if "systemctl reload" in words]
    assert not machine.place(MARKER).exists()


class Picky(Machine):
    """A host whose program takes no configuration."""

    def answer(self, call: Call) -> Reply:
        return Result(call.argv, 1, "", "unknown directive") if call.argv[0] == "check" else super().answer(call)


def test_nothing_is_written_that_its_program_refuses(rack: Rack) -> None:
    machine = Picky(rack.machine().root / "picky")
    refused = Around(directories={"/run/one": "0711"}, validate={CONFIG: "check --quiet %s"})
    with pytest.raises(SettingsError, match=r"rejects the new /etc/firstlight/one\.json: .* unknown directive"):
        services(machine).converge(DESIRED, CONTENTS, around=refused)
    assert not machine.place(CONFIG).exists()
    assert not machine.place(UNIT).exists()
    assert machine.place("/run/one").stat().st_mode & 0o777 == 0o711


class Slow(Machine):
    """A host whose units take a while."""

    state = ("activating", "start-pre")

    def show(self, name: str) -> str:
        return super().show(name).replace("inactive\nSubState=x", "{}\nSubState={}".format(*self.state))


def test_a_unit_on_its_way_is_left_alone_where_nobody_waits(rack: Rack) -> None:
    machine = Slow(rack.machine().root / "slow")
    machine.write(UNIT, "[Service]\n")
    machine.place(UNIT).chmod(0o644)
    desired = {"files": {UNIT: DESIRED["files"][UNIT]}, "units": {"one.service": {"active": True}}}
    assert not services(machine).converge(desired, {}, no_block=True)["changed"]
    assert services(machine).converge(desired, {})["changed"]


@pytest.mark.parametrize(
    "state",
    [
        ("activating", "start-pre"),
        ("activating", "auto-restart"),
        ("activating", "auto-restart-queued"),
        ("deactivating", "stop-sigterm"),
        ("deactivating", "final-sigkill"),
    ],
)
def test_a_unit_that_systemd_is_about_to_start_is_stopped(rack: Rack, state: tuple[str, str]) -> None:
    machine = Slow(rack.machine().root / "about")
    machine.state = state
    machine.write(UNIT, "[Service]\n")
    services(machine).converge({"units": {"one.service": {"active": False}}}, {})
    assert done(machine, 0) == ["systemctl stop one.service"]


def test_a_unit_that_starts_is_not_told_to_read_anew_as_well(rack: Rack) -> None:
    machine = Slow(rack.machine().root / "crashed")
    machine.state = ("activating", "auto-restart")
    machine.write(UNIT, "[Service]\n")
    machine.place(UNIT).chmod(0o644)
    machine.write(MARKER, "")
    desired = {"files": {UNIT: DESIRED["files"][UNIT]}, "units": {"one.service": {"active": True}}}
    services(machine).converge(desired, {}, around=READS)
    assert done(machine, 0) == ["systemctl start one.service"]
    assert not machine.place(MARKER).exists()


def test_nobody_waits_for_a_unit_that_may_take_long(rack: Rack) -> None:
    machine = rack.machine()
    services(machine).converge(DESIRED, CONTENTS, no_block=True)
    assert done(machine, 0)[-1] == "systemctl --no-block start one.service"


class Outdated(Machine):
    """A host on which an earlier run was cut off before systemd had read what it wrote."""

    def show(self, name: str) -> str:
        return super().show(name) + "NeedDaemonReload=yes\n"


def test_systemd_reads_what_a_run_that_was_cut_off_wrote(rack: Rack) -> None:
    machine = Outdated(rack.machine().root / "outdated")
    machine.write(UNIT, "[Service]\n")
    machine.place(UNIT).chmod(0o644)
    services(machine).converge({"files": {UNIT: DESIRED["files"][UNIT]}, "units": DESIRED["units"]}, {})
    assert done(machine, 0)[0] == "systemctl daemon-reload"


def test_what_systemd_refuses_is_told(rack: Rack) -> None:
    machine = rack.machine()
    machine.start_stop = lambda verb, name: (1, f"{verb} {name}: no")  # type: ignore[method-assign]
    told = (
        r"one\.service does not start \(config\.json: unknown key / exit 2\): `systemctl start -- one\.service` failed"
    )
    with pytest.raises(SettingsError, match=told):
        services(machine).converge(DESIRED, CONTENTS)


DAEMON = "/etc/docker/daemon.json"
SECRET = '{"proxies": {"https-proxy": "http://u:secret@p"}, "debug": true}'


def daemon(**settings: Any) -> dict[str, Any]:
    """The state of a daemon with these settings, which runs."""
    return {
        "json_files": {DAEMON: {"settings": settings, "whole": [], **BY_ROOT}},
        "units": {"ssh.service": {"active": True}},
    }


def test_settings_of_others_stay_and_are_told_to_nobody(rack: Rack) -> None:
    machine = rack.machine()
    kept: list[str] = []
    machine.write(DAEMON, SECRET)
    machine.place(DAEMON).chmod(0o644)
    result = services(machine).converge(
        daemon(debug=False), {}, check_mode=True, around=Around(stop=["ssh.service", "ssh.socket"])
    )
    assert result["changed"]
    assert machine.place(DAEMON).read_text() == SECRET
    result = services(machine, keep=kept.append).converge(
        daemon(debug=False), {}, around=Around(stop=["ssh.service", "ssh.socket"])
    )
    assert json.loads(machine.place(DAEMON).read_text()) == {**json.loads(SECRET), "debug": False}
    assert kept == [str(machine.place(DAEMON))]
    assert result["diff"][0]["before"] == '{\n  "debug": true\n}\n'
    assert "secret" not in str(result)
    assert done(machine, 0)[-2:] == ["systemctl stop ssh.service", "systemctl start ssh.service"]
    assert not services(machine).converge(daemon(debug=False), {})["changed"]


def test_a_run_that_is_cut_off_leaves_a_unit_that_is_down(rack: Rack) -> None:
    machine = rack.machine()
    machine.budget = 1  # the unit stops, and the file is not written any more
    with pytest.raises(rack.cut):
        services(machine).converge(daemon(a=1), {}, around=Around(stop=["ssh.service"]))
    assert "ssh.service" not in machine.active


def test_a_json_file_that_is_not_there_is_made_and_another_mode_is_corrected(rack: Rack) -> None:
    machine = rack.machine()
    services(machine).converge(daemon(a=1), {})
    place = machine.place(DAEMON)
    assert (place.read_text(), place.stat().st_mode & 0o777) == ('{\n  "a": 1\n}\n', 0o644)
    place.chmod(0o600)
    assert services(machine).converge(daemon(a=1), {})["changed"]
    assert place.stat().st_mode & 0o777 == 0o644


@pytest.mark.parametrize("text", ["{", "[]", '"x"'])
def test_a_broken_json_file_is_left_alone(rack: Rack, text: str) -> None:
    machine = rack.machine()
    machine.write(DAEMON, text)
    with pytest.raises(ValueError, match=r"cannot be merged with.*expected a JSON object\. Nothing was changed"):
        services(machine).converge({**DESIRED, **daemon(a=1)}, CONTENTS, around=Around(stop=["ssh.service"]))
    assert machine.place(DAEMON).read_text() == text
    assert done(machine, 0) == []


WARNINGS = "".join(f"W: Possible missing firmware /lib/firmware/a{one}.bin for module ast\n" for one in range(9))
INITRAMFS = f"""{WARNINGS}zstd: error 70 : Write error : No space left on device
E: mkinitramfs failure zstd -q -1 -T0 70
update-initramfs: failed for /boot/initrd.img-6.8.0-31-generic with 1.
"""


class Boot(Machine):
    """A host whose initial file system is made by a program, in a boot partition that may be full."""

    def __init__(self, root: Path) -> None:
        super().__init__(root)
        self.full = False
        self.commands["update-initramfs"] = ""

    def answer(self, call: Call) -> Reply:
        if call.argv[0] != "update-initramfs":
            return super().answer(call)
        self.did.append(" ".join(call.argv))
        return Result(("update-initramfs",), int(self.full), "", INITRAMFS if self.full else "")


def test_a_full_boot_partition_is_told_and_the_next_run_makes_it(rack: Rack) -> None:
    machine = Boot(rack.machine().root / "boot")
    desired = {"files": {CONFIG: {"content": "blacklist nouveau\n", **BY_ROOT}}}
    notify = {CONFIG: {"argv": ["update-initramfs", "-u"], "fix": "make room in /boot"}}
    machine.full = True
    told = r"returned 1: .*No space left on device.*, expected `update-initramfs -u` .* make room in /boot"
    with pytest.raises(SettingsError, match=told):
        services(machine).converge(desired, {}, around=Around(notify=notify))
    assert services(machine).converge(desired, {}, check_mode=True, around=Around(notify=notify))["changed"], (
        "it is not done"
    )
    machine.full = False
    assert services(machine).converge(desired, {}, around=Around(notify=notify))["changed"]
    assert machine.place(CONFIG).stat().st_mode & 0o777 == 0o644
    assert not services(machine).converge(desired, {}, around=Around(notify=notify))["changed"]
    assert done(machine, 0) == ["update-initramfs -u"] * 2


def test_who_reads_a_file_is_restarted_where_it_was_written_and_a_program_may_be_missing(rack: Rack) -> None:
    machine = rack.machine()
    desired = {"files": {CONFIG: DESIRED["files"][CONFIG]}, "units": {"ssh.service": {"active": True}}}
    notify = {CONFIG: {"restart": ["ssh.service"], "argv": ["no-such-program"]}, UNIT: {"restart": ["swap.target"]}}
    services(machine).converge(desired, {}, around=Around(notify=notify))
    assert done(machine, 0) == ["systemctl restart ssh.service"]
    assert not services(machine).converge(desired, {}, around=Around(notify=notify))["changed"]
