# SPDX-License-Identifier: Apache-2.0
"""Captures of several tools and hosts, cut into what each tool printed."""

from __future__ import annotations

from ansible_collections.firstlight.cluster.plugins.module_utils.gpu.capture_parts import parts
from hypothesis import given
from hypothesis import strategies as st

from tests.unit.examples import examples

from .test_kinds import TEXTS


def kinds(text: str, name: str = "") -> list[str]:
    return [part.kind for part in parts(text, name)]


def test_one_tool_is_left_whole() -> None:
    text = "# source: somewhere\n" + TEXTS["topo"]
    (part,) = parts(text)
    assert (part.kind, part.text) == ("topo", text)


def test_a_session_is_cut_at_its_commands() -> None:
    text = f"$ nvidia-smi topo -m\n{TEXTS['topo']}\n$ ls\nfile\n$ nvidia-smi nvlink -s\n{TEXTS['nvlink']}"
    assert kinds(text) == ["topo", "nvlink"]


def test_text_without_commands_is_cut_where_a_tool_begins() -> None:
    text = TEXTS["smi-table"] + TEXTS["topo"] + TEXTS["proc-version"] + TEXTS["ray-status"]
    assert kinds(text) == ["smi-table", "topo", "proc-version", "ray-status"]


def test_a_command_with_an_empty_answer_is_of_its_kind() -> None:
    assert kinds("$ nvidia-smi nvlink -s\nrc=0\n") == ["nvlink"]


def test_the_output_of_another_subcommand_is_not_taken_for_a_known_one() -> None:
    assert kinds("$ nvidia-smi topo -p2p n\n \tGPU0\n GPU0\tX\n", "topo-p2p.txt") == []


def test_ports_that_are_asked_one_by_one_are_one_reading() -> None:
    text = "".join(f"$ ethtool {port} | grep Speed\n\tSpeed: 200000Mb/s\n$ uptime\n" for port in ("ens1", "ens2"))
    (part,) = parts(text + "$ nvidia-smi topo -m\n" + TEXTS["topo"])[:1]
    assert part.kind == "ethtool"
    assert part.text.count("Speed") == 4


def test_prompts_name_the_hosts() -> None:
    text = "".join(f"root@{host}:~# nvidia-smi topo -m\n{TEXTS['topo']}" for host in ("node1", "node2"))
    assert [(part.host, part.kind) for part in parts(text)] == [("node1", "topo"), ("node2", "topo")]


def test_the_name_decides_where_nothing_else_does() -> None:
    assert kinds("\n", "nvlink.txt") == ["nvlink"]
    assert kinds("hello\n", "notes.txt") == []


def test_a_named_kind_holds_for_the_whole_text() -> None:
    assert [part.kind for part in parts(TEXTS["topo"], "x", "nvlink")] == ["nvlink"]


@given(
    st.lists(st.sampled_from([*TEXTS.values(), "$ nvidia-smi\n", "\x1b[1m\n", "text\n"]), max_size=5),
    st.text(max_size=40),
)
@examples(80)
def test_any_mix_is_cut(pieces: list[str], noise: str) -> None:
    assert all(part.kind in TEXTS for part in parts(noise.join(pieces)))
