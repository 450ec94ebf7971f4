# SPDX-License-Identifier: Apache-2.0
"""Whether the Ray of a node can tell metrics at all: its agent does, which not every image has what it takes for."""

from __future__ import annotations

from collections.abc import Iterable

_AGENT = "--dashboard_agent_command="
_WITHOUT = "--minimal"

ABSENT = (
    "the Ray of this node tells no metrics, because its image lacks what Ray's agent imports: use an image with "
    "ray[default], or let Firstlight add Ray to one without"
)


def lacks_agent(command_lines: Iterable[str]) -> bool:
    """From command lines as in /proc: whether a Ray runs here, and its agent is started without what tells metrics.

    Ray decides that by itself when it starts, from what it can import, and writes it into the arguments of its raylet.
    """
    agents = [word for line in command_lines for word in line.split("\0") if word.startswith(_AGENT)]
    return bool(agents) and all(_WITHOUT in agent.split() for agent in agents)
