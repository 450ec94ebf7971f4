# SPDX-License-Identifier: Apache-2.0
"""Splits text that an operator captured: the output of several tools, one after the other, with prompts in between.

Such text comes out of terminals, chats and wikis. It contains colours, carriage returns, code fences and prompts, it
may begin or end anywhere, and only some of it may be of the kind wanted. So it is first split where a tool's output
begins, and each parser handles only its own pieces.
"""

from __future__ import annotations

import json
import re
from collections.abc import Container, Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any

from .text import strip_ansi

_QUOTE = "['\"`\u2018\u2019\u201c\u201d]"
_FENCE = re.compile(r"^\s*(?:```|~~~)")
_QUOTED_REPLY = re.compile(r"^\s*(?:>\s?)+(?=\s|\w)")
_BREAK = re.compile(r"<br\s*/?>", re.IGNORECASE)
_TAG = re.compile(r"</?(?:a|b|code|div|em|font|i|li|p|pre|span|strong|td|th|tr|ul)(?:\s[^<>]*)?>", re.IGNORECASE)
_ASIDE = re.compile(r"\s{2,}|\s*(?:\u25c0|\u2190|<-|#|//)")
"""Where a remark that somebody wrote next to a value starts."""
_CONTROL = re.compile(r"[\x00-\x08\x0b\x0c\x0e-\x1f\x7f\ufeff\u200b]")

_COMMAND = re.compile(
    r"^(?:[^\n]{0,120}?[$#%>\u276f\u279c+]\s+)?(?:(?:sudo|time|env)\s+(?:-\S+\s+)*)?(?:/[\w./-]*/)?"
    r"(?P<tool>ethtool|ibstat|ibstatus|ibv_devinfo|ibdev2netdev|rdma|dcb|ip|cat|grep|head|echo)(?P<rest>\s[^\n]*)?$"
)
_PROMPT = re.compile(
    r"^(?:[\[(]?[\w.-]+@[\w.-]+[^\n$#%>]{0,80}[$#%>]|[$%\u276f\u279c]|sh-[\d.]+[$#])(?:\s+(?P<rest>.*))?$"
)

_STARTS: tuple[tuple[str, re.Pattern[str]], ...] = (
    ("ethtool", re.compile(r"^\s*Settings for (?P<device>[^\s:]+):?\s*$", re.IGNORECASE)),
    ("ethtool", re.compile(r"^\s*FEC parameters for (?P<device>[^\s:]+):?\s*$", re.IGNORECASE)),
    ("ibstat", re.compile(rf"^\s*CA:?\s+{_QUOTE}(?P<device>[^'\"`\u2018\u2019\u201c\u201d]+){_QUOTE}", re.IGNORECASE)),
    (
        "ibstatus",
        re.compile(
            rf"^\s*infiniband device {_QUOTE}?(?P<device>[^\s'\"`\u2018\u2019\u201c\u201d]+){_QUOTE}?"
            r"(?:\s+port\s+(?P<port>\d{1,3}))?(?:\s+status)?:?\s*$",
            re.IGNORECASE,
        ),
    ),
    ("ibv_devinfo", re.compile(r"^\s*hca_id:\s*(?P<device>\S+)", re.IGNORECASE)),
)

_MASKED = re.compile(
    r"[*#?.\-_xX\u2026\s]+|[<\[({].*[>\])}]|n/?a|none|unknown!?.*|invalid.*|redacted|masked|hidden", re.IGNORECASE
)
_MISSES = 500
"""Braces without an object after which a text is assumed to contain no JSON."""
_NUMBER = re.compile(r"\d{1,9}(?:\.\d{1,6})?(?![\d.])")


@dataclass(frozen=True)
class Command:
    """A command line in a capture: the tool and the words after it, up to the first pipe or redirection."""

    tool: str
    words: tuple[str, ...] = ()


@dataclass
class Section:
    """The lines after the beginning of one tool's output about one device."""

    tool: str
    device: str = ""
    port: int | None = None
    command: Command | None = None
    lines: list[str] = field(default_factory=list)


def capture_lines(text: str) -> list[str]:
    """Split into lines and drop what terminals, chats and pages add: colours, CRs, fences, tags, leading `> `."""
    lines = []
    plain = _BREAK.sub("\n", strip_ansi(text)).replace("\r\n", "\n").replace("\r", "\n")
    for raw in plain.replace("\u00a0", " ").replace("&nbsp;", " ").split("\n"):
        line = _TAG.sub("", _CONTROL.sub("", raw)).rstrip().replace("&gt;", ">").replace("&lt;", "<")
        if not _FENCE.match(line):
            lines.append(_QUOTED_REPLY.sub("", line))
    return lines


def command_in(line: str) -> Command | None:
    """The command that a line shows, after a prompt or bare; None for any other line."""
    found = _COMMAND.match(line.strip())
    if not found:
        return None
    words = re.split(r"\s*[|;&]|\s\d?>", found["rest"] or "", maxsplit=1)[0].split()
    return Command(found["tool"], tuple(words))


def is_prompt(line: str) -> bool:
    """Whether the line starts with a shell prompt, whatever command follows."""
    return bool(_PROMPT.match(line.strip()))


_HOSTS = (
    re.compile(r"^[\[(]?[\w.-]+@(?P<host>[\w.-]+)[^\n$#%>]{0,80}[$#%>](?:\s|$)"),  # a prompt
    re.compile(r"^(?P<host>[\w.-]+) \| (?:CHANGED|SUCCESS|FAILED|UNREACHABLE)\b"),  # ansible HOSTS -a COMMAND
)
_OVER_SSH = re.compile(
    r"^(?P<prompt>[^\n]{0,120}?[$#%>\u276f\u279c+]\s+)?(?:sudo\s+)?ssh\s+(?:-[a-zA-Z]\s+\S+\s+|-[a-zA-Z]+\s+|-o\S+\s+)*"
    r"(?:[\w.-]+@)?(?P<host>[\w.-]+)\s+(?P<command>\S.*)$"
)


def by_host(text: str) -> dict[str, str]:
    """Split the capture by host, as far as prompts, ssh commands and Ansible's headings show it.

    A part that names no host is under the empty name. If only one host is named, the whole capture is attributed to it.
    """
    parts: dict[str, list[str]] = {}
    at_prompt = here = ""
    for line in capture_lines(text):
        kept = line
        found = next((match for pattern in _HOSTS if (match := pattern.match(line))), None)
        if found:
            at_prompt = here = found["host"]
        elif is_prompt(line):
            here = at_prompt
        over = _OVER_SSH.match(line)
        if over:
            here = over["host"]
            kept = "$ " + over["command"].strip("'\"")
        parts.setdefault(here, []).append(kept)
    if len(parts) == 2 and "" in parts:
        name = next(host for host in parts if host)
        parts = {name: [*parts[""], *parts[name]]}
    return {host: "\n".join(lines) for host, lines in parts.items()}


def sections(text: str) -> Iterator[Section]:
    """Split the capture at every line that begins the output of a tool, and at every command.

    The text before the first beginning has no tool, nor has the output of a command that no parser handles.
    """
    current = Section("")
    command: Command | None = None
    for line in capture_lines(text):
        shown = command_in(line)
        if shown is not None or is_prompt(line):
            yield current
            command = shown
            current = Section(shown.tool if shown else "", command=shown)
            continue
        for tool, pattern in _STARTS:
            found = pattern.match(line)
            if found:
                yield current
                port = found.groupdict().get("port")
                current = Section(tool, found["device"], int(port) if port else None, command)
                break
        else:
            current.lines.append(line)
    yield current


def asked_for(section: Section, option: str = "") -> str:
    """The device on the command line, as `grep` removes headings: the word after `option`, else the first one."""
    words = [word.strip("\"'") for word in section.command.words] if section.command else []
    if option:
        return words[words.index(option) + 1] if option in words[:-1] else ""
    return next((word for word in words if not word.startswith("-")), "")


def runs(lines: Iterable[str], known: Container[str]) -> list[list[str]]:
    """Split lines without headings where a key repeats: the next port starts there."""
    found: list[list[str]] = []
    seen: set[str] = set()
    for line in lines:
        key, _ = key_value(line)
        if key not in known:
            continue
        if not found or key in seen:
            found.append([])
            seen = set()
        seen.add(key)
        found[-1].append(line)
    return found


def json_objects(text: str) -> Iterator[dict[str, Any]]:
    """Yield every object of the lists that tools print with -j, amid any other text; also of truncated lists."""
    joined = "\n".join(capture_lines(text))
    place, misses = 0, 0
    while (place := joined.find("{", place)) >= 0 and misses < _MISSES:
        found, place = _object_at(joined, place)
        if found is None:
            misses += 1
        else:
            yield found


def _object_at(text: str, place: int) -> tuple[dict[str, Any] | None, int]:
    """The object that starts at this position and its end; if there is none, the next position to examine."""
    try:
        found, end = json.JSONDecoder().raw_decode(text, place)
    except (ValueError, RecursionError):
        return None, place + 1
    return (found, end) if isinstance(found, dict) else (None, place + 1)


def key_value(line: str) -> tuple[str, str]:
    """Split `Physical state: LinkUp` into ("physical state", "LinkUp"); the key is empty if there is no colon."""
    key, colon, value = line.partition(":")
    if not colon:
        return "", ""
    return " ".join(key.replace("_", " ").replace("-", " ").split()).lower(), value.strip()


def told(value: str) -> str | None:
    """The value, or None if it is masked, invalid, or said to be unknown."""
    value = value.strip().strip("'\"")
    return None if not value or _MASKED.fullmatch(value) else value


def number(value: str) -> int | float | None:
    """The number at the start of a value (`200 Gb/sec (4X HDR)` is 200, `4096 (5)` is 4096); None without one."""
    found = _NUMBER.match(value.strip())
    if not found:
        return None
    return float(found[0]) if "." in found[0] and float(found[0]) % 1 else int(float(found[0]))


def whole(value: str) -> int | None:
    """The integer at the start of a value; None without one."""
    found = number(value)
    return int(found) if found is not None else None


# --- one vocabulary for what four tools say in four ways -------------------------------------------------------------

_STATES = {
    "ACTIVE": "ACTIVE",
    "DOWN": "DOWN",
    "INIT": "INIT",
    "INITIALIZE": "INIT",
    "INITIALIZING": "INIT",
    "ARMED": "ARMED",
    "ARM": "ARMED",
    "ACTIVEDEFER": "ACTIVE_DEFER",
    "NOP": "NOP",
}
_PHYSICAL = {
    "LINKUP": "LINK_UP",
    "DISABLED": "DISABLED",
    "POLLING": "POLLING",
    "SLEEP": "SLEEP",
    "PORTCONFIGURATIONTRAINING": "PORT_CONFIGURATION_TRAINING",
    "PORTCONFIGURATIONTRAINNING": "PORT_CONFIGURATION_TRAINING",
    "LINKERRORRECOVERY": "LINK_ERROR_RECOVERY",
    "LINKERRORRECOVER": "LINK_ERROR_RECOVERY",
    "PHYTEST": "PHY_TEST",
    "PHYTESTING": "PHY_TEST",
}
_LAYERS = {
    "ETHERNET": "Ethernet",
    "ETH": "Ethernet",
    "ROCE": "Ethernet",
    "INFINIBAND": "InfiniBand",
    "IB": "InfiniBand",
}


def _word(value: str) -> str | None:
    """The word in `4: ACTIVE`, `PORT_ACTIVE (4)`, `LinkUp`: in capitals, without number and separators."""
    alone = _ASIDE.split(value.strip(), maxsplit=1)[0]
    plain = told(re.sub(r"^\s*\d+\s*:|\(\s*\d+\s*\)\s*$", "", alone))
    return re.sub(r"[^A-Z]", "", plain.upper()) or None if plain else None


def port_state(value: str) -> str | None:
    """The logical state as `rdma link` names it: ACTIVE, DOWN, INIT, ARMED; None if missing."""
    word = _word(value)
    if word is None:
        return None
    return _STATES.get(word.removeprefix("PORT")) or _STATES.get(word)


def physical_state(value: str) -> str | None:
    """The physical state as `rdma link` names it: LINK_UP, DISABLED, POLLING; None if missing."""
    word = _word(value)
    return _PHYSICAL.get(word) if word else None


def link_layer(value: str) -> str | None:
    """Ethernet (then RDMA is RoCE) or InfiniBand; None if it is neither."""
    word = _word(value)
    return _LAYERS.get(word) if word else None


def version(value: str) -> str | None:
    """The firmware's version (`28.45.4028 (NVD0000000087)` is 28.45.4028); None if it is masked."""
    found = re.match(r"\d{1,6}(?:\.\d{1,6})+", value.strip())
    return found[0] if found else None
