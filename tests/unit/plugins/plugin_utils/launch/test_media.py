# SPDX-License-Identifier: Apache-2.0
"""A request cannot have the engine fetch from inside the host's network."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import yaml
from ansible_collections.firstlight.cluster.plugins.plugin_utils.launch.flags import flag_name
from ansible_collections.firstlight.cluster.plugins.plugin_utils.launch.translations import (
    MEDIA_FLAG,
    MEDIA_SINCE,
    NO_MEDIA,
)

from tests.unit.launching import commands, read_description

pytestmark = pytest.mark.hostile

ROOT = Path(__file__).resolve().parents[5]
LAUNCHES: dict[str, dict[str, Any]] = {
    name: values
    for name, values in yaml.safe_load((ROOT / "tests/fixtures/launches.yml").read_text()).items()
    if not name.startswith(".") and "tensorrt" not in name
}


def told(name: str, **changes: Any) -> list[list[str]]:
    """What each process of the engine is told about media."""
    description = read_description({**LAUNCHES[name], **changes})
    return [
        [word for word in one["engine_argv"] if flag_name(word) == MEDIA_FLAG]
        for host in description.hosts
        for one in commands(description, host.name)
        if one["name"].startswith("server")
    ]


@pytest.mark.parametrize("name", LAUNCHES)
def test_no_engine_fetches_what_a_request_names(name: str) -> None:
    found = told(name, version=None)
    assert found
    assert all(words == [f"{MEDIA_FLAG}={NO_MEDIA}"] for words in found)


def test_the_replicas_of_ray_serve_are_told_as_well() -> None:
    description = read_description(LAUNCHES["ray-serve"])
    (server,) = [one for one in commands(description, description.head) if one["name"] == "server"]
    (settings,) = [text for path, text in server["files"].items() if path.endswith(".json")]
    assert f"{MEDIA_FLAG}={NO_MEDIA}" in json.loads(settings)["arguments"]


@pytest.mark.parametrize("own", [[MEDIA_FLAG, "media.example.org"], [f"{MEDIA_FLAG}=media.example.org"]])
def test_domains_that_the_operator_names_stand(own: list[str]) -> None:
    assert all(words == own[:1] for words in told("vllm-single", flags=own))
    underscores = [own[0].replace("-media-", "_media_"), *own[1:]]
    assert all(words == underscores[:1] for words in told("vllm-single", flags=underscores))


def test_a_name_that_resolves_is_not_among_them() -> None:
    """And no list is empty: that would be no limit. RFC 6761 keeps .invalid from ever being a host."""
    assert NO_MEDIA.endswith(".invalid")


@pytest.mark.parametrize(("engine", "former"), [("vllm", "0.10.2"), ("sglang", "0.5.17")])
def test_it_is_told_to_every_release_that_knows_it(engine: str, former: str) -> None:
    known = json.loads((ROOT / f"catalog/engines/since/{engine}.json").read_text())["flags"][MEDIA_FLAG]
    first = ".".join(map(str, (*MEDIA_SINCE[engine], 0)[:3]))
    assert known[0][0] == first
    assert told(f"{engine}-single", version=first)[0]
    assert told(f"{engine}-single", version=former)[0] == []
