# SPDX-License-Identifier: Apache-2.0
"""The steps of a firewall change: check and load it, verify it, confirm it."""

from __future__ import annotations

import os
import secrets
import time
from collections.abc import Mapping
from typing import Any

from ..confirmed_change.change import Change, former_file
from ..confirmed_change.steps import ConfirmedSteps
from ..durable import remove_durable
from ..host import Host, write_file
from ..state import host_kinds  # noqa: F401 - registers the kinds that are compared here
from ..state.vocabulary import differences, explain, root_file
from ..tuning.tree import Tree
from .firewall import REMOVAL, admits
from .firewall_host import FirewallError, listing_of, live_listing, ssh_connection
from .kinds import compare_listings
from .undo import LIVE, firewall_places, outcome_words, render_live, render_undo

MODE = 0o644


class FirewallChanger(ConfirmedSteps):
    """Changes the firewall of a host, in steps."""

    outcome_words = staticmethod(outcome_words)

    def __init__(self, params: Mapping[str, Any], host: Host, root: str = "/") -> None:
        """`root` differs from "/" only in tests."""
        super().__init__(params, host, Change(host, firewall_places(root)))
        self.path: str = params["path"]

    # --- step apply --------------------------------------------------------------------------------------------------
    def apply(self, *, check_mode: bool) -> dict[str, Any]:
        """Check the change and load it; if the result has `change`, that change awaits its confirmation."""
        warnings = self.leftovers(check_mode=check_mode)
        if self.params["state"] == "absent":
            return {**self._remove(check_mode=check_mode), "warnings": warnings}
        self._refuse_lockout()
        rules: str = self.params["content"]
        if check_mode and not self.host.has("nft"):
            # The role installs nft first; in check mode the kernel cannot be queried yet.
            return {**self._result(rules, ["nft is not installed, expected the rules in force"], None, None)}
        wanted, live = listing_of(self.host, rules), live_listing(self.host)
        result = {**self._result(rules, self._wrong(rules, wanted, live), wanted, live), "warnings": warnings}
        if check_mode or not result["changed"]:
            return result
        return {**result, "change": self._start(rules, live)}

    def _refuse_lockout(self) -> None:
        """Refuse rules that would lock us out, before anything is changed."""
        connection = ssh_connection(self.host)
        if connection is None or admits(self.params, connection):
            return
        ports, sources = ", ".join(self.params["ssh_ports"]), ", ".join(self.params["ssh_from"]) or "anywhere"
        raise FirewallError(
            f"These rules would cut off the connection that they are sent over, from {connection.client} to port "
            f"{connection.port}; nothing was changed. SSH would be open on port {ports} from "
            f"{sources}: add {connection.port} to firewall_ssh_ports, or {connection.client} to firewall_ssh_from"
        )

    def _wrong(self, rules: str, wanted: str, live: str | None) -> list[str]:
        """Return one sentence for each difference."""
        missing, added = ([], []) if live is None else compare_listings(wanted, live)
        ruleset = {"loaded": live is not None, "missing": missing, "added": added, "error": None}
        return explain(
            differences(
                {"files": {self.path: root_file(rules)}, "rulesets": {self.path: {"loaded": True}}},
                {"files": {self.path: self.host.file_state(self.path)}, "rulesets": {self.path: ruleset}},
            )
        )

    def _result(self, rules: str, sentences: list[str], wanted: str | None, live: str | None) -> dict[str, Any]:
        former = self.host.read_text(self.path) or ""
        diff = [_diff(self.path, former, rules)] if former != rules else []
        if wanted is not None and wanted != live:
            diff.append(_diff("rules in force", live or "", wanted))
        return {"changed": bool(sentences), "differences": sentences, "diff": diff if sentences else []}

    def _start(self, rules: str, live: str | None) -> str:
        """Arm the undo, write the file and load it; return the id of the change."""
        identifier = secrets.token_hex(8)
        timeout: int = self.params["confirm_timeout"]
        undo = render_undo(self.places, former_file(self.path), identifier, int(time.time()), timeout)
        journal = {"id": identifier, "run": self.params.get("run"), "path": self.path}
        self.change.prepare(journal, self.path, timeout, {"undo.sh": undo, LIVE: self._former(live)})
        try:
            Tree().make_directory(os.path.dirname(self.path))
            write_file(self.path, rules, MODE)
            ran = self.host.run(["nft", "-f", self.path])
            problem = "" if ran.ok else ran.summary
        except OSError as error:
            problem = str(error)
        if problem:
            outcome = self.change.undo(f"the rules could not be loaded: {problem}")
            raise FirewallError(
                f"The firewall was not changed: {outcome['reason']}. {outcome_words(outcome, self.path)}"
            )
        return identifier

    def _former(self, live: str | None) -> str:
        """Return rules that restore those in force.

        These are the rules of their own file if it matches: nft may list rules loaded from a listing differently.
        """
        rules = self.host.read_text(self.path)
        try:
            if rules is not None and live is not None and listing_of(self.host, rules) == live:
                return rules
        except FirewallError:
            pass  # a file that does not load is not the source of the rules in force
        return render_live(live)

    def _remove(self, *, check_mode: bool) -> dict[str, Any]:
        """Remove the rules and their file. That can only let more in, so it needs no confirmation."""
        live = live_listing(self.host) if self.host.has("nft") else None
        former = self.host.read_text(self.path)
        sentences = [f"file {self.path} is there, expected no such file"] if former is not None else []
        sentences += ["the rules are in force, expected none"] if live is not None else []
        diff = [_diff(self.path, former, "")] if former else []
        diff += [_diff("rules in force", live, "")] if live else []
        if not check_mode:
            if live is not None:
                ran = self.host.run(["nft", "-f", "-"], stdin=REMOVAL)
                if not ran.ok:
                    raise FirewallError(f"The rules cannot be removed ({ran.summary}): run with become")
            if os.path.lexists(self.path):
                remove_durable(self.path)
        return {"changed": bool(sentences), "differences": sentences, "diff": diff}

    # --- step check --------------------------------------------------------------------------------------------------
    def check(self) -> dict[str, Any]:
        """Check that the rules are in force; if not, roll them back at once."""
        if self.journal() is None:
            return self.over()
        self.change.wait_anew()
        rules = self.host.read_text(self.path)
        live = live_listing(self.host)
        if rules is not None and live is not None and compare_listings(listing_of(self.host, rules), live) == ([], []):
            return {"changed": False, "waiting": False, "works": True}
        outcome = self.change.undo("the rules in force are not those that were loaded: something else changes them")
        return {"changed": False, "waiting": False, "works": False, "outcome": outcome}


def _diff(header: str, before: str, after: str) -> dict[str, str]:
    return {"before_header": header, "after_header": header, "before": before, "after": after}
