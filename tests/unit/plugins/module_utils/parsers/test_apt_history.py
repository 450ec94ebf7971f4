# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import pytest
from ansible_collections.firstlight.cluster.plugins.module_utils.parsers.apt_history import (
    ACTIONS,
    Change,
    parse_apt_history,
    parse_dpkg_log,
    parse_time,
    shown,
)
from hypothesis import given
from hypothesis import strategies as st

HISTORY = """
Start-Date: 2026-11-14  06:12:03
Commandline: /usr/bin/unattended-upgrade
Upgrade: nvidia-utils-580:amd64 (580.95.05-0ubuntu0.24.04.2, 580.126.09-0ubuntu0.24.04.2), libc6:amd64 (2.39-0, 2.39-1)
End-Date: 2026-11-14  06:12:41

Start-Date: 2026-11-14  09:00:00
Commandline: apt-get install -y gcc
Requested-By: alice (1000)
Install: gcc:amd64 (4:13.2.0-7ubuntu1), cpp:amd64 (4:13.2.0-7ubuntu1, automatic)
Reinstall: make:amd64 (4.3-4.1)
Downgrade: zlib1g:amd64 (1:1.3-2, 1:1.3-1)
Remove: old:amd64 (1.0)
Purge: older:all (0.9)
Error: Sub-process /usr/bin/dpkg returned an error code (1)
End-Date: 2026-11-14  09:01:00

Start-Date: 2026-11-14  10:00:00
Commandline: aptdaemon role='role-commit-packages' sender=':1.85'
Upgrade: bash:amd64 (5.2-1, 5.2-2)
"""

DPKG = """2026-11-14 06:12:05 startup archives unpack
2026-11-14 06:12:05 upgrade nvidia-utils-580:amd64 580.95.05-0ubuntu0.24.04.2 580.126.09-0ubuntu0.24.04.2
2026-11-14 06:12:05 status half-configured nvidia-utils-580:amd64 580.95.05-0ubuntu0.24.04.2
2026-11-14 06:12:06 configure nvidia-utils-580:amd64 580.126.09-0ubuntu0.24.04.2 <none>
2026-11-14 06:12:06 status installed nvidia-utils-580:amd64 580.126.09-0ubuntu0.24.04.2
2026-11-14 06:12:07 trigproc libc-bin:amd64 2.39-1 <none>
2026-11-14 07:00:00 install gcc:amd64 <none> 4:13.2.0-7ubuntu1
2026-11-14 08:00:00 remove old:amd64 1.0 <none>
2026-11-14 08:00:00 purge older:all 0.9 <none>
2026-11-14 08:00:01 conffile /etc/old.conf keep
"""


def test_a_history_of_every_kind_of_change_is_read() -> None:
    first, second, third = parse_apt_history(HISTORY)
    assert first.command == "/usr/bin/unattended-upgrade"
    assert str(first.start) == "2026-11-14 06:12:03"
    assert str(first.end) == "2026-11-14 06:12:41"
    assert first.changes[0] == Change(
        "nvidia-utils-580", "upgrade", "580.95.05-0ubuntu0.24.04.2", "580.126.09-0ubuntu0.24.04.2"
    )
    assert second.requested_by == "alice (1000)"
    assert second.error.startswith("Sub-process")
    assert {change.package: (change.action, change.before, change.after) for change in second.changes} == {
        "gcc": ("install", None, "4:13.2.0-7ubuntu1"),
        "cpp": ("install", None, "4:13.2.0-7ubuntu1"),
        "make": ("reinstall", "4.3-4.1", "4.3-4.1"),
        "zlib1g": ("downgrade", "1:1.3-2", "1:1.3-1"),
        "old": ("remove", "1.0", None),
        "older": ("purge", "0.9", None),
    }
    assert third.end is None
    assert third.command.startswith("aptdaemon role=")


def test_line_ends_of_another_system_and_a_cut_off_beginning_do_no_harm() -> None:
    cut = "grade: half:amd64 (1, 2)\r\nEnd-Date: 2026-11-14  06:00:00\r\n" + HISTORY.replace("\n", "\r\n")
    assert parse_apt_history(cut) == parse_apt_history(HISTORY)


def test_a_cut_off_end_keeps_what_was_whole() -> None:
    place = HISTORY.index("Downgrade: zlib1g") + len("Downgrade: zlib1g:amd64 (1:1.")
    last = parse_apt_history(HISTORY[:place])[-1]
    assert [change.package for change in last.changes] == ["gcc", "cpp", "make"]
    assert last.end is None


def test_transactions_without_an_empty_line_between_them_are_two() -> None:
    assert len(parse_apt_history(HISTORY.replace("\n\n", "\n"))) == 3


def test_dpkg_says_what_it_did_and_nothing_of_states_and_triggers() -> None:
    assert [(one.package, one.action, one.before, one.after) for one in parse_dpkg_log(DPKG)] == [
        ("nvidia-utils-580", "upgrade", "580.95.05-0ubuntu0.24.04.2", "580.126.09-0ubuntu0.24.04.2"),
        ("gcc", "install", None, "4:13.2.0-7ubuntu1"),
        ("old", "remove", "1.0", None),
        ("older", "purge", "0.9", None),
    ]
    assert parse_dpkg_log(DPKG.replace("\n", "\r\n")) == parse_dpkg_log(DPKG)


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("2026-11-14  06:12:03", "2026-11-14 06:12:03"),
        (" 2026-11-14 06:12:03\r", "2026-11-14 06:12:03"),
        ("2026-13-14 06:12:03", "None"),
        ("", "None"),
    ],
)
def test_times(text: str, told: str) -> None:
    assert str(parse_time(text)) == told


def test_a_command_is_shown_without_passwords_and_without_end() -> None:
    text = shown("apt-get -o Acquire::http::Proxy=http://me:secret@proxy:3128 install \x1b[31mx " + "y" * 500)
    assert "secret" not in text
    assert "http://***@proxy:3128" in text
    assert "\x1b" not in text
    assert len(text) == 300


NAMES = st.from_regex(r"[a-z0-9][a-z0-9+.-]{1,12}", fullmatch=True)
VERSIONS = st.from_regex(r"[0-9][0-9a-z.+~-]{0,8}", fullmatch=True)


@given(st.text(max_size=400) | st.lists(st.sampled_from(HISTORY.splitlines() + DPKG.splitlines())).map("\n".join))
def test_no_text_makes_them_fail(text: str) -> None:
    parse_apt_history(text)
    parse_dpkg_log(text)


@given(st.integers(0, len(HISTORY)), st.integers(0, len(HISTORY)))
def test_a_piece_of_a_log_never_tells_what_the_whole_does_not(one: int, other: int) -> None:
    whole = {change for transaction in parse_apt_history(HISTORY) for change in transaction.changes}
    lines = HISTORY.splitlines(keepends=True)
    piece = "".join(lines[min(one, other) : max(one, other)])
    assert {change for transaction in parse_apt_history(piece) for change in transaction.changes} <= whole


@given(
    st.lists(st.tuples(NAMES, VERSIONS, VERSIONS), min_size=1, max_size=6), st.sampled_from(["Upgrade", "Downgrade"])
)
def test_what_apt_writes_is_read_back(items: list[tuple[str, str, str]], heading: str) -> None:
    listed = ", ".join(f"{name}:arm64 ({before}, {after})" for name, before, after in items)
    (read,) = parse_apt_history(f"\nStart-Date: 2026-11-14  06:12:03\nCommandline: x\n{heading}: {listed}\n")
    assert [(one.package, one.before, one.after) for one in read.changes] == items
    assert {one.action for one in read.changes} == {ACTIONS[heading]}
