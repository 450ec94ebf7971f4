# SPDX-License-Identifier: Apache-2.0
"""The catalog's prompts and limits, and a site's own."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml
from ansible_collections.firstlight.cluster.plugins.plugin_utils.catalog.load import BUILT_IN, CatalogError
from ansible_collections.firstlight.cluster.plugins.plugin_utils.catalog.prompts import KINDS, MEASURES, load_prompts

LIMITS = {kind: dict.fromkeys(MEASURES, 0.1) for kind in KINDS}
OWN: dict[str, Any] = {
    "name": "quality",
    "source": "this test",
    "date": "2026-11-18",
    "limits": LIMITS,
    "prompts": [{"id": "hello", "prompt": "Say hello.", "max_tokens": 4}],
}


def site(directory: Path, **changes: Any) -> Path:
    (directory / "quality.yml").write_text(yaml.safe_dump({**OWN, **changes}), encoding="utf-8")
    return directory


def test_the_built_in_prompts_are_many_short_and_of_several_kinds() -> None:
    found = load_prompts([BUILT_IN])
    assert 30 <= len(found.prompts) <= 60
    assert sum(one["max_tokens"] for one in found.prompts) < 2000, "a minute or two, one after the other"
    assert sum("expected" in one for one in found.prompts) >= 30
    # No answer may be cut off before it is right: a token has at least a letter.
    assert all(len(one.get("expected", "").split()) * 2 <= one["max_tokens"] for one in found.prompts)
    assert found.limits["precision"]["bleu"] == found.limits["engine"]["rouge_l"] == 0.005
    assert found.limits["precision"]["exact_match"] > found.limits["engine"]["exact_match"]


def test_a_sites_own_prompts_count_as_a_whole(tmp_path: Path) -> None:
    own, built_in = load_prompts([site(tmp_path), BUILT_IN]), load_prompts([BUILT_IN])
    assert [one["id"] for one in own.prompts] == ["hello"]
    assert own.sha256 != built_in.sha256
    other = [{"id": "hello", "prompt": "Say hello.", "max_tokens": 5}]
    assert load_prompts([site(tmp_path, prompts=other)]).sha256 != own.sha256


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"prompts": []}, "has no prompts"),
        ({"prompts": OWN["prompts"] * 2}, "hello twice"),
        ({"prompts": [{"id": "a", "prompt": "b"}]}, "max_tokens"),
        ({"prompts": [{"id": "a", "prompt": "b", "max_tokens": 0}]}, "max_tokens"),
        ({"limits": {"engine": LIMITS["engine"]}}, "precision"),
        ({"limits": {**LIMITS, "engine": {**LIMITS["engine"], "bleu": 2}}}, "bleu"),
        ({"promts": []}, "promts"),
    ],
)
def test_what_cannot_be_asked_is_refused(tmp_path: Path, changes: dict[str, Any], words: str) -> None:
    with pytest.raises(CatalogError, match=words):
        load_prompts([site(tmp_path, **changes)])


@pytest.mark.parametrize("text", ["", "- a", "{", "\x00"])
def test_a_file_that_is_none(tmp_path: Path, text: str) -> None:
    (tmp_path / "quality.yml").write_text(text, encoding="utf-8")
    with pytest.raises(CatalogError, match=r"quality\.yml"):
        load_prompts([tmp_path])
    with pytest.raises(CatalogError, match="no catalog has"):
        load_prompts([tmp_path / "nowhere"])
