# SPDX-License-Identifier: Apache-2.0
"""Kinds that only host_tuning speaks of: what differs, what it is called, what to do."""

from __future__ import annotations

from typing import Any

import pytest
from ansible_collections.firstlight.cluster.plugins.module_utils.parsers.swaps import parse_swaps
from ansible_collections.firstlight.cluster.plugins.module_utils.tuning.clock import (
    parse_chrony_tracking,
    parse_timedatectl,
    supervisor,
)
from ansible_collections.firstlight.cluster.plugins.module_utils.tuning.kinds import tuning_remedy
from ansible_collections.firstlight.cluster.plugins.plugin_utils.comparison.differences import differences, explain
from ansible_collections.firstlight.cluster.plugins.plugin_utils.comparison.records import records

CHRONY = "chrony.service"
RUNS = {"service": CHRONY, "load": "loaded", "enabled": True, "active": True, "synchronized": True}
LEDGER = "/var/lib/firstlight/host_tuning/ledger.json"


@pytest.mark.parametrize(
    ("desired", "observed", "sentence"),
    [
        (
            {"managers": {"logind/RemoveIPC": "no"}},
            {"managers": {"logind/RemoveIPC": "yes"}},
            "RemoveIPC of the running logind is yes, expected no",
        ),
        (
            {"managers": {"systemd/DefaultLimitMEMLOCK": "1"}},
            {},
            "DefaultLimitMEMLOCK of the running systemd is unknown, e",
        ),
        (
            {"linger": {"rank": True}},
            {"linger": {"rank": False}},
            "services of account rank end with its last session, e",
        ),
        (
            {"linger": {"rank": True}},
            {},
            "services of account rank are unknown, expected that they outlive its sessions",
        ),
        (
            {"governor": "performance"},
            {"governor": {"policy0": {"governor": "schedutil", "available": ["performance", "schedutil"]}}},
            "CPU governor is schedutil, expected performance",
        ),
        (
            {"governor": "performance"},
            {"governor": {"policy0": {"governor": "powersave", "available": ["powersave"]}}},
            "CPU governor is powersave, expected performance; the kernel offers only powersave",
        ),
        ({"governor": "performance"}, {}, "CPU governor is unknown, expected performance"),
        ({"swap": "off"}, {"swap": [{"device": "/swap.img", "priority": -2}]}, "swap is on: /swap.img, expected none"),
        ({"swap": "off"}, {}, "swap is unknown, expected none"),
        (
            {"clock": {"synchronized": False}},
            {"clock": {"service": None}},
            "there is no time service (none of chrony, ntpsec",
        ),
        ({"clock": {"synchronized": False}}, {}, "the time service is unknown"),
        (
            {"clock": {"synchronized": True}},
            {"clock": {**RUNS, "active": False, "synchronized": False}},
            "time service chrony.service does not run and has not set the clock yet",
        ),
        (
            {"clock": {"synchronized": False}},
            {"clock": {**RUNS, "enabled": False}},
            "time service chrony.service is not enab",
        ),
        ({"ledgers": {LEDGER: {"keeps": []}}}, {}, f"{LEDGER} is unknown"),
        (
            {"ledgers": {LEDGER: {"keeps": ["swap"]}}},
            {"ledgers": {LEDGER: {"exists": True, "keeps": ["governor", "swap"], "error": None}}},
            "governor is still changed, expected its former state",
        ),
        (
            {"ledgers": {LEDGER: {"keeps": []}}},
            {"ledgers": {LEDGER: {"exists": True, "keeps": [], "error": "it is not a ledger"}}},
            f"{LEDGER} cannot be used (it is not a ledger)",
        ),
        (
            {"units": {"swap.target": {"masked": True}}},
            {"units": {"swap.target": {"load": "loaded"}}},
            "unit swap.target has",
        ),
        (
            {"optional_sysctl": {"kernel.numa_balancing": "0"}},
            {"optional_sysctl": {"kernel.numa_balancing": "1"}},
            "sysctl kernel.numa_balancing is 1, expected 0",
        ),
    ],
)
def test_what_is_wrong_is_said(desired: dict[str, Any], observed: dict[str, Any], sentence: str) -> None:
    (said,) = explain(differences(desired, observed))
    assert said.startswith(sentence)


@pytest.mark.parametrize(
    ("desired", "observed"),
    [
        ({"optional_sysctl": {"kernel.numa_balancing": "0"}}, {"optional_sysctl": {"kernel.numa_balancing": None}}),
        ({"managers": {"logind/RemoveIPC": "no"}}, {"managers": {"logind/RemoveIPC": None}}),
        ({"governor": "performance"}, {"governor": {}}),
        ({"swap": "off"}, {"swap": []}),
        ({"clock": {"synchronized": False}}, {"clock": {**RUNS, "active": False, "synchronized": None}}),
        ({"clock": {"synchronized": True}}, {"clock": RUNS}),
        ({"ledgers": {LEDGER: {"keeps": []}}}, {"ledgers": {LEDGER: {"exists": False, "keeps": [], "error": None}}}),
    ],
)
def test_what_a_host_cannot_have_is_right(desired: dict[str, Any], observed: dict[str, Any]) -> None:
    assert differences(desired, observed) == []


def test_records_name_each_and_say_what_to_do() -> None:
    desired = {
        "optional_sysctl": {"kernel.numa_balancing": "0"},
        "managers": {"logind/RemoveIPC": "no"},
        "linger": {"rank": True},
        "governor": "performance",
        "swap": "off",
        "clock": {"synchronized": True},
        "ledgers": {LEDGER: {"keeps": []}},
    }
    seen = {
        "optional_sysctl": {"kernel.numa_balancing": "1"},
        "managers": {"logind/RemoveIPC": "no"},
        "linger": {},
        "governor": {"policy0": {"governor": "powersave", "available": ["powersave"]}},
        "swap": [],
        "clock": {**RUNS, "synchronized": False},
        "ledgers": {LEDGER: {"exists": False, "keeps": [], "error": None}},
        "errors": {"linger": "loginctl gave no answer"},
    }
    history = {"sysctl": {"kernel.numa_balancing": {"path": "/etc/sysctl.d/zzz.conf", "value": "1"}}}
    found = {one["id"]: one for one in records("spark0", {"host_tuning": desired}, seen, history=history)}
    assert {name: one["verdict"] for name, one in found.items()} == {
        "sysctl.kernel.numa_balancing": "fail",
        "manager.logind/RemoveIPC": "pass",
        "linger.rank": "could_not_check",
        "governor": "fail",
        "swap": "pass",
        "clock": "fail",
        f"ledger.{LEDGER}": "pass",
    }
    assert found["sysctl.kernel.numa_balancing"]["by"] == "/etc/sysctl.d/zzz.conf sets it"
    assert found["linger.rank"]["observed"] == "could not be checked: loginctl gave no answer"
    assert found["clock"]["remedy"].startswith("let spark0 reach a time server")
    assert found["governor"]["remedy"] == "set host_tuning_governor to keep, or to one of: powersave"


def unit(load: str = "loaded", enabled: bool = False, active: bool = False) -> dict[str, Any]:
    return {"load": load, "enabled": enabled, "active": active}


@pytest.mark.parametrize(
    ("units", "name"),
    [
        ({}, None),
        ({CHRONY: unit("not-found")}, None),
        ({CHRONY: unit("masked"), "systemd-timesyncd.service": unit()}, "systemd-timesyncd.service"),
        ({CHRONY: unit(), "ntpsec.service": unit(enabled=True)}, "ntpsec.service"),
        ({CHRONY: unit(), "ntp.service": unit(active=True)}, "ntp.service"),
        ({CHRONY: unit("masked")}, CHRONY),
    ],
)
def test_who_keeps_the_time(units: dict[str, Any], name: str | None) -> None:
    assert supervisor(units) == name


@pytest.mark.parametrize(
    ("text", "right"),
    [("NTPSynchronized=yes\n", True), ("NTPSynchronized=no\n", False), ("", None), ("Failed to query server\n", None)],
)
def test_timedatectl(text: str, right: bool | None) -> None:
    assert parse_timedatectl(text) is right


TRACKING = "C0A80001,192.168.0.1,3,1794700000.123,0.000012,-0.0001,0.0002,-12.3,0.001,0.04,0.02,0.001,64.2,"


@pytest.mark.parametrize(
    ("text", "right"),
    [
        (f"{TRACKING}Normal\n", True),
        (f"{TRACKING}Insert second\n", True),
        ("00000000,,0,0.0,0.0,0.0,0.0,0.0,0.0,0.0,1.0,1.0,0.0,Not synchronised\n", False),
        ("506 Cannot talk to daemon\n", None),
        ("", None),
    ],
)
def test_chrony(text: str, right: bool | None) -> None:
    assert parse_chrony_tracking(text) is right


def test_swaps() -> None:
    heading = "Filename\t\t\t\tType\t\tSize\t\tUsed\t\tPriority\n"
    assert parse_swaps("") == parse_swaps(heading) == []
    lines = [
        "/swap.img   file\t\t16777212\t0\t\t-2",
        "/mnt/my\\040swap file 1 0 5",
        "/dev/zram0 partition 8 1 100",
        "broken",
    ]
    text = heading + "\n".join(lines)
    assert parse_swaps(text) == [
        {"device": "/swap.img", "priority": -2},
        {"device": "/mnt/my swap", "priority": 5},
        {"device": "/dev/zram0", "priority": 100},
    ]


def test_a_ledger_that_cannot_be_used_needs_more_than_another_run() -> None:
    found = {"kind": "ledger", "key": LEDGER, "expected": {"keeps": "nothing else"}}
    remedy = tuning_remedy("spark0", {**found, "observed": {"error": "it is not a ledger"}})
    assert remedy is not None
    assert remedy.startswith(f"restore a copy of {LEDGER} on spark0, or move it away")
    assert tuning_remedy("spark0", {**found, "observed": {"keeps": ["swap"]}}) is None
