# SPDX-License-Identifier: Apache-2.0
"""The transaction of a move as data: installs, removals, the exact inverse, and the evaluation of a rehearsal."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from ..parsers.apt import Step
from .apt_set import Pins


@dataclass(frozen=True)
class Move:
    """The versions to install by package, and the packages to remove."""

    install: Mapping[str, str] = field(default_factory=dict)
    remove: Sequence[str] = ()

    def as_dict(self) -> dict[str, Any]:
        """Return the entry for the journal."""
        return {"install": dict(sorted(self.install.items())), "remove": sorted(self.remove)}

    @property
    def names(self) -> list[str]:
        """Return every package that is installed or removed."""
        return sorted({*self.install, *self.remove})


def read_move(stored: Mapping[str, Any]) -> Move:
    """Parse a move from the journal."""
    return Move({str(name): str(version) for name, version in stored["install"].items()}, list(stored["remove"]))


def moves(steps: Iterable[Step]) -> tuple[Move, Move]:
    """Return the transaction of these steps, and its inverse."""
    taken = list(steps)
    forward = Move(
        {step.name: step.new for step in taken if step.new is not None},
        [step.name for step in taken if step.new is None],
    )
    back = Move(
        {step.name: step.old for step in taken if step.old is not None},
        [step.name for step in taken if step.old is None],
    )
    return forward, back


def evaluate_move(
    steps: Sequence[Step], packages: Pins, may_move: Iterable[str], conflicting: Iterable[str]
) -> list[str]:
    """Return the reasons why a rehearsed move to a set is not acceptable; empty if it is.

    Packages of the set go to their pins. Packages of the old set may be removed or change version; packages that
    conflict with the new set may be removed. Dependencies may be installed only if they were not installed before.
    """
    loose, replaced = set(may_move), set(conflicting)
    found = []
    for step in steps:
        pin = packages.get(step.name)
        if step.new is None:
            if step.name in packages:
                found.append(f"{step.name} would be removed, although it belongs to the set")
            elif step.name not in loose | replaced:
                found.append(f"{step.name} {step.old or ''}".strip() + " would be removed, but is not part of the set")
        elif step.name in packages:
            if pin is not None and step.new != pin:
                found.append(f"{step.name} would be {step.new}, its pin is {pin}")
        elif step.old is not None and step.name not in loose:
            found.append(f"{step.name} would change from {step.old} to {step.new}, although it is in neither set")
    return found


def evaluate_steps(steps: Iterable[Step], move: Move) -> list[str]:
    """Return the steps that do not belong to this move: a move from local files must have no others."""
    found = []
    for step in steps:
        if step.new is None and step.name not in move.remove:
            found.append(f"{step.name} {step.old or ''}".strip() + " would be removed")
        elif step.new is not None and move.install.get(step.name) != step.new:
            wanted = move.install.get(step.name)
            found.append(f"{step.name} would become {step.new}" + (f" instead of {wanted}" if wanted else ""))
    return found


def left_over(move: Move, steps: Iterable[Step]) -> list[str]:
    """Return what the move needs and the steps do not do; a rehearsal from the start has to do all of it."""
    taken = {step.name: step.new for step in steps}
    missing = [f"{name} {version}" for name, version in move.install.items() if taken.get(name) != version]
    staying = [f"{name} (to be removed)" for name in move.remove if name not in taken or taken[name] is not None]
    return missing + staying


def remaining(move: Move, installed: Pins, broken: Iterable[str] = ()) -> Move:
    """Return what is left of a move; a package that dpkg left unfinished counts as neither installed nor removed."""
    sick = set(broken)
    return Move(
        {name: version for name, version in move.install.items() if installed.get(name) != version or name in sick},
        [name for name in move.remove if installed.get(name) is not None or name in sick],
    )


def target_packages(journal: Mapping[str, Any], back: bool) -> dict[str, str | None]:
    """Return the versions to be installed at the end of a direction; None means that a package must be absent.

    Packages that may have any version and are not moved are left out.
    """
    recorded = {str(name): version for name, version in journal["from"]["packages"].items()}
    undo = read_move(journal["move_back"]) if journal.get("move_back") else Move()
    old: dict[str, str | None] = {**dict.fromkeys(undo.remove), **recorded, **undo.install}
    for name in loose_packages(journal):
        old.pop(name, None)
    if back:
        return old
    move = read_move(journal["move"]) if journal.get("move") else Move()
    pinned = {name: pin for name, pin in journal["to"]["packages"].items() if pin is not None}
    return {**old, **pinned, **move.install, **dict.fromkeys(move.remove)}


def loose_packages(journal: Mapping[str, Any]) -> list[str]:
    """Return packages of the new set that may have any version and are not moved: they only have to be installed."""
    moved = {name for key in ("move", "move_back") if journal.get(key) for name in read_move(journal[key]).names}
    return sorted(name for name, pin in journal["to"]["packages"].items() if pin is None and name not in moved)


def watched_packages(journal: Mapping[str, Any], back: bool) -> list[str]:
    """Return the packages whose versions show whether a host is at the end of a direction."""
    return sorted({*target_packages(journal, back), *loose_packages(journal)})


def set_problems(journal: Mapping[str, Any], back: bool, installed: Pins) -> list[str]:
    """Report where the installed packages differ from those at the end of a direction, one sentence each."""
    found = package_problems(target_packages(journal, back), installed)
    for name in loose_packages(journal):
        was_there = journal["from"]["packages"].get(name) is not None
        if installed.get(name) is None and (was_there or not back):
            found.append(f"package {name} is not installed, expected any version of it")
    return found


def package_problems(target: Pins, installed: Pins) -> list[str]:
    """Report where the installed packages differ from the target, one sentence each."""
    found = []
    for name, version in sorted(target.items()):
        have = installed.get(name)
        if have != version:
            told = "not installed" if have is None else f"version {have}"
            wanted = "no such package" if version is None else f"version {version}"
            found.append(f"package {name} is {told}, expected {wanted}")
    return found


def target_holds(journal: Mapping[str, Any], back: bool) -> dict[str, bool]:
    """Return which packages must be on hold at the end of a direction, and which of either set must not."""
    here = journal["from"]["holds"] if back else journal["to"]["holds"]
    other = journal["to"]["holds"] if back else journal["from"]["holds"]
    there = target_packages(journal, back)
    loose = set(loose_packages(journal))
    # An operator's own hold on a package that the move leaves alone is kept.
    free = [name for name in other if name not in here and (back or name not in loose)]
    wanted = {str(name): True for name in here} | {str(name): False for name in free}
    return {name: held for name, held in sorted(wanted.items()) if there.get(name) is not None or name in loose}


def moves_something(journal: Mapping[str, Any]) -> bool:
    """Whether packages are installed or removed; assumed true until the packages have been fetched."""
    return not journal.get("move") or bool(read_move(journal["move"]).names)


def status_after(status: str, move: Move, controls: Iterable[str]) -> str:
    """Return dpkg's status file as it will be after a move, so that the rollback can be rehearsed in advance.

    `controls` are the control files of the packages that are installed.
    """
    gone = set(move.names)
    kept = [stanza for stanza in status.split("\n\n") if stanza.strip() and _package(stanza) not in gone]
    came = [f"{control.strip()}\nStatus: install ok installed" for control in controls]
    return "\n\n".join([stanza.strip("\n") for stanza in kept] + came) + "\n"


def _package(stanza: str) -> str:
    for line in stanza.splitlines():
        if line.startswith("Package:"):
            return line.partition(":")[2].strip()
    return ""
