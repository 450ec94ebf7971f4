# SPDX-License-Identifier: Apache-2.0
"""Lines of the journal, and that no secret is in them."""

from __future__ import annotations

import json
from typing import Any

from ansible_collections.firstlight.cluster.plugins.module_utils.serving.journal_lines import (
    LONGEST,
    cleaned,
    message,
    parse_entries,
)
from hypothesis import given
from hypothesis import strategies as st

SECRET = "0f1e2d3c4b5a69788796a5b4c3d2e1f0"


def line(**fields: Any) -> str:
    return json.dumps({"__REALTIME_TIMESTAMP": "1794733200000001", "__CURSOR": "s=1;i=2", "PRIORITY": "6", **fields})


def test_who_systemd_speaks_of_counts_before_who_wrote() -> None:
    text = "\n".join(
        [
            line(MESSAGE="Started.", UNIT="firstlight-ray.service", _SYSTEMD_UNIT="init.scope"),
            "-- no entry --",
            line(MESSAGE="hello", _SYSTEMD_UNIT="firstlight-ray.service", PRIORITY="3", __CURSOR="s=1;i=3"),
        ]
    )
    entries, cursor = parse_entries(text)
    assert cursor == "s=1;i=3"
    assert [entry["unit"] for entry in entries] == ["firstlight-ray.service"] * 2
    assert [entry["priority"] for entry in entries] == [6, 3]
    assert entries[0] == {"at": 1794733200000001, "unit": "firstlight-ray.service", "priority": 6, "text": "Started."}


def test_bytes_and_nothing_are_texts_too() -> None:
    assert message([104, 105, 255]) == "hi\ufffd"
    assert message(None) == ""


def test_a_line_that_the_journal_leaves_out_is_told() -> None:
    (entry,), _ = parse_entries(line(MESSAGE=None))
    assert "journalctl --all" in entry["text"]


def test_the_hosts_own_secrets_and_what_looks_like_one_go() -> None:
    entries = [
        {"at": 1, "text": f"token {SECRET} refused"},
        {"at": 2, "text": "VLLM_API_KEY=abcdefghijkl started"},
        {"at": 3, "text": "Authorization: Bearer qwertyuiopasdfghjkl"},
        {"at": 4, "text": "hf_abcdefghijklmnopqrstuv"},
    ]
    told = json.dumps(cleaned(entries, [SECRET]))
    for secret in (SECRET, "abcdefghijkl", "qwertyuiop", "hf_abc"):
        assert secret not in told


def test_a_private_key_that_is_written_line_by_line_goes() -> None:
    key = ["-----BEGIN PRIVATE KEY-----", "MIIEvQIBADANBgkq", "AAAA", "-----END PRIVATE KEY-----", "after it"]
    told = [entry["text"] for entry in cleaned([{"text": text} for text in key], [])]
    assert told[1:4] == ["<removed>"] * 3
    assert told[4] == "after it"


def test_a_line_has_an_end() -> None:
    (entry,) = cleaned([{"text": "x" * 100_000}], [])
    assert len(entry["text"]) <= LONGEST + 4


@given(st.lists(st.text(max_size=40), max_size=5))
def test_no_line_is_lost_and_no_secret_stays(texts: list[str]) -> None:
    found = cleaned([{"text": f"{text}{SECRET}{text}"} for text in texts], [SECRET])
    assert len(found) == len(texts)
    assert SECRET not in json.dumps(found)
