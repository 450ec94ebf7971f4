# SPDX-License-Identifier: Apache-2.0
"""A page in the text format of Prometheus: built from our own readings, or taken over from another program."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

MOST_LINES = 20_000
"""The most samples of one page. A program with more is broken, and would break the monitoring host next."""

_LABELS = r'(?:[A-Za-z_]\w*="(?:[^"\\]|\\.)*"(?:,|(?=\})))*'
_SAMPLE = re.compile(
    rf"^(?P<name>[A-Za-z_:][\w:]*)(?:\{{(?P<labels>{_LABELS})\}})?"
    r"[ \t]+(?P<value>[+-]?(?:Inf|NaN|\d[\d.]*(?:[eE][+-]?\d+)?))(?:[ \t]+-?\d+)?[ \t]*$"
)
_ANNOUNCED = re.compile(r"^# (?P<what>HELP|TYPE)[ \t]+(?P<name>[A-Za-z_:][\w:]*)(?:[ \t]+(?P<text>.*))?$")
_KINDS = frozenset({"counter", "gauge", "histogram", "summary", "untyped"})
_ENDINGS = ("_bucket", "_sum", "_count", "_total", "_created")

Labels = Mapping[str, object]


@dataclass
class Family:
    """All samples of one name, which are grouped on a page."""

    name: str
    kind: str = "untyped"
    meaning: str = ""
    lines: list[str] = field(default_factory=list)


def family(name: str, kind: str, meaning: str, samples: Iterable[tuple[Labels, float]]) -> Family:
    """Build a family from our own readings."""
    return Family(name, kind, meaning, [sample(name, labels, value) for labels, value in samples])


def gauge(name: str, meaning: str, samples: Iterable[tuple[Labels, float]]) -> Family:
    return family(name, "gauge", meaning, samples)


def sample(name: str, labels: Labels, value: float) -> str:
    """Format one sample line; labels keep the order in which they were given."""
    inside = _inside(labels)
    return f"{name}{{{inside}}} {number(value)}" if inside else f"{name} {number(value)}"


def number(value: float) -> str:
    """Format a value as Prometheus parses it, without a fraction if it is an integer."""
    if math.isnan(value):
        return "NaN"
    if math.isinf(value):
        return "+Inf" if value > 0 else "-Inf"
    return str(int(value)) if float(value).is_integer() else repr(float(value))


def taken_over(text: str, allowed: Sequence[str], labels: Labels | None = None) -> list[Family]:
    """Take over samples from another program's page whose names start with an allowed prefix, adding these labels.

    A line that is not understood is left out: on our page it would cost the monitoring host all the others. Raises
    ValueError for a page that has nothing allowed, or far too much.
    """
    found: dict[str, Family] = {}
    current = ""
    count = 0
    # Only this ends a line here; a label may contain any other character.
    for line in text.split("\n"):
        announced = _ANNOUNCED.match(line)
        if announced:
            current = announced["name"]
            _announce(found, announced, allowed)
            continue
        told = _SAMPLE.match(line)
        if not told or not told["name"].startswith(tuple(allowed)):
            continue
        count += 1
        if count > MOST_LINES:
            raise ValueError(f"the page has more than {MOST_LINES} samples")
        name = current if _belongs(told["name"], current) else told["name"]
        found.setdefault(name, Family(name)).lines.append(_labelled(line, told, labels or {}))
    families = [one for one in found.values() if one.lines]
    if not families:
        raise ValueError(f"the page has no sample that begins with {', '.join(allowed)}")
    return families


def rendered(families: Iterable[Family]) -> str:
    """Render the page. Families of one name, from several programs of a kind, are merged."""
    merged: dict[str, Family] = {}
    for one in families:
        known = merged.setdefault(one.name, Family(one.name, one.kind, one.meaning))
        known.lines += one.lines
    blocks: list[str] = []
    for one in merged.values():
        if one.meaning:
            blocks.append(f"# HELP {one.name} {one.meaning}")
        blocks += [f"# TYPE {one.name} {one.kind}", *dict.fromkeys(one.lines)]
    return "".join(f"{line}\n" for line in blocks)


def _announce(found: dict[str, Family], announced: re.Match[str], allowed: Sequence[str]) -> None:
    name, text = announced["name"], (announced["text"] or "").strip()
    if not name.startswith(tuple(allowed)):
        return
    one = found.setdefault(name, Family(name))
    if announced["what"] == "HELP":
        one.meaning = text
    elif text in _KINDS:
        one.kind = text


def _belongs(name: str, current: str) -> bool:
    return bool(current) and (name == current or any(name == current + ending for ending in _ENDINGS))


def _labelled(line: str, told: re.Match[str], labels: Labels) -> str:
    inside = _inside(labels)
    if not inside:
        return line.strip()
    rest = line[told.end("name") :].strip()
    if told["labels"] is not None:
        rest = rest[rest.rindex("}") + 1 :].strip()
    given = (told["labels"] or "").rstrip(",")
    return f"{told['name']}{{{inside}{',' if given else ''}{given}}} {rest}"


def _inside(labels: Labels) -> str:
    return ",".join(f'{name}="{_escaped(str(value))}"' for name, value in labels.items())


def _escaped(text: str) -> str:
    return text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
