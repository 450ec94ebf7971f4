# SPDX-License-Identifier: Apache-2.0
"""What `firstlight status` shows: in one screen, whatever there is to show."""

from __future__ import annotations

import io
from typing import Any

import pytest
from ansible_collections.firstlight.cluster.plugins.plugin_utils.serving.service import service
from ansible_collections.firstlight.cluster.plugins.plugin_utils.serving.status import status_document
from hypothesis import given
from rich.console import Console

from firstlight.status_view import ago, render, show
from tests.unit.examples import examples
from tests.unit.hostile import ESCAPES
from tests.unit.plugins.plugin_utils.serving.test_status import answer, lies

WIDTH, HEIGHT = 100, 30
AT = "2026-11-15T09:00:00Z"


def node(name: str, **more: Any) -> dict[str, Any]:
    return {
        "name": name,
        "reachable": True,
        "is_head": name == "spark0",
        "problems": [],
        "waiting": [],
        "supervisor": "active (running)",
        "units": {"firstlight-ray.service": "active (running)"},
        "drained": None,
        "repin": False,
        "memory": {"kind": "unified", "total": 128_000_000_000, "used": 110_000_000_000},
        "heard_seconds": 1.2,
        **more,
    }


def group(**more: Any) -> dict[str, Any]:
    return {
        "phase": "serving",
        "why": "",
        "since": "2026-11-15T06:30:00Z",
        "epoch": "e",
        "attempts": 0,
        "next_start": None,
        "missing": {},
        "model": "tiny",
        "url": "http://127.0.0.1:8000",
        "tensor_parallel": 4,
        "nodes": ["spark0", "spark1", "spark2", "spark3"],
        "heard": {},
        "probe": {"answered_at": "2026-11-15T08:59:53Z", "seconds": 0.42, "words": "answered"},
        "load": {
            "requests_per_second": 1.5,
            "tokens_per_second": 120.0,
            "running": 2,
            "waiting": 0,
            "kv_cache_used": 0.31,
        },
        "history": [{"at": f"2026-11-15T06:30:0{number}Z", "event": f"event {number}"} for number in range(8)],
        **more,
    }


def document(nodes: list[dict[str, Any]], groups: dict[str, Any] | None = None, **more: Any) -> dict[str, Any]:
    return {
        "at": AT,
        "verdict": "serving",
        "why": "",
        "head": "spark0",
        "model": "tiny",
        "groups": {"server": group()} if groups is None else groups,
        "nodes": nodes,
        **more,
    }


def screen(shown: dict[str, Any], width: int = WIDTH) -> list[str]:
    buffer = io.StringIO()
    console = Console(file=buffer, width=width, force_terminal=False, highlight=False)
    console.print(render(shown, width, HEIGHT))
    return buffer.getvalue().rstrip("\n").split("\n")


def test_everything_an_operator_asks_for_is_there() -> None:
    text = "\n".join(screen(document([node(f"spark{number}") for number in range(4)])))
    for words in (
        "SERVING",
        "tiny",
        "serving, for 2 h 30 min",
        "TP 4 over 4 hosts",
        "1.5 requests/s",
        "120.0 tokens/s",
        "cache 31% full",
        "last completion 7 s ago, in 0.42 s",
        "spark3",
        "ray runs",
        "110 of 128 GB (86%)",
        "event 7",
    ):
        assert words in text, words


def test_the_last_minutes_and_each_target_that_was_missed_are_lines() -> None:
    load = {"waiting": 21, "recent": {"window_s": 300.0, "requests": 2, "times": {"ttft": {"1.0": 2, "inf": 2}}}}
    found = {**service([load], {"ttft_p95_ms": 800, "queue": 16}), "problems": ["firstlight_targets.quee: oh"]}
    text = screen(document([node("spark0")], service=found))
    assert "  2 requests in the last 5 min, P95 first token 950 ms, goodput 80%" in text
    assert "  warning: P95 first token is 950.0 ms, target 800 ms (ttft_p95_ms)" in text
    assert "  warning: 21 requests wait, target 16 at most (queue)" in text
    assert "  warning: firstlight_targets.quee: oh" in text
    idle = service([{"recent": {"window_s": 300.0, "requests": 0, "times": {}}}], {"ttft_p95_ms": 800})
    assert "  no requests in the last 5 min" in screen(document([node("spark0")], service=idle))


def test_what_is_wrong_is_said() -> None:
    nodes = [
        node("spark0"),
        node("spark1", reachable=False, problems=["unreachable: no route"]),
        node("spark2", drained={"by": "alice", "reason": "a new cable", "at": AT}),
        node("spark3", waiting=["its memory is not back"], units={"firstlight-ray.service": "failed (failed)"}),
    ]
    why = "server is gathering"
    shown = document(nodes, {"server": group(phase="gathering", load={}, attempts=2)}, verdict="not serving", why=why)
    text = "\n".join(screen(shown))
    for words in (
        "NOT SERVING",
        "server is gathering",
        "2 failed starts",
        "does not answer",
        "spark1: unreachable: no route",
        "spark2 is out of service by alice",
        "a new cable",
        "spark3: its memory is not back",
        "ray failed (failed)",
    ):
        assert words in text, words


def test_failed_starts_of_a_group_that_serves_are_shown_with_the_time_until_they_are_forgotten() -> None:
    shown = document([node("spark0")], {"server": group(attempts=1, forgotten_at="2026-11-15T09:07:30Z")})
    assert "1 failed start (forgotten in 7 min 30 s)" in "\n".join(screen(shown))


@pytest.mark.parametrize("hosts", [1, 4, 12, 200])
@pytest.mark.parametrize("groups", [1, 4])
def test_it_fits_in_one_screen(hosts: int, groups: int) -> None:
    nodes = [node(f"host{number}", problems=["x" * 90] if number < 3 else []) for number in range(hosts)]
    shown = document(nodes, {f"server-{number}": group() for number in range(groups)}, why="w" * 150)
    lines = screen(shown)
    assert len(lines) <= HEIGHT
    assert max(map(len, lines)) <= WIDTH


def test_many_sick_hosts_fit_too_and_none_is_silently_left_out() -> None:
    nodes = [node(f"host{number}", reachable=False, problems=["unreachable"], units={}) for number in range(60)]
    lines = screen(document(nodes))
    assert len(lines) <= HEIGHT
    assert any("with problems" in line for line in lines)
    assert any("--json has them all" in line for line in lines)


LONG = "Ray on spark3 was not joined by spark1 because " + "the token of the node is another one, " * 5 + "THE END"


def test_on_eighty_columns_a_reason_is_wrapped_and_not_cut() -> None:
    nodes = [
        node("spark0"),
        node("spark1", waiting=[LONG], units={"firstlight-ray.service": "failed (failed), exit-code THE REASON"}),
    ]
    history = [{"at": AT, "event": f"ended: {LONG}"}]
    probe = {"answered_at": None, "words": LONG}
    shown = document(nodes, {"server": group(phase="backing-off", history=history, probe=probe)}, why=LONG)
    lines = screen(shown, 80)
    text = " ".join(" ".join(lines).split())
    assert max(map(len, lines)) <= 80
    assert len(lines) <= HEIGHT
    assert "\u2026" not in text
    assert text.count("THE END") >= 3, text
    assert "THE REASON" in text


def test_a_reason_that_fills_the_screen_says_where_all_of_it_is() -> None:
    lines = screen(document([node("spark0")], why="because " * 200), 80)
    assert len(lines) <= HEIGHT
    assert any("--json has all of it" in line for line in lines)


def test_in_a_pipe_nothing_is_wrapped_cut_or_left_out(capsys: pytest.CaptureFixture[str]) -> None:
    nodes = [node(f"host{number}", reachable=False, problems=[f"{number}: {LONG * 3}"]) for number in range(64)]
    show(document(nodes, verdict="not serving", why=LONG * 4))
    lines = capsys.readouterr().out.splitlines()
    assert f"  {LONG * 4}" in lines
    assert sum(1 for line in lines if "does not answer" in line) == 64
    assert [line for line in lines if line.startswith("  host63: ") and line.endswith("THE END")]
    assert not [line for line in lines if "\u2026" in line or "--json" in line]


def test_nothing_to_show_is_no_crash() -> None:
    assert screen(document([], {}, verdict="unknown", model="", head=""))[0].startswith("UNKNOWN")


def test_what_a_terminal_would_act_on_is_written_out() -> None:
    text = "\n".join(screen(document([node("spark0", problems=["\x1b[31mred"])])))
    assert "\x1b" not in text


@pytest.mark.parametrize(
    ("earlier", "later", "told"),
    [
        ("2026-11-15T08:59:59Z", AT, "1 s"),
        ("2026-11-15T08:00:00Z", AT, "1 h"),
        ("2026-11-13T05:00:00+00:00", AT, "2 d 4 h"),
        (AT, "2026-11-15T08:00:00Z", "0 s"),
        (None, AT, ""),
        ("garbage", AT, ""),
    ],
)
def test_times_are_told_in_two_units(earlier: str | None, later: str, told: str) -> None:
    assert ago(earlier, later) == told


def test_a_start_shows_how_far_it_is_and_what_the_engine_said_last() -> None:
    loading = {
        "bytes_read": 41_200_000_000,
        "expected_bytes": 399_600_000_000,
        "progress_at": "2026-11-15T08:59:57Z",
        "progress": "bytes were read on spark1",
        "limit_at": "2026-11-15T09:52:00Z",
        "last_line": "Loading safetensors checkpoint shards",
    }
    groups = {"server": group(phase="warming", load={}, loading=loading)}
    shown = "\n".join(screen(document([node("spark0")], groups)))
    assert "41.2 GB of 399.6 GB of weights read, last progress 3 s ago" in shown
    assert "the engine's last line: Loading safetensors checkpoint shards" in shown


CONTROLS = {*map(chr, range(32)), *map(chr, range(127, 160))}


@pytest.mark.hostile
@pytest.mark.parametrize("field", ["phase", "why", "model", "url", "tensor_parallel", "attempts", "epoch"])
def test_a_host_says_nothing_that_a_terminal_obeys(field: str) -> None:
    said = f"{ESCAPES}\n{ESCAPES}"
    groups = {said: group(**{field: said}, loading={"last_line": said}, history=[{"at": said, "event": said}])}
    nodes = [node("spark0", units={said: said}, problems=[said], drained={"by": said, "reason": said})]
    shown = screen(document(nodes, groups, why=said, model=said, verdict="not serving"))
    assert not CONTROLS & set("".join(shown))


@pytest.mark.hostile
@examples(40)
@given(lies())
def test_whatever_a_head_says_is_shown(lie: dict[str, Any]) -> None:
    found = status_document({"spark1": lie, "spark0": answer("spark0")}, head="spark1", at=AT)
    assert not CONTROLS & set("".join(screen(found)))
