# SPDX-License-Identifier: Apache-2.0
"""What a person reads of a ladder."""

from __future__ import annotations

from typing import Any

import pytest
from ansible_collections.firstlight.cluster.plugins.plugin_utils.tune.journal import Run, new_document
from ansible_collections.firstlight.cluster.plugins.plugin_utils.tune.rungs import Rung

from firstlight import tune_view
from firstlight.console import open_console

POINT = {
    "output_tokens_per_s": 1820.4,
    "ttft_ms": {"95": 1400.0},
    "tpot_ms": {"95": 31.04},
    "spread": {"output_tokens_per_s": 0.02},
}
RUNGS = (
    Rung("mtp-2", "speculation", {"speculative": {"method": "mtp", "tokens": 2}}),
    Rung("off", "cache", {"prefix_caching": False, "flags.--swap": None}),
    Rung("to\x1bdo", "cache", {"max_num_seqs": 1}),
)


def document(**own: Any) -> dict[str, Any]:
    found = new_document(Run("mine", "run", "then", "small", RUNGS, {"name": "chat", "streams": 16}, "", {}))
    found["baseline"] = POINT
    found["rungs"][0] |= {"decision": "kept", "reason": "faster", "summary": {**POINT, "output_tokens_per_s": 3640.8}}
    found["rungs"][0]["quality"] = {"status": "within_limits"}
    found["rungs"][1] |= {"decision": "illegal", "reason": "no such flag"}
    return found | own


def test_every_rung_is_a_row_with_its_figures(capsys: pytest.CaptureFixture[str]) -> None:
    change = {"max_num_seqs": 64}
    tune_view.show(document(result={"change": change, "diff": "--- a\n+++ a\n+  x: 1\n", "restore": "go back"}))
    shown = [" ".join(line.split()) for line in capsys.readouterr().out.splitlines()]
    assert shown[0] == "mine, ladder small: chat at 16 streams"
    assert "baseline - 1,820 2% 1,400 ms 31 ms -" in shown
    assert "speculation mtp-2 speculative=mtp/2 3,641 2% 1,400 ms 31 ms within limits kept" in shown
    assert "cache off prefix_caching=false, --swap=default - - - - - illegal" in shown
    assert "cache to\\x1bdo max_num_seqs=1 - - - - - to be tried" in shown
    assert "off no such flag" in shown
    assert "2.00 times the tokens per second of the baseline." in shown
    assert "+ x: 1" in shown
    assert "rollback go back" in shown


def test_a_run_that_found_nothing_says_so(capsys: pytest.CaptureFixture[str]) -> None:
    tune_view.show(document(result={"change": {}, "diff": "", "restore": ""}))
    assert "the former ones are served" in capsys.readouterr().out


def test_a_narrow_terminal_gets_one_rung_after_the_other(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    console = open_console()
    console.soft_wrap, console.width = False, 60
    monkeypatch.setattr(tune_view, "open_console", lambda: console)
    tune_view.show(document())
    assert "rung mtp-2, change speculative=mtp/2" in " ".join(capsys.readouterr().out.split())
