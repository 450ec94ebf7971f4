# SPDX-License-Identifier: Apache-2.0
"""The catalog that a lab writes for its nodes: entries as any site's, with two drivers to move between."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest
import yaml
from ansible_collections.firstlight.cluster.plugins.plugin_utils.catalog.load import load_catalog
from ansible_collections.firstlight.cluster.plugins.plugin_utils.findings import PlanErrors
from ansible_collections.firstlight.cluster.plugins.plugin_utils.stacks.driver_rules import check_driver_set

from firstlight_lab.cache import Cache
from firstlight_lab.catalog import driver_releases, write_catalog
from firstlight_lab.engine import EngineArtifacts
from firstlight_lab.nvidia.packages import PUBLISHED, load_packages
from firstlight_lab.spec import PROFILES

ROOT = Path(__file__).resolve().parents[3]
ARTIFACTS = EngineArtifacts(
    image_reference="registry.lab.example/engine@sha256:" + "1" * 64,
    image_without_ray_reference="registry.lab.example/engine@sha256:" + "2" * 64,
    image_size_bytes=1,
    vllm_version="0.32.0",
    ray_version="2.60.0",
    python_version="3.11",
    model_repository="firstlight/tiny",
    model_revision="3" * 40,
)


@pytest.mark.parametrize("profile", PROFILES)
def test_the_lab_has_two_drivers_to_move_between(tmp_path: Path, profile: str) -> None:
    cache = Cache(tmp_path)
    (cache.apt / "pool").mkdir(parents=True)
    (cache.apt / "key.asc").write_bytes((ROOT / "tests" / "fixtures" / "apt" / "key.asc").read_bytes())
    config = cache.hub / ARTIFACTS.model_repository / ARTIFACTS.model_revision / "config.json"
    config.parent.mkdir(parents=True)
    config.write_text("{}")
    write_catalog(cache, tmp_path / "catalog", ARTIFACTS, PROFILES[profile].factory)
    catalog = load_catalog([tmp_path / "catalog", ROOT / "catalog"])
    present, following = (catalog["stacks"][name]["driver"] for name in ("lab", "lab-next"))
    assert (present["policy"], following["policy"]) == ("verify-and-hold", "install")
    assert (present["version"], following["version"]) == ("580.126.09", "580.95.05")
    assert bool(present["fabric_manager"]) == catalog["hardware"][profile]["nvswitch"]
    for name in ("lab", "lab-next"):
        errors = PlanErrors()
        check_driver_set(
            catalog["stacks"][name], catalog["hardware"][profile], catalog["sources"], errors, install=True
        )
        assert errors.found == []
    source = yaml.safe_load((tmp_path / "catalog" / "sources" / "lab.yml").read_text())
    assert len(source["fingerprint"]) == 40


def test_a_set_is_everything_its_metapackage_needs() -> None:
    (newest, *_) = driver_releases(PROFILES["gb10"].factory)
    packages = {(one.name, one.version): one for one in load_packages()}
    for name, version in newest["packages"].items():
        needed = [words.split()[0] for words in packages[name, version].depends]
        assert all(other in newest["packages"] for other in needed if (other, version) in packages)
    assert "nvidia-firmware-580-580.126.09" in newest["packages"]


def test_every_published_set_says_where_it_is_on_record_and_when_that_was_looked_up() -> None:
    published = json.loads(PUBLISHED.read_text())
    sources = published["sources"]
    assert {listed["packages"] for listed in published["sets"]} == set(sources)
    assert all(re.search(r"Looked up \d{4}-\d{2}-\d{2}\.$", source) for source in sources.values())
