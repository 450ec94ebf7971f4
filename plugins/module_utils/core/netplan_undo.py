# SPDX-License-Identifier: Apache-2.0
"""Writes the programs and units by which a host undoes a network change alone, and reads what they left.

The undo program is POSIX shell and needs nothing but coreutils, iproute2, systemd and netplan: when it runs, nobody can
reach the host to help it, and a host whose Python was just updated must still come back.
"""

from __future__ import annotations

import os
import shlex
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from .netplan import comes_and_goes
from .netplan_ways import Way, backward, forward, functions
from .parsers.systemd import parse_properties
from .parsers.text import parse_json_list
from .systemd import quote, render_unit

UNDO = "firstlight-netplan-undo"
APPLY_UNIT = "firstlight-netplan-apply"
STATE = "/var/lib/firstlight/netplan"
UNITS = "/etc/systemd/system"
APPLY_LIMIT = 120
"""Seconds that netplan may take."""


@dataclass(frozen=True)
class Places:
    """Where everything of one kind of change is; `root` is another directory only in tests."""

    root: str = "/"
    home: str = STATE
    unit: str = UNDO
    """Name of the timer and the service that take a change back."""
    subject: str = "network change"

    def _at(self, path: str) -> str:
        return os.path.join(self.root, path.lstrip("/"))

    @property
    def state(self) -> str:
        return self._at(self.home)

    @property
    def undo(self) -> str:
        return os.path.join(self.state, "undo")

    @property
    def outcome(self) -> str:
        return os.path.join(self.state, "outcome")

    @property
    def timer(self) -> str:
        return os.path.join(self._at(UNITS), f"{self.unit}.timer")

    @property
    def service(self) -> str:
        return os.path.join(self._at(UNITS), f"{self.unit}.service")


@dataclass(frozen=True)
class FormerFile:
    """The file as it was before the change; with `mode` None there was none."""

    path: str
    mode: int | None = None
    uid: int = 0
    gid: int = 0


@dataclass(frozen=True)
class FormerLink:
    """A port as it was before the change."""

    port: str
    addresses: tuple[str, ...] = ()
    mtu: int | None = None
    up: bool = True


@dataclass(frozen=True)
class Former:
    """All that an undo brings back."""

    file: FormerFile
    links: tuple[FormerLink, ...] = ()
    routes: tuple[tuple[str, ...], ...] = ()
    ours: Mapping[str, Sequence[str]] = field(default_factory=dict)
    """By port of ours, the addresses that the change gives to it."""
    way: Way = field(default_factory=Way)


def former_links(links: Mapping[str, Mapping[str, Any]]) -> tuple[FormerLink, ...]:
    """The ports that an undo answers for, with their IPv4 addresses."""
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
    """`ip -j -4 route show default` as arguments that make the same routes again; none when it is not to be read."""
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
    """The program that puts the new files in force, apart from any session, and leaves word how that went.

    It waits a moment first, so that the module's answer is out before the network moves. `tidy` are commands for
    ports that netplan leaves half configured when their stanza goes; that one of them fails does no harm.
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
    """The program that takes a change back, and then removes itself and everything that waited for it."""
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


def undo_head(places: Places, file: FormerFile, change: str, armed_at: int, timeout: int) -> list[str]:
    """How every undo program begins: with what it has to know of the change and of the file that it puts back."""
    return [
        "#!/bin/sh",
        f"# Written by Firstlight: takes a {places.subject} back, as nobody confirmed it or as it did not work.",
        "set -u",
        "export LC_ALL=C",
        "PATH=${PATH:+$PATH:}/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin",
        f"here={shlex.quote(places.undo)}",
        f"file={shlex.quote(file.path)}",
        f"outcome={shlex.quote(places.outcome)}",
        f"timer={shlex.quote(places.timer)}",
        f"service={shlex.quote(places.service)}",
        f"unit={shlex.quote(places.unit)}",
        f"change={shlex.quote(change)}",
        f"armed_at={int(armed_at)}",
        f"reason={shlex.quote(f'the controller did not come back within {int(timeout)} s')}",
        f"former={'yes' if file.mode is not None else 'no'}",
        f"mode={file.mode or 0:o} owner={int(file.uid)}:{int(file.gid)}",
    ]


UNDO_CLAIM = """\
# Whoever gets this name decides: a confirmation takes it in the same way. A second start after a power cut goes on.
mv "$here/armed" "$here/undoing" 2>/dev/null || [ -e "$here/undoing" ] || exit 0
problem=
readded=
kept=

"""

UNDO_FILE = """\
# The disk may be full. What only the way forward needs makes room, and a link needs none.
rm -rf "$here/apply.sh" "$here/keep"
if [ "$former" = yes ]; then
  scratch=$(dirname "$file")/.firstlight-undo.new
  { [ -e "$here/former" ] && { cp "$here/former" "$scratch" || ln -f "$here/former" "$scratch"; } &&
    chown "$owner" "$scratch" && chmod "$mode" "$scratch" && mv -f "$scratch" "$file"; } ||
    { rm -f "$scratch"; kept=yes; }
else
  rm -f "$file" || kept=yes
fi
sync

"""

UNDO_END = """\
by=timer
if [ -s "$here/reason" ]; then
  by=host
  reason=$(head -n 1 "$here/reason")
fi
{
  printf 'change=%s\\n' "$change"
  printf 'result=%s\\n' "$([ -z "$problem" ] && echo undone || echo failed)"
  printf 'by=%s\\n' "$by"
  printf 'reason=%s\\n' "$reason"
  printf 'problem=%s\\n' "$problem"
  printf 'readded=%s\\n' "$readded"
  printf 'seconds=%s\\n' "$(($(date +%s) - armed_at))"
} >"$outcome.new"
mv -f "$outcome.new" "$outcome"
sync

systemctl disable "$unit".timer 2>/dev/null
systemctl stop "$unit".timer 2>/dev/null
# The only copy of the former file stays, and the next run, or whoever runs this again, goes on from here.
[ -z "$kept" ] || exit 0
rm -f "$timer" "$service"
rm -rf "$here"
systemctl daemon-reload 2>/dev/null
exit 0
"""
"""It leaves word of how it went, and then removes itself and everything that waited for it."""

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


def render_service(places: Places) -> str:
    """The unit that runs the undo program."""
    return render_unit(
        [
            ("Unit", [("Description", f"Take back a {places.subject} that nobody confirmed (Firstlight)")]),
            (
                "Service",
                [
                    ("Type", "oneshot"),
                    ("ExecStart", f"/bin/sh {quote(os.path.join(places.undo, 'undo.sh'))}"),
                    ("TimeoutStartSec", "300"),
                ],
            ),
        ]
    )


def render_timer(timeout: int, subject: str = Places.subject) -> str:
    """The unit that waits for the confirmation. It is enabled: a reboot in the middle starts the wait anew."""
    return render_unit(
        [
            ("Unit", [("Description", f"Wait for the confirmation of a {subject} (Firstlight)")]),
            ("Timer", [("OnActiveSec", f"{int(timeout)}s"), ("AccuracySec", "1s")]),
            ("Install", [("WantedBy", "timers.target")]),
        ]
    )


def parse_outcome(text: str | None) -> dict[str, Any] | None:
    """What the undo program left: None when it did not run or its word is not to be read.

    `alone` means that nobody asked for it: the controller did not come back, and the timer started it.
    """
    values = parse_properties(text or "")
    if not values.get("change") or values.get("result") not in ("undone", "failed"):
        return None
    seconds = values.get("seconds", "")
    return {
        "change": values["change"],
        "undone": values["result"] == "undone",
        "alone": values.get("by") == "timer",
        "reason": values.get("reason", ""),
        "problem": values.get("problem", ""),
        "readded": [item.strip() for item in values.get("readded", "").split(";") if item.strip()],
        "seconds": int(seconds) if seconds.lstrip("-").isdecimal() else None,
    }


def outcome_words(outcome: Mapping[str, Any], path: str) -> str:
    """How an undo went, in a sentence or two."""
    if not outcome["undone"]:
        told = f"Putting {path} back did not go well ({outcome['problem']}): look at it on the host's console."
    else:
        told = f"The host put {path} back as it was and applied it."
    if outcome["readded"]:
        told += (
            f" netplan did not bring back {', '.join(outcome['readded'])}, which the undo added by hand: "
            "no netplan file gives it, so it is gone with the next reboot."
        )
    return told


def parse_setup_states(text: str) -> dict[str, str]:
    """`networkctl list --no-legend`: how far networkd is with each port ("configured", "configuring", ...)."""
    columns = [line.split() for line in text.splitlines()]
    return {words[1]: words[4] for words in columns if len(words) == 5}
