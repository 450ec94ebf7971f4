# SPDX-License-Identifier: Apache-2.0
"""Reconnect to a host after a change that may cut it off, and confirm the change or report its rollback.

A change is confirmed only over a connection opened after the ports were seen to be as desired: an earlier one proves
nothing, because it may be the very connection that the change cuts.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Protocol

from ansible_collections.firstlight.cluster.plugins.module_utils.firewall import undo as firewall_undo
from ansible_collections.firstlight.cluster.plugins.module_utils.netplan.undo_program import UNDO, outcome_words

GRACE = 120
"""Seconds beyond the host's own limit in which it may still come back: a rollback, and a switch that has to relearn."""
FIRST_WAIT = 2.0
"""Seconds until a change is usually in effect; it could cut a connection made earlier."""
PAUSE = 1.0


class UnreachableError(Exception):
    """The host does not answer, or the connection broke during the step."""


class Hands(Protocol):
    """Access to a host and to the clock."""

    def step(self, name: str, change: str) -> dict[str, Any]:
        """Run a step over a new connection; a failed one returns `failed` and `msg`. Raises UnreachableError."""

    def say(self, words: str) -> None:
        """Show a message to the operator."""

    def now(self) -> float:
        """Return the time of a monotonic clock."""

    def sleep(self, seconds: float) -> None:
        """Wait."""


@dataclass(frozen=True)
class Words:
    """Message texts for one kind of change."""

    unit: str
    commands: str
    """Commands to inspect the host with."""
    changed: str
    outcome: Callable[[Mapping[str, Any], str], str]
    advice: str
    """Remedy for a change that cut the host off."""
    failed: str
    """Message for a change that the host rolled back without losing contact."""
    first_wait: float


NETPLAN = Words(
    unit=UNDO,
    commands="`ip addr`",
    changed="its network was changed",
    outcome=outcome_words,
    advice="Check what the new file configures on ports other than the fabric's, its routes, and subnets that contain "
    "the controller's address (--check --diff shows the file), correct that, and run again",
    failed="The fabric ports did not come up",
    first_wait=FIRST_WAIT,
)

FIREWALL = Words(
    unit=firewall_undo.UNDO,
    commands="`nft list ruleset`",
    changed="its firewall was changed",
    outcome=firewall_undo.outcome_words,
    advice="Check firewall_ssh_ports and firewall_ssh_from, and what is between the controller and the host: the "
    "host sees the address that the controller's connection comes from. Correct that, and run again",
    failed="The firewall was not changed",
    first_wait=0.0,
)


@dataclass
class Coming:
    """The return to a host after one change."""

    hands: Hands
    change: str
    path: str
    confirm_timeout: int
    lost: str = ""
    """Why the host was last unreachable; empty if it never was."""
    words: Words = NETPLAN

    def run(self) -> dict[str, Any]:
        """Return what to add to the task's result: nothing if the change was confirmed, else `failed` and `msg`."""
        self.hands.sleep(self.words.first_wait)
        limit = self.confirm_timeout * 2 + GRACE
        deadline = self.hands.now() + limit
        name = "check"
        while self.hands.now() < deadline:
            found = self._ask(name)
            if found is None or found.get("waiting"):
                self.hands.sleep(PAUSE)
            elif found.get("failed"):
                return {"failed": True, "msg": str(found.get("msg") or "the module was cut off")}
            elif not found.get("works"):
                return self._taken_back(found["outcome"])
            elif name == "confirm":
                return {}
            elif found.get("over"):
                # The change is no longer pending, although nobody confirmed it.
                return {
                    "failed": True,
                    "msg": f"The host does not report the outcome of the change of {self.path}, which was never "
                    f"confirmed: check `journalctl -u {self.words.unit}`, {self.words.commands} and the free "
                    "space of /var on the host, and run again",
                }
            else:
                name = "confirm"
        return {
            "failed": True,
            "msg": f"The host no longer answers ({self.lost}), {limit:g} s after {self.path} was changed. It "
            f"rolls the change back by itself {self.confirm_timeout} s after it lost its controller: check it on its "
            f"console, with `journalctl -u {self.words.unit}` and {self.words.commands}",
        }

    def _ask(self, name: str) -> dict[str, Any] | None:
        try:
            return self.hands.step(name, self.change)
        except UnreachableError as error:
            if not self.lost:
                self.hands.say(
                    f"does not answer after {self.words.changed}; waiting for it to roll that back by itself "
                    f"({self.confirm_timeout} s)"
                )
            self.lost = str(error)
            return None

    def _taken_back(self, outcome: Mapping[str, Any]) -> dict[str, Any]:
        try:
            self.hands.step("forget", self.change)
        except UnreachableError as error:
            self.lost = str(error)
        told = self.words.outcome(outcome, self.path)
        if outcome["alone"]:
            after = f" after {outcome['seconds']} s" if outcome["seconds"] is not None else ""
            how = f" ({self.lost})" if self.lost else ""
            message = (
                f"The change of {self.path} cut the host off from its controller{how}, and the host rolled it back by "
                f"itself{after}: {outcome['reason']}. {told} {self.words.advice}"
            )
        else:
            message = f"{self.words.failed}: {outcome['reason']}. {told}"
        return {"failed": True, "msg": message, "outcome": dict(outcome)}


def begin(
    ask: Callable[[str], dict[str, Any]], is_over: Callable[[str], bool], hands: Hands, words: Words, limit: float
) -> dict[str, Any]:
    """Start a change, after waiting for a pending change of another run; one whose run has ended is rolled back.

    `ask` runs the first step; its argument names a change whose run has ended.
    """
    ended, end = "", hands.now() + limit
    while True:
        answer = ask(ended)
        busy = answer.pop("busy", None)
        if busy is None:
            return answer
        if hands.now() > end:
            return {
                "failed": True,
                "msg": f"Another run ({busy['run']}) has had a change under way on this host for more than {limit:g} "
                "s, and it was neither confirmed nor rolled back. Nothing was changed: let that run end, check "
                f"`systemctl status {words.unit}.timer` on the host, and run again",
            }
        if is_over(str(busy["run"])):
            ended = str(busy["change"])
        else:
            hands.sleep(PAUSE)
