# SPDX-License-Identifier: Apache-2.0
"""The transaction of a move, in either direction, and the services to start after it."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from typing import Any

from ..packages import moves as moving
from ..packages.apt import AptError
from ..packages.deb_store import StoreError
from ..packages.moves import Move
from ..units import unit_state
from . import journal as book
from .files import put, wanted_files, wrong_files
from .journal import BACK, FORWARD
from .machine import Answer, Machine, open_journal
from .service import stop_limit, take_out

# A unit that failed with the new settings may run with the old ones.
_RUNS = ("active", "activating", "reloading", "failed")


def stage(machine: Machine, parameters: Mapping[str, Any]) -> Answer:
    """Verify every kept package again, now that the host is out of service."""
    del parameters
    journal = open_journal(machine)
    if book.beyond(journal, book.STAGED):
        return Answer(journal)
    book.check(journal, book.STAGED, FORWARD)
    if journal["move"] is None:
        raise StoreError(
            "The packages of the move were never fetched, expected them kept on the host: fetch them first"
        )
    wrong = machine.store.broken(journal["debs"])
    if wrong:
        raise StoreError(
            f"Packages kept in {machine.store.directory} have changed: {'; '.join(wrong[:3])}. Expected "
            "them unchanged: find what writes there, and check the disk"
        )
    if machine.check_mode:
        return Answer(journal, changed=True)
    return Answer(machine.journals.add(journal, book.STAGED, FORWARD, {"packages": len(journal["debs"])}), changed=True)


def install(machine: Machine, parameters: Mapping[str, Any]) -> Answer:
    """Bring the host to exactly one set: files, packages in one transaction, holds."""
    journal = open_journal(machine)
    way = str(parameters.get("direction") or FORWARD)
    back = way == BACK
    if (not back and book.beyond(journal, book.INSTALLED)) or (
        back and (book.place(journal) or ("", ""))[0] == BACK and book.state(journal) != book.FAILED
    ):
        return Answer(journal, more={"steps": [], "files": [], "held": [], "unheld": [], "repaired": False})
    book.check(journal, book.INSTALLED, way)
    if back and journal.get("way_back") is False:
        raise StoreError("There is no rollback: the packages of the old set were not available when the move began")
    if journal["move"] is None:
        raise StoreError(
            "The packages of the move were never fetched, expected them kept on the host: fetch them first"
        )
    move = moving.read_move(journal["move_back"] if back else journal["move"])
    files = wanted_files(journal, back)
    if machine.check_mode:
        todo = moving.remaining(move, machine.apt.versions(move.names), machine.apt.broken())
        told = [{"name": name, "new": todo.install.get(name)} for name in todo.names]
        wrong = wrong_files(machine.host, files)
        return Answer(journal, changed=bool(told or wrong), more={"steps": told, "files": wrong})
    take_out(machine, journal, stop_limit(parameters))
    machine.apt.wait_for_others(machine.lock_timeout)
    repaired = machine.apt.repair_move(move)
    journal = _with_files(machine, journal, way, wrong_files(machine.host, files))
    put(machine.host, files, machine.journals.read_private(str(journal["id"])))
    written = journal["written"][way]
    done = _transact(machine, journal, move, back)
    held, unheld = _hold(machine, moving.target_holds(journal, back))
    _update_initramfs(machine, written)
    os.sync()
    changed = bool(done.names or written or held or unheld or repaired)
    detail = {"packages": len(done.names), "files": written, "repaired": repaired}
    journal = machine.journals.add(journal, book.INSTALLED, way, detail)
    steps = [{"name": name, "new": done.install.get(name)} for name in done.names]
    more = {"steps": steps, "files": written, "held": held, "unheld": unheld, "repaired": repaired, "moved": changed}
    return Answer(journal, changed=True, more=more)


def _update_initramfs(machine: Machine, written: Sequence[str]) -> None:
    """Rebuild the initramfs if it has a copy of these files: it loads modules before the root disk is mounted."""
    directory = os.path.join(machine.root, "etc/modprobe.d/")
    if any(path.startswith(directory) for path in written) and machine.host.has("update-initramfs"):
        result = machine.host.run(["update-initramfs", "-u"], 900)
        if not result.ok:
            free = machine.host.disk_free(os.path.join(machine.root, "boot"))
            raise AptError(
                f"The initramfs could not be regenerated ({result.summary}), expected it with the files of "
                f"{directory} as they are now: the next boot would load modules according to the former ones. /boot "
                f"has {free} bytes free. Make room there (`apt-get autoremove` removes old kernels) and run again"
            )


def _with_files(machine: Machine, journal: Mapping[str, Any], way: str, paths: Sequence[str]) -> dict[str, Any]:
    """Record which files are about to change, so that a resumed run knows which services have not seen the change."""
    before = journal.get("written") or {}
    known = before.get(way) or []
    here = sorted({*known, *paths})
    noted = {**journal, "written": {**before, way: here}}
    return machine.journals.write(noted) if here != known else noted


def _transact(machine: Machine, journal: Mapping[str, Any], move: Move, back: bool) -> Move:
    """Do what is left of the move in one transaction; raises AptError unless the result is exactly the set."""
    apt = machine.apt
    sick = apt.broken()
    todo = moving.remaining(move, apt.versions(move.names), sick)
    if not todo.names and not sick:
        return todo
    by_pair = {(one["package"], one["version"]): name for name, one in journal["debs"].items()}
    needed = {by_pair[pair]: journal["debs"][by_pair[pair]] for pair in todo.install.items() if pair in by_pair}
    wrong = machine.store.broken(needed)
    if wrong or len(needed) < len(todo.install):
        told = "; ".join(wrong[:3]) or "a package of the move is not kept"
        raise StoreError(f"The move cannot be made from {machine.store.directory}: {told}. Find what writes there")
    files = [machine.store.path(name) for name in sorted(needed)]
    said = ""
    try:
        apt.rehearse_local(todo, files)
        result = apt.run_local(todo, files)
        said = "" if result.ok else result.summary
    except AptError as error:
        if not sick:
            raise
        said = str(error)
    problems = _unfinished(machine, journal, back)
    if problems and apt.broken():
        todo = moving.remaining(move, apt.versions(move.names), apt.broken())
        files = [machine.store.path(by_pair[pair]) for pair in sorted(todo.install.items())]
        result = apt.force_local(todo, files)
        said = said or result.summary
        problems = _unfinished(machine, journal, back)
    if problems:
        raise AptError(
            f"The transaction ended, but the set is not in place: {'; '.join(problems[:4])} "
            f"({said or 'apt reported no error'}). See /var/log/apt/term.log and /var/log/dpkg.log on the host"
        )
    return todo


def _unfinished(machine: Machine, journal: Mapping[str, Any], back: bool) -> list[str]:
    sick = [f"package {name} is {state.status}" for name, state in machine.apt.broken().items()]
    return sick + moving.set_problems(journal, back, machine.apt.versions(moving.watched_packages(journal, back)))


def _hold(machine: Machine, wanted: Mapping[str, bool]) -> tuple[list[str], list[str]]:
    now = machine.apt.holds(sorted(wanted))
    loose = [name for name, hold in wanted.items() if hold and not now.get(name)]
    stuck = [name for name, hold in wanted.items() if not hold and now.get(name)]
    if loose:
        machine.apt.hold(loose)
    if stuck:
        machine.apt.unhold(stuck)
    return loose, stuck


def settle(machine: Machine, parameters: Mapping[str, Any]) -> Answer:
    """Start the units that the set wants running, and restart those whose files changed if there was no reboot since.

    `restart` maps units to the files that they read at startup. A unit that fails to start is not reported here: the
    gate detects it.
    """
    journal = open_journal(machine)
    if machine.check_mode:
        return Answer(journal)
    machine.host.run(["systemctl", "daemon-reload"], 60)
    installed = [one for one in journal["entries"] if one["state"] == book.INSTALLED]
    detail = installed[-1]["detail"] if installed else {}
    fresh = bool(installed) and installed[-1]["boot_id"] == machine.journals.boot_id()
    written = set(detail.get("files") or []) if fresh else set()
    acted = []
    for name, paths in (parameters.get("restart") or {}).items():
        if written & set(paths) and unit_state(machine.host, name).active in _RUNS:
            machine.host.run(["systemctl", "reset-failed", name], 30)
            machine.host.run(["systemctl", "restart", name], 300)
            acted.append(name)
    for name, want in (parameters.get("units") or {}).items():
        state = unit_state(machine.host, name)
        if state.load != "loaded":
            continue
        if want.get("enabled"):
            machine.host.run(["systemctl", "enable", name], 60)
        if want.get("active") and state.active != "active":
            machine.host.run(["systemctl", "reset-failed", name], 30)
            machine.host.run(["systemctl", "start", name], 300)
            acted.append(name)
    return Answer(journal, changed=bool(acted), more={"acted": acted})
