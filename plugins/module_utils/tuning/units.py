# SPDX-License-Identifier: Apache-2.0
"""Units of a host: enable, mask and start them, and restore their former state link by link."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from ..host import Host
from ..parsers.systemd import parse_properties
from ..problems import SettingsError, tried
from .tree import Tree

_RUNS = ("active", "reloading", "activating")
_TIMEOUT = 120.0


class Units:
    """The systemd units of a host."""

    def __init__(self, host: Host, tree: Tree, timeout: float = _TIMEOUT) -> None:
        self.host = host
        self.tree = tree
        self.timeout = timeout

    def systemctl(self, *words: str) -> None:
        """Run systemctl; raises SettingsError if it fails."""
        result = self.host.run(["systemctl", "--no-ask-password", *words], self.timeout)
        if not result.ok:
            started = words[-1] if {"start", "restart"} & set(words) else ""
            told = f"Unit {started} does not start ({self._last_lines(started)}): " if started else ""
            raise SettingsError(
                f"{told}`systemctl {' '.join(words)}` failed: {result.summary}. See `systemctl "
                "status` and `journalctl` on the host, and run again"
            )

    def _last_lines(self, name: str) -> str:
        argv = ["journalctl", f"--unit={name}", "--lines=5", "--output=cat", "--no-pager", "--quiet"]
        return " / ".join(self.host.run(argv, _TIMEOUT).stdout.splitlines()) or "its journal is empty"

    def _show(self, name: str) -> Mapping[str, str]:
        argv = ["systemctl", "show", "--property=Names,LoadState,ActiveState", "--", name]
        result = self.host.run(argv, _TIMEOUT)
        if not result.ok:
            raise SettingsError(f"Unit {name} cannot be read: {result.summary}, expected an answer: run again")
        return parse_properties(result.stdout)

    def is_there(self, name: str) -> bool:
        """Whether systemd knows this unit."""
        return self._show(name).get("LoadState") not in ("not-found", None)

    def is_active(self, name: str) -> bool:
        """Whether the unit runs, or is starting."""
        return self._show(name).get("ActiveState") in _RUNS

    def snapshot(self, name: str) -> dict[str, Any]:
        """Record what makes the unit enabled, masked or aliased, and whether it runs."""
        shown = self._show(name)
        names = sorted({name, *shown.get("Names", "").split()})
        return {
            "names": names,
            "links": self.tree.unit_links(names),
            "folders": self.tree.unit_folders(),
            "active": shown.get("ActiveState") in _RUNS,
        }

    def are_outdated(self, names: Iterable[str]) -> bool:
        """Whether a unit file of these has changed since systemd read it."""
        shown = self.host.run(["systemctl", "show", "--property=NeedDaemonReload", "--", *names], _TIMEOUT).stdout
        return "NeedDaemonReload=yes" in shown.splitlines()

    def converge(
        self, name: str, want: Mapping[str, Any], differing: Mapping[str, Any], no_block: bool = False
    ) -> None:
        """Bring a unit into the state `want`; `differing` are the fields that differ."""
        if differing.get("masked"):
            self.systemctl("mask", "--", name)
            return
        # A mask prevents both; whoever set it gets it back from the ledger.
        if (want.get("enabled") or want.get("active")) and self._show(name).get("LoadState") == "masked":
            self.systemctl("unmask", "--", name)
        if "enabled" in differing:
            self.systemctl("enable" if differing["enabled"] else "disable", "--", name)
        if "active" in differing:
            words = ["start"] if differing["active"] else ["stop"]
            self.systemctl(*(["--no-block"] if no_block and differing["active"] else []), *words, "--", name)

    def stop_new(self, entries: Mapping[str, Mapping[str, Any]]) -> None:
        """Stop units that did not run before, while their files still exist."""
        for name, entry in entries.items():
            if not entry["active"] and self.is_there(name) and self.is_active(name):
                self.systemctl("stop", "--", name)

    def restore_links(self, entry: Mapping[str, Any]) -> None:
        """Restore exactly the unit's former links."""
        for path in self.tree.unit_links(entry["names"]):
            if path not in entry["links"]:
                self.tree.put(path, {"kind": "absent"})
                folder = os.path.dirname(path)
                if folder.endswith((".wants", ".requires")) and folder not in entry["folders"]:
                    self.tree.remove_directory(folder)
        for folder in entry["folders"]:
            self.tree.make_directory(folder)
        for path, target in entry["links"].items():
            now = self.tree.entry(path)
            if now.get("target") != target:
                self.tree.put(path, {"kind": "link", "target": target, "uid": 0, "gid": 0})

    def restore_activity(self, entries: Mapping[str, Mapping[str, Any]]) -> list[str]:
        """Start what ran before and stop what did not; return the errors, as the rest still has to be restored."""
        return [problem for name, entry in entries.items() for problem in tried(self._restore_activity, name, entry)]

    def _restore_activity(self, name: str, entry: Mapping[str, Any]) -> None:
        if self.is_there(name) and self.is_active(name) is not entry["active"]:
            self.systemctl("start" if entry["active"] else "stop", "--", name)

    def reload(self, managers: Sequence[str]) -> None:
        """Have systemd reload its units; with `systemd` also its own settings, with `logind` those of logind."""
        self.systemctl("daemon-reexec" if "systemd" in managers else "daemon-reload")
        if "logind" in managers and self.is_there("systemd-logind.service"):
            self.systemctl("kill", "--signal=HUP", "--kill-who=main", "systemd-logind.service")
