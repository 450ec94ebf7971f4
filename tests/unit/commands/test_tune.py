# SPDX-License-Identifier: Apache-2.0
"""`firstlight tune` and `bench --layouts` with a cluster that is played: which playbooks run, and with what."""

from __future__ import annotations

import argparse
import dataclasses
import json
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest
import yaml
from ansible_collections.firstlight.cluster.plugins.plugin_utils.bench.workloads import load_workloads
from ansible_collections.firstlight.cluster.plugins.plugin_utils.catalog.load import BUILT_IN
from ansible_collections.firstlight.cluster.plugins.plugin_utils.tune.trial import RungError

from firstlight import layouts_lab, trials
from firstlight.cli import build_parser, main
from firstlight.commands import tune
from firstlight.errors import DONE, FAILED, INTERRUPTED, REFUSED, UsageError

INVENTORY = "inventory/h100x4"
LAYOUTS = ["--workload", "latency", "-e", "plan_model=gpt-oss-120b"]
LADDER = {
    "name": "small",
    "source": "this test",
    "date": "2026-11-18",
    "workload": "latency",
    "stages": [
        {
            "name": "scheduler",
            "rungs": [
                {"name": "tp3", "change": {"tensor_parallel": 3}},
                {"name": "seqs-8", "change": {"max_num_seqs": 8}},
                {"name": "seqs-64", "change": {"max_num_seqs": 64}},
            ],
        }
    ],
}
ONE_RUNG = [{"name": "scheduler", "rungs": [{"name": "seqs-8", "change": {"max_num_seqs": 8}}]}]


class Played:
    """A cluster whose speed is its max_num_seqs, and what was asked of it."""

    def __init__(self, state: Path) -> None:
        self.state = state
        self.serving: dict[str, Any] = {}
        self.calls: list[tuple[str, dict[str, Any]]] = []
        self.fails: Callable[[str, dict[str, Any]], int] = lambda *_: DONE
        self.problems: list[str] = []
        """Of the last runs of a measurement."""

    def run(self, words: Sequence[str], *, stdout: Any = None, own: Mapping[str, str] | None = None) -> int:
        told: dict[str, Any] = json.loads([words[at + 1] for at, word in enumerate(words) if word == "-e"][-1])
        name = Path(words[0]).name + (" --check" if "--check" in words else " look" if told.get("bench_look") else "")
        self.calls.append((name, told))
        status = self.fails(name, told)
        if status != DONE:
            reasons = {"reasons": {"h100": "it is in use (Benchmark)"}}
            Path((own or {})["FIRSTLIGHT_TIMINGS"]).write_text(json.dumps(reasons))
            return status
        if name == "serve.yml":
            self.serving = told["plan_serving"]
        if name == "bench.yml":
            assert told["plan_serving"] == self.serving
            self._measured(told)
        if name == "quality.yml":
            assert told["plan_serving"] == self.serving
            document = told.get("quality_answers_document") or told["quality_document"]
            Path(document).write_text(json.dumps({"status": "same", "reasons": []}))
        return DONE

    def _measured(self, told: Mapping[str, Any]) -> None:
        speed = 100.0 * (self.serving.get("max_num_seqs") or 32) / self.serving.get("tensor_parallel", 1)
        spread = {"output_tokens_per_s": 0.01, "ttft_ms": 0.01, "tpot_ms": 0.01}
        summary = {"output_tokens_per_s": speed, "ttft_ms": {"95": 10.0}, "tpot_ms": {"95": 1.0}, "spread": spread}
        problems = [None] * (told["bench_repeats"] - len(self.problems)) + self.problems
        runs = [{"problem": problem, "requests": 10, "failed": 0} for problem in problems]
        point = {"streams": told["bench_streams"][0], "rate": None, "runs": runs, "summary": summary}
        document = {"workloads": [{"name": "latency", "prompts": "random", "points": [point]}]}
        Path(told["bench_document"]).write_text(json.dumps(document))

    @property
    def names(self) -> list[str]:
        return [name for name, _ in self.calls]

    def journals(self, kind: str = "tune") -> list[dict[str, Any]]:
        return [
            json.loads(path.read_text())
            for path in sorted((self.state / "firstlight" / "h100x4" / kind).glob("*.json"))
        ]


@pytest.fixture
def played(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Played:
    found = Played(tmp_path / "state")
    monkeypatch.setenv("XDG_STATE_HOME", str(found.state))
    monkeypatch.setattr(trials, "run_playbook", found.run)
    (tmp_path / "small.yml").write_text(yaml.safe_dump(LADDER))
    return found


@pytest.fixture
def words(tmp_path: Path) -> list[str]:
    return ["tune", "-i", INVENTORY, "--ladder", str(tmp_path / "small.yml")]


@pytest.mark.slow  # a plan for each rung
def test_a_ladder_is_climbed_and_shown(played: Played, words: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert main([*words, "--repeats", "2", "--in-service", "h100x4"]) == DONE
    assert played.names == [
        *("bench.yml --check", "serve.yml", "bench.yml", "quality.yml"),
        *("serve.yml", "bench.yml"),
        *("serve.yml", "bench.yml", "quality.yml"),
    ]
    asked = dict(played.calls)["bench.yml"]
    assert (asked["bench_workloads"], asked["bench_streams"], asked["bench_repeats"]) == (["latency"], [1], 2)
    assert (asked["bench_resume"], asked["bench_in_service"]) == ("never", "h100x4")
    reference, answers = (told for name, told in played.calls if name == "quality.yml")
    assert reference["quality_baseline"] is True
    assert answers["quality_reference"] == reference["quality_answers_document"]
    assert "quality_baseline" not in answers
    (document,) = played.journals()
    assert [rung["decision"] for rung in document["rungs"]] == ["illegal", "refused", "kept"]
    assert document["result"]["change"] == played.serving == {"max_num_seqs": 64}
    shown = capsys.readouterr()
    for line in ("seqs-64", "2.00 times", "+  max_num_seqs: 64", f"firstlight tune -i {INVENTORY} --restore"):
        assert line in shown.out
    assert "==> rung 3 of 3, scheduler: seqs-64: measure it" in shown.err
    journal = next((played.state / "firstlight" / "h100x4" / "tune").glob("*.json"))
    assert (journal.stat().st_mode & 0o777, journal.parent.stat().st_mode & 0o777) == (0o600, 0o700)


@pytest.mark.slow  # several plans
def test_cut_off_it_goes_on_or_back(played: Played, words: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    def killed(name: str, told: dict[str, Any]) -> int:
        return INTERRUPTED if told["plan_serving"].get("max_num_seqs") == 64 and name == "bench.yml" else DONE

    played.fails = killed
    assert main(words) == INTERRUPTED
    assert "roll back with `firstlight tune -i inventory/h100x4 --restore`" in capsys.readouterr().err
    assert played.serving == {"max_num_seqs": 64}
    assert main(words) == REFUSED
    assert "--resume" in capsys.readouterr().err
    assert main([*words, "--resume"]) == REFUSED, "what is tried is in the journal"
    assert main(["tune", "-i", INVENTORY, "--resume", "-e", '{"firstlight_serving": {"max_num_seqs": 7}}']) == REFUSED
    assert "the plan is not the one" in capsys.readouterr().err
    played.fails = lambda name, _: FAILED if name == "bench.yml look" else DONE
    before = len(played.calls)
    assert main(["tune", "-i", INVENTORY, "--resume"]) == FAILED
    assert played.names[before:] == ["bench.yml look"], "people use it by now"
    told = capsys.readouterr().err
    assert "it is in use" in told
    assert "Nothing was changed" not in told
    assert "continue with `firstlight tune -i inventory/h100x4 --resume`" in told
    played.fails = lambda *_: DONE
    before = len(played.calls)
    assert main(["tune", "-i", INVENTORY, "--resume"]) == DONE
    assert played.names[before:] == ["bench.yml look", "serve.yml", "bench.yml", "quality.yml"], (
        "what was measured is not measured again"
    )
    assert [played.calls[before + step][1]["bench_resume"] for step in (0, 2)] == ["never", "auto"]
    assert played.journals()[0]["result"]["change"] == {"max_num_seqs": 64}
    assert main(["tune", "-i", INVENTORY, "--restore"]) == DONE
    assert (played.names[-1], played.serving) == ("serve.yml", {})
    assert played.journals()[0]["journal"]["state"] == "former"
    assert main(["tune", "-i", INVENTORY, "--restore"]) == REFUSED


@pytest.mark.slow  # several plans
def test_the_way_back_leads_behind_an_inventory_that_was_changed_since(played: Played, words: list[str]) -> None:
    assert main(words) == DONE
    former = played.journals()[0]["journal"]["former"]
    changed = {**former, "max_num_seqs": 64, "prefix_caching": False}
    assert main(["tune", "-i", INVENTORY, "--restore", "-e", json.dumps({"firstlight_serving": changed})]) == DONE
    assert played.serving == {"max_num_seqs": None, "prefix_caching": True}


@pytest.mark.slow  # several plans
def test_the_way_back_leads_to_no_run_before_the_last(
    played: Played, words: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(words) == DONE
    (first,) = played.journals()
    place = played.state / "firstlight" / "h100x4" / "tune"
    last = {**first, "run": "99991231T235959Z-0000", "journal": {**first["journal"], "state": "former"}}
    (place / f"{last['run']}.json").write_text(json.dumps(last))
    before = len(played.calls)
    assert main(["tune", "-i", INVENTORY, "--restore"]) == REFUSED
    assert "99991231T235959Z-0000.json is the last run" in capsys.readouterr().err
    assert (played.calls[before:], played.serving) == ([], {"max_num_seqs": 64})


@pytest.mark.slow  # several plans
def test_a_server_in_use_is_left_alone(played: Played, words: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    played.fails = lambda *_: FAILED
    assert main(words) == FAILED
    told = capsys.readouterr().err
    assert "it is in use" in told
    assert "Nothing was changed" in told
    assert played.names == ["bench.yml --check"]
    assert played.journals() == []


@pytest.mark.slow  # several plans
def test_a_rung_that_cannot_be_served_fails_alone(played: Played, words: list[str]) -> None:
    played.fails = lambda _, told: FAILED if told["plan_serving"] == {"max_num_seqs": 8} else DONE
    assert main(words) == DONE
    (document,) = played.journals()
    assert [rung["decision"] for rung in document["rungs"]] == ["illegal", "failed", "kept"]
    assert document["rungs"][1]["reason"] == "it does not serve: h100: it is in use (Benchmark)"


def trial(tmp_path: Path, repeats: int, **workload: Any) -> trials.PlaybookTrial:
    arguments = build_parser("tune").parse_args(["tune", "-i", INVENTORY])
    asked = {"name": "latency", "streams": 1, "repeats": repeats, "input": 512, "output": 256, **workload}
    return trials.PlaybookTrial(arguments, {}, asked, tmp_path / "answers.json")


@pytest.mark.parametrize(
    ("repeats", "bad", "status", "told"),
    [
        (3, 1, DONE, ""),
        (3, 2, DONE, "1 of 3 runs count: it died"),
        (3, 1, FAILED, "2 of 3 runs count: it died"),
        (3, 0, FAILED, ""),
        (2, 1, DONE, "1 of 2 runs count: it died"),
        (1, 0, DONE, ""),
    ],
)
def test_a_measurement_counts_with_two_runs_of_a_server_that_lived(
    played: Played, tmp_path: Path, repeats: int, bad: int, status: int, told: str
) -> None:
    played.problems = ["it died"] * bad
    run = played.run

    def ended(words: Sequence[str], **more: Any) -> int:
        run(words, **more)
        Path(more["own"]["FIRSTLIGHT_TIMINGS"]).write_text(json.dumps({"reasons": {"h100": "no further"}}))
        return status

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(trials, "run_playbook", ended)
        if told:
            with pytest.raises(RungError, match=told):
                trial(tmp_path, repeats).measure({}, 1)
        else:
            assert trial(tmp_path, repeats).measure({}, 1)["output_tokens_per_s"] == 3200


@pytest.mark.slow  # a plan for each length
def test_a_context_in_which_the_workload_has_no_room_is_illegal(played: Played, tmp_path: Path) -> None:
    for change, more in (({"max_model_len": 512}, {}), ({"max_model_len": 800}, {"prefix": 100})):
        with pytest.raises(RungError, match=f"has {768 + more.get('prefix', 0)} tokens in prompt and answer"):
            trial(tmp_path, 2, **more).plan(change)
    assert trial(tmp_path, 2).plan({"max_model_len": 800})
    assert played.calls == []


@pytest.mark.slow  # a plan
def test_a_baseline_in_which_the_workload_has_no_room_is_refused(
    played: Played, words: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    ladder = {**LADDER, "baseline": {"max_model_len": 16}, "stages": ONE_RUNG}
    (tmp_path / "small.yml").write_text(yaml.safe_dump(ladder))
    assert main(words) == REFUSED
    assert "the baseline of ladder small is refused" in capsys.readouterr().err
    assert (played.calls, played.journals()) == ([], [])


@pytest.mark.slow  # a plan
def test_a_workload_that_is_measured_once_is_tuned_with_two_runs(
    played: Played, words: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    known = load_workloads([BUILT_IN])["latency"]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(trials, "load_workloads", lambda _: {"latency": dataclasses.replace(known, repeats=1)})
        (tmp_path / "small.yml").write_text(yaml.safe_dump({**LADDER, "stages": ONE_RUNG}))
        assert main([*words, "--check", "--json"]) == DONE
    assert json.loads(capsys.readouterr().out)["workload"]["repeats"] == 2


@pytest.mark.slow  # a plan for each rung
def test_on_paper_no_playbook_runs(played: Played, words: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert main([*words, "--check", "--json"]) == DONE
    document = json.loads(capsys.readouterr().out)
    assert [rung["decision"] for rung in document["rungs"]] == ["illegal", "pending", "pending"]
    assert played.calls == []
    assert played.journals() == []


@pytest.mark.parametrize(
    ("more", "told"),
    [
        (["--ladder", "recipe-04"], "there is no ladder 'recipe-04'"),
        (["--workload", "chta"], "did you mean chat"),
        (["--workload", "recipe-rate-200"], "add --streams N"),
        (["--workload", "conversations"], "--conversations FILE"),
    ],
)
@pytest.mark.slow  # a plan
def test_what_cannot_be_tried_is_said(
    played: Played, words: list[str], more: list[str], told: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main([*words, *more]) == REFUSED
    assert told in capsys.readouterr().err
    assert played.calls == []


def test_the_command_that_goes_on_measures_in_the_same_way() -> None:
    given = ["tune", "-i", INVENTORY, "--in-service", "h100x4", "--conversations", "my chats.jsonl", "-e", "a=b"]
    arguments = build_parser("tune").parse_args(given)
    same = f"firstlight tune -i {INVENTORY}"
    assert tune._again(arguments, "--resume") == (
        f"{same} --resume --in-service h100x4 --conversations 'my chats.jsonl' -e ..."
    )
    assert tune._again(arguments, "--restore") == f"{same} --restore -e ..."
    arguments = build_parser("tune").parse_args(["tune", "-i", INVENTORY])
    assert tune._again(arguments, "--resume") == f"{same} --resume"


@pytest.mark.parametrize("more", [["--repeats", "1"], ["--streams", "0"], ["--resume", "--restore"]])
def test_options_that_make_no_sense_are_refused(more: list[str]) -> None:
    with pytest.raises(UsageError):
        build_parser("tune").parse_args(["tune", "-i", INVENTORY, *more])


@pytest.mark.slow  # a plan for each layout
def test_layouts_are_measured_and_the_former_is_put_back(played: Played, monkeypatch: pytest.MonkeyPatch) -> None:
    shown: list[Mapping[str, Any]] = []

    def show(arguments: argparse.Namespace, document: Mapping[str, Any], cluster: object) -> None:
        shown.append(document)

    monkeypatch.setattr(layouts_lab, "_show", show)
    words = ["bench", "-i", INVENTORY, "--layouts", "4,3,2", *LAYOUTS]
    assert main(words) == 3, "one of them is illegal"
    assert played.names == ["bench.yml --check", "serve.yml", "bench.yml", "serve.yml", "bench.yml", "serve.yml"]
    assert played.serving == {}
    (document,) = shown
    assert [one["tensor_parallel"] for one in document["layouts"] if one["summary"]] == [4, 2]
    assert "3" in document["layouts"][1]["problem"]
    assert document["layouts"][0]["communication"]["source"] == "estimate"
    assert document["configuration"]["model"]
    (kept,) = played.journals("layouts")
    assert kept["layouts"] == document["layouts"]
    assert kept["finished"]


@pytest.mark.slow  # a plan for each layout
def test_layouts_go_on_where_they_were_cut_off(played: Played, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(layouts_lab, "_show", lambda *_: None)
    words = ["bench", "-i", INVENTORY, "--layouts", "4,2", *LAYOUTS]
    played.fails = lambda _, told: INTERRUPTED if told["plan_serving"].get("tensor_parallel") == 2 else DONE
    assert main(words) == INTERRUPTED
    played.fails = lambda *_: DONE
    before = len(played.calls)
    assert main(words) == DONE
    assert played.names[before:] == ["bench.yml look", "serve.yml", "bench.yml", "serve.yml"]
    assert len(played.journals("layouts")) == 1
    assert main(["bench", "-i", INVENTORY, "--layouts", "tp"]) == REFUSED


@pytest.mark.slow  # a plan for each layout
def test_layouts_that_were_cut_off_are_given_up_once_others_are_measured(
    played: Played, monkeypatch: pytest.MonkeyPatch
) -> None:
    def resumes() -> list[str]:
        return [told["bench_resume"] for name, told in played.calls if name == "bench.yml"]

    def states() -> list[str]:
        return [one["journal"]["state"] for one in played.journals("layouts")]

    monkeypatch.setattr(layouts_lab, "_show", lambda *_: None)
    words = ["bench", "-i", INVENTORY, *LAYOUTS, "--layouts"]
    played.fails = lambda name, _: INTERRUPTED if name == "bench.yml" else DONE
    assert main([*words, "4"]) == INTERRUPTED
    assert (states(), resumes()) == (["running"], ["never"])
    played.fails = lambda *_: FAILED
    assert main([*words, "2"]) == FAILED
    assert states() == ["running"], "nothing was changed"
    played.fails = lambda name, _: INTERRUPTED if name == "bench.yml" else DONE
    assert main([*words, "2"]) == INTERRUPTED
    assert sorted(states()) == ["former", "running"]
    played.fails = lambda *_: DONE
    assert main([*words, "2"]) == DONE
    assert (states(), resumes()) == (["former", "former"], ["never", "never", "auto"])
