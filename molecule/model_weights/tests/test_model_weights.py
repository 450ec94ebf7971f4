# SPDX-License-Identifier: Apache-2.0
"""Every byte of the model is on the node, checked by another program than the one that brought it."""

from __future__ import annotations

import hashlib
import json

import pytest
from testinfra.host import Host

testinfra_hosts = ["ssh://spark0", "ssh://spark1"]
DIRECTORY = "/var/lib/firstlight/models/molecule"


@pytest.fixture
def files(host: Host) -> dict[str, str]:
    record = json.loads(host.file(f"{DIRECTORY}/.firstlight-snapshot.json").content_string)
    return {path: entry["digest"] for path, entry in record["files"].items()}


def test_large_files_have_the_recorded_digest(host: Host, files: dict[str, str]) -> None:
    large = {path: digest for path, digest in files.items() if digest.startswith("sha256:")}
    assert large
    for path, digest in large.items():
        assert f"sha256:{host.file(f'{DIRECTORY}/{path}').sha256sum}" == digest


def test_small_files_have_the_recorded_digest(host: Host, files: dict[str, str]) -> None:
    assert files["config.json"].startswith("git:")
    content = host.file(f"{DIRECTORY}/config.json").content
    blob = hashlib.sha1(b"blob %d\x00" % len(content) + content, usedforsecurity=False)
    assert files["config.json"] == f"git:{blob.hexdigest()}"


def test_everyone_may_read_and_nothing_is_left_over(host: Host) -> None:
    assert host.file(DIRECTORY).mode == 0o755
    assert host.check_output("find %s -type f ! -name .firstlight-lock ! -perm 0644", DIRECTORY) == ""
    assert host.check_output("find %s -name '*.partial'", DIRECTORY) == ""


def test_the_record_has_the_sha256_of_every_file(host: Host) -> None:
    record = json.loads(host.file(f"{DIRECTORY}/.firstlight-snapshot.json").content_string)
    for path, entry in record["files"].items():
        assert host.file(f"{DIRECTORY}/{path}").sha256sum == entry["sha256"]


def test_copies_for_other_programs_were_left_out(host: Host) -> None:
    record = json.loads(host.file(f"{DIRECTORY}/.firstlight-snapshot.json").content_string)
    weights = host.file(f"{DIRECTORY}/model.safetensors").size
    assert record["left_out"] == dict.fromkeys(("original/consolidated.00.pth", "tiny-f32.gguf"), weights)
    assert host.check_output("find %s -name '*.pth' -o -name '*.gguf'", DIRECTORY) == ""


def test_nothing_is_shared_any_more(host: Host) -> None:
    assert not host.service("firstlight-share").is_running
    assert not host.socket("tcp://29610").is_listening
    assert not host.file("/run/firstlight/share").exists
