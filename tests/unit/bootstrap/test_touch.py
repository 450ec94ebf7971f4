# SPDX-License-Identifier: Apache-2.0
"""A node that goes away, and one whose key is installed and not accepted: the others go on."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from firstlight.bootstrap import touch
from firstlight.bootstrap.script import Wanted
from firstlight.bootstrap.touch import FirstTouch, Outcome
from firstlight.discover.probe import Machine
from firstlight.ssh.faults import LostError, NodeError, unreachable, wrong_password
from firstlight.ssh.host_keys import HostKey, pins
from firstlight.ssh.session import Answer, Credentials
from firstlight.ssh.targets import Target
from firstlight.ssh.trust import Trust

DONE = "@ key begin\n@ key changed\n"


@dataclass
class Node:
    """What a node does at each login, in turn; the last goes on for ever."""

    answers: list[Callable[[], Answer]]
    logins: int = 0
    boot: str = "first"
    key_works: bool = True
    away: int = 0

    def log_in(self, credentials: Credentials) -> str:
        self.logins += 1
        if self.away and self.logins > 2:
            self.away -= 1
            raise NodeError(unreachable("10.0.0.5", 22, "Connection refused"))
        return "key" if self.key_works else "password"

    def run(self, script: str, **_: Any) -> Answer:
        return self.answers.pop(0)() if len(self.answers) > 1 else self.answers[0]()

    run_as_root = run

    def close(self) -> None:
        """Nothing is open."""


@dataclass
class Nodes(Trust):
    """Nodes without a network."""

    nodes: dict[str, Node] = field(default_factory=dict)

    def open(self, target: Target, port: int) -> Any:
        return self.nodes[target.name]


def fine() -> Answer:
    return Answer(0, DONE, "")


def breaks() -> Answer:
    raise LostError("the connection was closed")


def run(monkeypatch: pytest.MonkeyPatch, nodes: dict[str, Node], wait: float = 5.0) -> dict[str, Outcome]:
    monkeypatch.setattr(touch, "RETRY_SECONDS", 0.01)
    monkeypatch.setattr(touch, "read_node", lambda node: Machine(boot=node.boot))
    wanted = Wanted("operator", "ssh-ed25519 " + "A" * 68)
    first = FirstTouch(Nodes(Path("/nowhere"), nodes=nodes), Credentials("operator"), wanted, {}, wait_seconds=wait)
    told: list[str] = []
    targets = [Target(name, f"10.0.0.{number}") for number, name in enumerate(nodes, start=5)]
    outcomes = first.run(targets, lambda outcome: told.append(outcome.target.name))
    assert sorted(told) == sorted(nodes)
    return {outcome.target.name: outcome for outcome in outcomes}


def test_a_node_that_reboots_is_finished_when_it_is_back(monkeypatch: pytest.MonkeyPatch) -> None:
    node = Node([fine, breaks, fine], away=3)

    def reboots() -> Answer:
        node.boot = "second"
        raise LostError("gone")

    node.answers[1] = reboots
    outcomes = run(monkeypatch, {"a": node, "b": Node([fine])})
    assert (outcomes["a"].fault, outcomes["a"].rebooted, outcomes["b"].rebooted) == (None, True, False)
    assert outcomes["a"].steps == {"key": "changed"}


def test_a_node_that_stays_away_does_not_stop_the_others(monkeypatch: pytest.MonkeyPatch) -> None:
    outcomes = run(monkeypatch, {"a": Node([breaks], away=10**6), "b": Node([fine])}, wait=0.2)
    fault = outcomes["a"].fault
    assert fault is not None
    assert (fault.kind, outcomes["b"].fault) == ("lost", None)
    assert "run the same command again" in fault.remedy


def test_a_connection_that_breaks_again_and_again_has_an_end(monkeypatch: pytest.MonkeyPatch) -> None:
    outcomes = run(monkeypatch, {"a": Node([breaks])})
    fault = outcomes["a"].fault
    assert fault is not None
    assert (fault.kind, outcomes["a"].rebooted) == ("lost", False)


def test_a_key_that_is_installed_and_not_accepted(monkeypatch: pytest.MonkeyPatch) -> None:
    fault = run(monkeypatch, {"a": Node([fine], key_works=False)})["a"].fault
    assert fault is not None
    assert fault.kind == "no-login"


def test_a_step_that_fails_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    said = Answer(1, "@ sudo begin\n@ sudo changed\n@ python begin\n", "E: no network")
    outcome = run(monkeypatch, {"a": Node([fine, lambda: said])})["a"]
    assert outcome.fault is not None
    assert outcome.fault.found == "the step 'python' failed: E: no network"
    assert outcome.steps == {"key": "changed", "sudo": "changed"}


def test_who_cannot_be_looked_at_is_left_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuses(credentials: Credentials) -> str:
        raise NodeError(wrong_password("operator"))

    node = Node([fine])
    monkeypatch.setattr(node, "log_in", refuses)
    fault = run(monkeypatch, {"a": node, "b": Node([fine])})["a"].fault
    assert fault is not None
    assert fault.kind == "wrong-password"


@pytest.mark.parametrize(("found", "kind"), [("S2", None), (None, "not-replaced"), ("S1", "wrong-hardware")])
def test_a_machine_that_replaces_another_is_known_by_its_serial_alone(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, found: str | None, kind: str | None
) -> None:
    old, new = HostKey("ssh-ed25519", "AAAA"), HostKey("ssh-ed25519", "BBBB")
    known = tmp_path / "known_hosts"
    known.write_text(f"a,10.0.0.5 {old.kind} {old.blob}\n")
    trusted = Nodes(known, new={"a": new}, replaces=["a"], nodes={"a": Node([fine])})
    monkeypatch.setattr(touch, "read_node", lambda node: Machine(boot=node.boot, serial=found))
    wanted = Wanted("operator", "ssh-ed25519 " + "A" * 68)
    (outcome,) = FirstTouch(trusted, Credentials("operator"), wanted, {}).run(
        [Target("a", "10.0.0.5", serial="S2")], lambda _: None
    )
    assert (outcome.fault.kind if outcome.fault else None) == kind
    assert pins(known.read_text())["a"] == [new if kind is None else old]
