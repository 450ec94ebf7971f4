# SPDX-License-Identifier: Apache-2.0
"""Make a picture (SVG) of what a command prints, for the README: record.py PICTURE [OPTIONS] -- COMMAND...

The command is run in a terminal of its own, 110 columns wide, so that it prints its colours. With --from nothing is
run: what stands in FILE is shown as the output of COMMAND, such as a bring-up that was recorded with
`script -c COMMAND FILE`. With --animate the lines appear one after the other, as they did, in so many seconds for
all; whoever asked for less motion sees them at once. The picture has no script and no font, and fetches nothing.
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
from itertools import pairwise
from pathlib import Path
from time import monotonic

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
"""Rich's own format without its fonts, which would be downloaded from another host."""


ANIMATION = """
@keyframes recording-appear {{ from {{ visibility: hidden }} to {{ visibility: visible }} }}
.recording-later {{ animation: recording-appear 1ms step-end both }}
@media (prefers-reduced-motion: reduce) {{ .recording-later {{ animation: none }} }}
{delays}
"""
LINE = re.compile(r"#recording-line-(\d+)\)")
Printed = list[tuple[float, str]]
"""Lines, each with the time in seconds at which it was complete."""


def printed(command: list[str]) -> Printed:
    """Run a command in a terminal and return its output."""
    ours, theirs = pty.openpty()
    environment = {**os.environ, "COLUMNS": str(COLUMNS), "LINES": "50", "TERM": "xterm-256color"}
    with subprocess.Popen(command, stdout=theirs, stderr=theirs, stdin=theirs, env=environment) as process:
        os.close(theirs)
        lines: Printed = []
        began, rest = monotonic(), b""
        while True:
            try:
                rest += os.read(ours, 65_536)
            except OSError:  # how a terminal signals that no process has it open any more
                break
            *whole, rest = rest.split(b"\n")
            lines += [(monotonic() - began, line.decode().rstrip("\r")) for line in whole]
        process.wait()
    os.close(ours)
    if process.returncode:
        sys.exit(f"record: {shlex.join(command)} exits {process.returncode}, expected 0")
    return [*lines, (monotonic() - began, rest.decode())] if rest else lines


def final(lines: Printed, without: str = "") -> Printed:
    """Return the readable lines: overwritten parts of a line and control sequences are removed."""
    found = []
    for second, line in lines:
        text = re.sub(r"\x1b\[[0-9;?]*[A-HJKSTfhlnsu]|\x1b[=>]", "", line).rpartition("\r")[2]
        told = re.sub(r"\x1b\[[0-9;]*m", "", text)
        if not told.startswith(("Script started", "Script done")) and not (without and re.search(without, told)):
            found.append((second, text))
    if len(found) > MOST_LINES:
        half = MOST_LINES // 2
        left = len(found) - 2 * half
        found = [*found[:half], (found[half][0], f"... {left} lines ..."), *found[-half:]]
    return found


def picture(command: list[str], lines: Printed, seconds: float = 0.0) -> str:
    """Render prompt, command and output as a picture; with `seconds`, the lines appear within that time."""
    console = Console(record=True, width=COLUMNS, file=io.StringIO(), force_terminal=True, color_system="truecolor")
    console.print(Text(f"$ {shlex.join(command)}", style="bold"))
    for _, line in lines:
        console.print(Text.from_ansi(line), no_wrap=True, overflow="crop", crop=True)
    shown = console.export_svg(title=shlex.join(command), code_format=FORMAT, unique_id="recording")
    shown = shown.replace("<title>TITLE<", f"<title>{html.escape(shlex.join(command))}<", 1)
    shown = re.sub(r"[ \t]+$", "", shown, flags=re.MULTILINE)
    return animated(shown, [second for second, _ in lines], seconds) if seconds else shown


def animated(shown: str, times: list[float], seconds: float) -> str:
    """Animate the picture, showing each line at its time; long waits are shortened."""
    waits = [max(0.0, later - earlier) ** 0.5 for earlier, later in pairwise([0.0, *times])]
    pace, at, delays = seconds / (sum(waits) or 1.0), 0.0, []
    for number, wait in enumerate(waits, start=1):  # line 0 is the prompt
        at += wait * pace
        delays.append(f".recording-at-{number} {{ animation-delay: {at:.2f}s }}")

    def later(match: re.Match[str]) -> str:
        line = LINE.search(match[0])
        return match[0] if line is None or line[1] == "0" else _classed(match[0], int(line[1]))

    shown = re.sub(r"<text [^>]*>", later, shown)
    return shown.replace("</style>", ANIMATION.format(delays="\n".join(delays)) + "</style>", 1)


def _classed(tag: str, line: int) -> str:
    classes = f"recording-later recording-at-{line}"
    if 'class="' in tag:
        return tag.replace('class="', f'class="{classes} ', 1)
    return tag.replace("<text ", f'<text class="{classes}" ', 1)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("picture", type=Path)
    parser.add_argument("--from", type=Path, dest="recorded", metavar="FILE", help="the recorded output of the command")
    parser.add_argument(
        "--animate", type=float, default=0.0, metavar="SECONDS", help="how long the lines take to appear"
    )
    parser.add_argument("--without", default="", metavar="REGEX", help="omit lines that match this")
    parser.add_argument("command", nargs="+")
    asked = parser.parse_args()
    shown = [Path(asked.command[0]).name, *asked.command[1:]]
    if asked.recorded:
        output = [(float(number), line) for number, line in enumerate(asked.recorded.read_text("utf-8").splitlines())]
    else:
        output = printed(asked.command)
    lines = final(output, asked.without)
    asked.picture.write_text(picture(shown, lines, asked.animate), encoding="utf-8")
    print(f"{asked.picture}: {len(lines)} lines")


if __name__ == "__main__":
    main()
