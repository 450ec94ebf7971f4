# SPDX-License-Identifier: Apache-2.0
"""`firstlight completion`: what the scripts offer, in the shell that is here, and by their text."""

from __future__ import annotations

import json
import shlex
import subprocess

import pytest

from firstlight.cli import COMMANDS
from firstlight.completion import FILE, SHELLS, current, script

KNOWN = json.loads(FILE.read_text(encoding="utf-8"))


@pytest.mark.slow  # every command is imported
def test_what_is_completed_is_what_the_parsers_take() -> None:
    assert current() == KNOWN, "run python -m firstlight.completion"


@pytest.mark.parametrize(
    ("words", "offered"),
    [
        (["pl"], ["plan"]),
        ([""], [*COMMANDS, "-h", "--help", "--version"]),
        (["lab", "sna"], ["snapshot", "snapshots"]),
        (["lab", "up", "--prof"], ["--profile"]),
        (["lab", "up", "--profile", "gb"], ["gb10"]),
        (["list", "m"], ["models"]),
        (["status", "-i", "x", "--wat"], ["--watch"]),
        (["status", "-i", ""], []),
        (["ask", "plan", "--how"], ["--how"]),
    ],
)
def test_bash_offers(words: list[str], offered: list[str]) -> None:
    line = f"COMP_WORDS=(firstlight {shlex.join(words)}); COMP_CWORD={len(words)}; _firstlight"
    code = f'{script("bash")}\n{line}; printf "%s\\n" "${{COMPREPLY[@]}}"; complete -p firstlight'
    done = subprocess.run(["bash", "--norc", "-ue", "-c", code], capture_output=True, text=True, check=True, timeout=30)
    *found, registered = done.stdout.splitlines()
    assert [word for word in found if word] == offered
    assert registered == "complete -o default -F _firstlight firstlight"


@pytest.mark.parametrize("shell", SHELLS)
def test_every_script_knows_every_command_and_option(shell: str) -> None:
    text = script(shell)
    for path, one in KNOWN.items():
        assert path.split(" ")[-1] in text
        for names in one["options"]:
            for name in names.split(", "):
                assert (f"-l {name[2:]} " if shell == "fish" and name.startswith("--") else name[1:]) in text


def test_every_quote_is_closed() -> None:
    """zsh quotes as a shell does; fish, which needs no end of a quote in the middle of a word, escapes within it."""
    assert shlex.split(script("zsh"), comments=True)
    for line in script("fish").splitlines():
        bare = line.replace("\\\\", "").replace("\\'", "")
        assert bare.count("'") % 2 == 0, line
