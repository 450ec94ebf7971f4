# SPDX-License-Identifier: Apache-2.0
"""What holds for every command: statuses, errors for programs, secrets, and a reader that goes away."""

from __future__ import annotations

import argparse
import json
import os
import signal
import stat
import subprocess
import sys
from pathlib import Path
from typing import NoReturn

import pytest

from firstlight import cli, errors, options, playbooks
from firstlight.ask_hosts import AskError
from firstlight.commands import catalog
from firstlight.errors import FirstlightError, UsageError

CHECK = ["catalog", "check"]


@pytest.mark.parametrize(
    ("error", "status"),
    [
        (FirstlightError("it broke"), errors.FAILED),
        (PermissionError("may not"), errors.FAILED),
        (UsageError("no such file"), errors.REFUSED),
        (AskError("nobody there"), errors.OPEN),
        (KeyboardInterrupt(), errors.INTERRUPTED),
    ],
)
def test_an_error_is_one_message_and_one_status(
    error: BaseException, status: int, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def fail(_: object) -> NoReturn:
        raise error

    monkeypatch.setattr(catalog, "run", fail)
    assert cli.main(CHECK) == status
    told = capsys.readouterr()
    assert told.out == ""
    assert told.err.startswith(f"firstlight: {str(error) or 'interrupted'}")
    assert cli.main([*CHECK, "--json"]) == status
    told = capsys.readouterr()
    assert told.err == ""
    found = json.loads(told.out)
    assert list(found) == ["error"]
    assert found["error"]["status"] == status
    assert found["error"]["message"] in told.out


@pytest.mark.parametrize("command", ["lab", "demo"])
def test_an_installed_command_says_where_the_lab_is(
    command: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.delitem(sys.modules, "firstlight_lab.command", raising=False)
    monkeypatch.setitem(sys.modules, "firstlight_lab", None)
    assert cli.main([command, "--help"]) == errors.REFUSED
    said = capsys.readouterr().err
    assert "the lab is not installed" in said
    assert "make setup" in said


def test_a_usage_error_is_json_too(capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main([*CHECK, "--days", "few", "--json"]) == errors.REFUSED
    assert json.loads(capsys.readouterr().out) == {
        "error": {"message": "argument --days: 'few' is not a number of days", "status": 2}
    }
    assert cli.main([*CHECK, "--days", "few"]) == errors.REFUSED
    assert capsys.readouterr().err.startswith("usage: firstlight catalog check")
    assert cli.main(["fit", "--", "--json"]) == errors.REFUSED, "a word after the dashes is no option"
    assert capsys.readouterr().out == ""


CAPTURE = str(Path(__file__).parents[1] / "fixtures" / "gpu-captures" / "h100-topo.txt")
TALKERS = (
    ["--help"],
    ["--version"],
    ["fit", "--help"],
    ["fit", "llama-3.3-70b", "--hardware", "h100-sxm-8", "--gpus", "8"],
    ["fit", "llama-3.3-70b", "--hardware", "h100-sxm-8", "--gpus", "8", "--json"],
    ["flags", "vllm==0.32.0", "--", "--no-such-flag"],
    ["diagnose", CAPTURE, "--hardware", "h100-sxm-8"],
    ["catalog", "check"],
    ["catalog", "check", "--days", "few", "--json"],
)


@pytest.mark.parametrize("words", TALKERS, ids=" ".join)
def test_a_reader_that_goes_away_is_content(words: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    read, write = os.pipe()
    os.close(read)
    with os.fdopen(write, "w") as output:
        monkeypatch.setattr(sys, "stdout", output)
        assert cli.main(words) == errors.DONE


def secrets_of(arguments: argparse.Namespace) -> dict[str, str]:
    return {
        option: Path(paths[-1]).read_text(encoding="utf-8").strip()
        for option in ("vault_password_file", "become_password_file")
        if (paths := getattr(arguments, option))
    }


def test_passwords_are_asked_for_once_and_leave_nothing_behind(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    parser = argparse.ArgumentParser()
    options.add_host_options(parser)
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(tmp_path))
    monkeypatch.setattr(sys.stdin, "isatty", lambda: True)
    monkeypatch.setattr("getpass.getpass", lambda prompt: f"secret of {prompt}")
    arguments = parser.parse_args(["-i", str(tmp_path), "-K", "-J", "--vault-password-file", "given"])
    with options.asked_secrets(arguments):
        assert secrets_of(arguments) == {
            "vault_password_file": "secret of Vault password:",
            "become_password_file": "secret of BECOME password:",
        }
        (directory,) = tmp_path.iterdir()
        assert stat.S_IMODE(directory.stat().st_mode) == 0o700
        assert {stat.S_IMODE(path.stat().st_mode) for path in directory.iterdir()} == {0o600}
        words = playbooks.playbook_words("status.yml", arguments)
        assert "secret" not in " ".join(words)
        assert words.count("--vault-password-file") == 2
        assert words.count("--become-password-file") == 1
    assert list(tmp_path.iterdir()) == []


def test_without_a_terminal_nobody_is_asked(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys.stdin, "isatty", lambda: False)
    with pytest.raises(UsageError, match="no terminal"), options.asked_secrets(argparse.Namespace(ask_vault_pass=True)):
        pass


@pytest.mark.parametrize(
    ("end", "status"), [(0, 0), (1, 1), (2, 1), (4, 1), (5, 2), (99, 130), (-signal.SIGTERM, 130), (-signal.SIGKILL, 1)]
)
def test_the_status_of_a_playbook_is_translated(end: int, status: int, monkeypatch: pytest.MonkeyPatch) -> None:
    code = f"import os; os.kill(os.getpid(), {-end}) if {end} < 0 else os._exit({end})"
    monkeypatch.setattr(playbooks, "program", lambda: sys.executable)
    assert playbooks.run_playbook(["-S", "-c", code]) == status


def test_a_playbook_ends_before_the_command_does() -> None:
    """SIGTERM reaches the playbook, whose own way of ending is waited for."""
    child = (
        "import signal, sys, time; signal.signal(15, lambda *_: sys.exit(99)); print('up', flush=True); time.sleep(60)"
    )
    code = (
        "import sys; from firstlight import playbooks; playbooks.program = lambda: sys.executable;"
        f"sys.exit(playbooks.run_playbook(['-c', {child!r}]))"
    )
    with subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "up\n"
        process.send_signal(signal.SIGTERM)
        assert process.wait(timeout=30) == errors.INTERRUPTED


@pytest.mark.parametrize(
    ("text", "number"),
    [
        ("32768", 32768),
        ("128k", 128_000),
        ("128K", 131_072),
        ("1m", 1_000_000),
        ("1M", 1 << 20),
        ("1.5k", 1500),
        ("-1", -1),
    ],
)
def test_numbers_are_written_as_engines_take_them(text: str, number: int) -> None:
    assert options.count(text) == number


@pytest.mark.parametrize("text", ["", "k", "1kk", "12x", "1.5", "infk", "nanM", "128 kb"])
def test_what_is_no_number_is_refused(text: str) -> None:
    with pytest.raises(argparse.ArgumentTypeError, match="expected one such as"):
        options.count(text)


def test_an_inventory_that_is_not_there_is_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for command in ("status", "logs", "collect"):
        assert cli.main([command, "-i", str(tmp_path / "none")]) == errors.REFUSED
        assert "none does not exist, expected a file or directory" in capsys.readouterr().err
