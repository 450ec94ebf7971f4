# SPDX-License-Identifier: Apache-2.0
"""The steps of a network change: check and start it, verify the ports, confirm it."""

from __future__ import annotations

import json
import os
import secrets
import signal
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from ..confirmed_change.change import ADOPTED, BEFORE, ChangeError, KeptFile, Records, former_file
from ..confirmed_change.steps import ConfirmedSteps
from ..host import Host, write_file
from ..state import host_kinds  # noqa: F401 - registers the kinds that are compared here
from ..state.vocabulary import differences, explain, root_file
from .apply_methods import Way
from .assessment import is_ours, with_header
from .netplan_host import NetplanError, NetplanHost, unit_names
from .outcome import lost_connectivity, port_states, wanted_links
from .undo import NetplanChange
from .undo_program import Former, former_links, netplan_places, outcome_words

MODE = 0o600
DEFAULT_MTU = 1500
PAUSE = 0.5
SETTLE = 3.0
"""Seconds to wait for networkd to finish with ports that are as desired. One that awaits a router may never finish."""


@dataclass
class Intent:
    """A checked change: what differs now, and what to do about it."""

    path: str
    content: bytes | None
    restored: KeptFile | None = None
    wanted: dict[str, dict[str, Any]] = field(default_factory=dict)
    released: dict[str, dict[str, Any]] = field(default_factory=dict)
    """Ports that were ours, with the `mtu` and `up` to restore and the addresses that have to be `gone`."""
    sentences: list[str] = field(default_factory=list)
    diff: list[dict[str, str]] = field(default_factory=list)
    keep: dict[str, bytes] = field(default_factory=dict)
    forget: bool = False
    way: Way = field(default_factory=Way)
    notes: list[str] = field(default_factory=list)


class Changer(ConfirmedSteps):
    """Changes one netplan file of a host, in steps."""

    change: NetplanChange
    outcome_words = staticmethod(outcome_words)

    def __init__(self, params: Mapping[str, Any], host: Host, root: str = "/") -> None:
        """`root` differs from "/" only in tests."""
        super().__init__(params, host, NetplanChange(host, netplan_places(root)))
        self.netplan = NetplanHost(host, root)
        self.records = Records(self.places)

    # --- step apply --------------------------------------------------------------------------------------------------
    def apply(self, *, check_mode: bool) -> dict[str, Any]:
        """Check the change and start it; if the result has `change`, that change awaits its confirmation."""
        warnings = self.leftovers(check_mode=check_mode)
        links = self.netplan.links()
        intent = self._intend(links)
        result: dict[str, Any] = {
            "changed": bool(intent.sentences),
            "differences": intent.sentences,
            "diff": intent.diff if intent.sentences else [],
            "notes": intent.notes,
            "warnings": warnings,
        }
        if intent.forget and not intent.sentences and not check_mode:
            self.records.forget()  # e.g. the file was removed by hand, and the ports are as they were before it
        if check_mode or not intent.sentences:
            return result
        return {**result, "change": self._start(intent, links)}

    def _intend(self, links: Mapping[str, dict[str, Any]]) -> Intent:
        """Determine what has to change. Raises NetplanError for a change that must not be made."""
        path: str = self.params["path"]
        try:
            now = KeptFile.read(path)
        except OSError as error:
            raise NetplanError(f"{path} cannot be read ({error.strerror}): run with become") from error
        text = None if now is None else now.content.decode("utf-8", errors="replace")
        present = self.params["state"] == "present"
        if present:
            intent = Intent(path, with_header(self.params["content"] or "").encode())
            intent.wanted = wanted_links(self.params["ports"])
            self.netplan.refuse_missing(intent.wanted, links)
            self.netplan.refuse_own_connection(intent.wanted, links)
            self._adopt(intent, now, text)
        else:
            adopted = self.records.adopted()
            if text is not None and not is_ours(text):
                return Intent(path, now.content if now else None)  # somebody else's file: not ours to remove
            intent = Intent(path, adopted.content if adopted else None, restored=adopted, forget=True)
        former_ports = self._ports_of(now) if is_ours(text) else []
        others, files = self.netplan.files(path, intent.content)
        units = self.netplan.generate(files, path)
        if present:
            self.netplan.refuse_conflicts(path, intent.wanted, others, units)
        self._release(intent, former_ports, units, links)
        self._compare(intent, text, links)
        ports = [*intent.wanted, *former_ports, *intent.released, *self.records.before()]
        if intent.sentences and not self.params["apply_others"]:
            self.netplan.refuse_other_changes(files, units, unit_names(ports), links)
        intent.way, intent.notes = self.netplan.way([port for port in ports if port in links], units, links)
        if present:
            self._remember(intent, links, known=is_ours(text))
        return intent

    def _adopt(self, intent: Intent, now: KeptFile | None, text: str | None) -> None:
        """Take over somebody else's file at our path only on request, and keep a copy of it."""
        if now is None or is_ours(text):
            return
        if not self.params["adopt"]:
            raise NetplanError(
                f"{intent.path} is there and was not written by Firstlight, nothing was changed. Expected no such file "
                "or one of Firstlight's: move it away, or set fabric_network_adopt to true to have it replaced (and "
                "restored on removal)"
            )
        strange = [port for port in self._ports_of(now, given=True) if port not in intent.wanted]
        if strange:
            raise NetplanError(
                f"{intent.path} cannot be taken over, nothing was changed: it also configures {', '.join(strange)}, "
                "which would lose that. Move those lines to another file in /etc/netplan, and run again"
            )
        intent.keep[ADOPTED] = now.content
        intent.keep[f"{ADOPTED}.json"] = json.dumps(now.facts()).encode()

    def _ports_of(self, file: KeptFile | None, *, given: bool = False) -> list[str]:
        """Return the ports that a file configures; with `given` only those that it gives a setting to."""
        if file is None:
            return []
        units = self.netplan.alone({f"etc/netplan/{os.path.basename(self.params['path'])}": file.content})
        return list(dict.fromkeys(unit.subject for unit in units if unit.given.words() or not given))

    def _release(
        self, intent: Intent, former_ports: Sequence[str], units: list[Any], links: Mapping[str, dict[str, Any]]
    ) -> None:
        """Plan the release of ports that were ours: netplan leaves them up and does not reset the MTU that we set."""
        before = self.records.before()
        known = dict.fromkeys([*former_ports, *before])
        freed = [port for port in known if port in links and port not in intent.wanted]
        takers = self.netplan.takers(freed, units)
        for port in freed:
            was = before.get(port) or {"mtu": DEFAULT_MTU, "addresses": [], "up": True}
            if port not in takers:
                had = was.get("addresses") or []
                gone = [address for address in links[port]["addresses"] if ":" not in address and address not in had]
                intent.released[port] = {"mtu": was["mtu"], "up": was["up"], "gone": gone}
            elif takers[port].given.mtu is None:
                intent.released[port] = {"mtu": was["mtu"], "up": True, "gone": []}

    def _compare(self, intent: Intent, text: str | None, links: Mapping[str, dict[str, Any]]) -> None:
        """Set the differences of the change, and its diff."""
        wrong_links = explain(differences({"links": intent.wanted}, {"links": port_states(intent.wanted, links)}))
        wrong_links += _leftover_links(intent.released, links)
        after = intent.content.decode("utf-8", errors="replace") if intent.content is not None else ""
        if intent.forget:
            wrong_file = []
            if text is not None:
                expected = "the file that it replaced" if intent.restored else "no such file"
                wrong_file = [f"file {intent.path} is Firstlight's, expected {expected}"]
            elif intent.restored:
                wrong_file = [f"file {intent.path} is missing, expected the file that Firstlight replaced"]
        else:
            wrong_file = explain(
                differences(
                    {"files": {intent.path: root_file(after, mode="0600")}},
                    {"files": {intent.path: self.host.file_state(intent.path)}},
                )
            )
        intent.sentences = [*wrong_file, *wrong_links]
        intent.diff = [
            {
                "before_header": intent.path,
                "after_header": intent.path,
                "before": text or "",
                "after": after,
            },
            {
                "before_header": "ports",
                "after_header": "ports",
                "before": _port_lines({port: links[port] for port in (*intent.wanted, *intent.released)}),
                "after": _port_lines({**intent.wanted, **intent.released}),
            },
        ]

    def _remember(self, intent: Intent, links: Mapping[str, dict[str, Any]], *, known: bool) -> None:
        """Record how the ports were before our file was there, for its removal."""
        before = self.records.before()
        told = {}
        for port in intent.wanted:
            link = links[port]
            # The original state of a port that we had already configured is unknown, so assume the defaults.
            fresh = {"mtu": link["mtu"], "addresses": link["addresses"], "up": link["admin_up"]}
            told[port] = before.get(port) or ({"mtu": DEFAULT_MTU, "addresses": [], "up": True} if known else fresh)
        if told != before:
            intent.keep[f"{BEFORE}.json"] = json.dumps(told, sort_keys=True).encode()

    def _start(self, intent: Intent, links: Mapping[str, dict[str, Any]]) -> str:
        """Arm the undo, write the file and have it applied; return the id of the change."""
        route_set, route_arguments = self.netplan.routes()
        identifier = secrets.token_hex(8)
        ours: dict[str, Sequence[str]] = {port: want["addresses"] for port, want in intent.wanted.items()}
        ours.update({port: [] for port in intent.released})
        former = Former(former_file(intent.path), former_links(links), route_arguments, ours, intent.way)
        journal = {
            "id": identifier,
            "run": self.params.get("run"),
            "path": intent.path,
            "wanted": intent.wanted,
            "released": intent.released,
            "links": links,
            "routes": sorted(route_set),
            "forget": intent.forget,
            "command": intent.way.command,
        }
        self.change.arm(journal, former, self.params["confirm_timeout"], _tidy(intent.released), intent.keep)
        # If this change breaks the connection, the hangup must not kill this process while it starts the change.
        signal.signal(signal.SIGHUP, signal.SIG_IGN)
        try:
            if intent.restored is not None:
                intent.restored.put(intent.path)
            elif intent.content is None:
                if os.path.exists(intent.path):
                    os.unlink(intent.path)
            else:
                write_file(intent.path, intent.content, MODE)
            self.change.start_apply()
        except (OSError, ChangeError) as error:
            outcome = self.change.undo(f"the change could not be started: {error}")
            raise NetplanError(self._undone_message(outcome)) from error
        return identifier

    # --- step check --------------------------------------------------------------------------------------------------
    def check(self) -> dict[str, Any]:
        """Check that the change works, as far as the host can tell; if not, roll it back at once."""
        journal = self.journal()
        if journal is None:
            return self.over()
        applied = self.change.applied()
        if applied is None:
            return {"changed": False, "waiting": True}
        self.change.wait_anew()
        code, said = applied
        problem = f"{_command(journal)} returned {code}: {said[-600:]}" if code else self._wait(journal)
        if not problem:
            return {"changed": False, "waiting": False, "works": True}
        return {"changed": False, "waiting": False, "works": False, "outcome": self.change.undo(problem)}

    def _wait(self, journal: Mapping[str, Any]) -> str:
        """Wait until the ports are as desired and nothing else was lost; return the problem if that takes too long."""
        ours = [*journal["wanted"], *journal["released"]]
        deadline = time.monotonic() + self.params["timeout"]
        patience = SETTLE
        while True:
            links = self.netplan.links()
            wrong = explain(differences({"links": journal["wanted"]}, {"links": port_states(journal["wanted"], links)}))
            wrong += _leftover_links(journal["released"], links)
            lost = lost_connectivity(ours, journal["links"], links, journal["routes"], self.netplan.routes()[0])
            problems = [*wrong, *lost]
            late = time.monotonic() >= deadline
            if not problems and (late or patience <= 0 or self.netplan.settled(ours)):
                return ""
            if not problems:
                patience -= PAUSE
            elif late:
                dead = [port for port in journal["wanted"] if links.get(port) and not links[port]["up"]]
                hint = f" ({', '.join(dead)} without carrier: check cable and switch port)" if dead else ""
                return f"{self.params['timeout']} s after {_command(journal)}: {'; '.join(problems)}{hint}"
            time.sleep(PAUSE)

    def _undone_message(self, outcome: Mapping[str, Any]) -> str:
        return f"The fabric ports did not come up: {outcome['reason']}. {outcome_words(outcome, self.params['path'])}"


def _command(journal: Mapping[str, Any]) -> str:
    return str(journal.get("command") or "netplan apply")


def _leftover_links(released: Mapping[str, Mapping[str, Any]], links: Mapping[str, Mapping[str, Any]]) -> list[str]:
    """Return the settings of ours that released ports still have."""
    found = []
    for port, want in released.items():
        link = links.get(port)
        if link is None:
            continue
        if link["mtu"] != want["mtu"]:
            found.append(f"link {port} has mtu {link['mtu']}, expected mtu {want['mtu']}")
        found += [
            f"link {port} has address {gone}, expected none" for gone in want["gone"] if gone in link["addresses"]
        ]
    return found


def _tidy(released: Mapping[str, Mapping[str, Any]]) -> list[list[str]]:
    """Return the commands that restore released ports."""
    commands = []
    for port, want in released.items():
        commands += [["ip", "addr", "del", address, "dev", port] for address in want["gone"]]
        commands.append(["ip", "link", "set", "dev", port, "mtu", str(want["mtu"])])
        if not want["up"]:
            commands.append(["ip", "link", "set", "dev", port, "down"])
    return commands


def _port_lines(links: Mapping[str, Mapping[str, Any]]) -> str:
    """Format the settings of ports for the diff, one line each."""
    lines = []
    for port, link in links.items():
        addresses = [address for address in link.get("addresses") or [] if ":" not in address]
        lines.append(f"{port}: mtu {link['mtu']}, {', '.join(addresses) or 'no address'}\n")
    return "".join(lines)
