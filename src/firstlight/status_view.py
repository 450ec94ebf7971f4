# SPDX-License-Identifier: Apache-2.0
"""Terminal output of a cluster's status on one screen: the verdict first, then every group and every host."""

from __future__ import annotations

import io
import sys
import textwrap
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from ansible_collections.firstlight.cluster.plugins.module_utils.serving.phase import parse_time
from ansible_collections.firstlight.cluster.plugins.plugin_utils.serving.service import service_words
from ansible_collections.firstlight.cluster.plugins.plugin_utils.serving.status import (
    DOES_NOT,
    PARTLY,
    SERVES,
    UNKNOWN,
    loading_words,
    started_words,
)
from rich.console import Console, Group, RenderableType
from rich.table import Table
from rich.text import Text

from .console import open_console, safe

STYLES = {SERVES: "bold green", PARTLY: "bold yellow", DOES_NOT: "bold red", UNKNOWN: "bold yellow"}
PHASES = {"serving": "green", "failed": "bold red", "drained": "yellow", "unknown": "yellow"}
EVENTS = 5
"""The number of most recent events shown."""
LEAST_LINES = 30
"""The minimum number of lines assumed for a screen."""
LEAST_NOTES = 8
"""Lines reserved for problems and events, however many hosts there are."""
MOST_GROUPS = 6
MOST_REASON = 6
"""The maximum number of lines for one reason, so that others fit beside it."""
UNLIMITED = 100_000
"""Width and height if the output is not a screen: nothing is wrapped, cut or omitted."""


def show(document: Mapping[str, Any]) -> None:
    """Print the status; in a pipe there is no screen size to respect."""
    console = open_console()
    if sys.stdout.isatty():
        console.print(render(document, console.width, max(LEAST_LINES, console.height - 1)))
    else:
        # The `width` option of print can only make it narrower.
        console.width = UNLIMITED
        console.print(render(document, UNLIMITED, UNLIMITED))


def render(document: Mapping[str, Any], width: int = 100, height: int = LEAST_LINES) -> RenderableType:
    """Render everything to fit one screen of this size, with problems before healthy parts."""
    top = [*_headline(document, width), *_groups(document, width), *_service(document.get("service") or {}, width)]
    room = height - len(top) - 1
    nodes = document["nodes"]
    rows = min(len(nodes), max(3, room - LEAST_NOTES))
    table = _nodes(nodes, rows)
    left = room - _height(table, width)
    notes = _wrapped(_notes(nodes), width, max(1, left))
    events = _last_events(list(_events(document["groups"])), width, left - len(notes) - 1)
    parts: list[RenderableType] = [
        *(_line(text) for text in top),
        table,
        *(_line(Text(note, "yellow")) for note in notes),
    ]
    if events:
        parts.append(Text("events", "bold"))
        parts += [_line(Text(line, "dim")) for line in events]
    return Group(*parts)


def _line(text: Text) -> Text:
    text.no_wrap, text.overflow = True, "ellipsis"
    return text


def _height(table: Table, width: int) -> int:
    """Return the height of a table below its titles; a host with a problem may take several lines."""
    console = Console(width=width, file=io.StringIO())
    return len(console.render_lines(table, pad=False)) - 1


def _fold(text: str, width: int, most: int, indent: str = "  ") -> list[str]:
    """Wrap a reason to the screen; one longer than `most` lines is cut, with a hint."""
    lines = textwrap.wrap(
        safe(text), max(20, width - 1), initial_indent=indent, subsequent_indent=f"{indent}  ", break_on_hyphens=False
    )
    return lines if len(lines) <= most else [*lines[: most - 1], f"{indent}  and so on: --json has all of it"]


def _wrapped(notes: Iterable[str], width: int, most: int) -> list[str]:
    """Wrap the notes; if there are too many, the last line counts the rest."""
    listed = list(notes)
    lines: list[str] = []
    for number, note in enumerate(listed):
        more = _fold(note, width, MOST_REASON)
        last = number == len(listed) - 1
        if len(lines) + len(more) > most - (0 if last else 1):
            return [*lines, f"  and {len(listed) - number} more: --json has them all"]
        lines += more
    return lines


def _last_events(events: Sequence[str], width: int, most: int) -> list[str]:
    """Wrap the latest events, as many as fit; none is cut, as each says why."""
    lines: list[str] = []
    for event in reversed(events[-EVENTS:]):
        more = _fold(event, width, MOST_REASON)
        if len(lines) + len(more) > most:
            break
        lines = [*more, *lines]
    return lines


def _headline(document: Mapping[str, Any], width: int) -> list[Text]:
    verdict = str(document["verdict"])
    told = Text(verdict.upper(), STYLES.get(verdict, "bold"))
    if document.get("model"):
        told.append(f"  {_word(document['model'])}", "bold")
    if document.get("head"):
        told.append(f"  head {safe(str(document['head']))}", "dim")
    if document.get("at"):
        told.append(f"  {document['at']}", "dim")
    return [told, *(Text(line) for line in _fold(str(document.get("why") or ""), width, MOST_REASON))]


def _groups(document: Mapping[str, Any], width: int) -> list[Text]:
    """Render one or two groups with a few lines each, or more groups with a line each, those not serving first."""
    groups = sorted(document["groups"].items(), key=lambda one: one[1]["phase"] == "serving")
    if len(groups) <= 2:
        return [line for name, group in groups for line in _group(str(name), group, document, width)]
    lines = [_group(str(name), group, document, width)[0] for name, group in groups[:MOST_GROUPS]]
    if len(groups) > MOST_GROUPS:
        lines.append(Text(f"and {len(groups) - MOST_GROUPS} more groups, {_word(groups[-1][1]['phase'])}", "dim"))
    return lines


def _group(name: str, group: Mapping[str, Any], document: Mapping[str, Any], width: int) -> list[Text]:
    phase = _word(group["phase"])
    told = Text(f"{_word(name)}: ")
    told.append(phase, PHASES.get(phase, "cyan"))
    since = ago(group.get("since"), document.get("at"))
    following = ago(document.get("at"), group.get("next_start"))
    for part in (
        f"for {since}" if since else "",
        _failed_starts(group, document),
        f"next start in {following}" if following and phase == "backing-off" else "",
        _parallel(group),
    ):
        told.append(f", {_word(part)}" if part else "")
    more = [
        loading_words(group, str(document.get("at") or "")),
        _said(group.get("loading") or {}),
        _load(group.get("load") or {}),
        started_words(group),
        _completion(group.get("probe") or {}, document.get("at")),
    ]
    return [told, *(Text(line) for words in more for line in _fold(words, width, MOST_REASON // 2))]


def _service(service: Mapping[str, Any], width: int) -> list[Text]:
    """Render the service level of the last minutes, followed by each missed target."""
    told = _fold(service_words(service), width, MOST_REASON // 2)
    missed = [*service.get("missed", ()), *service.get("problems", ())]
    return [*map(Text, told), *(Text(line, "yellow") for one in missed for line in _fold(f"warning: {one}", width, 2))]


def _word(value: Any) -> str:
    """Make text from a host safe for use within a line."""
    return safe(" ".join(str(value).split()))


def _said(loading: Mapping[str, Any]) -> str:
    line = str(loading.get("last_line") or "")
    return f"the engine's last line: {line}" if line else ""


def _failed_starts(group: Mapping[str, Any], document: Mapping[str, Any]) -> str:
    attempts = group.get("attempts")
    if not attempts:
        return ""
    forgotten = ago(document.get("at"), group.get("forgotten_at"))
    told = f"{attempts} failed start{'s' if attempts != 1 else ''}"
    return f"{told} (forgotten in {forgotten})" if forgotten else told


def _parallel(group: Mapping[str, Any]) -> str:
    nodes, size = len(group.get("nodes") or ()), group.get("tensor_parallel")
    told = f"TP {size} over {nodes} hosts" if size and nodes > 1 else f"TP {size}" if size else ""
    return f"{told} at {group['url']}" if told and group.get("url") else told


def _load(load: Mapping[str, Any]) -> str:
    words = []
    for key, text in (("requests_per_second", "requests/s"), ("tokens_per_second", "tokens/s")):
        if isinstance(load.get(key), (int, float)):
            words.append(f"{load[key]:.1f} {text}")
    words += [f"{load[key]:.0f} {key}" for key in ("running", "waiting") if isinstance(load.get(key), (int, float))]
    if isinstance(load.get("kv_cache_used"), (int, float)):
        words.append(f"cache {load['kv_cache_used']:.0%} full")
    return ", ".join(words)


def _completion(probe: Mapping[str, Any], at: Any) -> str:
    answered = ago(probe.get("answered_at"), at)
    told = []
    if answered:
        seconds = probe.get("seconds")
        took = f", in {seconds:.2f} s" if isinstance(seconds, (int, float)) else ""
        told.append(f"last completion {answered} ago{took}")
    elif "answered_at" in probe:
        told.append("no completion yet")
    words = str(probe.get("words") or "")
    if words and words != "answered":
        told.append(words)
    return "; ".join(told)


def _nodes(nodes: Sequence[Mapping[str, Any]], rows: int) -> Table:
    table = Table(box=None, pad_edge=False, header_style="bold", expand=False)
    table.add_column("host", no_wrap=True, overflow="ellipsis")
    table.add_column("ranks", overflow="fold")
    table.add_column("memory", no_wrap=True, overflow="ellipsis")
    table.add_column("heard", no_wrap=True, overflow="ellipsis")
    sick = [node["name"] for node in nodes if not _is_well(node)]
    well = [node["name"] for node in nodes if _is_well(node)]
    kept = {*[*sick, *well][: rows if rows >= len(nodes) else rows - 1]}
    for node in nodes:
        if node["name"] in kept:
            table.add_row(*_row(node))
    if len(kept) < len(nodes):
        unseen = sum(1 for name in sick if name not in kept)
        words = f"{unseen} of them with problems" if unseen else "without problems"
        table.add_row(
            Text(f"and {len(nodes) - len(kept)} more", "dim"), Text(words, "red" if unseen else "dim"), "", ""
        )
    return table


def _row(node: Mapping[str, Any]) -> tuple[Text, Text, str, str]:
    name = Text(safe(str(node["name"])), "bold" if node.get("is_head") else "")
    heard = node.get("heard_seconds")
    told = "" if not isinstance(heard, (int, float)) else f"{heard:.0f} s ago"
    if not node["reachable"]:
        return name, Text("does not answer", "bold red"), "", told
    if node.get("drained") is not None:
        return name, Text("out of service", "yellow"), _memory(node.get("memory") or {}), told
    return name, _ranks(node.get("units") or {}), _memory(node.get("memory") or {}), told


def _ranks(units: Mapping[str, Any]) -> Text:
    """Render each unit with its state; if many are running, only their number."""
    runs = [unit for unit, words in units.items() if str(words).startswith(("active (running)", "running"))]
    told = Text()
    if len(runs) > 3:
        told.append(f"{len(runs)} of {len(units)} run", "green")
        runs = []
    for unit, words in units.items():
        running = str(words).startswith(("active (running)", "running"))
        if running and unit not in runs:
            continue
        if told:
            told.append(", ")
        told.append(f"{_word(unit).removeprefix('firstlight-').removesuffix('.service')} ")
        told.append("runs" if running else _word(words), "green" if running else "red")
    return told or Text("nothing is running", "dim")


def _memory(memory: Mapping[str, Any]) -> str:
    total = memory.get("total")
    if not total:
        return ""
    return f"{memory['used'] / 1e9:.0f} of {total / 1e9:.0f} GB ({memory['used'] / total:.0%})"


def _is_well(node: Mapping[str, Any]) -> bool:
    return bool(node["reachable"] and not node["problems"] and node.get("drained") is None and not node.get("waiting"))


def _notes(nodes: Sequence[Mapping[str, Any]]) -> Iterator[str]:
    """Yield a line for each problem."""
    for node in nodes:
        marker = node.get("drained")
        if isinstance(marker, Mapping):
            by = str(marker.get("by") or "somebody by hand")
            at, why = str(marker.get("at") or ""), str(marker.get("reason") or "")
            yield (
                f"{node['name']} is out of service by {by}"
                + (f" since {at}" if at else "")
                + (f": {why}" if why else "")
            )
        if node.get("repin"):
            yield f"{node['name']} is in the middle of a re-pin: finish it with playbooks/repin.yml"
        said = [str(problem) for problem in node["problems"]]
        said += [str(one) for one in node.get("waiting") or () if marker is None]
        yield from (f"{node['name']}: {one}" for one in dict.fromkeys(said))


def _events(groups: Mapping[str, Mapping[str, Any]]) -> Iterator[str]:
    found = [
        (str(event.get("at") or ""), f"{name}: " if len(groups) > 1 else "", str(event.get("event") or ""))
        for name, group in groups.items()
        for event in group.get("history") or ()
    ]
    for at, name, event in sorted(found):
        yield f"{at}  {name}{event}"


def ago(earlier: Any, later: Any) -> str:
    """Format the time between two moments in its two largest units; empty if either is unknown."""
    start, end = parse_time(earlier), parse_time(later)
    if start is None or end is None:
        return ""
    seconds = max(0, round((end - start).total_seconds()))
    units = ((86400, "d"), (3600, "h"), (60, "min"), (1, "s"))
    parts: list[str] = []
    for size, unit in units:
        count, seconds = divmod(seconds, size)
        if count or (unit == "s" and not parts):
            parts.append(f"{count} {unit}")
    return " ".join(parts[:2])
