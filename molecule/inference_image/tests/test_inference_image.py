# SPDX-License-Identifier: Apache-2.0
"""The nodes have the image they were told to have, the same on both, and nothing that was refused or left over."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest
import yaml
from testinfra.host import Host

testinfra_hosts = ["ssh://spark0", "ssh://spark1"]


def catalog(request: pytest.FixtureRequest, name: str) -> dict[str, Any]:
    lab = Path(os.fspath(request.config.getoption("ssh_config"))).parent
    return dict(yaml.safe_load((lab / "catalog" / name).read_text()))


def tag_of(reference: str) -> str:
    return reference.rpartition("@")[2].replace(":", "-")


def test_the_image_is_there_and_is_the_one_that_was_checked(host: Host, request: pytest.FixtureRequest) -> None:
    stack = catalog(request, "stacks/lab.yml")
    reference = f"{stack['image']['repository']}@{stack['image']['digest']}"
    name = f"firstlight/engine:{tag_of(reference)}"
    (found,) = json.loads(host.check_output("docker image inspect %s", name))
    record = host.file(f"/var/lib/firstlight/images/{tag_of(reference)}.json")
    assert (record.user, record.group, record.mode) == ("root", "root", 0o644)
    assert json.loads(record.content_string) == {
        "id": found["Id"],
        "image": reference,
        "name": name,
        "requires": {name: str(version) for name, version in {**stack["requires"], "python": stack["python"]}.items()},
    }


def test_only_the_head_has_it_from_the_registry(host: Host, request: pytest.FixtureRequest) -> None:
    image = catalog(request, "stacks/lab.yml")["image"]
    (found,) = json.loads(host.check_output("docker image inspect firstlight/engine:%s", tag_of(image["digest"])))
    pulled = [f"{image['repository']}@{image['digest']}"]
    assert found["RepoDigests"] == (pulled if host.check_output("hostname") == "spark0" else [])


def test_the_refused_image_is_not_there(host: Host, request: pytest.FixtureRequest) -> None:
    reference = catalog(request, "extras.yml")["image_without_ray"]
    assert host.run("docker image inspect %s", reference).rc == 1
    assert not host.file(f"/var/lib/firstlight/images/{tag_of(reference)}.json").exists


def test_nothing_is_left_of_the_transfer(host: Host) -> None:
    assert not host.file("/var/lib/firstlight/transfer").exists
    assert not host.service("firstlight-share").is_running
    assert "29610" not in host.check_output("ss --listening --tcp --numeric --no-header")


def test_looking_into_the_image_left_nothing_running(host: Host) -> None:
    names = host.check_output("docker ps --all --format '{{.Names}}'").split()
    assert [name for name in names if not name.startswith("firstlight-")] == []
