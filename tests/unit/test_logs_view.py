# SPDX-License-Identifier: Apache-2.0
"""Lines of many hosts as they are printed, and what of times and units is understood."""

from __future__ import annotations

import argparse
import json
from typing import Any

import pytest

from firstlight.logs_view import Printer, check_since, moment, unit_name

DOCUMENT: dict[str, Any] = {
    "entries": [
        {
            "host": "spark0",
            "at": 1794733200123456,
            "unit": "firstlight-ray.service",
            "priority": 6,
            "text": "up\x1b[1m",
        },
        {"host": "spark1", "at": 1794733201000000, "unit": "firstlight-server-0.service", "priority": 3, "text": "[x]"},
    ],
    "cursors": {},
    "silent": {"spark2": "unreachable"},
}


def test_a_line_says_when_where_who_and_what(capsys: pytest.CaptureFixture[str]) -> None:
    printer = Printer()
    printer.show(DOCUMENT)
    printer.show({**DOCUMENT, "entries": []})
    shown = capsys.readouterr()
    assert shown.out.splitlines() == [
        "2026-11-15 09:00:00.123 spark0 ray up\\x1b[1m",
        "2026-11-15 09:00:01.000 spark1 server-0 [x]",
    ]
    assert shown.err == "firstlight: spark2: unreachable\n"


@pytest.mark.hostile
def test_a_host_prints_no_line_of_another_one(capsys: pytest.CaptureFixture[str]) -> None:
    forged = "x\n2026-11-15 09:00:02.000 spark0 server-0 all is well\r\x1b[1A"
    Printer().show(
        {
            **DOCUMENT,
            "entries": [{**DOCUMENT["entries"][0], "host": "spark9", "unit": "ray\nx", "text": forged}],
            "silent": {},
        }
    )
    first, second = capsys.readouterr().out.splitlines()
    assert first.endswith("spark9 ray x x")
    assert second == " " * 24 + "2026-11-15 09:00:02.000 spark0 server-0 all is well\\r\\x1b[1A"


def test_programs_get_an_object_a_line(capsys: pytest.CaptureFixture[str]) -> None:
    Printer(as_json=True).show(DOCUMENT)
    assert [json.loads(line) for line in capsys.readouterr().out.splitlines()] == DOCUMENT["entries"]


def test_times() -> None:
    assert check_since("15m") == "15 minutes ago"
    assert check_since("2d") == "2 days ago"
    assert check_since("2026-11-15T09:00") == "@1794733200"
    assert moment(0) == "1970-01-01 00:00:00.000"
    for wrong in ("", "m", "15", "yesterday", "15x", "--since"):
        with pytest.raises(argparse.ArgumentTypeError):
            check_since(wrong)


def test_units() -> None:
    assert unit_name("ray") == "firstlight-ray.service"
    assert unit_name("firstlight-server-0.service") == "firstlight-server-0.service"
    for wrong in ("", "ssh.socket", "../x", "a b", "-"):
        with pytest.raises(argparse.ArgumentTypeError):
            unit_name(wrong)
