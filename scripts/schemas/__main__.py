# SPDX-License-Identifier: Apache-2.0
"""`python -m scripts.schemas`: make the flag schemas of the catalog."""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from . import click_source, python_source, settings_source, since
from .document import make_document, render_settings, write_document
from .releases import Releases, ReleasesError

REPOSITORY = Path(__file__).resolve().parents[2]
ENGINES = REPOSITORY / "catalog" / "engines"
CACHE = Path.home() / ".cache" / "firstlight" / "schemas"


def build_parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m scripts.schemas", description=__doc__)
    actions = parser.add_subparsers(dest="action", required=True)
    for engine in ("vllm", "sglang"):
        real = actions.add_parser(engine, help=f"ask the real parser of {engine}")
        real.add_argument("--python", type=Path, required=True, help="an interpreter that can import the engine")
        real.add_argument("--package", help="the package it came from, if it is not named like the engine")
        real.add_argument("--path", action="append", default=[], help="a directory to put on that interpreter's path")
        _common(real)
    source = actions.add_parser("vllm-source", help="read the source of a vLLM release without running it")
    source.add_argument("version")
    _index(source)
    _common(source)
    for action, read in (
        ("tensorrt-llm", "the click options of trtllm-serve"),
        ("tensorrt-llm-settings", "the settings of the file that trtllm-serve --config names"),
    ):
        clone = actions.add_parser(action, help=f"read {read} in a git clone")
        clone.add_argument("version", help="the tag without its v")
        clone.add_argument("--git", type=Path, required=True, help="a clone of TensorRT-LLM that has the tag")
        _common(clone)
    first = actions.add_parser("since", help="find the release in which each flag first occurs")
    first.add_argument("engine", choices=["vllm", "sglang", "tensorrt-llm"])
    first.add_argument("--git", type=Path, help="for tensorrt-llm: a clone with its tags")
    _index(first)
    _common(first)
    return parser


def _common(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--output", type=Path, default=ENGINES, help="where to write (default: %(default)s)")
    parser.add_argument("--date", default=datetime.now(UTC).date().isoformat())


def _index(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--index", help="a package index in the simple form (default: the one pip uses)")
    parser.add_argument("--cache", type=Path, default=CACHE, help="where downloads are cached (default: %(default)s)")


def ask_engine(engine: str, python: Path, paths: Sequence[str]) -> dict[str, Any]:
    """Run the stand-alone reader in the engine's own interpreter and return its description."""
    script = Path(__file__).with_name("inside.py")
    environment = {
        "PATH": "/usr/local/bin:/usr/bin:/bin",
        "HOME": "/nonexistent",  # defaults below a home directory would be specific to this machine
        "PYTHONPATH": ":".join(paths),
        "HF_HUB_OFFLINE": "1",
        "VLLM_LOGGING_LEVEL": "ERROR",
        "VLLM_NO_USAGE_STATS": "1",
    }
    done = subprocess.run([python, script, engine], env=environment, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise ReleasesError(f"{python} could not describe {engine}:\n{done.stderr[-2000:]}")
    found: dict[str, Any] = json.loads(done.stdout.strip().splitlines()[-1])
    return found


def run(arguments: argparse.Namespace) -> list[Path]:
    """Run one action and return the files written."""
    match arguments.action:
        case "vllm" | "sglang":
            found = ask_engine(arguments.action, arguments.python, arguments.path)
            engine, how = arguments.action, "inside.py"
            package = f" (package {arguments.package})" if arguments.package else ""
            source = f"the argument parser of {engine} {found['version']}{package} itself, run and described"
        case "vllm-source":
            releases = Releases("vllm", index=arguments.index, cache=arguments.cache)
            found = python_source.read_vllm(releases, arguments.version)
            engine, how = "vllm", "python_source.py"
            source = f"source files of the released wheel of vllm {arguments.version}, read without running them"
        case "tensorrt-llm":
            found = click_source.read_trtllm(arguments.git, arguments.version)
            engine, how = "tensorrt-llm", "click_source.py"
            source = (
                f"tensorrt_llm/commands/serve.py of TensorRT-LLM, tag v{arguments.version}, commit {found['commit']}, "
                "read without running it"
            )
        case "tensorrt-llm-settings":
            settings = settings_source.read_settings(arguments.git, arguments.version)
            return [
                write_document(
                    settings_source.make_settings(settings, arguments.version, arguments.date),
                    arguments.output / "settings",
                    render_settings,
                )
            ]
        case _:
            return since.update(arguments)
    document = make_document(
        engine=engine,
        version=found["version"],
        source=source,
        date=arguments.date,
        generator=f"python -m scripts.schemas {arguments.action} ({how})",
        arguments=found["arguments"],
        parser=found["parser"],
        since=since.load(arguments.output, engine, found["version"]),
    )
    return [write_document(document, arguments.output)]


def main(argv: Sequence[str] | None = None) -> int:
    try:
        written = run(build_parser().parse_args(argv))
    except (ReleasesError, OSError) as error:
        print(f"scripts.schemas: {error}", file=sys.stderr)
        return 1
    for path in written:
        print(path)
    return 0


if __name__ == "__main__":
    sys.exit(main())
