# SPDX-License-Identifier: Apache-2.0
"""Unit files and what systemctl says of a unit."""

from __future__ import annotations

import re
import shlex

import pytest
from ansible_collections.firstlight.cluster.plugins.module_utils.systemd import (
    HEADER,
    UnitState,
    command,
    parse_show,
    plain,
    quote,
    redact,
    render_unit,
    started_at,
)
from hypothesis import given
from hypothesis import strategies as st

RUNNING = "LoadState=loaded\nActiveState=active\nSubState=running\nResult=success\nNRestarts=0\n"
LOOPING = "NRestarts=4\nResult=exit-code\nLoadState=loaded\nActiveState=activating\nSubState=auto-restart\n"


@pytest.mark.parametrize(
    ("argument", "written"),
    [
        ("--port=8000", "--port=8000"),
        ("", '""'),
        ("two words", '"two words"'),
        ('{"method":"mtp"}', '"{\\"method\\":\\"mtp\\"}"'),
        ("50%", "50%%"),
        ("$HOME", "$$HOME"),
        ("back\\slash", '"back\\\\slash"'),
        (";", '";"'),
        ("line\nfeed", '"line\\nfeed"'),
        ("carriage\rreturn", '"carriage\\rreturn"'),
    ],
)
def test_quote(argument: str, written: str) -> None:
    assert quote(argument) == written


def test_quote_refuses_what_no_command_can_have() -> None:
    with pytest.raises(ValueError, match="NUL"):
        quote("a\x00b")


@given(st.text(alphabet=st.characters(codec="ascii", exclude_characters="\x00\n\t\r"), max_size=30))
def test_a_quoted_argument_is_read_back_as_one(argument: str) -> None:
    # As systemd does: split first, then specifiers and variables, whose escapes are the doubled signs.
    (word,) = shlex.split(quote(argument))
    assert word.count("%") == 2 * argument.count("%")
    assert re.sub(r"([%$])\1", r"\1", word) == argument


@pytest.mark.hostile
@pytest.mark.parametrize("end", ["\n", "\r", "\r\n", "\\\n", "\x00"])
def test_no_value_of_a_unit_begins_another_setting(end: str) -> None:
    forged = f"x{end}ExecStartPre=/bin/sh -c id"
    with pytest.raises(ValueError, match="the value of Description in a unit has a line break"):
        render_unit([("Unit", [("Description", forged)])])


@pytest.mark.hostile
@given(st.text(alphabet="ab\n\r\\\"' #;%$", max_size=20))
def test_no_argument_of_a_command_begins_another_setting(argument: str) -> None:
    unit = render_unit([("Service", [("ExecStart", command(["/bin/echo", argument, "c"]))])])
    lines = re.split(r"[\n\r]", unit.removeprefix(HEADER))
    assert len(lines) == 5
    assert (lines[0], lines[1], lines[3:]) == ("[Service]", "ExecStart=/bin/echo \\", ["    c", ""])


def test_command_has_one_argument_a_line() -> None:
    assert command(["/bin/echo", "a b", "c"], prefix="-") == '-/bin/echo \\\n    "a b" \\\n    c'


def test_a_text_for_people_is_no_setting_and_has_no_specifier() -> None:
    assert plain("server for 100%\nExecStart=/bin/false") == "server for 100%% ExecStart=/bin/false"


def test_render_unit() -> None:
    text = render_unit([("Unit", [("Description", "x")]), ("Service", [("ExecStartPre", "a"), ("ExecStartPre", "b")])])
    assert text == f"{HEADER}[Unit]\nDescription=x\n\n[Service]\nExecStartPre=a\nExecStartPre=b\n"


def test_parse_show() -> None:
    assert parse_show(RUNNING) == UnitState("loaded", "active", "running", "success", 0)
    assert parse_show(RUNNING).words == "active (running)"
    assert parse_show(LOOPING).words == "activating (auto-restart), result exit-code, restarted 4 times"


@pytest.mark.parametrize("text", ["", "garbage\n", "NRestarts=[not set]\n"])
def test_parse_show_of_nothing_is_a_unit_that_is_not_there(text: str) -> None:
    assert parse_show(text) == UnitState()
    assert parse_show(text).words == "not-found"


def test_redact() -> None:
    assert redact(["token=abcdef0123", "fine"], ["abcdef0123", ""]) == ["token=********", "fine"]


def test_when_a_unit_was_started_last() -> None:
    # Started 100 s after the machine, which has been up for 160 s; it is rounded so that no line of the start is lost.
    assert started_at("InactiveExitTimestampMonotonic=100250000\n", 160.0, 1_800_000_060.0) == 1_800_000_000
    for unknown in ("", "InactiveExitTimestampMonotonic=0\n", "InactiveExitTimestampMonotonic=[not set]\n"):
        assert started_at(unknown, 160.0, 1_800_000_060.0) is None
