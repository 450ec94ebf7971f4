# SPDX-License-Identifier: Apache-2.0
"""How to apply a netplan file: with `netplan apply`, or port by port if that would drop other connections.

`netplan apply` restarts NetworkManager as soon as netplan has one keyfile for it, whichever file was changed. On a host
whose desktop set up a Wi-Fi or wired connection, which Ubuntu stores as a netplan file, this drops the connection over
which the host is managed, and a connection whose secret is kept by a user's session does not come back.

So if NetworkManager has other connections up, only the ports of the change are touched: networkd reads its files and
configures its ports, NetworkManager reads its profiles and brings up those of its ports. Everything here is pure.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field

from .generated_units import NETWORK_MANAGER, NETWORKD, Unit, our_unit_names

DEVICE_FIELDS = "DEVICE,TYPE,STATE,CON-UUID,CONNECTION"
"""Fields requested from `nmcli --terse --fields ... device status`."""

UNMANAGED = "unmanaged"
_SEPARATOR = re.compile(r"(?<!\\)((?:\\\\)*):")
_UP = ("connected", "connecting", "deactivating")


@dataclass(frozen=True)
class Device:
    """A network interface as NetworkManager sees it."""

    name: str
    kind: str = ""
    state: str = ""
    uuid: str = ""
    connection: str = ""

    @property
    def managed(self) -> bool:
        return self.state != UNMANAGED and "(externally)" not in self.state

    @property
    def up(self) -> bool:
        """Whether NetworkManager runs a connection on it; connections it only shows but did not make do not count."""
        return self.managed and self.state.startswith(_UP) and self.kind != "loopback"


def parse_devices(text: str) -> dict[str, Device]:
    """Parse `nmcli --terse --fields DEVICE_FIELDS device status`: one device per line, colons in fields escaped."""
    found = {}
    for line in text.splitlines():
        words = [_unescaped(word) for word in _SEPARATOR.sub(r"\1\n", line).split("\n")]
        if len(words) == len(DEVICE_FIELDS.split(",")) and words[0]:
            found[words[0]] = Device(*words)
    return found


def _unescaped(word: str) -> str:
    return re.sub(r"\\(.)", r"\1", word)


@dataclass(frozen=True)
class Way:
    """How to apply a change; the empty one is `netplan apply` on a host without NetworkManager."""

    spared: Mapping[str, str] = field(default_factory=dict)
    """NetworkManager connections that `netplan apply` would drop, by interface. If empty, it is used."""
    networkd: tuple[str, ...] = ()
    """Ports that networkd configures with the new files."""
    manager: tuple[str, ...] = ()
    """Ports that NetworkManager configures with the new files."""
    let_go: tuple[str, ...] = ()
    """Ports that NetworkManager runs now and networkd takes over. NetworkManager only notices when it starts."""
    former_networkd: tuple[str, ...] = ()
    former: Mapping[str, str] = field(default_factory=dict)
    """By port, the UUID of the connection that NetworkManager had up on it before."""

    @property
    def port_by_port(self) -> bool:
        return bool(self.spared)

    @property
    def command(self) -> str:
        """The command to mention to the operator."""
        return "netplan generate" if self.port_by_port else "netplan apply"


def renderers(ports: Collection[str], units: Sequence[Unit]) -> dict[str, str]:
    """Return by port its renderer in these units; a port without a unit of its own is left out."""
    names = {unit.name for unit in units}
    pairs = [(port, renderer) for port in ports for renderer in (NETWORKD, NETWORK_MANAGER)]
    return {port: renderer for port, renderer in pairs if names & {*our_unit_names(port, renderer)}}


def choose(
    ports: Collection[str], before: Sequence[Unit], after: Sequence[Unit], devices: Mapping[str, Device] | None
) -> Way:
    """Choose how to apply a change of these ports.

    `before` are the units in force, `after` those generated from the new files, and `devices` those of NetworkManager;
    None if it is not running.
    """
    then, now = renderers(ports, before), renderers(ports, after)
    seen = devices or {}
    others = {name: one.connection or one.kind for name, one in seen.items() if one.up and name not in ports}
    # Any keyfile triggers the restart, even one of others or one that is about to be removed.
    restarts = any(unit.renderer == NETWORK_MANAGER for unit in (*before, *after))
    return Way(
        spared=others if restarts else {},
        networkd=tuple(port for port in ports if now.get(port) == NETWORKD),
        manager=tuple(port for port in ports if now.get(port) == NETWORK_MANAGER),
        let_go=tuple(port for port in ports if now.get(port) == NETWORKD and port in seen and seen[port].managed),
        former_networkd=tuple(port for port in ports if then.get(port) == NETWORKD),
        former={port: seen[port].uuid for port in ports if port in seen and seen[port].up and seen[port].uuid},
    )


# --- the programs ----------------------------------------------------------------------------------------------------
FUNCTIONS = """\
let_go() { # PORT: NetworkManager leaves it alone, and has done so when this returns
  nmcli device set "$1" managed no
  waits=0
  until nmcli --terse --fields DEVICE,STATE device status | grep -qxF "$1:unmanaged" || [ "$waits" -ge 20 ]; do
    waits=$((waits + 1))
    sleep 0.5
  done
}
tell_networkd() { # [PORT...]: read the files again, and configure these ports even if their files are the same
  systemctl --quiet is-active systemd-networkd.service || { systemctl start systemd-networkd.service; return; }
  networkctl reload || return
  [ "$#" -eq 0 ] || networkctl reconfigure "$@"
}
"""


def forward(way: Way, limit: int, log: str) -> list[str]:
    """Return shell lines that apply the new files and set `code`; `log` is a shell word."""
    let_go = [f"let_go {_word(port)} >>{log} 2>&1" for port in way.let_go]
    run = [f"timeout {limit} {way.command} >>{log} 2>&1 </dev/null", "code=$?"]
    if not way.port_by_port:
        return [*let_go, *run]
    steps = list(let_go)
    if way.networkd or way.former_networkd:
        steps.append(f"tell_networkd {_words(way.networkd)} >>{log} 2>&1 || code=$?")
    steps.append(f"nmcli connection reload >>{log} 2>&1 || code=$?")
    for port in way.manager:
        steps.append(f"nmcli device set {_word(port)} managed yes >>{log} 2>&1")
        # Do not wait: the check afterwards waits for the port's address, with a timeout of its own.
        steps.append(f"nmcli --wait 0 connection up id {_word(f'netplan-{port}')} ifname {_word(port)} >>{log} 2>&1")
    return [*run, 'if [ "$code" -eq 0 ]; then', *(f"  {step}" for step in steps), "fi"]


def backward(way: Way, log: str) -> list[str]:
    """Return shell lines that apply the former files and set `code`; the program defines `$limit` and `log`."""
    lines = [
        f'timeout "$limit" {way.command} >>{log} 2>&1 </dev/null',
        "code=$?",
        f"said=$(tail -n 1 {log} | tr -d '\\r')",
    ]
    if way.port_by_port and (way.networkd or way.former_networkd):
        lines.append(f"tell_networkd {_words(way.former_networkd)} >>{log} 2>&1")
    lines += [f"nmcli device set {_word(port)} managed yes >>{log} 2>&1" for port in way.let_go]
    if way.port_by_port:
        lines.append(f"nmcli connection reload >>{log} 2>&1")
    if way.port_by_port or way.let_go:
        lines += [
            f"nmcli --wait 0 connection up uuid {_word(uuid)} ifname {_word(port)} >>{log} 2>&1"
            for port, uuid in way.former.items()
        ]
    return lines


def functions(way: Way) -> str:
    """Return the shell functions that these lines call."""
    return FUNCTIONS if way.port_by_port or way.let_go else ""


def _word(text: str) -> str:
    return shlex.quote(text)


def _words(texts: Sequence[str]) -> str:
    return " ".join(_word(text) for text in texts)


# --- notes for the operator ------------------------------------------------------------------------------------------
def notes(way: Way, after: Sequence[Unit], management: str | None = None) -> list[str]:
    """Return notes for the operator before the change; `management` is the interface of this run's connection."""
    found = []
    if way.port_by_port:
        listed = [
            f"{name} ({connection}{', over which this run came' if name == management else ''})"
            for name, connection in way.spared.items()
        ]
        found.append(
            f"NetworkManager runs {', '.join(listed)}, which `netplan apply` would take down: the fabric's ports are "
            "applied one by one, and nothing else is touched"
        )
    open_ports = [port for port in way.manager if not _without_ipv6(port, after)]
    if open_ports:
        found.append(
            f"NetworkManager configures {', '.join(open_ports)}, and netplan does not pass `accept-ra: false` and "
            "`link-local: []` to it: these ports have an IPv6 link-local address and accept router advertisements. "
            "Set fabric_network_renderer to NetworkManager, and the file switches IPv6 off on them"
        )
    if way.let_go:
        found.append(
            f"NetworkManager runs {', '.join(way.let_go)}, which the netplan files assign to systemd-networkd: it is "
            "told to leave them alone"
        )
    return found


def _without_ipv6(port: str, units: Sequence[Unit]) -> bool:
    names = our_unit_names(port, NETWORK_MANAGER)
    sections = [section for unit in units if unit.name in names for section in unit.sections]
    return any(("method", "disabled") in settings for section, settings in sections if section == "ipv6")
