# SPDX-License-Identifier: Apache-2.0
"""Settings in a file that others write to as well."""

from __future__ import annotations

import json
from typing import Any

import pytest
from ansible_collections.firstlight.cluster.plugins.module_utils.state.json_settings import (
    ABSENT,
    at_keys,
    lacking,
    merged,
    parse_settings,
    rendered,
    wanted_settings,
)
from ansible_collections.firstlight.cluster.plugins.plugin_utils.comparison.differences import differences, explain

THEIRS = {
    "default-address-pools": [{"base": "10.0.0.0/8", "size": 24}],
    "log-driver": "json-file",
    "log-opts": {"labels": "site", "max-size": "10m"},
    "proxies": {"https-proxy": "http://user:secret@proxy"},
    "runtimes": {"crun": {"path": "/usr/bin/crun"}, "nvidia": {"path": "old", "args": []}},
}
OURS = {
    "live-restore": True,
    "log-driver": "local",
    "log-opts": {"max-size": "50m"},
    "runtimes": {"nvidia": {"path": "nvidia-container-runtime"}},
}


def test_theirs_stay_and_ours_win() -> None:
    result = merged(THEIRS, OURS, ["log-opts"])
    assert result == {
        **THEIRS,
        "live-restore": True,
        "log-driver": "local",
        "log-opts": {"max-size": "50m"},
        "runtimes": {"crun": {"path": "/usr/bin/crun"}, "nvidia": {"path": "nvidia-container-runtime", "args": []}},
    }
    assert lacking(result, OURS, ["log-opts"]) == []
    assert merged(result, OURS, ["log-opts"]) == result
    assert rendered(result) == rendered(json.loads(rendered(dict(reversed(result.items())))))


def test_only_our_keys_are_told() -> None:
    told = at_keys(THEIRS, OURS, ["log-opts"])
    assert told == {
        "log-driver": "json-file",
        "log-opts": {"labels": "site", "max-size": "10m"},
        "runtimes": {"nvidia": {"path": "old"}},
    }
    assert "secret" not in json.dumps(told)
    assert (
        lacking(told, OURS, ["log-opts"])
        == lacking(THEIRS, OURS, ["log-opts"])
        == [
            ("live-restore", True, ABSENT),
            ("log-driver", "local", "json-file"),
            ("log-opts", {"max-size": "50m"}, {"labels": "site", "max-size": "10m"}),
            ("runtimes.nvidia.path", "nvidia-container-runtime", "old"),
        ]
    )


def test_yes_is_not_one() -> None:
    assert lacking({"debug": 1}, {"debug": True}) == [("debug", True, 1)]
    assert lacking({"debug": None}, {"debug": False}) == [("debug", False, None)]
    assert repr(ABSENT) == "absent"


@pytest.mark.parametrize("text", [None, "", " \n"])
def test_nothing_is_no_settings(text: str | None) -> None:
    assert parse_settings(text) == {}


@pytest.mark.parametrize(("text", "words"), [("{", "it is not JSON"), ("[1]", "a JSON list, not an object")])
def test_what_is_no_object_is_refused(text: str, words: str) -> None:
    with pytest.raises(ValueError, match=words):
        parse_settings(text)


def test_roles_share_a_file() -> None:
    first = {"json_files": {"/f": {"settings": {"x": {"a": 1}}}}}
    second = {"json_files": {"/f": {"settings": {"x": {"b": 2}}, "whole": ["x"]}}}
    assert wanted_settings({"a": first, "b": second}) == {"/f": {"settings": {"x": {"a": 1, "b": 2}}, "whole": ["x"]}}


def test_differences_in_words() -> None:
    desired = {"json_files": {"/f": {"settings": {"live-restore": True}, "mode": "0644", "owner": "root"}}}
    right = {"exists": True, "error": None, "settings": {"live-restore": True}, "mode": "0644", "owner": "root"}

    def told(entry: dict[str, Any] | None) -> list[str]:
        return explain(differences(desired, {"json_files": {"/f": entry} if entry else {}}))

    assert told(right) == []
    assert told(None) == ["settings /f has exists unknown, expected exists yes"]
    assert told({"exists": False}) == ["settings /f is missing, expected it to exist"]
    assert told({**right, "settings": {}, "mode": "0600"}) == [
        "settings /f has live-restore absent, mode 0600, expected live-restore yes, mode 0644"
    ]
    assert told({**right, "error": "it is not JSON"}) == [
        "settings /f has error it is not JSON, expected format a JSON object"
    ]
