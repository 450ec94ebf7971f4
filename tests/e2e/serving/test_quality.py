# SPDX-License-Identifier: Apache-2.0
"""Answers that stay right, and a model whose weights were damaged: it is told, and not kept."""

from __future__ import annotations

import array
import json
import re
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from firstlight_lab.engine import MODEL, WEIGHTS, hub
from tests.e2e.serving.lab import Run, Serving

LIMITS = {"exact_match": 0.15, "token_agreement": 0.15, "bleu": 0.005, "rouge_l": 0.005}
QUALITY: dict[str, Any] = {
    "name": "quality",
    "source": "this test",
    "date": "2026-11-18",
    "limits": {"engine": LIMITS, "precision": LIMITS},
    "prompts": [
        {"id": name, "prompt": text, "max_tokens": 8}
        for name, text in (("add", "What is 2 + 2?"), ("capital", "Capital of France?"), ("story", "Tell me a story."))
    ]
    # More than the tiny model's whole context.
    + [{"id": "long", "prompt": "all work and no play " * 60, "max_tokens": 8}],
}


@pytest.fixture(scope="module")
def catalog(rack: Serving, tmp_path_factory: pytest.TempPathFactory) -> list[str]:
    """The lab's catalog with prompts that its model can answer."""
    overlay = tmp_path_factory.mktemp("catalog")
    (overlay / "quality.yml").write_text(yaml.safe_dump(QUALITY))
    return [str(overlay), str(rack.lab.directory / "catalog")]


@pytest.fixture
def damaged(rack: Serving) -> Iterator[str]:
    """A revision of the tiny model with every number in another place, as a bad conversion would leave it."""
    place = rack.lab.cache.hub / MODEL
    good = yaml.safe_load((rack.lab.directory / "catalog/models/tiny.yml").read_text())["revision"]
    made = place / "damaged"
    shutil.copytree(place / good, made)
    data = (made / WEIGHTS).read_bytes()
    head = 8 + int.from_bytes(data[:8], "little")
    numbers = array.array("I", data[head:])
    numbers.reverse()
    (made / WEIGHTS).write_bytes(data[:head] + numbers.tobytes())
    entries = hub.listing(made)
    (made / hub.INDEX).write_text(json.dumps(entries))
    revision = hub.revision(entries)
    try:
        yield made.rename(place / revision).name
    finally:
        shutil.rmtree(place / revision, ignore_errors=True)
        shutil.rmtree(made, ignore_errors=True)


def asked(serving: Serving, catalog: list[str], *more: str, fails: bool | None = False) -> tuple[Run, dict[str, Any]]:
    """The command, and its assessment."""
    chosen = ["-i", serving.profile.inventory, "-e", json.dumps({"firstlight_catalog": catalog})]
    run = serving.command("firstlight", "quality", *chosen, *more, "--json", fails=fails)
    # What the playbook says comes before the document, which begins a line of its own.
    return run, json.loads(run.output[run.output.rindex("\n{\n") :])


@pytest.fixture
def accepted(serving: Serving, catalog: list[str]) -> Serving:
    """Four nodes whose answers were accepted."""
    _, found = asked(serving, catalog, "--accept")
    assert found["status"] in ("same", "within_limits"), found
    return serving


def references(serving: Serving) -> list[dict[str, Any]]:
    place = Path(serving.env["XDG_STATE_HOME"]) / "firstlight/ray/quality/references"
    return [json.loads(path.read_text()) for path in place.glob("*.json")]


def test_answers_of_an_unchanged_server_are_the_same(accepted: Serving, catalog: list[str], tmp_path: Path) -> None:
    (reference,) = references(accepted)
    assert [one["id"] for one in reference["answers"]] == ["add", "capital", "story"]
    assert "long" in reference["left_out"]
    assert all(one["token_ids"] for one in reference["answers"]), "vLLM tells them"
    run, found = asked(accepted, catalog, "--answers", str(tmp_path / "answers.json"))
    assert found["status"] == "same", found
    assert (found["exact_match"], found["token_agreement"]) == (1, 1)
    assert found["bleu"] is not None
    key = accepted.endpoint.key
    assert key not in run.output + json.dumps(reference) + (tmp_path / "answers.json").read_text()


def test_a_damaged_model_is_told_and_put_back(accepted: Serving, catalog: list[str], damaged: str) -> None:
    before, _ = accepted.assert_serves()
    chosen = {"model": "tiny", "model_revision": damaged, "firstlight_catalog": catalog}
    run = accepted.playbook("playbooks/switch_model.yml", "-e", json.dumps(chosen), fails=True)
    told = " ".join(run.output.split())
    assert "The answers of tiny are not what they were. worse: 3 prompts" in told, run.output[-6000:]
    assert re.search(r"(add|capital|story): .+ became ", told), run.output[-6000:]
    assert "tiny was restored and answers" in told
    after, _ = accepted.assert_serves()
    assert after.text == before.text
    _, found = asked(accepted, catalog)
    assert found["status"] == "same", found
    # Who wants it all the same says so, and the answers are then only told.
    off = chosen | {"firstlight_quality": {"gate": False}}
    accepted.playbook("playbooks/switch_model.yml", "-e", json.dumps(off))
    try:
        chosen_now = ["-e", json.dumps({"firstlight_model_revision": damaged})]
        run, found = asked(accepted, catalog, *chosen_now, fails=True)
        assert (run.status, found["status"]) == (1, "worse")
        assert {one["id"] for one in found["worst"]} == {"add", "capital", "story"}
    finally:
        accepted.playbook(
            "playbooks/switch_model.yml", "-e", json.dumps({"model": "tiny", "firstlight_catalog": catalog})
        )
