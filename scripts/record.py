# SPDX-License-Identifier: Apache-2.0
"""Make a picture (SVG) of what a command prints, for the README: record.py PICTURE [--from FILE] -- COMMAND...

The command is run in a terminal of its own, 110 columns wide, so that it prints its colours. With --from nothing is
run: what stands in FILE is shown as the output of COMMAND, such as a bring-up that was recorded with
`script -c COMMAND FILE`. The picture has no script and no font, and fetches nothing.
"""

from __future__ import annotations

import argparse
import html
import io
import os
import pty
import re
import shlex
import subprocess
import sys
from pathlib import Path

from rich.console import Console
from rich.text import Text

COLUMNS = 110
MOST_LINES = 60
FORMAT = """<svg class="rich-terminal" viewBox="0 0 {width} {height}" xmlns="http://www.w3.org/2000/svg" role="img">
<title>TITLE</title>
<style>
.{unique_id}-matrix {{ font-family: ui-monospace, "DejaVu Sans Mono", Menlo, Consolas, monospace;
 font-size: {char_height}px; line-height: {line_height}px; font-variant-east-asian: full-width; }}
.{unique_id}-title {{ font-size: 18px; font-weight: bold; font-family: sans-serif; }}
{styles}
</style>
<defs>
<clipPath id="{unique_id}-clip-terminal">
<rect x="0" y="0" width="{terminal_width}" height="{terminal_height}"/>
</clipPath>
{lines}
</defs>
{chrome}
<g transform="translate({terminal_x}, {terminal_y})" clip-path="url(#{unique_id}-clip-terminal)">
{backgrounds}
<g class="{unique_id}-matrix">
{matrix}
</g>
</g>
</svg>
"""
"""Rich's own format without the fonts, which it has from another host."""


def printed(command: list[str]) -> str:
    """What a command prints to a terminal."""
    ours, theirs = pty.openpty()
    environment = {**os.environ, "COLUMNS": str(COLUMNS), "LINES": "50", "TERM": "xterm-256color"}
    with subprocess.Popen(command, stdout=theirs, stderr=theirs, stdin=theirs, env=environment) as process:
        os.close(theirs)
        parts = []
        while True:
            try:
                part = os.read(ours, 65_536)
            except OSError:  # how a terminal tells that nobody writes to it any more
                break
            parts.append(part)
        process.wait()
    os.close(ours)
    if process.returncode:
        sys.exit(f"record: {shlex.join(command)} exits {process.returncode}, expected 0")
    return b"".join(parts).decode()


def final(text: str) -> str:
    """What is to be read in the end: the last words of a line that was written over, no commands of a terminal."""
    text = re.sub(r"\x1b\[[0-9;?]*[A-HJKSTfhlnsu]|\x1b[=>]", "", text.replace("\r\n", "\n"))
    lines = [line.rpartition("\r")[2] for line in text.splitlines()]
    lines = [line for line in lines if not line.startswith(("Script started", "Script done"))]
    if len(lines) > MOST_LINES:
        half = MOST_LINES // 2
        lines = [*lines[:half], f"... {len(lines) - 2 * half} lines ...", *lines[-half:]]
    return "\n".join(lines)


def picture(command: list[str], output: str) -> str:
    """The picture of a prompt, a command and its output."""
    console = Console(record=True, width=COLUMNS, file=io.StringIO(), force_terminal=True, color_system="truecolor")
    console.print(Text(f"$ {shlex.join(command)}", style="bold"))
    console.print(Text.from_ansi(final(output)), soft_wrap=True)
    shown = console.export_svg(title=shlex.join(command), code_format=FORMAT, unique_id="recording")
    shown = shown.replace("<title>TITLE<", f"<title>{html.escape(shlex.join(command))}<", 1)
    return re.sub(r"[ \t]+$", "", shown, flags=re.MULTILINE)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("picture", type=Path)
    parser.add_argument("--from", type=Path, dest="recorded", metavar="FILE", help="what the command has printed")
    parser.add_argument("command", nargs="+")
    asked = parser.parse_args()
    shown = [Path(asked.command[0]).name, *asked.command[1:]]
    output = asked.recorded.read_text(encoding="utf-8") if asked.recorded else printed(asked.command)
    asked.picture.write_text(picture(shown, output), encoding="utf-8")
    print(f"{asked.picture}: {len(final(output).splitlines())} lines")


if __name__ == "__main__":
    main()
