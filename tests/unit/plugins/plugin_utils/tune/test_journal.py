# SPDX-License-Identifier: Apache-2.0
"""A run of trials over a machine that exists only here: killed at any point, it goes on to the same end."""

from __future__ import annotations

import contextlib
import json
from collections.abc import Mapping, Sequence
from typing import Any

import pytest
from ansible_collections.firstlight.cluster.plugins.plugin_utils.tune.journal import (
    FORMER,
    TUNED,
    Run,
    new_document,
    restored,
)
from ansible_collections.firstlight.cluster.plugins.plugin_utils.tune.layouts import (
    layout_rungs,
    layouts_of,
    parse_layouts,
)
from ansible_collections.firstlight.cluster.plugins.plugin_utils.tune.rungs import Rung
from ansible_collections.firstlight.cluster.plugins.plugin_utils.tune.trial import RungError, TrialError, run_trials
from hypothesis import given
from hypothesis import strategies as st

SERVING = {"tensor_parallel": 4, "max_num_seqs": 16}
WORKLOAD = {"name": "chat", "streams": 16, "targets": {"ttft_ms": 800}, "repeats": 3}
RUNGS = (
    Rung("tp2", "layout", {"tensor_parallel": 2}),
    Rung("more", "load", {"streams": 32}),
    Rung("seqs-64", "scheduler", {"max_num_seqs": 64}),
    Rung("seqs-16", "scheduler", {"max_num_seqs": 64}),
    Rung("dies", "scheduler", {"max_num_batched_tokens": 1_000_000}),
    Rung("damages", "precision", {"kv_cache_dtype": "int4"}),
    Rung("fp8", "precision", {"kv_cache_dtype": "fp8"}),
    Rung("slower", "scheduler", {"prefix_caching": False}),
)
DECISIONS = ["illegal", "kept", "kept", "refused", "failed", "refused", "kept", "refused"]
KEPT = {"max_num_seqs": 64, "kv_cache_dtype": "fp8"}


class KilledError(BaseException):
    """As SIGKILL: nothing after it is done."""


class Machine:
    """What is served, and how fast that is. It outlives the controller."""

    def __init__(self) -> None:
        self.served: dict[str, Any] | None = {}
        self.log: list[str] = []

    def plan(self, change: Mapping[str, Any]) -> str:
        self.log.append("plan")
        if change.get("tensor_parallel") == 2:
            raise RungError("it does not fit")
        return json.dumps(dict(change), sort_keys=True)

    def serve(self, change: Mapping[str, Any]) -> None:
        self.log.append("serve")
        self.served = dict(change)
        if change.get("max_num_batched_tokens"):
            self.served = None
            raise RungError("out of memory")

    def measure(self, change: Mapping[str, Any], streams: int) -> dict[str, Any]:
        self.log.append("measure")
        assert self.served == dict(change)
        speed = 1000.0 * (1.5 if streams > 16 else 1) * (1.2 if change.get("max_num_seqs") else 1)
        speed *= 0.8 if change.get("prefix_caching") is False else 1
        speed *= {"fp8": 1.3, "int4": 2.0}.get(str(change.get("kv_cache_dtype")), 1)
        return {"output_tokens_per_s": speed, "ttft_ms": {"95": 300.0}, "spread": {"output_tokens_per_s": 0.02}}

    def keep_answers(self, change: Mapping[str, Any]) -> bool:
        self.log.append("answers")
        assert self.served == dict(change)
        return True

    def assess(self, change: Mapping[str, Any]) -> dict[str, Any] | None:
        self.log.append("assess")
        assert self.served == dict(change)
        return {"status": "worse" if change.get("kv_cache_dtype") == "int4" else "within_limits", "reasons": []}


class Cut:
    """A machine whose controller is killed at the n-th thing it does: before, or after it took effect."""

    def __init__(self, machine: Machine, at: int, *, after: bool) -> None:
        self._machine, self._left, self._after = machine, at, after

    def __getattr__(self, name: str) -> Any:
        done = getattr(self._machine, name)

        def call(*arguments: Any) -> Any:
            self._left -= 1
            if self._left >= 0:
                return done(*arguments)
            if self._after:
                try:
                    done(*arguments)
                except RungError:
                    raise KilledError from None
            raise KilledError

        return call


def begun(rungs: Sequence[Rung] = RUNGS, **more: Any) -> dict[str, Any]:
    return new_document(
        Run("mine", "run", "then", "small", rungs, WORKLOAD, "0" * 64, SERVING, **{"restore": "rollback", **more})
    )


def climb(document: dict[str, Any], machine: Any) -> dict[str, Any]:
    """To the end, or to the last that was saved."""
    saved = [document]

    def save(new: dict[str, Any]) -> None:
        saved.append(json.loads(json.dumps(new)))

    with contextlib.suppress(KilledError):
        run_trials(document, machine, save)
    return saved[-1]


def told(document: Mapping[str, Any]) -> list[tuple[str, str]]:
    return [(rung["decision"], rung["reason"]) for rung in document["rungs"]]


def test_what_is_better_is_kept_and_served_at_the_end() -> None:
    machine = Machine()
    document = climb(begun(), machine)
    assert len(machine.log) < STEPS, "what is cut below would miss the end"
    assert [rung["decision"] for rung in document["rungs"]] == DECISIONS
    assert machine.served == KEPT
    assert document["journal"]["state"] == TUNED
    assert document["result"]["change"] == KEPT
    assert document["result"]["streams"] == 32
    assert document["result"]["restore"] == "rollback"
    assert document["result"]["diff"].splitlines()[3:] == [
        " firstlight_serving:",
        "   tensor_parallel: 4",
        "-  max_num_seqs: 16",
        "+  max_num_seqs: 64",
        "+  kv_cache_dtype: fp8",
    ]
    reasons = {rung["name"]: rung["reason"] for rung in document["rungs"]}
    assert reasons["tp2"] == "it does not fit"
    assert reasons["seqs-16"] == "the plan is the same without it"
    assert reasons["dies"] == "out of memory"
    assert "worse" in reasons["damages"]
    assert document["rungs"][0]["summary"] is None


def test_an_illegal_rung_touches_no_machine() -> None:
    machine = Machine()
    document = new_document(Run("mine", "run", "then", "small", RUNGS[:1], WORKLOAD, "", SERVING))
    climb(document, machine)
    assert machine.log == ["serve", "measure", "answers", "plan"]


def test_a_rung_that_does_not_serve_is_followed_by_what_did() -> None:
    machine = Machine()
    served = []
    serve = machine.serve

    def noted(change: Mapping[str, Any]) -> None:
        served.append(dict(change))
        serve(change)

    machine.serve = noted  # type: ignore[method-assign]
    climb(begun(), machine)
    failed = next(number for number, one in enumerate(served) if "max_num_batched_tokens" in one)
    assert served[failed + 1] == {"max_num_seqs": 64}


def test_a_load_that_kills_the_server_is_followed_by_the_same_settings_again() -> None:
    machine = Machine()
    measure = machine.measure

    def killed(change: Mapping[str, Any], streams: int) -> dict[str, Any]:
        if streams > 16:
            machine.log.append("measure")
            machine.served = None
            raise RungError("it died")
        return measure(change, streams)

    machine.measure = killed  # type: ignore[method-assign]
    rungs = (Rung("more", "load", {"streams": 32}), Rung("seqs-64", "scheduler", {"max_num_seqs": 64}))
    document = climb(new_document(Run("mine", "run", "then", "s", rungs[:1], WORKLOAD, "", SERVING)), machine)
    assert machine.log[-2:] == ["measure", "serve"]
    assert (document["rungs"][0]["decision"], machine.served) == ("failed", {})
    document = climb(new_document(Run("mine", "run", "then", "s", rungs, WORKLOAD, "", SERVING)), machine)
    assert [rung["decision"] for rung in document["rungs"]] == ["failed", "kept"]
    assert machine.served == {"max_num_seqs": 64}


def test_where_the_former_settings_do_not_serve_either_it_stops() -> None:
    machine = Machine()
    with pytest.raises(TrialError, match="out of memory"):
        run_trials(begun(start={"max_num_batched_tokens": 7}), machine, lambda _: None)


def test_without_anything_better_the_former_serves() -> None:
    machine = Machine()
    document = climb(new_document(Run("mine", "run", "then", "s", RUNGS[-1:], WORKLOAD, "", SERVING)), machine)
    assert (document["result"]["change"], document["result"]["diff"], document["result"]["restore"]) == ({}, "", "")
    assert (machine.served, document["journal"]["state"]) == ({}, FORMER)


def test_a_start_of_its_own_without_anything_better_ends_with_the_former_settings() -> None:
    start = {"prefix_caching": False}
    for rung, streams in ((RUNGS[5], 16), (RUNGS[1], 32), (RUNGS[4], 16)):
        machine = Machine()
        document = climb(begun(rungs=(rung,), start=start), machine)
        assert document["finished"]
        assert (machine.served, document["journal"]["state"]) == ({}, FORMER), rung.name
        assert document["result"] == {"change": {}, "streams": streams, "diff": "", "restore": ""}
    document = climb(begun(rungs=RUNGS[2:3], start=start), machine)
    assert document["result"]["change"] == machine.served == {**start, "max_num_seqs": 64}


WHOLE = climb(begun(), Machine())
STEPS = 40


def resumed(cuts: list[tuple[int, bool]]) -> None:
    machine, document = Machine(), begun()
    for at, after in cuts:
        document = climb(document, Cut(machine, at, after=after))
    document = climb(document, machine)
    assert told(document) == told(WHOLE)
    assert document["result"] == WHOLE["result"]
    assert machine.served == KEPT


def undone(at: int, *, after: bool) -> None:
    machine = Machine()
    document = climb(begun(), Cut(machine, at, after=after))
    machine.serve({})
    document = restored(document, "now")
    assert (machine.served, document["journal"]["state"]) == ({}, FORMER)
    assert document["finished"]
    assert climb(document, Cut(machine, 0, after=True)) == document, "nothing is gone on with that was undone"


@pytest.mark.slow  # every step of a run
def test_killed_at_any_step_it_resumes_to_the_same_end_or_is_undone() -> None:
    for at in range(STEPS):
        for after in (False, True):
            resumed([(at, after)])
            undone(at, after=after)


@pytest.mark.slow  # many runs
@given(st.lists(st.tuples(st.integers(0, STEPS), st.booleans()), min_size=2, max_size=6))
def test_killed_again_and_again_it_resumes_to_the_same_end(cuts: list[tuple[int, bool]]) -> None:
    resumed(cuts)


def test_layouts_are_compared_and_the_former_one_is_put_back() -> None:
    machine = Machine()
    rungs = layout_rungs(parse_layouts("1,tp2,4,pp4"))
    document = climb(
        new_document(Run("mine", "run", "then", "layouts", rungs, WORKLOAD, "", SERVING, compare=True)), machine
    )
    assert [rung["decision"] for rung in document["rungs"]] == ["measured", "illegal", "measured", "measured"]
    assert machine.served == {}
    assert document["journal"]["state"] == FORMER
    one, two, _, four = layouts_of(document, {"tp1": 0.1}, {})
    assert (one["tensor_parallel"], one["gpus"], one["problem"]) == (1, 1, None)
    assert one["communication"] == {"share": 0.1, "source": "estimate"}
    assert (two["summary"], two["problem"]) == (None, "it does not fit")
    assert (four["pipeline_parallel"], four["gpus"]) == (4, 4)
    assert four["communication"] == {"share": None, "source": None}
    replicated = layouts_of(document, {}, {"tp1": 4, "pp4": 2})
    assert [layout["gpus"] for layout in replicated] == [4, 2, 4, 8], "each replica has GPUs of its own"


@pytest.mark.parametrize("words", ["", "0", "tp", "x2", "tp2,", "pp0", "tp2pp", "99999"])
def test_what_is_no_layout_is_refused(words: str) -> None:
    with pytest.raises(ValueError, match="is not a layout"):
        parse_layouts(words)


def test_layouts_as_people_write_them() -> None:
    assert parse_layouts("1, 2,TP4,tp2pp2,pp4,4") == [(1, 1), (2, 1), (4, 1), (2, 2), (1, 4)]
