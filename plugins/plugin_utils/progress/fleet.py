# SPDX-License-Identifier: Apache-2.0
"""Render a run over many hosts: which are out and why, and how many hosts of each troubled rack came through."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from ansible_collections.firstlight.cluster.plugins.plugin_utils.progress.blocks import Failure, Line
from ansible_collections.firstlight.cluster.plugins.plugin_utils.progress.text import fit

MOST_OF_A_RACK = 4
MOST_OUT = 16
MOST_NAMED = 4
"""Maximum number of hosts named for the same line; more are counted."""
MOST_COLUMNS = 160
"""Width of a reason in the recap; it is printed in full where it occurs."""


class Gathered:
    """Collects equal lines of many hosts until the task is over, to print them once."""

    def __init__(self) -> None:
        self._held: dict[tuple[tuple[str, ...], str], list[str]] = {}

    def hold(self, host: str, texts: Sequence[str], tone: str) -> None:
        """Hold a host's lines."""
        self._held.setdefault((tuple(texts), tone), []).append(host)

    def tell(self, everybody: int) -> list[Line]:
        """Return and clear all held lines, each text once for its hosts."""
        held, self._held = self._held, {}
        return [
            Line(f"  {_who(hosts, everybody)}  {text}".rstrip(), tone)
            for (texts, tone), hosts in held.items()
            for text in texts
        ]


def _who(hosts: Sequence[str], everybody: int) -> str:
    if len(hosts) <= MOST_NAMED:
        return ", ".join(hosts)
    return f"all {len(hosts)} hosts" if len(hosts) == everybody else f"{len(hosts)} of {everybody} hosts"


def reason_of(phase: str, failure: Failure) -> str:
    """Return why a host is out, as one line."""
    if failure.unreachable:
        said = f"does not {failure.title or 'answer'}"
    else:
        said = failure.message[0] if failure.message else failure.task
    return f"{fit(said, MOST_COLUMNS)} ({phase})" if phase else fit(said, MOST_COLUMNS)


def host_lines(reasons: Mapping[str, str]) -> list[Line]:
    """Render `spark2: does not answer SSH (Observe)` for each host that is out."""
    told = [f"{host}: {reason}" for host, reason in list(reasons.items())[:MOST_OUT]]
    if len(reasons) > len(told):
        told.append(f"and {len(reasons) - len(told)} more")
    return [Line(text, "failed") for text in told]


def rack_lines(
    racks: Mapping[str, Sequence[str]], counts: Mapping[str, Mapping[str, int]], reasons: Mapping[str, str]
) -> list[Line]:
    """Render `rack_b: 7 of 8, spark-b3: does not answer SSH (Observe)` for each rack with a host that is out."""
    lines = []
    for rack, members in racks.items():
        took_part = [host for host in members if host in counts]
        out = [host for host in took_part if counts[host].get("failed") or counts[host].get("unreachable")]
        if out:
            told = [f"{host}: {reasons.get(host) or 'failed'}" for host in out[:MOST_OF_A_RACK]]
            if len(out) > len(told):
                told.append(f"and {len(out) - len(told)} more")
            came = f"{len(took_part) - len(out)} of {len(took_part)}"
            lines.append(Line(f"{rack}: {came}, {'; '.join(told)}", "failed"))
    return lines
