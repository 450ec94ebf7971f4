# SPDX-License-Identifier: Apache-2.0
"""Render the programs by which a host makes a network change, and rolls it back unattended.

Besides what every undo needs, that of a network change needs iproute2 and netplan.
"""

from __future__ import annotations

import shlex
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from ..confirmed_change.program import UNDO_CLAIM, UNDO_END, UNDO_FILE, FormerFile, Places, undo_head
from ..parsers.text import parse_json_list
from .apply_methods import Way, backward, forward, functions
from .outcome import comes_and_goes

UNDO = "firstlight-netplan-undo"
APPLY_UNIT = "firstlight-netplan-apply"
STATE = "/var/lib/firstlight/netplan"
APPLY_LIMIT = 120
"""Timeout of netplan in seconds."""


def netplan_places(root: str = "/") -> Places:
    """Return the paths and names of a network change."""
    return Places(root, home=STATE, unit=UNDO, subject="network change")


@dataclass(frozen=True)
class FormerLink:
    """A port as it was before the change."""

    port: str
    addresses: tuple[str, ...] = ()
    mtu: int | None = None
    up: bool = True


@dataclass(frozen=True)
class Former:
    """Everything that an undo restores."""

    file: FormerFile
    links: tuple[FormerLink, ...] = ()
    routes: tuple[tuple[str, ...], ...] = ()
    ours: Mapping[str, Sequence[str]] = field(default_factory=dict)
    """The addresses that the change gives to our ports, by port."""
    way: Way = field(default_factory=Way)


def former_links(links: Mapping[str, Mapping[str, Any]]) -> tuple[FormerLink, ...]:
    """Return the ports that an undo restores, with their IPv4 addresses."""
    return tuple(
        FormerLink(
            port=name,
            addresses=tuple(address for address in link.get("addresses") or [] if ":" not in address),
            mtu=link.get("mtu"),
            up=bool(link.get("admin_up", link.get("up"))),
        )
        for name, link in links.items()
        if not comes_and_goes(name)
    )


def parse_route_arguments(text: str) -> tuple[tuple[str, ...], ...]:
    """Convert `ip -j -4 route show default` to arguments that recreate the routes; empty for other text."""
    try:
        entries = parse_json_list(text, "ip -j route")
    except ValueError:
        return ()
    found = []
    for entry in entries:
        if not entry.get("dev"):
            continue
        route = ["default"]
        for word, key in (("via", "gateway"), ("dev", "dev"), ("proto", "protocol"), ("src", "prefsrc")):
            route += [word, str(entry[key])] if entry.get(key) else []
        route += ["metric", str(entry["metric"])] if entry.get("metric") else []
        route += ["onlink"] if "onlink" in (entry.get("flags") or []) else []
        found.append(tuple(route))
    return tuple(found)


def _words(arguments: Iterable[object]) -> str:
    return " ".join(shlex.quote(str(argument)) for argument in arguments)


def render_apply(places: Places, tidy: Iterable[Sequence[str]] = (), way: Way | None = None) -> str:
    """Render the program that applies the new files outside of any session, and records how that went.

    It first waits a moment, so that the module can send its answer before the network changes. `tidy` are commands for
    ports that netplan leaves half configured when their stanza is removed; it is harmless if one of them fails.
    """
    here = shlex.quote(places.undo)
    lines = [
        "#!/bin/sh",
        "# Written by Firstlight: applies a network change. The undo program beside it takes it back.",
        "set -u",
        "export LC_ALL=C",
        *functions(way or Way()).splitlines(),
        "sleep 1",
        *forward(way or Way(), APPLY_LIMIT, f"{here}/apply.log"),
        *[f"{_words(command)} 2>/dev/null || :" for command in tidy],
        f'printf "%s\\n" "$code" >{here}/apply.rc.new',
        f"mv {here}/apply.rc.new {here}/apply.rc",
    ]
    return "\n".join(lines) + "\n"


def render_undo(places: Places, former: Former, change: str, armed_at: int, timeout: int) -> str:
    """Render the program that rolls a change back, then removes itself and everything that waited for it."""
    address_pairs = [(link.port, address) for link in former.links for address in link.addresses]
    mtus = [(link.port, link.mtu) for link in former.links if link.mtu]
    strange = [
        (port, address)
        for port, addresses in former.ours.items()
        for address in addresses
        if (port, address) not in address_pairs
    ]
    downs = [link.port for link in former.links if link.port in former.ours and not link.up]
    lines = [
        *undo_head(places, former.file, change, armed_at, timeout),
        f"limit={APPLY_LIMIT}",
        "",
        *functions(former.way).splitlines(),
        "unwanted() {",
        *[f"  ip addr del {_words([address])} dev {_words([port])} 2>/dev/null" for port, address in strange],
        *[f"  ip link set dev {_words([port])} mtu {_words([mtu])} 2>/dev/null" for port, mtu in mtus],
        *[f"  ip link set dev {_words([port])} down 2>/dev/null" for port in downs],
        "  :",
        "}",
        "each() { # COMMAND: with every address and default route that the host had",
        *[f'  "$1" address {_words([port, address])} || return 1' for port, address in address_pairs],
        *[f'  "$1" route {_words(route)} || return 1' for route in former.routes],
        "  :",
        "}",
        UNDO_CLAIM + f"systemctl stop {APPLY_UNIT}.service 2>/dev/null\n" + UNDO_FILE,
        *backward(former.way, '"$here/undo.log"'),
        f"command={shlex.quote(former.way.command)}",
        _UNDO_NETPLAN + UNDO_END,
    ]
    return "\n".join(lines)


_UNDO_NETPLAN = """\
if [ "$code" -ne 0 ]; then
  problem="$command returned $code: $said"
fi
[ -z "$kept" ] || problem="$file could not be put back, it is kept in $here"
unwanted

there() { # what the host had is there again
  case $1 in
    address) ip -4 -o addr show dev "$2" 2>/dev/null | grep -qF "inet $3 " ;;
    route) shift; ip -4 route show default 2>/dev/null | grep -qF "$(route_words "$@") " ;;
  esac
}
route_words() { # default via GATEWAY dev PORT ...: as `ip route` shows it first
  if [ "$2" = via ]; then printf '%s %s %s %s %s' "$1" "$2" "$3" "$4" "$5"; else printf '%s %s %s' "$1" "$2" "$3"; fi
}
mend() { # the last resort: without a word to netplan, so that somebody can reach the host and look
  there "$@" && return 0
  case $1 in
    address)
      ip link set dev "$2" up 2>/dev/null
      ip addr add "$3" dev "$2" 2>/dev/null && readded="$readded $3 on $2;"
      ;;
    route) shift; ip route replace "$@" 2>/dev/null && readded="$readded route $*;" ;;
  esac
  return 0
}
tries=0
until each there || [ "$tries" -ge 10 ]; do
  tries=$((tries + 1))
  sleep 1
done
each mend

"""


def outcome_words(outcome: Mapping[str, Any], path: str) -> str:
    """Describe the outcome of a rollback in a sentence or two."""
    if not outcome["undone"]:
        told = f"Restoring {path} failed ({outcome['problem']}): check it on the host's console."
    else:
        told = f"The host restored {path} and applied it."
    if outcome["readded"]:
        told += (
            f" netplan did not restore {', '.join(outcome['readded'])}, which the rollback added by hand: "
            "no netplan file configures it, so the next reboot removes it."
        )
    return told


def parse_setup_states(text: str) -> dict[str, str]:
    """Parse `networkctl list --no-legend` into the state of each port ("configured", "configuring", ...)."""
    columns = [line.split() for line in text.splitlines()]
    return {words[1]: words[4] for words in columns if len(words) == 5}
