# SPDX-License-Identifier: Apache-2.0
"""Whatever a host was like, and wherever a run is cut off: it is given back byte for byte."""

from __future__ import annotations

from typing import Any

import pytest
from ansible_collections.firstlight.cluster.plugins.module_utils.tuning import files as tuning_files
from hypothesis import given
from hypothesis import strategies as st

from tests.unit.examples import examples

pytestmark = pytest.mark.slow  # thousands of hosts

ETC = "etc/systemd/system"
FILES = sorted(value for name, value in vars(tuning_files).items() if name.endswith("_FILE"))
CONTENT = st.binary(max_size=20)
WAYS = st.sampled_from(["/lib/systemd/system", "/usr/lib/systemd/system", "/etc/elsewhere"])


@st.composite
def hosts(draw: st.DrawFn) -> dict[str, Any]:
    return {
        "files": draw(
            st.dictionaries(st.sampled_from(FILES), st.tuples(CONTENT, st.sampled_from([0o600, 0o644, 0o4755])))
        ),
        "linked": draw(st.sets(st.sampled_from(FILES), max_size=2)),
        "links": {
            f"{ETC}/{folder}{name}": f"{draw(WAYS)}/{unit}"
            for folder, name, unit in draw(
                st.sets(
                    st.sampled_from(
                        [
                            ("graphical.target.wants/", "gdm.service", "gdm.service"),
                            ("", "display-manager.service", "gdm.service"),
                            ("multi-user.target.wants/", "unattended-upgrades.service", "unattended-upgrades.service"),
                            ("timers.target.wants/", "apt-daily.timer", "apt-daily.timer"),
                            ("", "default.target", "graphical.target"),
                        ]
                    )
                )
            )
        },
        "masks": draw(st.sets(st.sampled_from(["apt-daily-upgrade.timer", "swap.target"]))),
        "active": draw(st.sets(st.sampled_from(["gdm.service", "apt-daily.timer", "unattended-upgrades.service"]))),
        "folders": draw(st.sets(st.sampled_from([f"{ETC}/multi-user.target.wants", "etc/systemd/logind.conf.d"]))),
        "scripts": draw(st.booleans()),
        "numa": draw(st.sampled_from([None, "0", "1"])),
        "governors": draw(st.lists(st.sampled_from(["schedutil", "performance"]), max_size=2)),
        "swaps": draw(st.lists(st.tuples(st.sampled_from(["/swap.img", "/dev/sda3"]), st.integers(-3, 9)), max_size=1)),
        "linger": draw(st.booleans()),
        "packages": draw(st.sampled_from([(), ("earlyoom",), ("chrony",), ("systemd-timesyncd",)])),
    }


OPTIONS = st.fixed_dictionaries(
    {},
    optional={
        "host_tuning_headless": st.booleans(),
        "host_tuning_oom_guard": st.booleans(),
        "host_tuning_keep_ipc": st.booleans(),
        "host_tuning_time_sync": st.booleans(),
        "host_tuning_swappiness": st.sampled_from(["keep", 1, 60]),
        "host_tuning_governor": st.sampled_from(["keep", "performance"]),
        "host_tuning_memlock": st.sampled_from(["keep", "unlimited"]),
        "host_tuning_swap": st.sampled_from(["keep", "off"]),
        "host_tuning_unattended_upgrades": st.sampled_from(["keep", "off"]),
        "host_tuning_vendor_updates": st.sampled_from(["keep", "off"]),
        "host_tuning_linger_users": st.sampled_from([[], ["rank"]]),
    },
)


def build(rack: Any, drawn: dict[str, Any]) -> Any:
    machine = rack.machine()
    for name in drawn["packages"]:
        machine.run(["apt-get", "install", name])
    for folder in drawn["folders"]:
        machine.place(folder).mkdir(parents=True, exist_ok=True)
    for path, (content, mode) in drawn["files"].items():
        machine.place(path).parent.mkdir(parents=True, exist_ok=True)
        machine.place(path).write_bytes(content)
        machine.place(path).chmod(mode)
    for path in drawn["linked"]:
        machine.place(path).unlink(missing_ok=True)
        machine.link(path, "/nowhere/at/all")
    for path, target in drawn["links"].items():
        machine.link(path, target)
    for name in drawn["masks"]:
        machine.link(f"{ETC}/{name}", "/dev/null")
    if drawn["scripts"]:
        machine.link("etc/rc5.d/S01unattended-upgrades", "../init.d/unattended-upgrades")
    machine.active |= drawn["active"]
    machine.write("proc/swaps", "Filename\n" + "".join(f"{name} file 1 0 {rank}\n" for name, rank in drawn["swaps"]))
    # The kernel counts its own priorities anew; only those that somebody chose can be asked for again.
    machine.write(
        "proc/swaps", (machine.read_text("proc/swaps") or "").replace(" -1\n", " -2\n").replace(" -3\n", " -2\n")
    )
    if drawn["numa"] is not None:
        machine.write("proc/sys/kernel/numa_balancing", f"{drawn['numa']}\n")
    for number, governor in enumerate(drawn["governors"]):
        folder = f"sys/devices/system/cpu/cpufreq/policy{number}"
        machine.write(f"{folder}/scaling_governor", f"{governor}\n")
        machine.write(f"{folder}/scaling_available_governors", "performance schedutil\n")
    if drawn["linger"]:
        machine.place("var/lib/systemd/linger/rank").touch()
    # Managers go by their files from the start.
    machine.run(["systemctl", "daemon-reexec"])
    machine.run(["systemctl", "kill"])
    return machine


@given(drawn=hosts(), first=OPTIONS, second=OPTIONS)
@examples(40)
def test_whatever_was_there_comes_back(
    rack: Any, drawn: dict[str, Any], first: dict[str, Any], second: dict[str, Any]
) -> None:
    machine = build(rack, drawn)
    before = machine.everything()
    for options in (first, second):
        state = rack.wanted(**options)
        rack.present(machine, state)
        assert rack.pending(machine, state) == []
        assert not rack.present(machine, state)["changed"]
    rack.absent(machine)
    assert machine.everything() == before


def test_a_directory_that_an_earlier_run_made_goes_with_it(rack: Any) -> None:
    machine = rack.machine()
    machine.link(f"{ETC}/graphical.target.wants/gdm.service", "/lib/systemd/system/gdm.service")
    before = machine.everything()
    rack.present(machine, rack.wanted(host_tuning_headless=False))
    rack.present(machine, rack.wanted())
    rack.absent(machine)
    assert machine.everything() == before


@given(drawn=hosts(), cut=st.integers(0, 60), cut_back=st.integers(0, 60), again=st.booleans())
@examples(40)
def test_cut_off_anywhere_it_still_comes_back(
    rack: Any, drawn: dict[str, Any], cut: int, cut_back: int, again: bool
) -> None:
    machine = build(rack, drawn)
    before = machine.everything()
    machine.budget = cut
    try:
        rack.present(machine, rack.wanted())
    except rack.cut:
        machine.budget = None
        if again:
            rack.present(machine, rack.wanted())
            assert rack.pending(machine, rack.wanted()) == []
    machine.budget = cut_back
    try:
        rack.absent(machine)
    except rack.cut:
        machine.budget = None
        rack.absent(machine)
    assert machine.everything() == before
