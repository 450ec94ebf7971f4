# SPDX-License-Identifier: Apache-2.0
"""Detects whether a node's Ray can export metrics: its agent does, and not every image has what the agent imports."""

from __future__ import annotations

from collections.abc import Iterable

_AGENT = "--dashboard_agent_command="
_WITHOUT = "--minimal"

ABSENT = (
    "Ray on this node exports no metrics, because its image lacks what Ray's agent imports: use an image with "
    "ray[default], or let Firstlight add Ray to an image without it"
)


def lacks_agent(command_lines: Iterable[str]) -> bool:
    """Whether, by command lines from /proc, Ray runs here and its agent was started without metrics.

    Ray decides that by itself at startup, from what it can import, and writes it into the arguments of its raylet.
    """
    agents = [word for line in command_lines for word in line.split("\0") if word.startswith(_AGENT)]
    return bool(agents) and all(_WITHOUT in agent.split() for agent in agents)
