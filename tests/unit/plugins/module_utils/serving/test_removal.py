# SPDX-License-Identifier: Apache-2.0
"""What a teardown takes, and what not."""

from __future__ import annotations

import json
from fnmatch import fnmatch
from pathlib import Path

import pytest
import yaml
from ansible_collections.firstlight.cluster.plugins.module_utils.engine_container import (
    RAY_GATHER_PATH,
    SUPERVISOR_UNIT,
)
from ansible_collections.firstlight.cluster.plugins.module_utils.image import image_transfer
from ansible_collections.firstlight.cluster.plugins.module_utils.image.image import RECORDS
from ansible_collections.firstlight.cluster.plugins.module_utils.serving import removal
from ansible_collections.firstlight.cluster.plugins.module_utils.weights import fetch_job
from ansible_collections.firstlight.cluster.plugins.modules import peer_share

ROOT = Path(__file__).resolve().parents[5]

GOLDEN = Path(__file__).resolve().parents[4] / "golden" / "plan"
DIGEST = "sha256:" + "a" * 64
FOUND = removal.Found(
    units=("firstlight-supervisor.service",),
    containers=("firstlight-ray",),
    secrets=("/etc/firstlight/cluster.token",),
    files=("/etc/firstlight/supervisor.json",),
    weights=(("/var/lib/firstlight/models/a--b/c", 4_000_000_000),),
    images=("firstlight/engine:sha256-x",),
)


def test_the_supervisor_goes_first_or_it_would_start_the_others_again() -> None:
    assert removal.UNITS[0] == SUPERVISOR_UNIT


def test_weights_and_images_stay_unless_asked_for() -> None:
    going = removal.wanted(FOUND, weights=False, images=False)
    assert not going.weights
    assert not going.images
    assert going.units == FOUND.units
    told = removal.kept(FOUND, going)
    assert [line for line in told if "teardown_weights=true" in line and "4.0 GB" in line]
    assert [line for line in told if "teardown_images=true" in line]


def test_all_that_goes_is_listed() -> None:
    going = removal.wanted(FOUND, weights=True, images=True)
    assert going == FOUND
    assert removal.kept(FOUND, going) == []
    assert len(removal.lines(going)) == 6
    assert removal.Found().nothing
    assert not going.nothing


def test_only_images_of_ours_are_found_and_pins_come_first() -> None:
    listed = "\n".join(
        [
            f"firstlight/engine\tsha256-x\t{DIGEST}",
            "firstlight/base\tsha256-y\t<none>",
            f"vllm/vllm-openai\t<none>\t{DIGEST}",
            "debian\t12\tsha256:" + "b" * 64,
            "firstlight/engine\t<none>\t<none>",
            "broken",
        ]
    )
    found = removal.own_images(listed, [f"docker.io/vllm/vllm-openai:v0.32.0@{DIGEST}"])
    assert found == (f"vllm/vllm-openai@{DIGEST}", "firstlight/engine:sha256-x", "firstlight/base:sha256-y")


def test_no_path_is_outside_of_what_firstlight_writes() -> None:
    paths = (*removal.FILES, *removal.SECRETS, *removal.SCRATCH, *removal.EMPTY_DIRECTORIES)
    assert all("firstlight" in path for path in paths)


@pytest.mark.parametrize("example", ["spark4", "spark4-ray", "h100x4", "h100x8"])
def test_what_serving_writes_goes(example: str) -> None:
    plan = json.loads((GOLDEN / f"{example}.json").read_text())
    roles = ("ray_cluster", "inference_server", "supervisor")
    written = {
        path
        for host in plan["hosts"].values()
        for role in roles
        for path in (host["desired"].get(role) or {}).get("files", {})
    }
    assert written
    goes = (*removal.FILES, *removal.SECRETS)
    assert [path for path in sorted(written) if not any(fnmatch(path, one) for one in goes)] == []


def test_what_the_roles_leave_on_their_way_is_known() -> None:
    assert RAY_GATHER_PATH in removal.FILES
    assert {peer_share.DIRECTORY, fetch_job.DIRECTORY, image_transfer.TRANSFER} <= set(removal.SCRATCH)
    incoming = yaml.safe_load((ROOT / "roles/inference_image/vars/main.yml").read_text())["__inference_image_incoming"]
    assert incoming in removal.SCRATCH
    assert removal.IMAGE_RECORDS == RECORDS


def test_a_unit_that_stays_masked_is_told() -> None:
    assert "systemctl unmask nginx" in removal.kept(removal.Found(nginx_masked=True), removal.Found())[0]
