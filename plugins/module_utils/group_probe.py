# SPDX-License-Identifier: Apache-2.0
"""Reads what the keeper last wrote of its groups."""

from __future__ import annotations

import time
from collections.abc import Sequence

from .core.serving.files import STATE_PATH
from .core.serving_kinds import read_groups
from .core.state import State
from .host import Host


def read_group_states(host: Host, names: Sequence[str]) -> dict[str, State]:
    """The state of these groups, each with its age."""
    stamp = host.size_and_mtime(STATE_PATH)
    age = None if stamp is None else time.time() - stamp[1] / 1e9
    return read_groups(host.read_text(STATE_PATH), age, list(names))
