# SPDX-License-Identifier: Apache-2.0
"""Ways in which a text is damaged, and the look at what is said of it then."""

from __future__ import annotations

import functools
import random
import re
from collections.abc import Callable
from pathlib import Path

import yaml
from ansible_collections.firstlight.cluster.plugins.module_utils.gpu.diagnose import Capture, diagnose
from ansible_collections.firstlight.cluster.plugins.module_utils.gpu.expected import Expected, expected_of
from ansible_collections.firstlight.cluster.plugins.module_utils.verdicts import COULD_NOT_CHECK, FAIL, PASS

HARDWARE = Path(__file__).parents[5] / "catalog" / "hardware"
SLICE = "h100-sxm-4-nvswitch"


@functools.cache
def hardware(profile: str, driver: str | None = None) -> Expected:
    return expected_of(profile, yaml.safe_load((HARDWARE / f"{profile}.yml").read_text()), driver)


EXPECTED = hardware(SLICE)


def verdicts(text: str, kind: str | None, expected: Expected = EXPECTED) -> dict[str, set[str]]:
    """What was said of each check, with a look at the form of the document."""
    document = diagnose([Capture("capture.txt", "", text, kind)], expected)
    told: dict[str, set[str]] = {}
    for check in document["checks"]:
        assert not str(check["id"]).endswith(".check"), f"a check broke: {check}"
        assert "could not be read (" not in str(check["observed"]), f"a parser broke: {check}"
        told.setdefault(check["id"], set()).add(check["verdict"])
    assert told, "nothing was said at all"
    return told


def hidden(told: dict[str, set[str]], failing: set[str]) -> set[str]:
    """Checks that fail on the whole text, and pass on what is left of it."""
    passing = {name for name in failing if PASS in told.get(name, ()) and FAIL not in told[name]}
    if COULD_NOT_CHECK in told.get("nvlink.gpus", ()):
        # One GPU alone is what `-i` shows: it is evaluated for itself, and that the others are not there is told.
        passing -= {"nvlink.links", "nvlink.speed", "nvlink.errors"}
    if COULD_NOT_CHECK in told.get("port.state", ()):
        # `ethtool` is asked about one port at a time, in the same way.
        passing -= {"port.speed"}
    return passing


def cuts(text: str) -> list[str]:
    """The text up to every line, or to many lines of a long one, and up to some places inside lines."""
    lines = text.splitlines(keepends=True)
    step = max(1, len(lines) // 40)
    ends = ["".join(lines[:end]) for end in range(0, len(lines), step)]
    last = sum(len(line) for line in lines[: len(lines) - 1])
    inside = random.Random(7).sample(range(len(text)), min(20, len(text)))
    return [*ends, text[: last + 1], text[: len(text) - 2], *(text[:end] for end in sorted(inside))]


def _coloured(text: str) -> str:
    return re.sub(
        r"\S+", lambda word: f"\x1b[1;32m{word.group()}\x1b[0m" if len(word.group()) % 3 == 0 else word.group(), text
    )


FORMS: dict[str, Callable[[str], str]] = {
    "tabs are eight spaces": lambda text: text.expandtabs(8),
    "tabs are one space": lambda text: text.replace("\t", " "),
    "tabs are gone": lambda text: text.replace("\t", ""),
    "no escapes": lambda text: re.sub(r"\x1b\[[0-9;]*m", "", text),
    "escapes without their first character": lambda text: text.replace("\x1b", ""),
    "coloured words": _coloured,
    "lines end as in Windows": lambda text: text.replace("\n", "\r\n"),
    "lines begin anywhere": lambda text: "".join(line.lstrip() for line in text.splitlines(keepends=True)),
    "lines end in spaces": lambda text: text.replace("\n", "   \n"),
    "no last end of line": lambda text: text.rstrip("\n"),
    "a heading and a status": lambda text: f"# source: somewhere\n{text}rc=0\n",
    "in a fence": lambda text: f"```text\n{text}```\n",
    "as a quotation": lambda text: "".join(f"> {line}" for line in text.splitlines(keepends=True)),
    "as HTML": lambda text: text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;"),
    "twice": lambda text: text + text,
    "all small": str.lower,
    "lines cut at 80": lambda text: "".join(line.rstrip("\n")[:80] + "\n" for line in text.splitlines()),
    "lines wrapped at 80": lambda text: re.sub(r"([^\n]{80})(?=[^\n])", r"\1\n", text),
}
