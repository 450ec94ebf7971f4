# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

from typing import Any

import pytest
from ansible_collections.firstlight.cluster.plugins.module_utils.observe.drift import (
    by_what,
    change_words,
    last_changes,
)
from ansible_collections.firstlight.cluster.plugins.module_utils.parsers.apt_history import (
    parse_apt_history,
    parse_dpkg_log,
)

APT = """
Start-Date: 2026-11-14  06:00:00
Commandline: apt-get install x=2
Requested-By: alice (1000)
Upgrade: x:amd64 (1, 2)
End-Date: 2026-11-14  06:00:10
"""
DPKG = "2026-11-14 06:00:05 upgrade x:amd64 1 2\n"


def cause(installed: str | None, apt: str = APT, dpkg: str = DPKG) -> dict[str, Any]:
    return last_changes({"x": installed}, parse_apt_history(apt), parse_dpkg_log(dpkg))["x"]


def test_a_change_within_a_transaction_is_its_command() -> None:
    found = cause("2")
    assert (found["command"], found["requested_by"], found["log"]) == ("apt-get install x=2", "alice (1000)", "apt")
    assert found["at"] == "2026-11-14 06:00:10"
    assert change_words(found) == (
        "`apt-get install x=2` for alice (1000) upgraded it from 1 to 2 at 2026-11-14 06:00:10"
    )


def test_dpkg_by_hand_after_apt_is_told_from_it() -> None:
    found = cause("3", dpkg=DPKG + "2026-11-14 07:00:00 upgrade x:amd64 2 3\n")
    assert (found["log"], found["command"], found["after"]) == ("dpkg", None, "3")
    assert "dpkg without apt" in change_words(found)
    assert "moved it from 2 to 3" in change_words(found)


def test_an_upgrade_that_failed_is_not_what_made_it_so() -> None:
    assert cause("2", dpkg=DPKG + "2026-11-14 07:00:00 upgrade x:amd64 2 3\n")["after"] == "2"


def test_a_transaction_that_never_ended_lasts_until_the_next() -> None:
    crashed = APT.replace("End-Date: 2026-11-14  06:00:10\n", "")
    found = cause("2", apt=crashed)
    assert found["log"] == "apt"
    assert "never finished" in change_words(found)
    later = crashed + "\nStart-Date: 2026-11-14  06:30:00\nCommandline: y\nInstall: x:amd64 (9)\n"
    by_hand = cause(
        "3",
        apt=crashed + "\nStart-Date: 2026-11-14  06:01:00\nCommandline: y\n",
        dpkg=("2026-11-14 06:59:00 upgrade x:amd64 2 3\n"),
    )
    assert by_hand["log"] == "dpkg"
    assert cause("2", apt=later)["command"] == "apt-get install x=2"


def test_without_dpkgs_log_apts_own_must_do() -> None:
    assert cause("2", dpkg="")["command"] == "apt-get install x=2"


def test_a_package_that_no_log_names_has_no_cause() -> None:
    assert last_changes({"y": "1"}, parse_apt_history(APT), parse_dpkg_log(DPKG)) == {}
    assert "go back to 2026-11-01" in str(by_what("package.y", "1", {"packages": {}, "since": "2026-11-01T00:00:00Z"}))


@pytest.mark.parametrize(
    ("command", "words"),
    [
        ("/usr/bin/unattended-upgrade", "unattended-upgrades upgraded it"),
        ("/usr/bin/python3 /usr/bin/unattended-upgrade", "unattended-upgrade"),
        ("aptdaemon role='role-commit-packages' sender=':1.85'", "aptdaemon (`aptdaemon role="),
        ("packagekit role='update-packages'", "packagekit (`packagekit role="),
        ("apt full-upgrade", "`apt full-upgrade` upgraded it"),
        ("", "apt, without a command line in its history, upgraded it"),
    ],
)
def test_who_it_was(command: str, words: str) -> None:
    assert words in change_words({"action": "upgrade", "before": "1", "after": "2", "command": command, "log": "apt"})


def test_an_error_is_told() -> None:
    told = change_words({"action": "install", "after": "2", "command": "x", "log": "apt", "error": "dpkg returned 1"})
    assert told == "`x` installed it 2, and ended with: dpkg returned 1"


MOVED = {"action": "upgrade", "before": "1", "after": "2", "at": "2026-11-14T06:00:00Z", "command": "x", "log": "apt"}


@pytest.mark.parametrize(
    ("boot", "words"),
    [
        ("2026-11-14T07:00:00Z", "booted at 2026-11-14T07:00:00Z, which loaded it"),
        ("2026-11-13T07:00:00Z", "has run since 2026-11-13T07:00:00Z and not booted since then"),
        (None, "`x` upgraded it"),
    ],
)
def test_a_loaded_module_is_told_with_its_boot(boot: str | None, words: str) -> None:
    history = {"packages": {"nvidia-dkms": MOVED}, "boot": boot}
    assert words in str(by_what("driver.loaded", "2", history, "nvidia-dkms"))
    assert by_what("driver.installed", "2", history, "nvidia-dkms") == change_words(MOVED)


@pytest.mark.parametrize(
    ("name", "observed", "history", "words"),
    [
        ("hold.x", False, {"packages": {"x": {**MOVED, "command": "apt --allow-change-held-packages x"}}}, "upgraded"),
        ("hold.x", False, {"packages": {"x": {**MOVED, "log": "dpkg"}}}, "dpkg without apt"),
        ("hold.x", False, {"packages": {"x": MOVED}}, "no log records who removes a hold"),
        ("hold.x", False, {}, "no log records who removes a hold"),
        ("file./a", {"sha256": "1"}, {"paths": {"/a": {"changed": "T"}}}, "last written at T"),
        ("file./a", {"exists": False}, {"paths": {"/a": {"changed": "T"}}}, "its directory was last changed at T"),
        ("venv./opt/v", {"lock": "1"}, {"paths": {"/opt/v": {"changed": "T"}}}, "last written at T"),
        ("sysctl.a.b", "2", {"sysctl": {"a.b": {"path": "/etc/sysctl.d/z.conf", "value": "2"}}}, "z.conf sets it"),
        ("sysctl.a.b", "2", {"sysctl": {"a.b": {"path": "/etc/sysctl.d/z.conf", "value": "1"}}}, "set by hand"),
        ("sysctl.a.b", "2", {}, "no file of sysctl.d sets it"),
        (
            "unit.u.service",
            {},
            {"units": {"u.service": {"state": "inactive", "since": "T", "result": "success"}}},
            "inactive since T",
        ),
        (
            "container.c",
            {},
            {"units": {"c.service": {"state": "failed", "since": "T", "result": "exit-code"}}},
            "failed (exit-code)",
        ),
    ],
)
def test_everything_else_says_what_is_known(name: str, observed: Any, history: dict[str, Any], words: str) -> None:
    assert words in str(by_what(name, observed, history, moved=["x"]))


def test_a_hold_that_is_gone_from_a_package_in_its_place_is_nobodys() -> None:
    """The command that brought the package there ran before it was held."""
    history = {"packages": {"x": {**MOVED, "command": "apt --allow-change-held-packages install x=2"}}}
    assert "no log records" in str(by_what("hold.x", False, history))


@pytest.mark.parametrize("name", ["image.x", "gpus", "unit.u", "file./a", "driver.mig", "driver.loaded", "nonsense"])
def test_where_nothing_is_known_nothing_is_said(name: str) -> None:
    assert by_what(name, None, {}) is None
