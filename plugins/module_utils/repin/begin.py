# SPDX-License-Identifier: Apache-2.0
"""The state of a host, and the record of it before a move begins."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from ..driver.driver import BUILD_TOOLS, module_package, related
from ..driver.driver_probe import RELATED
from ..packages import moves as moving
from ..packages.apt import NOTHING, AptError
from ..parsers.dpkg import DPKG_FORMAT, upstream_version
from . import journal as book
from .files import FilesError, is_pattern, record, wanted_files, wrong_files
from .journal import BACK, FORWARD, JournalError
from .machine import Answer, Machine


def read(machine: Machine, parameters: Mapping[str, Any]) -> Answer:
    """Return the journal and the other facts about the host that a controller needs."""
    journal = machine.journals.read()
    more: dict[str, Any] = {
        "boot_id": machine.journals.boot_id(),
        "reboots": machine.journals.reboots(journal),
        "dpkg_broken": sorted(machine.apt.broken()),
        "drained": machine.marker.read(),
    }
    if parameters.get("to"):
        names = sorted({*parameters["to"].get("packages", {}), *(parameters.get("from_packages") or [])})
        more["set"] = {"packages": machine.apt.versions(names), "holds": machine.apt.holds(names)}
    if journal and parameters.get("simulate_upgrade"):
        more["upgrade"] = upgrade_problems(machine, journal)
    if journal:
        more["differs"] = {way: differs(machine, journal, way == BACK) for way in (FORWARD, BACK)}
    return Answer(journal, more=more)


def differs(machine: Machine, journal: Mapping[str, Any], back: bool) -> list[str]:
    """Report where the host differs from the set at the end of this direction, one sentence each."""
    found = moving.set_problems(journal, back, machine.apt.versions(moving.watched_packages(journal, back)))
    holds = moving.target_holds(journal, back)
    held = machine.apt.holds(sorted(holds))
    for name, wanted in holds.items():
        if held.get(name) is not wanted:
            told = ("held", "not held") if held.get(name) else ("not held", "held")
            found.append(f"package {name} is {told[0]}, expected {told[1]}")
    files = wanted_files(journal, back)
    for path in wrong_files(machine.host, files):
        found.append(f"file {path} is not as {'before' if back else 'in the set'}")
    return found


def upgrade_problems(machine: Machine, journal: Mapping[str, Any]) -> list[str]:
    """Report what a dist-upgrade would change in the new set despite holds and pins; nothing is expected."""
    pinned = [name for name, pin in journal["to"]["packages"].items() if pin is not None]
    names = sorted({*pinned, *journal["to"]["holds"]})
    try:
        if names:
            machine.apt.simulate_upgrade(names)
    except AptError as error:
        return [str(error).rstrip(".")]
    return []


def begin(machine: Machine, parameters: Mapping[str, Any]) -> Answer:
    """Record the current state and write `planned`."""
    target = target_set(parameters)
    journal = machine.journals.read()
    if journal is not None and _ended(journal, parameters, target):
        # Its controller disconnected before it could close the journal.
        if not machine.check_mode:
            machine.journals.close(journal)
        journal = None
    if journal is not None:
        if not _same_move(journal, parameters, target):
            raise JournalError(
                f"{book.how_to_finish(journal)}. A move to {parameters.get('stack')} can begin only after that"
            )
        # The requested set is computed from the installed packages, which the move has changed: the journal's own
        # applies.
        return Answer(journal, more={"target_differs": not book.same_target(journal, target)})
    journal, private = draft(machine, parameters, target)
    if not machine.check_mode:
        machine.journals.write_private(str(journal["id"]), private)
        machine.journals.write(journal)
    return Answer(journal, changed=True, more={"target_differs": False})


def _same_move(journal: Mapping[str, Any], parameters: Mapping[str, Any], target: Mapping[str, Any]) -> bool:
    """Whether the open journal belongs to the requested move: two stacks may have the same packages."""
    if parameters.get("stack"):
        return bool(journal.get("stack") == parameters["stack"])
    return book.same_target(journal, target)


def _ended(journal: Mapping[str, Any], parameters: Mapping[str, Any], target: Mapping[str, Any]) -> bool:
    """Whether an open journal belongs to a move that has ended and is not the requested one."""
    if book.state(journal) != book.UNCORDONED:
        return False
    return book.direction(journal) == BACK or not _same_move(journal, parameters, target)


def target_set(parameters: Mapping[str, Any]) -> dict[str, Any]:
    to = parameters.get("to") or {}
    unknown = sorted(set(to) - {"packages", "holds", "files", "pinned"})
    # A set may be empty: if all of a stack is as installed at the factory, only the services change.
    if unknown or not isinstance(to.get("packages"), Mapping):
        raise JournalError(
            f"The set to move to has {', '.join(unknown) or 'no packages'}, expected packages, holds and files: take "
            "the states of the roles that the stack pins"
        )
    holds = to.get("holds") or []
    files = {str(path): dict(one) for path, one in (to.get("files") or {}).items()}
    for path, one in files.items():
        if one.get("owner", "root") != "root" or one.get("group", "root") != "root" or "content" not in one:
            raise FilesError(f"{path} of the set has no content or is not owned by root: a move cannot write it")
    return {
        "packages": {str(name): None if pin is None else str(pin) for name, pin in to["packages"].items()},
        "holds": sorted(str(name) for name in (holds if not isinstance(holds, Mapping) else _held(holds))),
        "files": files,
    }


def _held(holds: Mapping[str, Any]) -> list[str]:
    return [name for name, wanted in holds.items() if wanted]


def draft(
    machine: Machine, parameters: Mapping[str, Any], target: Mapping[str, Any]
) -> tuple[dict[str, Any], dict[str, str]]:
    """Return a new journal that is not written yet, and the contents of files that must not be in it."""
    sick = sorted(machine.apt.broken())
    if sick:
        raise AptError(
            f"dpkg left packages unfinished before the move began: {', '.join(sick)}. {NOTHING} Repair the host first "
            "(`dpkg --audit`), then run again"
        )
    belonged = sorted(str(name) for name in parameters.get("from_packages") or [])
    beside = _related(machine, [*belonged, *target["packages"]])
    names = sorted({*target["packages"], *belonged, *beside})
    versions = machine.apt.versions(names)
    held = machine.apt.holds(names)
    dropped = [str(path) for path in parameters.get("from_files") or [] if path not in target["files"]]
    extra = [str(path) for path in parameters.get("restore") or []]
    at = book.stamp(machine.journals.now())
    files, private = record([*target["files"], *dropped, *extra])
    journal = book.new_journal(
        {
            "id": str(parameters.get("id") or at),
            "stack": parameters.get("stack"),
            "previous_stack": parameters.get("previous_stack"),
            "max_reboots": int(parameters.get("max_reboots") or 4),
            "to": dict(target),
            "from": {
                "packages": versions,
                "holds": [name for name, on in held.items() if on],
                "files": files,
                "patterns": [path for path in extra if is_pattern(path)],
            },
            "leaving": [name for name in belonged if name not in target["packages"] and name not in BUILD_TOOLS],
            "may_move": sorted({*belonged, *beside}),
            "drop_files": dropped,
        },
        at,
        machine.journals.boot_id(),
    )
    return journal, private


def _related(machine: Machine, names: Sequence[str]) -> list[str]:
    """Return installed packages of the driver's release that neither set names: apt may have to move them too."""
    there = {name: version for name, version in machine.apt.versions(sorted(set(names))).items() if version}
    driver = module_package(there)
    if driver is None:
        return []
    result = machine.host.run(["dpkg-query", "--show", f"--showformat={DPKG_FORMAT}", *RELATED], 60)
    rows = [line.split("\t") for line in result.stdout.splitlines()]
    releases = {row[0]: upstream_version(row[2]) for row in rows if len(row) == 3 and row[1] == "installed"}
    return related(releases, names, upstream_version(there[driver]))
