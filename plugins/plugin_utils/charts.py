# SPDX-License-Identifier: Apache-2.0
"""Charts as inline SVG, without scripts, files or fonts. Pure functions.

Series differ by colour, marker and dash, so that a chart can be read by any one of them. Colours are CSS variables
with the light theme as fallback: a page may set `--ink`, `--faint`, `--paper` and `--series-1` to `--series-6` for its
dark mode.
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from html import escape
from itertools import pairwise

WIDTH, HEIGHT = 400, 260
LEFT, RIGHT, TOP, BOTTOM = 62, 14, 12, 40
ROW = 16
"""Height of a legend row."""
COLOURS = ("#1f5fa8", "#a8470f", "#1d7044", "#8a2f86", "#6b5900", "#5a5f66")
DASHES = ("", "6 3", "2 3", "8 3 2 3")
MARKERS = ("circle", "square", "triangle", "diamond", "cross", "ring")
LEAST, MOST = 1e-9, 1e15
"""Bounds of plausible figures: larger ones are not drawn, nor are smaller parts of bars."""


@dataclass(frozen=True)
class Series:
    """A line: its points, and optionally the lowest and highest value at each x."""

    name: str
    points: Sequence[tuple[float, float]]
    band: Sequence[tuple[float, float, float]] = ()


@dataclass(frozen=True)
class Bar:
    """A row of a stacked bar chart: its parts in order, with names shared among rows."""

    name: str
    parts: Sequence[tuple[str, float]]


@dataclass(frozen=True)
class _Scale:
    low: float
    high: float
    start: float
    end: float
    log: bool = False

    def __call__(self, value: float) -> float:
        low, high, at = (math.log(one) if self.log else one for one in (self.low, self.high, value))
        return self.start + (at - low) / ((high - low) or 1) * (self.end - self.start)


def line_chart(series: Sequence[Series], *, title: str, x_label: str, y_label: str, log_x: bool = False) -> str:
    """Draw series over x; the y axis starts at zero. Points that are not finite are left out."""
    told = [one for one in map(_finite, series) if one.points]
    if not told:
        return _svg(title, "No figures.", HEIGHT, [_text(WIDTH / 2, HEIGHT / 2, "no figures", anchor="middle")])
    xs = sorted({x for one in told for x, _ in one.points} | {x for one in told for x, _, _ in one.band})
    ys = [y for one in told for _, y in one.points] + [high for one in told for _, _, high in one.band]
    log = log_x and xs[0] > LEAST
    y_ticks = _ticks(max(ys))
    x_ticks = xs if log else _ticks(xs[-1])
    across = _Scale(x_ticks[0], x_ticks[-1], LEFT + 8, WIDTH - RIGHT - 8, log)
    up = _Scale(0, y_ticks[-1], HEIGHT - BOTTOM, TOP)
    drawn = [*_axes(across, up, x_ticks, y_ticks, x_label, y_label)]
    for number, one in enumerate(told):
        drawn += _drawn(one, number, across, up)
    height = HEIGHT
    if len(told) > 1 or told[0].name:
        for number, one in enumerate(told):
            drawn += _key(number, one.name, HEIGHT + ROW * number)
        height += ROW * len(told)
    said = "; ".join(f"{one.name}: " + ", ".join(f"{_figure(x)} → {_figure(y)}" for x, y in one.points) for one in told)
    return _svg(title, f"{y_label} over {x_label}. {said}", height, drawn)


def stacked_bars(bars: Sequence[Bar], *, title: str, unit: str) -> str:
    """Draw one stacked bar per row; the legend numbers the parts as the bars do."""
    told = [Bar(bar.name, [(name, value) for name, value in bar.parts if LEAST < value < MOST]) for bar in bars]
    names = list(dict.fromkeys(name for bar in told for name, _ in bar.parts))
    longest = max((sum(value for _, value in bar.parts) for bar in told), default=0)
    if not names:
        return _svg(title, "No figures.", 60, [_text(WIDTH / 2, 34, "no figures", anchor="middle")])
    across = _Scale(0, longest, 0, WIDTH - 2)
    drawn: list[str] = []
    top = 0
    for bar in told:
        total = sum(value for _, value in bar.parts)
        drawn.append(_text(0, top + 13, _shortened(f"{bar.name}: {_figure(total)} {unit}", 64)))
        at = 0.0
        for name, value in bar.parts:
            number = names.index(name)
            left, width = across(at), across(at + value) - across(at)
            drawn.append(
                f'<rect x="{left:.1f}" y="{top + 19}" width="{width:.1f}" height="22" rx="1"'
                f' style="fill:{_colour(number)};stroke:var(--paper,#fff);stroke-width:1">'
                f"<title>{escape(name)}: {_figure(value)} {escape(unit)}</title></rect>"
            )
            if width >= 14:
                drawn.append(_text(left + width / 2, top + 34, str(number + 1), anchor="middle", fill="--paper,#fff"))
            at += value
        top += 50
    for number, name in enumerate(names):
        values = ", ".join(_figure(sum(value for part, value in bar.parts if part == name)) for bar in told)
        drawn.append(
            f'<rect x="0" y="{top + 1}" width="16" height="14" rx="1" style="fill:{_colour(number)}"/>'
            + _text(8, top + 12, str(number + 1), anchor="middle", fill="--paper,#fff")
            + _text(22, top + 12, _shortened(f"{name}  {values} {unit}", 60))
        )
        top += ROW + 2
    said = "; ".join(f"{bar.name}: " + ", ".join(f"{n} {_figure(v)} {unit}" for n, v in bar.parts) for bar in told)
    return _svg(title, said, top + 4, drawn)


def _finite(series: Series) -> Series:
    return Series(
        series.name,
        sorted(point for point in series.points if all(abs(value) < MOST for value in point)),
        sorted(one for one in series.band if all(abs(value) < MOST for value in one)),
    )


def _svg(title: str, said: str, height: float, drawn: Sequence[str]) -> str:
    name = "c" + hashlib.sha256("\n".join([title, said, *drawn]).encode()).hexdigest()[:12]
    return (
        f'<svg class="chart" viewBox="0 0 {WIDTH} {height:g}" role="img" aria-labelledby="{name}t {name}d"'
        f' style="max-width:100%;height:auto" xmlns="http://www.w3.org/2000/svg" font-size="12">'
        f'<title id="{name}t">{escape(title)}</title><desc id="{name}d">{escape(said)}</desc>{"".join(drawn)}</svg>'
    )


def _axes(
    across: _Scale, up: _Scale, x_ticks: Sequence[float], y_ticks: Sequence[float], x_label: str, y_label: str
) -> Iterator[str]:
    for value in y_ticks:
        y = up(value)
        yield (
            f'<line x1="{LEFT}" y1="{y:.1f}" x2="{WIDTH - RIGHT}" y2="{y:.1f}"'
            ' style="stroke:var(--faint,#d5d8dc);stroke-width:1"/>'
        )
        yield _text(LEFT - 6, y + 4, _figure(value), anchor="end")
    last = -math.inf
    for value in x_ticks:
        if (x := across(value)) - last < 30:
            continue
        last = x
        yield _text(x, HEIGHT - BOTTOM + 16, _figure(value), anchor="middle")
    yield _text((LEFT + WIDTH - RIGHT) / 2, HEIGHT - 6, x_label, anchor="middle")
    middle = (TOP + HEIGHT - BOTTOM) / 2
    yield _text(12, middle, y_label, anchor="middle", more=f' transform="rotate(-90 12 {middle:g})"')


def _drawn(one: Series, number: int, across: _Scale, up: _Scale) -> Iterator[str]:
    colour = _colour(number)
    if len(one.band) > 1:
        edge = [f"{across(x):.1f},{up(high):.1f}" for x, _, high in one.band]
        edge += [f"{across(x):.1f},{up(max(low, 0)):.1f}" for x, low, _ in reversed(one.band)]
        yield f'<polygon points="{" ".join(edge)}" style="fill:{colour};opacity:.18"/>'
    for x, low, high in one.band:
        yield (
            f'<line x1="{across(x):.1f}" y1="{up(max(low, 0)):.1f}" x2="{across(x):.1f}" y2="{up(high):.1f}"'
            f' style="stroke:{colour};stroke-width:1"/>'
        )
    for (x1, y1), (x2, y2) in pairwise(one.points):
        yield _line(across(x1), up(y1), across(x2), up(y2), number)
    for x, y in one.points:
        said = f"<title>{escape(one.name)} {_figure(x)}: {_figure(y)}</title>"
        yield f"<g>{_marker(across(x), up(y), number)}{said}</g>"


def _key(number: int, name: str, top: float) -> Iterator[str]:
    yield _line(LEFT, top + 8, LEFT + 26, top + 8, number)
    yield _marker(LEFT + 13, top + 8, number)
    yield _text(LEFT + 32, top + 12, _shortened(name, 48))


def _line(x1: float, y1: float, x2: float, y2: float, number: int) -> str:
    dash = DASHES[number % len(DASHES)]
    dashed = f";stroke-dasharray:{dash}" if dash else ""
    return (
        f'<line x1="{x1:.1f}" y1="{y1:.1f}" x2="{x2:.1f}" y2="{y2:.1f}"'
        f' style="stroke:{_colour(number)};stroke-width:2{dashed}"/>'
    )


def _marker(x: float, y: float, number: int) -> str:
    kind, style = MARKERS[number % len(MARKERS)], f'style="fill:{_colour(number)}"'
    if kind == "circle":
        return f'<circle cx="{x:.1f}" cy="{y:.1f}" r="3.5" {style}/>'
    if kind == "square":
        return f'<rect x="{x - 3.5:.1f}" y="{y - 3.5:.1f}" width="7" height="7" {style}/>'
    hollow = f'style="fill:var(--paper,#fff);stroke:{_colour(number)};stroke-width:2"'
    if kind == "ring":
        return f'<circle cx="{x:.1f}" cy="{y:.1f}" r="3.5" {hollow}/>'
    corners = {
        "triangle": ((0, -4.5), (4.2, 3.5), (-4.2, 3.5)),
        "diamond": ((0, -4.8), (4.8, 0), (0, 4.8), (-4.8, 0)),
        "cross": ((-4, -4), (0, -1), (4, -4), (1, 0), (4, 4), (0, 1), (-4, 4), (-1, 0)),
    }[kind]
    return f'<polygon points="{" ".join(f"{x + dx:.1f},{y + dy:.1f}" for dx, dy in corners)}" {style}/>'


def _text(x: float, y: float, words: str, *, anchor: str = "start", fill: str = "--ink,#1b1f24", more: str = "") -> str:
    placed = "" if anchor == "start" else f' text-anchor="{anchor}"'
    return f'<text x="{x:.1f}" y="{y:.1f}"{placed} style="fill:var({fill})"{more}>{escape(words)}</text>'


def _colour(number: int) -> str:
    at = number % len(COLOURS)
    return f"var(--series-{at + 1},{COLOURS[at]})"


def _ticks(highest: float) -> list[float]:
    """Return four to six round tick values from zero to the highest value or above."""
    if highest <= LEAST:
        return [0, 1]
    rough = highest / 4
    power = 10 ** math.floor(math.log10(rough))
    step = next((factor * power for factor in (1, 2, 2.5, 5) if factor * power >= rough), 10 * power)
    return [step * count for count in range(math.ceil(highest / step - 1e-9) + 1)]


def _figure(value: float) -> str:
    if value and abs(value) < 0.001:
        return f"{value:.2g}"
    if abs(value) >= 100:
        return f"{value:,.0f}"
    return f"{value:.3g}"


def _shortened(words: str, most: int) -> str:
    return words if len(words) <= most else words[: most - 1] + "…"
