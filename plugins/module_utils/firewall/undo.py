# SPDX-License-Identifier: Apache-2.0
"""Render the program by which a host rolls back a firewall change unattended. Everything here is pure.

It is POSIX shell and needs only coreutils, systemd and nft, like that of a network change.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ..confirmed_change.program import UNDO_CLAIM, UNDO_END, UNDO_FILE, FormerFile, Places, undo_head
from .firewall import REMOVAL, TABLE

UNDO = "firstlight-firewall-undo"
STATE = "/var/lib/firstlight/firewall"
LIVE = "live.nft"
"""The rules that were in force before, in a form that can be loaded again."""


def firewall_places(root: str = "/") -> Places:
    """Return the paths and names of a firewall change."""
    return Places(root, home=STATE, unit=UNDO, subject="firewall change")


def render_live(listing: str | None) -> str:
    """Render the rules in force as a file that restores them; without any, one that removes the table."""
    return REMOVAL + (listing or "")


def render_undo(places: Places, former: FormerFile, change: str, armed_at: int, timeout: int) -> str:
    """Render the program that rolls a change back, then removes itself and everything that waited for it."""
    return "\n".join([*undo_head(places, former, change, armed_at, timeout), UNDO_CLAIM + UNDO_FILE + _LOAD + UNDO_END])


_LOAD = """\
# What was in force, then what the file says. Without either nobody may be able to come in, so the table goes.
if ! nft -f "$here/@LIVE@" >"$here/undo.log" 2>&1 </dev/null; then
  problem="the former rules could not be loaded: $(head -n 1 "$here/undo.log" | tr -d '\\r')"
  if [ "$former" = yes ] && nft -f "$file" 2>/dev/null </dev/null; then
    problem="$problem; those of $file were"
  else
    nft delete table @TABLE@ 2>/dev/null
    problem="$problem; the host has no firewall now"
  fi
fi
[ -z "$kept" ] || problem="$file could not be put back, it is kept in $here"

""".replace("@LIVE@", LIVE).replace("@TABLE@", TABLE)


def outcome_words(outcome: Mapping[str, Any], path: str) -> str:
    """Describe the outcome of a rollback in a sentence."""
    if not outcome["undone"]:
        return f"Restoring the former rules failed ({outcome['problem']}): check it on the host's console."
    return f"The host restored {path} and the rules."
