# SPDX-License-Identifier: Apache-2.0
"""The playbook of a re-pin as far as it can be looked at without a host."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace

import jinja2
import pytest
import yaml

PLAYS = yaml.safe_load((Path(__file__).resolve().parents[2] / "playbooks" / "repin.yml").read_text(encoding="utf-8"))


@pytest.mark.parametrize(("resumes", "asked"), [(None, True), ("planned", True), ("drained", False), ("booted", False)])
def test_what_the_server_says_is_asked_before_anything_is_done_to_it(resumes: str | None, asked: bool) -> None:
    (play,) = (play for play in PLAYS if play["name"] == "Ask")
    (conditions,) = (task["when"] for task in play["tasks"] if task["name"] == "Send the fixed prompts")
    (condition,) = (one for one in conditions if "resumes" in one)
    decision = SimpleNamespace(action="move", in_service=True, resumes=resumes)
    assert jinja2.Environment().compile_expression(condition)(repin_decision=decision) is asked
