# SPDX-License-Identifier: Apache-2.0
"""Reading the journal: what journalctl is asked, and that the host's secrets do not leave it."""

from __future__ import annotations

import json

import pytest
from ansible_collections.firstlight.cluster.plugins.module_utils.engine_container import (
    SERVER_ENVIRONMENT_PATH,
    TOKEN_PATH,
    supervisor_token_path,
)
from ansible_collections.firstlight.cluster.plugins.module_utils.host import Result
from ansible_collections.firstlight.cluster.plugins.module_utils.serving.journal import (
    JournalReadError,
    read_journal,
    secrets_of,
)

from tests.unit.fake_host import FakeHost

TOKEN = "a1b2c3d4e5f60718293a4b5c6d7e8f90"
KEY = "key-0123456789abcdef"


SUPERVISOR_TOKEN = "0f1e2d3c4b5a69788796a5b4c3d2e1f0"
FILES = {
    TOKEN_PATH: f"{TOKEN}\n",
    supervisor_token_path("spark1"): f"{SUPERVISOR_TOKEN}\n",
    SERVER_ENVIRONMENT_PATH: f'VLLM_API_KEY="{KEY}"\n',
    "/": None,
}


def host_with(journal: Result) -> FakeHost:
    return FakeHost({"journalctl": journal}, FILES)


def answer(text: str) -> Result:
    line = {"__REALTIME_TIMESTAMP": "17", "__CURSOR": "c", "MESSAGE": text, "_SYSTEMD_UNIT": "firstlight-ray.service"}
    return Result(("journalctl",), 0, json.dumps(line) + "\n")


def test_secrets_of_the_host_are_taken_out() -> None:
    machine = host_with(answer(f"started with {TOKEN} and {KEY}"))
    assert {TOKEN, SUPERVISOR_TOKEN, KEY} <= set(secrets_of(machine))
    entries, cursor = read_journal(machine, lines=5, since="10 minutes ago")
    assert cursor == "c"
    assert entries[0]["text"] == "started with ******** and ********"
    assert "--since=10 minutes ago" in machine.ran[-1]
    assert "--lines=5" in machine.ran[-1]


def test_one_goes_on_where_one_was() -> None:
    machine = host_with(Result(("journalctl",), 0, ""))
    assert read_journal(machine, since="1h", cursor="s=1") == ([], "s=1")
    assert "--after-cursor=s=1" in machine.ran[-1]
    assert not [word for word in machine.ran[-1] if word.startswith("--since")]


def test_units_that_never_wrote_anything_are_no_failure() -> None:
    nothing = Result(("journalctl",), 1, "", "Failed to add filter for units: No data available")
    assert read_journal(host_with(nothing)) == ([], "")
    with pytest.raises(JournalReadError, match="run with become"):
        read_journal(host_with(Result(("journalctl",), 1, "", "No journal files were opened")))
