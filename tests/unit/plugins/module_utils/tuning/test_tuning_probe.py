# SPDX-License-Identifier: Apache-2.0
"""Reading a host's managers, clock, governors and ledger."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ansible_collections.firstlight.cluster.plugins.module_utils.host import Host, Result
from ansible_collections.firstlight.cluster.plugins.module_utils.observe.probes import observe

from tests.unit.fake_host import Answer, FakeHost, not_installed

POLICY = "/sys/devices/system/cpu/cpufreq/policy0"
TIMESYNCD = (
    "Id=systemd-timesyncd.service\nLoadState=loaded\nUnitFileState=enabled\nActiveState=active\nSubState=running\n"
)


def fake(commands: Mapping[str, Answer] | None = None, files: Mapping[str, str] | None = None) -> FakeHost:
    return FakeHost({"": not_installed, **(commands or {})}, {"/": None, **(files or {})})


def seen(host: Host, **desired: Any) -> dict[str, Any]:
    return observe(host, {"host_tuning": desired})


def test_managers() -> None:
    wanted = {"systemd/DefaultLimitMEMLOCK": "infinity", "logind/RemoveIPC": "no"}
    systemd = {"systemctl show --property=DefaultLimitMEMLOCK": "DefaultLimitMEMLOCK=8388608\n"}
    found = seen(fake({**systemd, "loginctl": "RemoveIPC=yes\n"}), managers=wanted)
    assert found["managers"] == {"systemd/DefaultLimitMEMLOCK": "8388608", "logind/RemoveIPC": "yes"}
    without: dict[str, Answer] = {
        **systemd,
        "loginctl": Result((), 1, ""),
        "systemctl show --property=LoadState": "LoadState=not-found\n",
    }
    assert seen(fake(without), managers=wanted)["managers"]["logind/RemoveIPC"] is None
    broken: dict[str, Answer] = {
        **systemd,
        "loginctl": Result((), 1, "no bus\n"),
        "systemctl show --property=LoadState": "LoadState=loaded\n",
    }
    assert seen(fake(broken), managers=wanted)["errors"] == {"managers": "loginctl returned 1: no bus"}


def test_clock() -> None:
    answers = {"systemctl": TIMESYNCD, "timedatectl": "NTPSynchronized=yes\n"}
    found = seen(fake(answers), clock={"synchronized": True})["clock"]
    assert found["service"] == "systemd-timesyncd.service"
    assert (found["enabled"], found["active"], found["synchronized"]) == (True, True, True)
    nobody = seen(fake({"systemctl": "Id=chrony.service\nLoadState=not-found\n"}), clock={"synchronized": True})
    assert nobody["clock"]["service"] is None
    chrony = TIMESYNCD.replace("systemd-timesyncd", "chrony")
    # chrony is asked itself; where it does not answer the kernel is.
    asked = fake({"systemctl": chrony, "chronyc": ",".join(["0"] * 13) + ",Not synchronised\n"})
    assert seen(asked, clock={"synchronized": True})["clock"]["synchronized"] is False
    silent = fake(
        {
            "systemctl": chrony,
            "chronyc": Result((), 1, "506 Cannot talk to daemon\n"),
            "timedatectl": answers["timedatectl"],
        }
    )
    assert seen(silent, clock={"synchronized": True})["clock"]["synchronized"] is True


def test_files_of_the_kernel_and_of_logind() -> None:
    files = {
        f"{POLICY}/scaling_governor": "schedutil\n",
        f"{POLICY}/scaling_available_governors": "performance schedutil\n",
        "/sys/devices/system/cpu/cpufreq/boost": "1\n",
        "/proc/swaps": "Filename\n/swap.img file 1 0 -2\n",
        "/var/lib/systemd/linger/rank": "",
    }
    found = seen(fake(files=files), governor="performance", swap="off", linger={"rank": True, "other": True})
    assert found["governor"] == {"policy0": {"governor": "schedutil", "available": ["performance", "schedutil"]}}
    assert found["swap"] == [{"device": "/swap.img", "priority": -2}]
    assert found["linger"] == {"rank": True, "other": False}
    assert seen(fake(), governor="performance")["governor"] == {}


def test_of_a_ledger_only_names_leave_the_host() -> None:
    text = '{"version": 1, "things": {"file /etc/x": {"kind": "file", "content": "c2VjcmV0"}}, "directories": []}'
    wanted: dict[str, Any] = {"/l": {"keeps": []}}
    found = seen(fake(files={"/l": text}), ledgers=wanted)["ledgers"]
    assert found == {"/l": {"exists": True, "keeps": ["file /etc/x"], "error": None}}
    assert seen(fake(), ledgers=wanted)["ledgers"]["/l"] == {"exists": False, "keeps": [], "error": None}
    for broken in (
        "{",
        "[]",
        '{"version": 2, "things": {}, "directories": []}',
        '{"version": 1, "things": [], "directories": []}',
    ):
        assert seen(fake(files={"/l": broken}), ledgers=wanted)["ledgers"]["/l"]["error"]
