# SPDX-License-Identifier: Apache-2.0
"""Keep the packages of both directions on the host, and rehearse both directions from them alone."""

from __future__ import annotations

import contextlib
import os
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from ..driver.driver import module_package
from ..packages import moves as moving
from ..packages.apt import NOTHING, SOURCES, AptError, Rehearsal, addresses, refuse_unnamed
from ..packages.apt_call import reasons
from ..packages.apt_local import Offer
from ..packages.apt_set import differing
from ..packages.deb_store import INDEX, Deb, Store, StoreError, Wanted, disk_error
from ..packages.moves import Move
from ..parsers.apt import Step
from ..parsers.dpkg import upstream_version
from ..text import gigabytes
from . import journal as book
from .begin import draft, target_set
from .machine import Answer, Machine, open_journal


def fetch(machine: Machine, parameters: Mapping[str, Any]) -> Answer:
    """Gather the packages of both directions, and rehearse both directions from them alone."""
    journal = machine.journals.read()
    if journal is None and machine.check_mode and parameters.get("to"):
        journal, _ = draft(machine, parameters, target_set(parameters))
    if journal is None:
        journal = open_journal(machine)
    if journal["move"] is not None and (book.beyond(journal, book.STAGED) or not machine.store.broken(journal["debs"])):
        return Answer(journal, more={"steps": [], "fetched": [], "kept": sorted(journal["debs"])})
    if _is_there(machine, journal):
        more = {"steps": [], "fetched": [], "kept": [], "bytes_needed": 0, "bytes_free": 0}
        if not machine.check_mode:
            journal = _with_move(machine, journal, [], True, _Gathered({}))
        return Answer(journal, changed=True, more=more)
    machine.store.sweep()
    files = {path: str(one["content"]) for path, one in journal["to"]["files"].items()}
    try:
        with _stage(machine, files) as prepared:
            steps = machine.apt.rehearse_move(
                prepared.rehearsal, journal["to"]["packages"], journal["leaving"], journal["may_move"], prepared.own
            )
            refuse_unnamed(steps, journal["to"]["packages"], _release(journal["to"]["packages"]))
            there, back = moving.moves(steps)
            gathered = _gather(machine, prepared, there, back, bool(parameters.get("without_rollback")))
    except OSError as error:
        raise disk_error(error, machine.store.directory) from error
    more = {
        "steps": [{"name": step.name, "old": step.old, "new": step.new} for step in steps],
        "fetched": sorted(gathered.fetched),
        "kept": sorted(deb.file for deb in gathered.debs.values() if deb.file not in gathered.fetched),
        "bytes_needed": gathered.needed,
        "bytes_free": gathered.free,
    }
    if machine.check_mode:
        return Answer(journal, changed=True, more=more)
    way_back = gathered.way_back and _rehearse(machine, there, back, gathered, parameters)
    return Answer(_with_move(machine, journal, steps, way_back, gathered), changed=True, more=more)


def _is_there(machine: Machine, journal: Mapping[str, Any]) -> bool:
    """Whether no package has to be installed or removed: then no source is queried, and none has to respond."""
    packages, leaving = journal["to"]["packages"], journal["leaving"]
    installed = machine.apt.versions(sorted({*packages, *leaving}))
    return not differing(packages, installed) and not any(installed.get(name) for name in leaving)


def _release(packages: Mapping[str, str | None]) -> str | None:
    """Return the release of the driver in a set, if the driver has a pinned version."""
    driver = module_package(name for name, pin in packages.items() if pin)
    return upstream_version(str(packages[driver])) if driver else None


@dataclass
class _Prepared:
    rehearsal: Rehearsal
    own: bool


@dataclass
class _Gathered:
    debs: dict[Wanted, Deb]
    fetched: set[str] = field(default_factory=set)
    needed: int = 0
    free: int = 0
    way_back: bool = True


@contextlib.contextmanager
def _stage(machine: Machine, files: Mapping[str, str]) -> Iterator[_Prepared]:
    """Create a rehearsal with the lists of the set's own sources fetched, or of the host's if it has none."""
    own = [path for path in files if SOURCES in path]
    with machine.apt.rehearsal(files, own) as rehearsal:
        machine.apt.fetch(rehearsal, bool(own), addresses(files, own))
        yield _Prepared(rehearsal, bool(own))


def _gather(machine: Machine, prepared: _Prepared, there: Move, back: Move, alone: bool) -> _Gathered:
    """Gather every package of both directions into the store, from the store itself, apt's cache or a repository."""
    store, apt = machine.store, machine.apt
    new, old = list(there.install.items()), list(back.install.items())
    found = store.find([*new, *old])
    missing = [pair for pair in dict.fromkeys([*new, *old]) if pair not in found]
    # The rehearsal's lists are fresh; the host's may still list what a source has since dropped.
    offers = [(place, apt.offers(missing, place)) for place in (prepared.rehearsal, None)]
    known = {**offers[1][1], **offers[0][1]}
    digests = {pair: one.sha256 for pair, one in known.items() if one.sha256}
    found |= store.adopt(missing, digests)
    missing = [pair for pair in missing if pair not in found]
    cached = store.cached(missing, digests)
    if any(pair not in known and pair not in cached for pair in missing):
        # The lists may merely be outdated.
        offers.append((prepared.rehearsal, apt.fresh_offers(missing, prepared.rehearsal)))
        known = {**known, **offers[-1][1]}
        digests = {pair: one.sha256 for pair, one in known.items() if one.sha256}
        found |= store.adopt(missing, digests)
        missing = [pair for pair in missing if pair not in found]
    if not machine.check_mode:
        store.note(found.values())
    _refuse_lost(store, [pair for pair in missing if pair not in known and pair not in cached], there, alone)
    needed = sum(size for _, size in cached.values())
    needed += sum(known[pair].size for pair in missing if pair in known and pair not in cached)
    gathered = _Gathered(found, needed=needed, free=store.require_room(needed, "Keeping the packages of both sets"))
    if not machine.check_mode:
        kept = [
            *store.collect(cached, digests),
            *_download(machine, offers, [pair for pair in missing if pair in known]),
        ]
        gathered.fetched = {deb.file for deb in kept}
        gathered.debs |= {(deb.package, deb.version): deb for deb in kept}
        _refuse_lost(store, [pair for pair in missing if pair not in gathered.debs], there, alone)
        _require_room_to_install(machine, there, gathered.debs)
        gathered.way_back = all(pair in gathered.debs for pair in old)
    return gathered


def _download(
    machine: Machine, offers: Sequence[tuple[Rehearsal | None, Mapping[Wanted, Offer]]], wanted: Sequence[Wanted]
) -> list[Deb]:
    """Download the wanted packages, each from the first source that has it, falling back to the next on failure."""
    store = machine.store
    kept: list[Deb] = []
    said = ""
    for place, offered in offers:
        arrived = {(deb.package, deb.version) for deb in kept}
        due = [pair for pair in wanted if pair in offered and pair not in arrived]
        if due:
            with store.incoming() as directory:
                result = machine.apt.download_files(directory, due, place)
                kept += store.keep(directory, due, {pair: offered[pair].sha256 for pair in due if offered[pair].sha256})
            said = said if result.ok else said or reasons(result)
    arrived = {(deb.package, deb.version) for deb in kept}
    short = [pair for pair in wanted if pair not in arrived]
    if short:
        raise StoreError(
            f"{_list(short)} could not be fetched: {said or 'the fetched files differ from what the source lists'}. "
            f"{machine.host.disk_free(store.directory)} bytes are free at {store.directory}. {NOTHING} Run again once "
            "the source answers and there is room"
        )
    return kept


def _refuse_lost(store: Store, lost: Sequence[Wanted], there: Move, alone: bool) -> None:
    new = [pair for pair in lost if pair in set(there.install.items())]
    if new:
        raise StoreError(f"The sources of the set do not offer {_list(new)}. {NOTHING} Correct the source or the pins")
    if lost and not alone:
        raise StoreError(
            f"There would be no rollback: {_list(lost)}, which is installed, is neither kept in {store.directory} nor "
            f"in {store.archives} nor offered by any source of the host. {NOTHING} Put these packages into "
            f"{store.directory} and the SHA-256 of each by its file name into {store.path(INDEX)}, or accept that "
            "there is no rollback"
        )


def _require_room_to_install(machine: Machine, there: Move, debs: Mapping[Wanted, Deb]) -> None:
    """Refuse if there is too little room to install: the largest package needs extra room while it is unpacked.

    Its old files are still there at that time. The same applies to an initial file system while it is rebuilt.
    """
    sizes = [debs[pair].installed_size for pair in there.install.items() if pair in debs]
    before = sum(deb.installed_size for pair, deb in debs.items() if pair not in set(there.install.items()))
    needed = max(0, sum(sizes) - before) + max(sizes, default=0)
    boot = os.path.join(machine.root, "boot")
    images = [os.path.join(boot, name) for name in machine.host.names(boot) if name.startswith("initrd.img-")]
    image = max((found[0] for path in images if (found := machine.host.size_and_mtime(path))), default=0)
    for place, room in (("/usr", needed), (boot, image)):
        free = machine.host.disk_free(place)
        if free < room:
            raise StoreError(
                f"Installing the set needs {room} bytes ({gigabytes(room)}) at {place}, where {free} bytes "
                f"({gigabytes(free)}) are free. {NOTHING} Make room there and run again"
            )


def _list(pairs: Sequence[Wanted]) -> str:
    told = ", ".join(f"{name} {version}" for name, version in pairs[:3])
    return told + (f" and {len(pairs) - 3} more" if len(pairs) > 3 else "")


def _rehearse(machine: Machine, there: Move, back: Move, gathered: _Gathered, parameters: Mapping[str, Any]) -> bool:
    """Rehearse both directions from the kept files alone; the rollback starts from the packages as they will be."""
    apt, store = machine.apt, machine.store
    try:
        steps = apt.rehearse_local(there, _paths(store, there, gathered.debs))
        left = moving.left_over(there, steps)
    except AptError as error:
        raise AptError(f"{error}. {NOTHING} Correct the set, or remove by hand what is in its way") from error
    if left:
        raise AptError(f"The move would leave out {', '.join(left)}. {NOTHING} Correct the set")
    names = [gathered.debs[pair].file for pair in there.install.items()]
    after = moving.status_after(machine.host.read_text(machine.status) or "", there, store.controls(names))
    descriptor, path = tempfile.mkstemp(prefix="firstlight-status-", dir=machine.apt.places.scratch)
    try:
        with os.fdopen(descriptor, "w", encoding="utf-8") as stream:
            stream.write(after)
        steps = apt.rehearse_local(back, _paths(store, back, gathered.debs), path)
        left = moving.left_over(back, steps)
        if left:
            raise AptError(f"the rollback would leave out {', '.join(left)}")
    except AptError as error:
        if parameters.get("without_rollback"):
            return False
        raise AptError(
            f"There would be no rollback: {error}. {NOTHING} Correct the sets, or accept that there is no rollback"
        ) from error
    finally:
        os.unlink(path)
    return True


def _paths(store: Store, move: Move, debs: Mapping[Wanted, Deb]) -> list[str]:
    return [store.path(debs[pair].file) for pair in sorted(move.install.items()) if pair in debs]


def _with_move(
    machine: Machine, journal: Mapping[str, Any], steps: Sequence[Step], way_back: bool, gathered: _Gathered
) -> dict[str, Any]:
    there, back = moving.moves(steps)
    before = {**journal["from"]["packages"], **{step.name: step.old for step in steps}}
    held = [name for name, on in machine.apt.holds(sorted(before)).items() if on]
    return machine.journals.write(
        {
            **journal,
            "from": {**journal["from"], "packages": dict(sorted(before.items())), "holds": held},
            "move": there.as_dict(),
            "move_back": back.as_dict(),
            "way_back": way_back,
            "debs": {deb.file: deb.as_dict() for _, deb in sorted(gathered.debs.items())},
        }
    )
