# SPDX-License-Identifier: Apache-2.0
"""Static shell completion scripts, which run nothing while a person types.

They are generated from `completion.json`, which lists every command with its options, so that generating them imports
no command either. `python -m firstlight.completion` regenerates that file; a test compares it with the parsers.
"""

from __future__ import annotations

import argparse
import json
import re
import shlex
import textwrap
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

FILE = Path(__file__).with_suffix(".json")
Tree = dict[str, dict[str, Any]]
"""Path of a command, such as "lab up" -> {"words": {word: help}, "options": {"-i, --inventory": [help, values]}}.

`values` are the choices of an option, empty if it takes any value, and None if it takes none.
"""


def tree(parser: argparse.ArgumentParser, path: str = "", texts: dict[str, str] | None = None) -> Tree:
    """Collect everything that can be completed from the parsers. `texts` are fallbacks for missing help texts."""
    words: dict[str, str] = {}
    options: dict[str, list[Any]] = {}
    below: Tree = {}
    for action in parser._actions:
        if isinstance(action, argparse._SubParsersAction):
            helps = {one.dest: one.help or "" for one in action._choices_actions}
            words |= {name: _short(helps.get(name) or (texts or {}).get(name, "")) for name in action.choices}
            for name, one in action.choices.items():
                below |= tree(one, f"{path} {name}".strip())
        elif action.option_strings:
            values = None if action.nargs == 0 else [str(choice) for choice in action.choices or ()]
            options[", ".join(action.option_strings)] = [_short(action.help or ""), values]
        elif action.choices:
            words |= {str(choice): "" for choice in action.choices}
    return {path: {"words": words, "options": options}, **below}


def _short(text: str) -> str:
    """Shorten a help text and drop the part about defaults, which differ between machines."""
    return textwrap.shorten(re.sub(r" *\(default.*", "", text), 80, placeholder=" ...")


def script(shell: str) -> str:
    """Return the completion script for a shell."""
    known: Tree = json.loads(FILE.read_text(encoding="utf-8"))
    return "\n".join(SHELLS[shell](known)) + "\n"


def _values(known: Tree) -> tuple[dict[str, list[str]], list[str]]:
    """Return options with a fixed set of values, and options with any value, each prefixed with its command."""
    listed: dict[str, list[str]] = {}
    free: list[str] = []
    for path, one in known.items():
        for names, (_, values) in one["options"].items():
            for name in names.split(", ") if values is not None else ():
                if values:
                    listed[f"{path} {name}"] = values
                else:
                    free.append(f"{path} {name}")
    return listed, free


def _quoted(words: list[str]) -> str:
    return "|".join(shlex.quote(word) for word in words)


def _bash(known: Tree) -> Iterator[str]:
    listed, free = _values(known)
    yield "# bash completion of firstlight; made by `firstlight completion bash`"
    yield "_firstlight() {"
    yield '    local current=${COMP_WORDS[COMP_CWORD]} at="" word words=""'
    yield '    for word in "${COMP_WORDS[@]:1:COMP_CWORD-1}"; do'
    yield '        case "${at:+$at }$word" in'
    yield f'            {_quoted([path for path in known if path])}) at="${{at:+$at }}$word" ;;'
    yield "        esac"
    yield "    done"
    yield "    COMPREPLY=()"
    yield '    case "$at ${COMP_WORDS[COMP_CWORD-1]}" in'
    for option, values in listed.items():
        yield f"        {shlex.quote(option)}) words={shlex.quote(' '.join(values))} ;;"
    yield f"        {_quoted(free)}) return ;;"
    yield '        *) case "$at" in'
    for path, one in known.items():
        words = [*one["words"], *(name for names in one["options"] for name in names.split(", "))]
        yield f"            {shlex.quote(path)}) words={shlex.quote(' '.join(words))} ;;"
    yield "        esac ;;"
    yield "    esac"
    yield '    COMPREPLY=($(compgen -W "$words" -- "$current"))'
    yield "}"
    yield "complete -o default -F _firstlight firstlight"


def _zsh(known: Tree) -> Iterator[str]:
    listed, free = _values(known)
    yield "#compdef firstlight"
    yield "# zsh completion of firstlight; made by `firstlight completion zsh`"
    yield "_firstlight() {"
    yield '    local at="" word'
    yield "    local -a found"
    yield '    for word in "${(@)words[2,CURRENT-1]}"; do'
    yield '        case "${at:+$at }$word" in'
    yield f'            ({_quoted([path for path in known if path])}) at="${{at:+$at }}$word" ;;'
    yield "        esac"
    yield "    done"
    yield '    case "$at ${words[CURRENT-1]}" in'
    for option, values in listed.items():
        yield f"        ({shlex.quote(option)}) compadd -- {shlex.join(values)}; return ;;"
    yield f"        ({_quoted(free)}) _files; return ;;"
    yield "    esac"
    yield '    case "$at" in'
    for path, one in known.items():
        told = [f"{word}:{text}" for word, text in one["words"].items()]
        told += [f"{name}:{text}" for names, (text, _) in one["options"].items() for name in names.split(", ")]
        yield f"        ({shlex.quote(path)}) found=({shlex.join(told)}) ;;"
    yield "    esac"
    yield "    _describe firstlight found || _files"
    yield "}"
    # When sourced, the script registers itself; when autoloaded from fpath, it is the function body.
    yield 'if [[ "$funcstack[1]" == _firstlight ]]; then _firstlight "$@"; else compdef _firstlight firstlight; fi'


def _fish(known: Tree) -> Iterator[str]:
    yield "# fish completion of firstlight; made by `firstlight completion fish`"
    yield "function __firstlight_at"
    yield "    set -l at ''"
    yield "    for word in (commandline -opc)[2..-1]"
    yield '        set -l next (string trim -- "$at $word")'
    yield f'        contains -- "$next" {" ".join(_fished(path) for path in known if path)}; and set at "$next"'
    yield "    end"
    yield '    test "$at" = "$argv[1]"'
    yield "end"
    for path, one in known.items():
        start = f"complete -c firstlight -n {_fished(f'__firstlight_at {_fished(path)}')}"
        for word, text in one["words"].items():
            yield f"{start} -f -a {word}" + (f" -d {_fished(text)}" if text else "")
        for names, (text, values) in one["options"].items():
            flags = [f"-l {name[2:]}" if name.startswith("--") else f"-s {name[1:]}" for name in names.split(", ")]
            takes = "" if values is None else f" -x -a {_fished(' '.join(values))}" if values else " -r"
            yield f"{start} {' '.join(flags)}{takes} -d {_fished(text)}"


def _fished(text: str) -> str:
    """Quote text for fish: within single quotes only these two characters are special."""
    escaped = text.replace("\\", "\\\\").replace("'", "\\'")
    return f"'{escaped}'"


SHELLS: dict[str, Callable[[Tree], Iterator[str]]] = {"bash": _bash, "zsh": _zsh, "fish": _fish}


def current() -> Tree:
    """Return the tree of the current parsers."""
    from .cli import COMMANDS, build_parser  # noqa: PLC0415 - imports every command; a script needs none

    return tree(build_parser(*COMMANDS), texts=COMMANDS)


if __name__ == "__main__":
    lines = [f"{json.dumps(path)}: {json.dumps(one)}" for path, one in current().items()]
    FILE.write_text("{\n" + ",\n".join(lines) + "\n}\n", encoding="utf-8")
