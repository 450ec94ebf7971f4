# SPDX-License-Identifier: Apache-2.0
"""The node has the image it was told to have, and nothing that was refused."""

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


def test_the_image_is_there_by_its_digest(host: Host, request: pytest.FixtureRequest) -> None:
    image = catalog(request, "stacks/lab.yml")["image"]
    reference = f"{image['repository']}@{image['digest']}"
    (found,) = json.loads(host.check_output("docker image inspect %s", reference))
    assert reference in found["RepoDigests"]


def test_the_refused_image_is_not_there(host: Host, request: pytest.FixtureRequest) -> None:
    reference = catalog(request, "extras.yml")["image_without_ray"]
    assert host.run("docker image inspect %s", reference).rc == 1


def test_the_record_is_about_the_good_image(host: Host, request: pytest.FixtureRequest) -> None:
    stack = catalog(request, "stacks/lab.yml")
    record = host.file("/var/lib/firstlight/image.proof")
    assert (record.user, record.group, record.mode) == ("root", "root", 0o644)
    assert json.loads(record.content_string) == {
        "image": f"{stack['image']['repository']}@{stack['image']['digest']}",
        "requires": {name: str(version) for name, version in stack["requires"].items()},
    }


def test_looking_into_the_image_left_nothing_running(host: Host) -> None:
    names = host.check_output("docker ps --all --format '{{.Names}}'").split()
    assert [name for name in names if not name.startswith("firstlight-")] == []
