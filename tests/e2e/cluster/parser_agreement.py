# SPDX-License-Identifier: Apache-2.0
"""What vLLM's own argument parser says of command lines; run by the interpreter in which vLLM is installed.

Reads a JSON list of command lines (each a list of words, with or without a leading `vllm serve`) from standard input
and prints, as the last line, a JSON list of {"parsed", "accepted", "message"}: whether the parser takes the words, and
whether the checks that `vllm serve` makes before it loads anything pass too. One import serves them all. Standard
library only, because it runs inside the inference image:

    docker exec -i CONTAINER python3 -c "$(cat parser_agreement.py)" < lines.json
"""

from __future__ import annotations

import argparse
import contextlib
import importlib
import io
import json
import sys
from collections.abc import Sequence
from typing import Any


def build() -> tuple[Any, Any]:
    """The parser as `vllm` builds it, and the check that follows it."""
    arguments = importlib.import_module("vllm.entrypoints.launchers.cli_args")
    flexible = importlib.import_module("vllm.utils.argparse_utils").FlexibleArgumentParser
    parser = flexible(prog="vllm")
    commands = parser.add_subparsers(dest="subparser")
    arguments.make_arg_parser(commands.add_parser("serve"))
    return parser, arguments.validate_parsed_serve_args


def evaluate(parser: Any, validate: Any, words: Sequence[str]) -> dict[str, Any]:
    """What becomes of one command line."""
    own = list(words[2:]) if list(words[:2]) == ["vllm", "serve"] else list(words)
    said = io.StringIO()
    try:
        with contextlib.redirect_stderr(said), contextlib.redirect_stdout(said):
            parsed: argparse.Namespace = parser.parse_args(["serve", *own])
    except SystemExit as end:
        message = said.getvalue().strip().splitlines()[-1:] or [""]
        return {"parsed": end.code == 0, "accepted": False, "message": message[0]}
    except Exception as error:  # noqa: BLE001 the parser raises what it likes, and each ends the engine
        return {"parsed": False, "accepted": False, "message": f"{type(error).__name__}: {error}"}
    try:
        with contextlib.redirect_stderr(said), contextlib.redirect_stdout(said):
            validate(parsed)
    except Exception as error:  # noqa: BLE001 as above
        return {"parsed": True, "accepted": False, "message": f"{type(error).__name__}: {error}"}
    return {"parsed": True, "accepted": True, "message": ""}


def main() -> int:
    """Answer for each command line on standard input."""
    lines: list[list[str]] = json.load(sys.stdin)
    parser, validate = build()
    print("\n" + json.dumps([evaluate(parser, validate, line) for line in lines]))
    return 0


if __name__ == "__main__":
    sys.exit(main())
