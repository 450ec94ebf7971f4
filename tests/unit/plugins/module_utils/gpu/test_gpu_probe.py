# SPDX-License-Identifier: Apache-2.0
"""Asking the tools: all at once, none for ever, and without what a driver does not know."""

from __future__ import annotations

import threading
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path

import pytest
from ansible_collections.firstlight.cluster.plugins.module_utils.gpu import gpu_probe
from ansible_collections.firstlight.cluster.plugins.module_utils.gpu.gpu_probe import (
    HEALTH,
    KINDS,
    QUERY_FIELDS,
    SERVING,
    Question,
    ask_all,
    is_serving,
    questions,
    raw,
)
from ansible_collections.firstlight.cluster.plugins.module_utils.host import RC_NOT_FOUND, RC_TIMEOUT, Result

from tests.unit.fake_host import Call, FakeHost, not_installed


def named(name: str) -> list[Question]:
    return [one for one in questions(KINDS) if one.name == name]


def test_every_question_is_asked_once_and_answered_in_its_order(tmp_path: Path) -> None:
    machine = FakeHost(
        {"": not_installed, "nvidia-smi": "words\n", "systemctl": "ActiveState=active\n", "journalctl": "a line\n"}
    )
    answers = ask_all(machine, questions(), 5, str(tmp_path))
    assert [one.name for one in answers] == [one.name for one in HEALTH]
    assert len(machine.lines) == len(set(machine.lines)) == len(HEALTH) - 5  # five are files
    assert {one.text for one in answers if one.command.startswith("nvidia-smi")} == {"words\n"}


def test_a_tool_that_is_missing_reads_as_a_shell_says_it() -> None:
    (answer,) = ask_all(FakeHost({"": not_installed}), named("smi-list"), 5)
    assert (answer.rc, answer.text) == (RC_NOT_FOUND, "nvidia-smi: command not found\n")
    assert answer.problem == "nvidia-smi is not installed"
    assert not answer.silent


def test_a_complaint_is_an_answer() -> None:
    failing = Result((), 9, "NVIDIA-SMI has failed\n", "and said why\n")
    (answer,) = ask_all(FakeHost({"": not_installed, "nvidia-smi": failing}), named("topo"), 5)
    assert (answer.rc, answer.text, answer.problem) == (9, "NVIDIA-SMI has failed\nand said why\n", "")


def test_warnings_beside_an_answer_are_not_part_of_it() -> None:
    warned = Result((), 0, "<nvidia_smi_log/>\n", "WARNING: infoROM is corrupted\n")
    (answer,) = ask_all(FakeHost({"": not_installed, "nvidia-smi": warned}), named("smi-xml"), 5)
    assert answer.text == "<nvidia_smi_log/>\n"


def test_a_command_that_hangs_is_given_up_and_holds_up_nothing() -> None:
    hung = Result((), RC_TIMEOUT, problem="nvidia-smi gave no answer within 5 s")
    machine = FakeHost({"": not_installed, "nvidia-smi nvlink -s": hung, "nvidia-smi": "fine\n"})
    answers = {one.name: one for one in ask_all(machine, [*named("nvlink"), *named("topo")], 5)}
    assert answers["nvlink"].silent
    assert answers["nvlink"].text == ""
    assert answers["topo"].text == "fine\n"


def test_a_process_that_cannot_be_killed_does_not_hold_the_call(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(gpu_probe, "_GRACE", 0.1)
    release, returned = threading.Event(), threading.Event()

    def hang(_: Call) -> str:
        release.wait(60)
        returned.set()
        return ""

    (answer,) = ask_all(FakeHost({"nvidia-smi": hang}), named("smi-list"), 0.05, "/")
    assert not returned.is_set()
    release.set()
    assert answer.silent
    assert answer.problem == "no answer within 0.05 s"


def test_a_driver_is_asked_without_the_fields_it_does_not_know() -> None:
    unknown = ["gpu_recovery_action", "fabric.status"]

    def query(call: Call) -> Result:
        strange = next((one for one in unknown if one in call.argv[1]), None)
        if strange is None:
            return Result((), 0, "index, name\n0, NVIDIA GB10\n")
        return Result((), 2, f'Field "{strange}" is not a valid field to query.\n\n')

    machine = FakeHost({"nvidia-smi": query})
    (answer,) = ask_all(machine, named("query-gpu"), 5)
    assert answer.text.startswith("index")
    assert len(machine.ran) == 3
    assert machine.ran[-1][1] == "--query-gpu=" + ",".join(one for one in QUERY_FIELDS if one not in unknown)


def test_a_complaint_about_a_field_that_nobody_asked_for_ends_it() -> None:
    strange = Result((), 2, 'Field "other" is not a valid field to query.\n')
    machine = FakeHost({"": not_installed, "nvidia-smi": strange})
    (answer,) = ask_all(machine, named("query-gpu"), 5)
    assert (answer.rc, len(machine.lines)) == (2, 1)


@pytest.mark.parametrize("journal", [Result((), 1, "", "no journal"), Result((), 0, "\n")])
def test_without_a_journal_the_kernels_own_log_is_read(journal: Result) -> None:
    (answer,) = ask_all(
        FakeHost({"": not_installed, "journalctl": journal, "dmesg": "NVRM: loading\n"}), named("kernel-log"), 5
    )
    assert (answer.command, answer.text) == ("dmesg --time-format=iso", "NVRM: loading\n")


def test_files_are_read_below_the_root(tmp_path: Path) -> None:
    place = tmp_path / "proc/driver/nvidia"
    place.mkdir(parents=True)
    (place / "version").write_text("NVRM version: 1\n")
    answers = ask_all(FakeHost({"": not_installed}), questions(["proc-version"]), 5, str(tmp_path))
    assert [(one.command, one.text) for one in answers] == [
        ("cat /proc/driver/nvidia/version", "NVRM version: 1\n"),
        ("cat /sys/module/nvidia/version", ""),
        ("cat /proc/driver/nvidia/gpus/*/information", ""),
    ]
    assert answers[1].problem == "/sys/module/nvidia/version does not exist or cannot be read"


def test_ports_are_asked_where_they_are_named() -> None:
    assert questions(["ethtool", "vllm-metrics"]) == []
    asked = questions(["ethtool"], ["eth1", "eth2"])
    machine = FakeHost({"": not_installed, "ethtool": "Settings for it\n"})
    assert [(one.name, one.text) for one in ask_all(machine, asked, 5)] == [
        ("ethtool-eth1", "Settings for it\n"),
        ("ethtool-eth2", "Settings for it\n"),
    ]


class Metrics(BaseHTTPRequestHandler):
    """A server that has metrics and nothing else."""

    def do_GET(self) -> None:
        self.send_response(200)
        self.end_headers()
        self.wfile.write(b"vllm:num_requests_running 0\n")

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - as http.server has it
        """Nothing on the terminal of the tests."""


def test_metrics_are_read_without_another_program_and_past_every_proxy(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("http_proxy", "http://127.0.0.1:9")
    with HTTPServer(("127.0.0.1", 0), Metrics) as server:
        threading.Thread(target=server.handle_request, daemon=True).start()
        (answer,) = ask_all(
            FakeHost({"": not_installed}), questions(["vllm-metrics"], metrics_port=server.server_port), 5
        )
        port = server.server_port
    assert (answer.rc, answer.text) == (0, "vllm:num_requests_running 0\n")
    (answer,) = ask_all(FakeHost({"": not_installed}), questions(["vllm-metrics"], metrics_port=port), 5)
    assert answer.problem.startswith(f"http://127.0.0.1:{port}/metrics does not answer: ")


def test_a_kind_that_is_none_is_refused() -> None:
    with pytest.raises(ValueError, match=r"kinds has topology, expected some of smi-list, .*: correct the spelling"):
        questions(["topo", "topology"])


@pytest.mark.parametrize(
    ("said", "expected"), [("active\ninactive\n", True), ("inactive\nunknown\n", False), ("activating\n", True)]
)
def test_what_serves_here_is_told_by_our_units(said: str, expected: bool) -> None:
    answers = ask_all(FakeHost({"": not_installed, "systemctl is-active": Result((), 3, said)}), [SERVING], 5)
    assert is_serving(answers) is expected


def test_a_log_is_kept_from_its_end() -> None:
    machine = FakeHost({"": not_installed, "journalctl": "first\n" + "x" * (5 * 1024 * 1024) + "\nlast\n"})
    answers = ask_all(machine, named("kernel-log"), 5)
    assert answers[0].text.endswith("last\n")
    assert not answers[0].text.startswith("first")
    told = raw(answers)
    assert set(told["kernel-log"]) == {"kind", "command", "rc", "seconds", "text", "problem"}
