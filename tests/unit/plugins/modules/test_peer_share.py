# SPDX-License-Identifier: Apache-2.0
"""What is started to share, what is refused, and that no secret is where it can be read."""

from __future__ import annotations

import json
import os
from hashlib import sha256
from pathlib import Path
from typing import Any

import pytest
import yaml
from ansible_collections.firstlight.cluster.plugins.module_utils.weights.snapshot_store import record_directory
from ansible_collections.firstlight.cluster.plugins.modules import peer_share
from ansible_collections.firstlight.cluster.plugins.plugin_utils.fan_out import CONNECTIONS

from tests.unit.fake_host import Call, FakeHost, failure

TOKEN = "s3cret" * 8


class Node(FakeHost):
    """A node whose systemd does as it is told, or does not."""

    def __init__(self, starts: bool = True) -> None:
        super().__init__(
            {
                "systemd-run": self._start if starts else failure("Job for firstlight-share.service failed."),
                "systemctl": "",
                "systemctl show": self._show,
                "systemctl stop": self._stop,
                "journalctl": f"cannot listen on 10.0.0.1 port 29610: Address in use {TOKEN}\n",
            }
        )
        self.runs = False
        self.seen: dict[str, tuple[int, str]] = {}

    def _start(self, _: Call) -> str:
        self.seen = {p.name: (p.stat().st_mode & 0o777, p.read_text()) for p in Path(peer_share.DIRECTORY).iterdir()}
        self.runs = True
        return ""

    def _show(self, _: Call) -> str:
        return f"LoadState={'loaded' if self.runs else 'not-found'}\nActiveState=active\n"

    def _stop(self, _: Call) -> str:
        self.runs = False
        return ""


@pytest.fixture
def directory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(peer_share, "DIRECTORY", str(tmp_path / "run" / "share"))
    (tmp_path / "model").mkdir()
    (tmp_path / "model" / "config.json").write_text("{}")
    record_directory(str(tmp_path / "model"), "example/tiny", "a" * 40)
    return tmp_path / "model"


def parameters(directory: Path, **more: Any) -> dict[str, Any]:
    return {
        "address": "10.0.0.1",
        "port": 29610,
        "directories": [str(directory)],
        "token": TOKEN,
        "lifetime": 100,
        "idle": 50,
        "connections": 4,
        "peers": ["10.0.0.2", "fd00:0::2"],
        **more,
    }


def test_a_share_is_started_and_its_token_is_in_no_command(directory: Path) -> None:
    node = Node()
    result = peer_share.start(node, parameters(directory), check_mode=False)
    assert (result["changed"], result["endpoint"]) == (True, "http://10.0.0.1:29610")
    (command,) = [one for one in node.ran if one[0] == "systemd-run"]
    assert "--property=RuntimeMaxSec=100" in command
    assert TOKEN not in " ".join(word for one in node.ran for word in one)
    assert os.stat(peer_share.DIRECTORY).st_mode & 0o777 == 0o700
    mode, text = node.seen["settings.json"]
    assert mode == 0o600
    told = json.loads(text)
    assert told["token"] == TOKEN
    listing = told["shared"][0]["listing"]
    assert json.loads(listing)[0]["path"] == "config.json"
    assert result["listings"] == [f"sha256:{sha256(listing.encode()).hexdigest()}"]
    assert told["peers"] == ["10.0.0.2", "fd00::2"]
    assert "class Server" in node.seen["share.py"][1]


def test_a_share_of_an_earlier_run_is_replaced_and_ended(directory: Path) -> None:
    node = Node()
    peer_share.start(node, parameters(directory), check_mode=False)
    node.calls.clear()
    peer_share.start(node, parameters(directory), check_mode=False)
    words = [one[1] for one in node.ran if one[0] == "systemctl"]
    assert words.index("stop") < len(words)
    assert peer_share.stop(node, "", check_mode=False)["changed"]
    assert not os.path.exists(peer_share.DIRECTORY)
    assert not peer_share.stop(node, "", check_mode=False)["changed"]


def test_a_run_ends_its_own_share_and_not_that_of_another(directory: Path) -> None:
    node = Node()
    peer_share.start(node, parameters(directory), check_mode=False)
    assert not peer_share.stop(node, "other0" * 8, check_mode=False)["changed"]
    assert ("systemctl", "stop", peer_share.UNIT) not in node.ran
    assert TOKEN not in (Path(peer_share.DIRECTORY) / peer_share.OWNER).read_text()
    assert peer_share.stop(node, TOKEN, check_mode=False)["changed"]
    assert ("systemctl", "stop", peer_share.UNIT) in node.ran
    assert not peer_share.stop(node, TOKEN, check_mode=False)["changed"]


def test_an_address_of_six_has_brackets(directory: Path) -> None:
    told = peer_share.start(Node(), parameters(directory, address="fd00::1"), check_mode=True)
    assert told["endpoint"] == "http://[fd00::1]:29610"


def test_check_mode_starts_and_stops_nothing(directory: Path) -> None:
    node = Node()
    assert peer_share.start(node, parameters(directory), check_mode=True)["changed"]
    node.runs = True
    assert peer_share.stop(node, "", check_mode=True)["changed"]
    assert node.runs
    assert not os.path.exists(peer_share.DIRECTORY)


def test_a_share_that_does_not_start_is_explained_without_the_token(directory: Path) -> None:
    with pytest.raises(peer_share.ShareError) as refused:
        peer_share.start(Node(starts=False), parameters(directory), check_mode=False)
    assert "cannot listen on 10.0.0.1 port 29610" in str(refused.value)
    assert TOKEN not in str(refused.value)
    assert not os.path.exists(peer_share.DIRECTORY)


@pytest.mark.parametrize(
    ("more", "words"),
    [
        ({"token": "short"}, "the token has 5 characters"),
        ({"token": "x y" * 20}, "expected 32 or more letters and digits"),
        ({"lifetime": 0}, "lifetime is 0, expected 1 or more"),
        ({"connections": 0}, "connections is 0"),
        ({"peers": ["spark1"]}, "peers has an entry that is not an address"),
    ],
)
def test_what_could_not_be_served_is_refused(directory: Path, more: dict[str, Any], words: str) -> None:
    with pytest.raises(peer_share.ShareError, match=words) as refused:
        peer_share.start(Node(), parameters(directory, **more), check_mode=False)
    assert "x y" not in str(refused.value)


def test_only_what_is_still_verified_is_shared(directory: Path, tmp_path: Path) -> None:
    (directory / "config.json").write_text("{ }")
    with pytest.raises(peer_share.ShareError, match=r"config.json has 3 bytes, expected 2"):
        peer_share.start(Node(), parameters(directory), check_mode=False)
    with pytest.raises(peer_share.ShareError, match="has no record of verified files"):
        peer_share.start(Node(), parameters(tmp_path), check_mode=False)
    (directory / ".firstlight-snapshot.json").write_text("[]")
    with pytest.raises(peer_share.ShareError, match="cannot be shared"):
        peer_share.start(Node(), parameters(directory), check_mode=False)


def test_it_takes_as_many_as_the_others_are_told() -> None:
    assert yaml.safe_load(peer_share.DOCUMENTATION)["options"]["connections"]["default"] == CONNECTIONS
