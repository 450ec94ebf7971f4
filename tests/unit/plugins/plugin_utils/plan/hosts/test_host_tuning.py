# SPDX-License-Identifier: Apache-2.0
"""What host_tuning makes of its variables."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml
from ansible_collections.firstlight.cluster.plugins.module_utils.tuning import files
from ansible_collections.firstlight.cluster.plugins.module_utils.tuning.settings import LEDGER
from ansible_collections.firstlight.cluster.plugins.plugin_utils.comparison.differences import differences
from ansible_collections.firstlight.cluster.plugins.plugin_utils.plan.hosts.host_tuning import desired

from tests.unit.ideal import ideal

ROLE = Path(__file__).parents[6] / "roles" / "host_tuning" / "defaults" / "main.yml"
OFF = {"enabled": False, "active": False, "if_present": True}
ON = {"enabled": True, "active": True}

KEPT = {
    "host_tuning_headless": False,
    "host_tuning_swappiness": "keep",
    "host_tuning_numa_balancing": "keep",
    "host_tuning_unprivileged_port_start": "keep",
    "host_tuning_memlock": "keep",
    "host_tuning_keep_ipc": False,
    "host_tuning_governor": "keep",
    "host_tuning_unattended_upgrades": "keep",
    "host_tuning_time_sync": False,
}
NOTHING: dict[str, Any] = {"ledgers": {LEDGER: {"keeps": []}}}


def variables(**changes: Any) -> dict[str, Any]:
    return {**yaml.safe_load(ROLE.read_text(encoding="utf-8")), **changes}


def content(state: dict[str, Any], path: str) -> list[str]:
    """The lines of a file that are no comments."""
    lines = state["files"][path]["content"].splitlines()
    assert lines[0].endswith("Managed by Firstlight (role host_tuning): changes here are overwritten.")
    assert lines[1].startswith(("# ", "// ")), "every file says why"
    return [line for line in lines if line and not line.startswith(("# ", "// "))]


def test_the_state_of_the_defaults() -> None:
    state = desired(variables(host_tuning_display_managers=["gdm.service"]))
    assert state["sysctl"] == {"vm.swappiness": "1", "net.ipv4.ip_unprivileged_port_start": "1024"}
    assert state["optional_sysctl"] == {"kernel.numa_balancing": "0"}
    assert state["default_target"] == "multi-user.target"
    assert state["governor"] == "performance"
    assert state["clock"] == {"synchronized": True}
    assert state["managers"] == {
        "systemd/DefaultLimitMEMLOCK": "infinity",
        "logind/RemoveIPC": "no",
        "logind/KillUserProcesses": "no",
    }
    assert state["units"] == {
        "firstlight-tuning.service": ON,
        "gdm.service": OFF,
    }
    assert not {"swap", "linger", "packages"} & state.keys()
    assert content(state, files.SYSCTL_FILE) == [
        "vm.swappiness = 1",
        "net.ipv4.ip_unprivileged_port_start = 1024",
        "-kernel.numa_balancing = 0",
    ]
    assert content(state, files.LIMITS_FILE) == ["* soft memlock unlimited", "* hard memlock unlimited"]
    assert content(state, files.SYSTEM_FILE) == ["[Manager]", "DefaultLimitMEMLOCK=infinity"]
    assert state["files"][files.USER_FILE] == state["files"][files.SYSTEM_FILE]
    assert content(state, files.LOGIND_FILE) == ["[Login]", "RemoveIPC=no", "KillUserProcesses=no"]
    assert content(state, files.GOVERNOR_FILE) == [
        "w /sys/devices/system/cpu/cpufreq/policy*/scaling_governor - - - - performance"
    ]
    assert files.PERIODIC_FILE not in state["files"], "security updates go on for what nobody pins"
    starts = [line for line in content(state, files.UNIT_FILE) if line.startswith("ExecStart=")]
    assert [line.rpartition(" ")[2] for line in starts] == [files.SYSCTL_FILE, files.GOVERNOR_FILE]
    assert differences(state, ideal(state)) == []


def test_upgrades_stop_only_where_that_is_asked_for() -> None:
    state = desired(variables(host_tuning_unattended_upgrades="off"))
    for unit in ("apt-daily.timer", "apt-daily-upgrade.timer", "unattended-upgrades.service"):
        assert state["units"][unit] == OFF
        assert unit not in desired(variables())["units"]
    assert 'APT::Periodic::Unattended-Upgrade "0";' in content(state, files.PERIODIC_FILE)


def test_files_that_others_could_override_sort_last() -> None:
    for path in desired(variables(host_tuning_oom_guard=True))["files"]:
        if path.endswith(".d/zz-firstlight.conf") or "/apt.conf.d/" in path:
            assert path.rpartition("/")[2] > "99-z"


def test_the_guard() -> None:
    state = desired(
        variables(host_tuning_oom_guard=True, host_tuning_oom_prefer=["vllm"], host_tuning_oom_avoid=["sshd"])
    )
    assert state["packages"] == {"earlyoom": None}
    assert state["units"]["earlyoom.service"] == ON
    assert content(state, files.GUARD_FILE) == [
        'EARLYOOM_ARGS="-r 3600 -m 2 -s 100,100 --prefer ^(vllm) --avoid ^(sshd)"'
    ]
    assert content(state, files.SSH_FILE) == ["[Service]", "OOMScoreAdjust=-50", "MemoryMin=64M"]
    assert content(state, files.SLICE_FILE) == ["[Slice]", "MemoryMin=64M"]


def test_the_guard_is_the_only_one_and_its_socket_does_not_start_another() -> None:
    units = desired(variables(host_tuning_oom_guard=True))["units"]
    assert [name for name in units if "oomd" in name] == ["systemd-oomd.socket", "systemd-oomd.service"]
    assert units["systemd-oomd.service"] == units["systemd-oomd.socket"] == OFF


def test_a_cpu_that_takes_no_governor_does_not_fail_the_unit() -> None:
    lines = content(desired(variables()), files.UNIT_FILE)
    assert any(line.startswith("ExecStart=-/usr/bin/systemd-tmpfiles ") for line in lines)
    assert any(line.startswith("ExecStart=/usr/lib/systemd/systemd-sysctl ") for line in lines)


def test_an_account_of_a_directory_service_may_linger() -> None:
    assert desired(variables(host_tuning_linger_users=["ada@corp.example"]))["linger"] == {"ada@corp.example": True}


@pytest.mark.parametrize("off", ["off", False], ids=["quoted", "as YAML reads it"])
def test_swap_off(off: object) -> None:
    state = desired(variables(host_tuning_swap=off))
    assert (state["swap"], state["units"]["swap.target"]) == ("off", {"masked": True})


@pytest.mark.parametrize("off", ["off", False], ids=["quoted", "as YAML reads it"])
def test_what_updates_firmware_by_itself_is_held_off_where_that_is_asked_for(off: object) -> None:
    units = desired(variables(host_tuning_vendor_updates=off))["units"]
    held = {"fwupd-refresh.timer", "dgx-dashboard.service", "dgx-dashboard-admin.service"}
    assert all(units[name] == OFF for name in held | {"nvidia-spark-run-apt-upgrade-once.service"})
    # Who wants to update firmware still can: its own service is left as it is.
    assert "fwupd.service" not in units
    assert not held & desired(variables())["units"].keys()


def test_a_vendors_unit_without_its_ending_is_refused() -> None:
    with pytest.raises(
        ValueError, match=r"has 'dgx-dashboard', expected units with their suffix, such as dgx-dashboard\.service"
    ):
        desired(variables(host_tuning_vendor_updates="off", host_tuning_vendor_update_units=["dgx-dashboard"]))
    assert desired(variables(host_tuning_vendor_update_units=["dgx-dashboard"]))["units"]


def test_everything_can_be_left_alone() -> None:
    assert desired(variables(**KEPT)) == NOTHING
    for name, value in KEPT.items():
        state = desired(variables(**{name: value}))
        assert differences(state, ideal(state)) == []


@pytest.mark.parametrize("name", sorted(KEPT))
def test_each_can_be_the_only_one(name: str) -> None:
    asked = {"host_tuning_unattended_upgrades": "off"} if name == "host_tuning_unattended_upgrades" else {}
    state = desired(variables(**{key: value for key, value in KEPT.items() if key != name}, **asked))
    assert state != NOTHING
    assert differences(state, ideal(state)) == []


def test_absent_wants_an_empty_ledger_and_nothing_else() -> None:
    assert desired(variables(host_tuning_state="absent", host_tuning_oom_guard=True)) == NOTHING


def test_memory_in_kib_is_bytes_for_systemd() -> None:
    state = desired(variables(host_tuning_memlock=64))
    assert state["managers"]["systemd/DefaultLimitMEMLOCK"] == "65536"
    assert content(state, files.LIMITS_FILE)[0] == "* soft memlock 64"


def test_an_absent_display_manager_is_right() -> None:
    state = desired(variables())
    seen = ideal(state)
    seen["units"]["gdm.service"] = {"load": "not-found", "enabled": False, "active": False, "sub": "dead"}
    assert differences(state, seen) == []


@pytest.mark.parametrize(
    ("name", "value", "words"),
    [
        ("memlock", "lots", r"expected 'unlimited' or a number of KiB"),
        ("memlock", "-1", r"expected 'unlimited' or a number of KiB"),
        ("memlock", None, r"expected 'unlimited' or a number of KiB"),
        ("swappiness", -1, "the kernel takes 0 to 200"),
        ("swappiness", 201, "the kernel takes 0 to 200"),
        ("swappiness", 1.5, "the kernel takes 0 to 200"),
        ("swappiness", "\u00b2", "the kernel takes 0 to 200"),
        ("numa_balancing", 3, "the kernel takes 0 to 2"),
        ("unprivileged_port_start", 80, "expected the first port that needs no privilege"),
        ("governor", "fast as possible", "expected a CPU governor"),
        ("swap", "on", "expected off or keep"),
        ("swap", True, "expected off or keep"),
        ("unattended_upgrades", "weekly", "expected off or keep"),
        ("state", "gone", "expected present or absent"),
        ("linger_users", ["a b"], "expected accounts of letters"),
        ("linger_users", ["--all"], "expected accounts of letters"),
    ],
)
def test_what_cannot_be_is_refused(name: str, value: object, words: str) -> None:
    with pytest.raises(ValueError, match=rf"host_tuning_{name} (is|has) .*{words}"):
        desired(variables(**{f"host_tuning_{name}": value}))


@pytest.mark.parametrize(
    ("name", "value", "words"),
    [
        ("oom_memory_percent", 0, "expected a percentage of 1 to 100"),
        ("oom_swap_percent", "keep", "expected a percentage of 1 to 100"),
        ("oom_prefer", ["a|b"], "expected prefixes of process names"),
        ("oom_avoid", [""], "expected prefixes of process names"),
    ],
)
def test_a_guard_that_cannot_be_is_refused(name: str, value: object, words: str) -> None:
    changes = {"host_tuning_oom_guard": True, f"host_tuning_{name}": value}
    with pytest.raises(ValueError, match=rf"host_tuning_{name} (is|has) .*{words}"):
        desired(variables(**changes))
