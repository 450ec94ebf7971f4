# SPDX-License-Identifier: Apache-2.0
"""The firewall against a host that plays nft: what is evaluated, loaded, confirmed and taken back."""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path
from typing import Any

import pytest
from ansible_collections.firstlight.cluster.plugins.module_utils.firewall.change import FirewallChanger
from ansible_collections.firstlight.cluster.plugins.module_utils.firewall.firewall import REMOVAL
from ansible_collections.firstlight.cluster.plugins.module_utils.firewall.firewall_host import (
    FirewallError,
    read_ruleset,
    ssh_connection,
)
from ansible_collections.firstlight.cluster.plugins.module_utils.host import Result
from ansible_collections.firstlight.cluster.plugins.plugin_utils.firewall_rules import read_firewall, render_rules

from tests.unit.fake_host import Call, FakeHost, Reply, failure

ADDRESSES = [
    {
        "ifname": "eth0",
        "mtu": 1500,
        "flags": ["UP"],
        "operstate": "UP",
        "addr_info": [{"local": "10.0.0.4", "prefixlen": 24, "family": "inet", "scope": "global"}],
    },
]
ABSENT = "Error: No such file or directory\nlist table inet firstlight\n"

NFT = """#!/bin/sh
# Keeps what it is told to load; a table is loaded with its removal before it.
[ "$1" = delete ] && exec rm -f "$ROOT/table"
[ -e "$ROOT/refuses" ] && { echo "Error: syntax error" >&2; exit 1; }
sed -e '/^#/d' -e '/^add table/d' -e '/^delete table/d' "$2" >"$ROOT/table"
[ -s "$ROOT/table" ] || rm -f "$ROOT/table"
"""


def listed(rules: str) -> str:
    """What the kernel shows of rules: here, what is left of them without comments and commands."""
    return "".join(line for line in rules.splitlines(keepends=True) if not line.startswith(("#", "add ", "delete ")))


class Box(FakeHost):
    """A host with a kernel that keeps one table."""

    def __init__(self, root: Path) -> None:
        super().__init__()
        self.root = root
        self.path = root / "etc/firstlight/firewall.nft"
        self.connection = "10.0.0.9 50000 10.0.0.4 22"
        self.has_nft = True
        self.refuses = ""
        for directory in (self.path.parent, root / "etc/systemd/system", root / "bin"):
            directory.mkdir(parents=True)
        for name, text in (("nft", NFT), ("systemctl", "#!/bin/sh\n"), ("sync", "#!/bin/sh\n")):
            (root / "bin" / name).write_text(text)
            (root / "bin" / name).chmod(0o755)

    @property
    def table(self) -> Path:
        return self.root / "table"

    def has(self, program: str) -> bool:
        return self.has_nft if program == "nft" else super().has(program)

    def read_text(self, path: str) -> str | None:
        if path.startswith("/proc/"):
            return (
                f"SSH_CONNECTION={self.connection}\0" if path.endswith("/environ") and self.connection else "PPid:\t0\n"
            )
        return super().read_text(path)

    def answer(self, call: Call) -> Reply:
        match call.argv:
            case ("ip", "-j", "addr", "show"):
                return json.dumps(ADDRESSES)
            case ("nft", "--stateless", "list", *_):
                if not self.table.exists():
                    return failure(ABSENT)
                return self.table.read_text()
            case ("unshare", *_):
                if self.refuses:
                    return failure(self.refuses)
                return listed(call.stdin or "")
            case ("nft", "-f", "-"):
                assert call.stdin == REMOVAL
                self.table.unlink()
                return 0
            case ("nft", "-f", _) | ("/bin/sh", _):
                return self.really(call.argv)
            case ("systemctl", "start", "firstlight-firewall-undo.service"):
                return self.really(("/bin/sh", str(self.root / "var/lib/firstlight/firewall/undo/undo.sh")))
            case ("systemctl", *_):
                return 0
        return super().answer(call)

    def really(self, command: tuple[str, ...]) -> Result:
        """Run it with programs of our own."""
        environment = {"PATH": f"{self.root}/bin:{os.environ['PATH']}", "ROOT": str(self.root)}
        ran = subprocess.run(command, env=environment, capture_output=True, text=True, check=False, timeout=20)
        return Result(command, ran.returncode, ran.stdout, ran.stderr)

    def changer(self, **changes: Any) -> FirewallChanger:
        settings = {"ssh_ports": ["22"], "ssh_from": [], "fabric": {}, "openings": []}
        settings |= {name: value for name, value in changes.items() if name in settings}
        params = {
            "path": str(self.path),
            "content": render_rules(read_firewall({f"firewall_{name}": value for name, value in settings.items()})),
            "state": "present",
            **settings,
            "confirm_timeout": 60,
            "change": None,
            **changes,
        }
        return FirewallChanger(params, self, str(self.root))

    def apply(self, **changes: Any) -> dict[str, Any]:
        return self.changer(**changes).apply(check_mode=False)

    def load(self, **changes: Any) -> None:
        """A change that was confirmed."""
        change = self.apply(**changes)["change"]
        assert self.changer(change=change, **changes).check()["works"]
        assert self.changer(change=change, **changes).confirm()["works"]

    def left(self) -> list[str]:
        """What a change has left behind."""
        state = self.root / "var/lib/firstlight/firewall"
        units = (self.root / "etc/systemd/system").iterdir()
        return sorted(path.name for path in (*(state.iterdir() if state.is_dir() else ()), *units))


@pytest.fixture
def box(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Box:
    monkeypatch.delenv("SSH_CONNECTION", raising=False)
    return Box(tmp_path)


def test_the_directory_is_for_all_to_read_whatever_the_umask(box: Box) -> None:
    """Others keep files there that programs without privileges read."""
    box.path.parent.rmdir()
    former = os.umask(0o077)
    try:
        box.apply()
    finally:
        os.umask(former)
    assert box.path.parent.stat().st_mode & 0o777 == 0o755


def test_rules_are_loaded_and_kept_once_they_are_confirmed(box: Box) -> None:
    result = box.apply()
    assert result["changed"]
    assert box.left() == ["firstlight-firewall-undo.service", "firstlight-firewall-undo.timer", "undo"]
    assert box.table.read_text() == listed(box.path.read_text())
    assert box.changer(change=result["change"]).check() == {"changed": False, "waiting": False, "works": True}
    assert box.changer(change=result["change"]).confirm()["works"]
    assert box.left() == []
    assert box.apply() == {"changed": False, "differences": [], "diff": [], "warnings": []}


def test_the_timer_waits_as_long_as_the_run_says(box: Box) -> None:
    box.apply(confirm_timeout=7)
    timer = box.root / "etc/systemd/system/firstlight-firewall-undo.timer"
    assert "OnActiveSec=7s\n" in timer.read_text()


def test_check_mode_tells_and_does_nothing(box: Box) -> None:
    result = box.changer().apply(check_mode=True)
    assert result["changed"]
    assert [one["before_header"] for one in result["diff"]] == [str(box.path), "rules in force"]
    assert not box.path.exists()
    assert not box.table.exists()
    box.has_nft = False
    assert box.changer().apply(check_mode=True)["differences"] == ["nft is not installed, expected the rules in force"]


def test_nobody_confirms_so_the_former_rules_come_back(box: Box) -> None:
    box.load(ssh_from=["10.0.0.0/24"])
    file, table = box.path.read_text(), box.table.read_text()
    change = box.apply()["change"]
    assert box.table.read_text() != table
    box.run(["systemctl", "start", "firstlight-firewall-undo.service"])  # as the timer does
    assert (box.path.read_text(), box.table.read_text()) == (file, table)
    found = box.changer(change=change).check()
    assert not found["works"]
    assert found["outcome"]["alone"]
    assert found["outcome"]["reason"] == "the controller did not come back within 60 s"
    box.changer(change=change).forget()
    assert box.left() == []


def test_the_first_rules_are_taken_back_to_none(box: Box) -> None:
    change = box.apply()["change"]
    box.run(["systemctl", "start", "firstlight-firewall-undo.service"])
    assert not box.path.exists()
    assert not box.table.exists()
    assert not box.changer(change=change).confirm()["works"]


def test_an_interrupted_change_is_taken_back_by_the_next_run(box: Box) -> None:
    box.load()
    box.apply(ssh_from=["10.0.0.0/24"])
    assert "run would roll it back first" in box.changer().apply(check_mode=True)["warnings"][0]
    result = box.apply()
    assert not result["changed"]
    assert result["warnings"] == [
        "An interrupted run left a firewall change that was never confirmed; it was rolled back first."
    ]


def test_rules_that_cannot_be_read_back_leave_no_host_locked(box: Box) -> None:
    """Neither the former rules nor the file: the table goes, and that is told."""
    change = box.apply()["change"]
    (box.root / "refuses").touch()
    box.run(["systemctl", "start", "firstlight-firewall-undo.service"])
    assert not box.table.exists()
    outcome = box.changer(change=change).check()["outcome"]
    assert not outcome["undone"]
    assert "the host has no firewall now" in outcome["problem"]


def test_rules_that_another_program_changed_at_once_are_taken_back(box: Box) -> None:
    change = box.apply()["change"]
    box.table.write_text(box.table.read_text().replace("policy drop", "policy accept"))
    found = box.changer(change=change).check()
    assert not found["works"]
    assert not found["outcome"]["alone"]
    assert "something else changes them" in found["outcome"]["reason"]


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"ssh_ports": ["2222"]}, "from 10.0.0.9 to port 22; nothing was changed"),
        ({"ssh_from": ["192.0.2.0/24"]}, "add 22 to firewall_ssh_ports, or 10.0.0.9 to firewall_ssh_from"),
    ],
)
def test_what_would_lock_us_out_is_refused(box: Box, change: dict[str, Any], words: str) -> None:
    with pytest.raises(FirewallError, match=words):
        box.apply(**change)
    assert box.left() == []
    assert not box.path.exists()


def test_rules_that_the_kernel_refuses_are_not_loaded(box: Box) -> None:
    box.refuses = "Error: syntax error"
    with pytest.raises(FirewallError, match="nft rejects the rules, nothing was changed"):
        box.apply()
    assert box.left() == []


def test_a_load_that_fails_is_taken_back_at_once(box: Box) -> None:
    box.load()
    table = box.table.read_text()
    nft = box.root / "bin/nft"
    # It takes back what was in force, and refuses what is new.
    nft.write_text(NFT.replace('[ -e "$ROOT/refuses" ]', 'grep -q 10.0.0.0/24 "$2"'))
    with pytest.raises(FirewallError, match=r"the rules could not be loaded: .*syntax error"):
        box.apply(ssh_from=["10.0.0.0/24"])
    assert box.table.read_text() == table
    nft.write_text(NFT)
    assert not box.apply()["changed"]


def test_what_was_changed_by_hand_is_told_and_put_right(box: Box) -> None:
    box.load()
    right = box.table.read_text()
    box.table.write_text(right.replace('\t\tiifname "lo" accept\n', '\t\tiifname "lo" accept\n\t\taccept\n'))
    seen = read_ruleset(box, str(box.path), 5)
    assert (seen["loaded"], seen["missing"], seen["added"]) == (True, [], ["chain input: accept"])
    box.load()
    assert box.table.read_text() == right
    assert read_ruleset(box, str(box.path), 5) == {"loaded": True, "missing": [], "added": [], "error": None}
    box.table.unlink()
    assert read_ruleset(box, str(box.path), 5)["loaded"] is False


def test_rules_are_taken_away_without_a_word_from_the_controller(box: Box) -> None:
    box.load()
    assert box.changer(state="absent").apply(check_mode=True)["changed"]
    assert box.apply(state="absent")["changed"]
    assert not box.path.exists()
    assert not box.table.exists()
    assert not box.apply(state="absent")["changed"]


@pytest.mark.parametrize(
    ("environment", "inherited", "expected"),
    [
        ({"SSH_CONNECTION": "10.0.0.9 1 10.0.0.4 22"}, "", ("10.0.0.9", 22, "eth0")),
        ({}, "10.0.0.8 1 10.0.0.4 2222", ("10.0.0.8", 2222, "eth0")),
        ({"SSH_CONNECTION": "fe80::1%eth0 1 fe80::2%eth0 22"}, "", ("fe80::1", 22, None)),
        ({}, "", None),
        ({"SSH_CONNECTION": "nonsense"}, "", None),
    ],
)
def test_the_connection_is_found_also_behind_sudo(
    box: Box, environment: dict[str, str], inherited: str, expected: tuple[str, int, str | None] | None
) -> None:
    box.connection = inherited
    found = ssh_connection(box, environment)
    assert (None if found is None else (found.client, found.port, found.interface)) == expected
