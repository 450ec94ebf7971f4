# SPDX-License-Identifier: Apache-2.0
"""`firstlight list`: what a person sees and a program gets of every kind."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from firstlight.cli import main
from firstlight.commands.list import KINDS

KNOWN = {
    "models": ("gpt-oss-120b", "context 131,072"),
    "stacks": ("spark-vllm-0.32", "engine vllm==0.32.0; hardware gb10"),
    "hardware": ("h100-sxm-8", "gpus 8; gpu name NVIDIA H100 80GB HBM3"),
    "profiles": ("vllm-ray", "engine vllm; hosts several; runtimes docker"),
    "engines": ("sglang==0.5.23", "stacks h100-sglang-0.5.23"),
}


@pytest.mark.parametrize("kind", KINDS)
def test_every_kind_is_listed(kind: str, capsys: pytest.CaptureFixture[str]) -> None:
    name, words = KNOWN[kind]
    assert main(["list", kind]) == 0
    (line,) = [one for one in capsys.readouterr().out.splitlines() if one.startswith(f"{name} ")]
    assert words in line
    assert main(["list", kind, "--json"]) == 0
    rows = json.loads(capsys.readouterr().out)[kind]
    assert name in [row["name"] for row in rows]


def test_a_sites_catalog_is_listed_too(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    entry = {"name": "mine", "source": "here", "date": "2026-01-01", "repository": "a/b", "revision": None}
    (tmp_path / "models").mkdir()
    (tmp_path / "models" / "mine.yml").write_text(json.dumps(entry))
    assert main(["list", "models", "--catalog", str(tmp_path)]) == 0
    assert "\nmine " in capsys.readouterr().out
    (tmp_path / "models" / "mine.yml").write_text("[")
    assert main(["list", "models", "--catalog", str(tmp_path), "--json"]) == 2
    assert json.loads(capsys.readouterr().out)["error"]["status"] == 2
