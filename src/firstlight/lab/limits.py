# SPDX-License-Identifier: Apache-2.0
"""The one limit of this machine that many nodes together run into, and its former value when they are gone.

Every systemd watches files, and the kernel counts the watchers of root on all nodes together. Most machines allow
128 of them; a node that finds none left hangs while it starts.
"""

from __future__ import annotations

import contextlib
import json
from collections.abc import Iterable
from pathlib import Path

from .cache import Cache
from .host import Say

SETTING = Path("/proc/sys/fs/inotify/max_user_instances")
PER_NODE = 16  # eight once it has started; as many again for logins, linger and what its containers run
ELSEWHERE = 64  # for everything else on this machine


def needed(nodes: int) -> int:
    """How many watchers so many nodes may come to need."""
    return ELSEWHERE + PER_NODE * nodes


def nodes_of(records: Iterable[Path]) -> int:
    """How many nodes the labs have whose records these are."""
    return sum(len(json.loads(record.read_text())["nodes"]) for record in records)


def raise_for(cache: Cache, nodes: int, say: Say, setting: Path = SETTING) -> None:
    """Make room for so many nodes in all labs; where that is not possible, say what may come of it."""
    current, wanted = int(setting.read_text()), needed(nodes)
    if current >= wanted:
        return
    try:
        setting.write_text(f"{wanted}\n")
    except OSError:
        say(
            f"fs.inotify.max_user_instances is {current} and this user may not change it; {nodes} nodes need up to "
            f"{wanted}. Nodes that do not finish starting are short of it: "
            f"sysctl -w fs.inotify.max_user_instances={wanted} as root, or fewer nodes."
        )
        return
    memory = _memory(cache)
    former = json.loads(memory.read_text())["former"] if memory.exists() else current
    memory.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    memory.write_text(json.dumps({"former": former, "raised": wanted}))


def restore(cache: Cache, setting: Path = SETTING) -> None:
    """After the last lab: the former value, unless somebody has set another one since."""
    memory = _memory(cache)
    if not memory.exists():
        return
    remembered = json.loads(memory.read_text())
    if int(setting.read_text()) == remembered["raised"]:
        setting.write_text(f"{remembered['former']}\n")
    memory.unlink()
    with contextlib.suppress(OSError):  # the private engine's things are there, too
        memory.parent.rmdir()


def _memory(cache: Cache) -> Path:
    """Beside the private engine's socket: gone with a reboot, as the raised value is."""
    return cache.runtime / "inotify.json"
