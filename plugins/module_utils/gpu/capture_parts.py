# SPDX-License-Identifier: Apache-2.0
"""Splits a capture into the outputs of the tools that printed it, each with its kind and its host."""

from __future__ import annotations

import re
from dataclasses import dataclass

from ..parsers.captures import by_host, capture_lines, is_prompt
from .kinds import kind_of_command, kind_of_file, kind_of_text, opening

JOINED = frozenset({"ibstat", "ibdev2netdev", "rdma-link", "ethtool"})
"""Kinds that are queried once per port: all of their outputs together form one reading."""

OTHER = "other"
"""Output of nvidia-smi that no parser handles: it may look like a known kind, and mean something else."""

_COMMENT = re.compile(r"^#\s*(?:source|from|host)\s*:", re.IGNORECASE)
_SHOWN = re.compile(r"^(?:[^\n]{0,120}?[$#%>\u276f\u279c+]\s+)(?P<command>\S.*)$")
_BARE = re.compile(
    r"^(?:sudo\s+)?(?:/[\w./-]*/)?(?:nvidia-smi|ibstat|ibdev2netdev|rdma|ethtool|dmesg|ray)\b(?![:\]]).{0,200}$"
)
_SMI = re.compile(r"\bnvidia-smi\s+\S")
_STATUS = re.compile(r"^\s*rc\s*=\s*-?\d+\s*$")


@dataclass
class Part:
    """The output of one tool, including the command line that printed it, as a hint for the parser."""

    kind: str
    host: str
    text: str


def parts(text: str, name: str = "", kind: str | None = None) -> list[Part]:
    """Split a text into the outputs it contains; the list is empty if none is of a known kind.

    A given kind holds for the whole text. Otherwise the commands shown decide, then the contents of the lines, and the
    file's name if neither does.
    """
    hosts = by_host(text)
    named = [host for host in hosts if host]
    only = named[0] if len(named) == 1 else ""
    if kind is not None:
        return [Part(kind, only, text)]
    if len(named) > 1:
        return [part for host, own in hosts.items() for part in _host_parts(own, name, host)]
    return _host_parts(text, name, only)


def is_comment(line: str) -> bool:
    """Whether a line names the capture's origin rather than being output of the tool."""
    return bool(_COMMENT.match(line.strip()))


def _host_parts(text: str, name: str, host: str) -> list[Part]:
    found: list[Part] = []
    cuts = _cuts(text)
    for lines, by_command in cuts:
        said = by_command or kind_of_text(lines)
        if not said or said == OTHER:
            continue
        same = next((part for part in found if part.kind == said and said in JOINED), None)
        joined = "\n".join(lines) + "\n"
        if same:
            same.text += joined
        else:
            found.append(Part(said, host, joined))
    if not found:
        by_name = None if any(told == OTHER for _, told in cuts) else kind_of_file(name)
        return [Part(by_name, host, text)] if by_name else []
    # If one tool printed it all, keep the whole text: the parser knows better than a split what belongs to it.
    return [Part(found[0].kind, host, text)] if len({part.kind for part in found}) == 1 else found


def _cuts(text: str) -> list[tuple[list[str], str | None]]:
    """Split a text into runs of lines, each with the kind given by its command line, or None."""
    cuts: list[tuple[list[str], str | None]] = [([], None)]
    inside: str | None = None
    for raw in capture_lines(text):
        command = _command(raw)
        begins = None if command else opening(raw)
        if command is not None:
            inside = kind_of_command(command) or (OTHER if _SMI.search(command) else None)
            cuts.append(([raw], inside))
            continue
        if begins and begins != inside:
            told = cuts[-1][1]
            # The first lines after a command are its output, even if they look like another tool's.
            if told is None or any(line.strip() for line in cuts[-1][0][1:]):
                cuts.append(([], None))
                inside = begins
        cuts[-1][0].append(raw)
    return [cut for cut in cuts if any(line.strip() and not _STATUS.match(line) for line in cut[0])]


def _command(line: str) -> str | None:
    """Return the command on a line that starts with a prompt or is a bare command; None for other lines."""
    plain = line.strip()
    if not plain or is_comment(plain):
        return None
    if _BARE.match(plain) and kind_of_command(plain):
        return plain
    shown = _SHOWN.match(plain)
    if not shown:
        return "" if is_prompt(plain) else None
    return shown["command"] if is_prompt(plain) or kind_of_command(shown["command"]) else None
