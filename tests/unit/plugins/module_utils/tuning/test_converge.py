# SPDX-License-Identifier: Apache-2.0
"""Settings come about, are shown before and after, survive being cut off, and are given back byte for byte."""

from __future__ import annotations

import json
import os
from typing import Any

import pytest
from ansible_collections.firstlight.cluster.plugins.module_utils.problems import SettingsError

LEDGER = "var/lib/firstlight/host_tuning/ledger.json"
ETC = "etc/systemd/system"


def a_desktop(rack: Any) -> Any:
    machine = rack.machine()
    machine.active |= {"gdm.service", "apt-daily.timer"}
    machine.link(f"{ETC}/display-manager.service", "/lib/systemd/system/gdm.service")
    machine.link(f"{ETC}/graphical.target.wants/gdm.service", "/usr/lib/systemd/system/gdm.service")
    machine.link(f"{ETC}/timers.target.wants/apt-daily.timer", "/lib/systemd/system/apt-daily.timer")
    machine.link(f"{ETC}/default.target", "/usr/lib/systemd/system/graphical.target")
    machine.link("etc/rc2.d/S01unattended-upgrades", "../init.d/unattended-upgrades")
    machine.write("proc/swaps", "Filename Type Size Used Priority\n/swap.img file 1 0 -2\n/dev/sda3 file 1 0 5\n")
    machine.write("proc/sys/kernel/numa_balancing", "1\n")
    machine.write("sys/devices/system/cpu/cpufreq/policy0/scaling_governor", "schedutil\n")
    machine.write("sys/devices/system/cpu/cpufreq/policy0/scaling_available_governors", "performance schedutil\n")
    machine.write("etc/sysctl.d/zz-firstlight.conf", "vm.swappiness = 99\n")
    machine.place("etc/sysctl.d/zz-firstlight.conf").chmod(0o600)
    return machine


def test_check_mode_says_all_of_it_and_changes_nothing(rack: Any) -> None:
    machine = a_desktop(rack)
    before = machine.everything()
    result = rack.present(machine, rack.wanted(), check=True)
    assert result["changed"]
    assert machine.everything() == before
    shown = {one["before_header"]: one for one in result["diff"]}
    former = shown["/etc/sysctl.d/zz-firstlight.conf (mode 0600, owner 0:0)"]
    assert former["before"] == "vm.swappiness = 99\n"
    assert "vm.swappiness = 1\n" in former["after"]
    lines = list(zip(shown["settings"]["before"].splitlines(), shown["settings"]["after"].splitlines(), strict=True))
    for pair in [
        ("package earlyoom: not installed", "package earlyoom: installed"),
        ("sysctl vm.swappiness: 60", "sysctl vm.swappiness: 1"),
        ("sysctl net.ipv4.ip_unprivileged_port_start: 0", "sysctl net.ipv4.ip_unprivileged_port_start: 1024"),
        ("sysctl kernel.numa_balancing: 1", "sysctl kernel.numa_balancing: 0"),
        ("unit gdm.service: enabled yes, active yes, sub x", "unit gdm.service: enabled no, active no"),
        ("default_target: graphical.target", "default_target: multi-user.target"),
        ("governor: policy0 schedutil", "governor: performance"),
        ("swap: /swap.img /dev/sda3", "swap: off"),
        ("linger rank: no", "linger rank: yes"),
        ("manager systemd/DefaultLimitMEMLOCK: 8388608", "manager systemd/DefaultLimitMEMLOCK: infinity"),
        ("package systemd-timesyncd: not installed", "package systemd-timesyncd: installed"),
    ]:
        assert pair in lines


@pytest.mark.slow  # several whole convergences
def test_there_once_changed_nothing_the_second_time_and_back_as_it_was(rack: Any) -> None:
    machine = a_desktop(rack)
    before = machine.everything()
    assert rack.present(machine, rack.wanted())["changed"]
    assert rack.pending(machine, rack.wanted()) == []
    after = machine.everything()
    ran = len(machine.did)
    assert not rack.present(machine, rack.wanted())["changed"]
    assert machine.everything() == after
    assert not [
        word for word in machine.did[ran:] if "show" not in word and "get-default" not in word and "dpkg" not in word
    ]
    ledger = json.loads(machine.place(LEDGER).read_text())
    assert ledger["things"]["sysctl vm.swappiness"] == "60"
    assert machine.place(LEDGER).stat().st_mode & 0o777 == 0o600
    assert [one["key"] for one in rack.pending(machine, rack.nothing)] == [f"/{LEDGER}"]
    rehearsed = rack.absent(machine, check=True)
    assert machine.everything() == after
    told = rack.absent(machine)
    assert told["diff"] == rehearsed["diff"]
    assert machine.everything() == before
    assert rack.pending(machine, rack.nothing) == []
    assert not rack.absent(machine)["changed"]


@pytest.mark.slow  # several whole convergences
def test_what_somebody_changed_by_hand_is_mended_and_the_ledger_stays(rack: Any) -> None:
    machine = a_desktop(rack)
    rack.present(machine, rack.wanted())
    ledger = machine.place(LEDGER).read_text()
    right = machine.everything()
    machine.write("proc/sys/vm/swappiness", "60\n")
    machine.write("etc/default/earlyoom", "EARLYOOM_ARGS=\n")
    machine.active.discard("firstlight-tuning.service")
    machine.memlock = "1"
    result = rack.present(machine, rack.wanted())
    assert "sysctl vm.swappiness is 60, expected 1" in result["differences"]
    assert machine.everything() == right
    assert machine.place(LEDGER).read_text() == ledger


def test_a_service_is_stopped_before_its_file_changes_and_started_after(rack: Any) -> None:
    machine = a_desktop(rack)
    rack.present(machine, rack.wanted())
    ran = len(machine.did)
    rack.present(machine, rack.wanted(host_tuning_oom_memory_percent=5))
    told = [word for word in machine.did[ran:] if "earlyoom" in word and "show" not in word and "dpkg" not in word]
    assert told == ["systemctl stop earlyoom.service", "systemctl start earlyoom.service"]


def test_what_is_no_longer_asked_for_is_given_back_alone(rack: Any) -> None:
    machine = a_desktop(rack)
    rack.present(machine, rack.wanted())
    less = rack.wanted(host_tuning_oom_guard=False, host_tuning_swap="keep", host_tuning_swappiness="keep")
    assert {one["kind"] for one in rack.pending(machine, less)} >= {"ledger"}
    result = rack.present(machine, less)
    assert {"swap", "unit swap.target", "package earlyoom", "sysctl vm.swappiness"} <= set(result["given_back"])
    assert "earlyoom" not in machine.packages
    assert machine.read_text("proc/sys/vm/swappiness") == "60\n"
    assert "/swap.img" in (machine.read_text("proc/swaps") or "")
    assert rack.pending(machine, less) == []
    assert "sysctl vm.swappiness" not in json.loads(machine.place(LEDGER).read_text())["things"]


def test_everything_left_alone_gives_everything_back_and_is_then_right(rack: Any) -> None:
    machine = a_desktop(rack)
    before = machine.everything()
    rack.present(machine, rack.wanted())
    rack.present(machine, rack.nothing)
    assert machine.everything() == before
    assert rack.pending(machine, rack.nothing) == []
    assert not rack.present(machine, rack.nothing)["changed"]


def test_an_empty_ledger_of_a_run_that_was_cut_off_goes(rack: Any) -> None:
    machine = rack.machine()
    machine.write(LEDGER, json.dumps({"version": 1, "things": {}, "directories": []}))
    assert rack.pending(machine, rack.nothing)
    rack.present(machine, rack.nothing)
    assert rack.pending(machine, rack.nothing) == []


def test_directories_can_be_read_by_everybody_whatever_the_umask(rack: Any) -> None:
    machine = a_desktop(rack)
    former = os.umask(0o077)
    try:
        rack.present(machine, rack.wanted())
    finally:
        os.umask(former)
    # A user's own systemd reads the second one as that user.
    for path, mode in (("var/lib/firstlight", 0o755), ("etc/systemd/user.conf.d", 0o755), (f"{LEDGER}/..", 0o700)):
        assert os.stat(os.path.normpath(machine.place(path))).st_mode & 0o777 == mode, path


def test_ubuntus_own_guard_is_stopped_and_comes_back(rack: Any) -> None:
    machine = a_desktop(rack)
    machine.units |= {"systemd-oomd.service", "systemd-oomd.socket"}
    machine.active |= {"systemd-oomd.service", "systemd-oomd.socket"}
    machine.link(f"{ETC}/multi-user.target.wants/systemd-oomd.service", "/usr/lib/systemd/system/systemd-oomd.service")
    before = machine.everything()
    rack.present(machine, rack.wanted())
    assert not {"systemd-oomd.service", "systemd-oomd.socket"} & machine.active
    rack.absent(machine)
    assert machine.everything() == before


def test_a_governor_that_is_not_offered_is_refused_before_anything(rack: Any) -> None:
    machine = a_desktop(rack)
    before = machine.everything()
    with pytest.raises(
        SettingsError, match=r"is schedutil, expected turbo; the kernel offers only performance schedutil\. N"
    ):
        rack.present(machine, rack.wanted(host_tuning_governor="turbo"))
    assert machine.everything() == before


def test_an_account_that_is_not_there_is_refused_before_anything(rack: Any) -> None:
    machine = a_desktop(rack)
    before = machine.everything()
    with pytest.raises(SettingsError, match="There is no account nobody-here on this host"):
        rack.present(machine, rack.wanted(host_tuning_linger_users=["nobody-here"]))
    assert machine.everything() == before


def test_an_account_that_is_gone_by_now_does_not_hold_up_the_way_back(rack: Any) -> None:
    machine = a_desktop(rack)
    rack.present(machine, rack.wanted())
    machine.accounts.clear()
    rack.absent(machine)
    assert not machine.place("var/lib/systemd/linger/rank").exists()
    assert not machine.place(LEDGER).exists()


def test_a_kernel_setting_that_is_gone_by_now_does_not_hold_up_the_way_back(rack: Any) -> None:
    machine = a_desktop(rack)
    rack.present(machine, rack.wanted())
    machine.place("proc/sys/kernel/numa_balancing").unlink()
    rack.absent(machine)
    assert not machine.place("proc/sys/kernel/numa_balancing").exists()
    assert not machine.place(LEDGER).exists()


def test_a_setting_of_a_port_with_a_dot_in_its_name(rack: Any) -> None:
    machine = rack.machine()
    machine.write("proc/sys/net/ipv4/conf/eth0.100/arp_ignore", "0\n")
    state = {"sysctl": {"net/ipv4/conf/eth0.100/arp_ignore": "1"}}
    rack.present(machine, state)
    assert rack.pending(machine, state) == []
    rack.absent(machine)
    assert machine.read_text("proc/sys/net/ipv4/conf/eth0.100/arp_ignore") == "0\n"


def test_package_lists_that_cannot_be_fetched_are_named(rack: Any) -> None:
    machine = a_desktop(rack)
    machine.unoffered, machine.offline = {"earlyoom"}, True
    with pytest.raises(SettingsError, match=r"Unable to locate.*\(the package lists could not be fetched: .*resolve"):
        rack.present(machine, rack.wanted())


def test_a_package_that_is_not_offered_or_moves_others_is_refused_before_anything(rack: Any) -> None:
    machine = a_desktop(rack)
    before = machine.everything()
    machine.unoffered = {"earlyoom"}
    with pytest.raises(SettingsError, match=r"Package earlyoom cannot be installed: .*Nothing was changed"):
        rack.present(machine, rack.wanted())
    machine.unoffered, machine.moves = set(), ["libc6"]
    with pytest.raises(SettingsError, match="cannot be installed without changing libc6"):
        rack.present(machine, rack.wanted())
    assert machine.everything() == before


def test_a_broken_ledger_stops_everything(rack: Any) -> None:
    machine = a_desktop(rack)
    rack.present(machine, rack.wanted())
    machine.write(LEDGER, '{"version": 1, "thi')
    before = machine.everything()
    with pytest.raises(SettingsError, match="cannot be used: it is not a ledger"):
        rack.absent(machine)
    with pytest.raises(SettingsError, match="cannot be used: it is not a ledger"):
        rack.present(machine, rack.wanted(host_tuning_swappiness=5))
    assert machine.everything() == before


def test_a_directory_that_others_use_by_now_stays(rack: Any) -> None:
    machine = a_desktop(rack)
    rack.present(machine, rack.wanted())
    machine.write("etc/systemd/logind.conf.d/theirs.conf", "[Login]\n")
    rack.absent(machine)
    assert machine.place("etc/systemd/logind.conf.d").is_dir()
    assert not machine.place("etc/systemd/system.conf.d").exists()
    assert not machine.place(LEDGER).parent.exists()


def test_an_installed_time_service_is_used_and_unmasked(rack: Any) -> None:
    machine = a_desktop(rack)
    machine.packages.add("chrony")
    machine.units.add("chrony.service")
    machine.link(f"{ETC}/chrony.service", "/dev/null")
    before = machine.everything()
    rack.present(machine, rack.wanted())
    assert "systemd-timesyncd" not in machine.packages
    assert "chrony.service" in machine.active
    rack.absent(machine)
    assert machine.everything() == before


def test_waiting_for_the_clock_is_no_change(rack: Any) -> None:
    machine = a_desktop(rack)
    demanding = rack.wanted(host_tuning_time_synchronized=True)
    rack.present(machine, demanding)
    assert not rack.present(machine, demanding)["changed"]
    assert [one["kind"] for one in rack.pending(machine, demanding)] == ["clock"]
    machine.synchronized = True
    assert rack.pending(machine, demanding) == []
