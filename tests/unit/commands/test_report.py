# SPDX-License-Identifier: Apache-2.0
"""`firstlight report`: made of hosts that do not answer, made again, checked, compared, accepted."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest
from ansible_collections.firstlight.cluster.plugins.plugin_utils.report.document import make_document
from ansible_collections.firstlight.cluster.plugins.plugin_utils.report.page import document_of, render

from firstlight.cli import main
from tests.unit import report_samples as samples
from tests.unit.ansible_runs import run_firstlight

ROOT = Path(__file__).resolve().parents[3]


@pytest.fixture(autouse=True)
def state(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    monkeypatch.chdir(tmp_path)
    return tmp_path / "state" / "firstlight"


def recorded(path: Path, document: dict[str, Any]) -> str:
    path.write_text(json.dumps(document), encoding="utf-8")
    return str(path)


@pytest.mark.parametrize(("make", "status"), [(samples.right, 0), (samples.sick, 1)])
def test_a_page_is_made_again_from_its_document(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], make: Any, status: int
) -> None:
    source = recorded(tmp_path / "20261118T090000Z-0001.json", make())
    assert main(["report", "--from", source, "-o", "page.html"]) == status
    page = Path("page.html").read_text(encoding="utf-8")
    assert page == render(make())
    shown = capsys.readouterr().out
    assert ("spark-gamma: kernel.xid" in shown) == (status == 1)
    assert "written to page.html" in shown
    assert main(["report", "--from", "page.html"]) == status, "a page is a record, too"
    assert Path("report.html").read_text(encoding="utf-8") == page
    assert main(["report", "--from", str(tmp_path)]) == status, "and so is a directory of them"


def test_an_incomplete_report_leaves_it_open(tmp_path: Path) -> None:
    document = make_document(samples.inputs(bench=None, bench_verdict=None))
    assert main(["report", "--from", recorded(tmp_path / "a.json", document)]) == 3


def test_a_page_proves_itself(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    page = tmp_path / "page.html"
    page.write_text(render(samples.right()), encoding="utf-8")
    assert main(["report", "--check", str(page)]) == 0
    assert capsys.readouterr().out.startswith("sha256 ")
    page.write_text(page.read_text(encoding="utf-8").replace("661 TFLOP/s</span>", "999 TFLOP/s</span>", 1))
    assert main(["report", "--check", str(page)]) == 1
    assert "does not match its data" in capsys.readouterr().out
    page.write_text("hello", encoding="utf-8")
    assert main(["report", "--check", str(page)]) == 2


def test_two_reports_are_compared(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    one, other = recorded(tmp_path / "a.json", samples.right()), recorded(tmp_path / "b.json", samples.sick())
    assert main(["report", "--compare", one, other, "-o", "diff.html"]) == 0
    assert "worse    spark-gamma: kernel.xid" in capsys.readouterr().out
    assert "kernel.xid" in Path("diff.html").read_text(encoding="utf-8")
    assert main(["report", "--compare", one, other, "--json"]) == 0
    assert json.loads(capsys.readouterr().out)[0]["kind"] == "worse"
    assert main(["report", "--compare", one, one]) == 0
    assert capsys.readouterr().out == "nothing differs\n"


def test_what_is_accepted_is_kept_for_the_next_one(
    tmp_path: Path, state: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["report", "--from", recorded(tmp_path / "bad.json", samples.sick()), "--accept"]) == 1
    assert "not kept" in capsys.readouterr().err
    kept = state / "mine" / "reports" / "accepted.json"
    assert not kept.exists()
    assert main(["report", "--from", recorded(tmp_path / "good.json", samples.right()), "--accept"]) == 0
    assert json.loads(kept.read_text(encoding="utf-8"))["cluster"] == "mine"
    assert kept.stat().st_mode & 0o777 == 0o600


def test_without_anything_to_report_of_it_says_what_to_give(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["report"]) == 2
    assert "-i INVENTORY" in capsys.readouterr().err


@pytest.mark.slow  # two plans
def test_the_benchmark_of_this_plan_is_taken_before_those_of_trials(
    state: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("firstlight.commands.report._gathered", lambda _: {})
    words = ["report", "-i", str(ROOT / "inventory/spark4"), "--json"]
    assert main(words) == 3
    plan = json.loads(capsys.readouterr().out)["plan"]["sha256"]
    for kind, document in (("bench", samples.bench("")), ("quality", samples.QUALITY)):
        (state / "spark4" / kind).mkdir(parents=True)
        for run, of in (("20261118T083000Z-1f3a", plan), ("20261118T093000Z-2f3a", "1" * 64)):
            recorded(
                state / "spark4" / kind / f"{run}.json",
                {**document, "run": run, "asked": run, "configuration": {"plan_sha256": of}},
            )
    assert main(words) == 3
    found = json.loads(capsys.readouterr().out)
    assert (found["bench"]["run"], found["bench"]["other_plan"]) == ("20261118T083000Z-1f3a", False)
    assert (found["quality"]["asked"], found["quality"]["other_plan"]) == ("20261118T083000Z-1f3a", False)


@pytest.mark.slow  # a run of Ansible
def test_hosts_that_do_not_answer_are_in_the_report(tmp_path: Path, state: Path) -> None:
    """The example's machines are nowhere."""
    own = {"ANSIBLE_TIMEOUT": "3", "XDG_STATE_HOME": os.environ["XDG_STATE_HOME"]}
    done = run_firstlight("report", "-i", str(ROOT / "inventory/spark4"), environment=own, cwd=tmp_path)
    assert done.returncode == 3, done.stdout + done.stderr
    document = document_of((tmp_path / "report.html").read_text(encoding="utf-8"))
    assert document["verdict"]["verdict"] == "incomplete"
    silent = {one["where"] for one in document["verdict"]["missing"] if one["check"] == "host.answer"}
    assert silent == set(document["plan"]["hosts"]) == set(document["silent"])
    (kept,) = (state / "spark4" / "reports").glob("*.json")
    assert json.loads(kept.read_text(encoding="utf-8")) == document
    assert kept.stat().st_mode & 0o777 == 0o600
