# SPDX-License-Identifier: Apache-2.0
"""What the catalog lets the containers of engines do."""

from __future__ import annotations

from pathlib import Path

import pytest
from ansible_collections.firstlight.cluster.plugins.plugin_utils.catalog.load import CatalogError
from ansible_collections.firstlight.cluster.plugins.plugin_utils.engines.containers import load_containers

ROOT = Path(__file__).resolve().parents[4]


def entry(engine: str, capabilities: str = "[]", writable: str = "[]") -> str:
    return f"  - {{engine: {engine}, capabilities: {capabilities}, writable: {writable}, source: s}}\n"


def write(directory: Path, *entries: str) -> Path:
    directory.mkdir(exist_ok=True)
    (directory / "containers.yml").write_text("source: s\ndate: '2026-01-01'\ncontainers:\n" + "".join(entries))
    return directory


def test_every_engine_of_the_catalog_is_known_and_has_no_further_right() -> None:
    found = load_containers([ROOT / "catalog" / "engines"])
    assert set(found) == {"vllm", "sglang", "tensorrt-llm"}
    assert [one["capabilities"] for one in found.values()] == [[], [], []]
    assert found["vllm"]["writable"]


def test_a_site_has_its_own_first(tmp_path: Path) -> None:
    site = write(tmp_path / "site", entry("vllm", "[SYS_NICE]"))
    built_in = write(tmp_path / "built-in", entry("vllm"), entry("sglang", writable="[/root]"))
    assert load_containers([site, built_in, tmp_path / "none"]) == {
        "vllm": {"capabilities": ["SYS_NICE"], "writable": []},
        "sglang": {"capabilities": [], "writable": ["/root"]},
    }


@pytest.mark.hostile
def test_a_catalog_gives_no_container_everything(tmp_path: Path) -> None:
    site = write(tmp_path / "site", entry("vllm", "[ALL]"), entry("sglang", writable="['/etc:/etc']"))
    with pytest.raises(CatalogError) as caught:
        load_containers([site])
    assert [problem.rpartition("expected ")[2] for problem in caught.value.problems] == [
        "as its capabilities a list of names such as SYS_NICE",
        "as its writable a list of absolute paths such as /root",
    ]
