# SPDX-License-Identifier: Apache-2.0
"""Roll back a transaction whose kernel module could not be built: running it again would only fail again."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from ..driver.driver import builds_module
from ..host import write_file
from ..parsers.apt import Step
from ..parsers.dkms import last_lines, parse_failed_build
from .apt import AptError, Rehearsal
from .apt_local import LocalApt
from .deb_store import Deb, Store, StoreError, Wanted
from .moves import Move, moves, package_problems, remaining

REMEDY = (
    "Use a kernel that this driver builds on, or a driver that builds on this kernel "
    "(catalog/rules/driver_build.yml), and run again"
)


@dataclass
class Before:
    """The state before a transaction: the packages with the files to reinstall them, the holds, and apt's own files."""

    back: Move = field(default_factory=Move)
    store: Store | None = None
    debs: Mapping[Wanted, Deb] = field(default_factory=dict)
    held: Sequence[str] = ()
    files: Mapping[str, str | None] = field(default_factory=dict)
    renamed: Sequence[str] = ()
    """Files that were disabled by renaming them."""

    def paths(self, move: Move) -> list[str]:
        """Return the kept files of the packages that a move installs."""
        return [self.store.path(self.debs[pair].file) for pair in sorted(move.install.items()) if self.store]


def remember_before(
    apt: LocalApt,
    store: Store | None,
    stage: Rehearsal,
    steps: Sequence[Step],
    files: Mapping[str, str | None],
    renamed: Sequence[str] = (),
) -> Before:
    """Record the state before a transaction, and gather the packages it replaces as far as they are still available.

    Missing packages do not block the transaction: a rollback then only leaves dpkg in a consistent state.
    """
    _, back = moves(steps)
    wanted = sorted(back.install.items())
    held = [name for name, on in apt.holds(sorted(back.install)).items() if on]
    debs: dict[Wanted, Deb] = {}
    if store is not None and wanted:
        with contextlib.suppress(StoreError, OSError):
            debs = _gather(apt, store, stage, wanted)
    return Before(back, store, debs, held, dict(files), renamed)


def _gather(apt: LocalApt, store: Store, stage: Rehearsal, wanted: Sequence[Wanted]) -> dict[Wanted, Deb]:
    found = store.find(wanted)
    missing = [pair for pair in wanted if pair not in found]
    offers = apt.offers(missing, stage)
    digests = {pair: one.sha256 for pair, one in offers.items() if one.sha256}
    kept = store.collect(store.cached(missing, digests), digests)
    missing = [pair for pair in missing if pair in offers and pair not in {(one.package, one.version) for one in kept}]
    if missing:
        with store.incoming() as scratch:
            apt.download_files(scratch, missing, stage)
            kept += store.keep(scratch, missing, digests)
    return found | {(one.package, one.version): one for one in kept}


def put_back(apt: LocalApt, before: Before, said: AptError, release: str | None) -> AptError:
    """Return the error of a failed transaction, after rolling it back if a module could not be built."""
    sick = sorted(apt.broken())
    if not builds_module(sick):
        return said
    told = _why(apt, str(said), release)
    problems = _transact(apt, before)
    if not problems:
        _restore(apt, before)
        return AptError(f"{told}. The former packages, pins and holds are restored, and dpkg is in order. {REMEDY}")
    left = sorted(apt.broken())
    if left:
        apt.force_local(Move({}, left), [])
    still = sorted(apt.broken())
    state = f"dpkg left {', '.join(still)} unfinished: see `dpkg --audit`" if still else "dpkg is in order"
    return AptError(
        f"{told}. The former packages could not be restored ({'; '.join(problems[:3])}); {state}, without "
        f"{', '.join(left) or 'anything unfinished'}. Do not reboot: the loaded module is the only one. {REMEDY}"
    )


def _why(apt: LocalApt, said: str, release: str | None) -> str:
    """Quote from the log why the module was not built, and copy the log, which is removed with the packages."""
    failed = parse_failed_build(said)
    path = failed.log if failed and failed.log else f"{apt.places.dkms}/nvidia/{release}/build/make.log"
    log = apt.host.read_text(path)
    kernel = f" for the kernel {failed.kernel}" if failed and failed.kernel else ""
    lines = last_lines(log)
    if log is not None:
        with contextlib.suppress(OSError):
            write_file(apt.places.build_log, log, 0o644)
    quoted = f": {' / '.join(lines)} (complete log: {apt.places.build_log})" if lines else f" ({said})"
    return f"The module of driver {release or 'of the set'} could not be built{kernel}{quoted}"


def _transact(apt: LocalApt, before: Before) -> list[str]:
    """Try to restore the packages; return what still differs."""
    todo = remaining(before.back, apt.versions(before.back.names), apt.broken())
    lost = [f"{pair[0]} {pair[1]} is not available" for pair in todo.install.items() if pair not in before.debs]
    if lost:
        return lost
    files = before.paths(todo)
    said = ""
    try:
        apt.rehearse_local(todo, files)
        result = apt.run_local(todo, files)
        said = "" if result.ok else result.summary
    except AptError as error:
        said = str(error)
    if apt.broken() or said:
        todo = remaining(before.back, apt.versions(before.back.names), apt.broken())
        apt.force_local(todo, before.paths(todo))
    target = {**dict.fromkeys(before.back.remove), **before.back.install}
    found = [f"package {name} is {state.status}" for name, state in apt.broken().items()]
    found += package_problems(target, apt.versions(sorted(target)))
    return [*found, *([said] if found and said else [])]


def _restore(apt: LocalApt, before: Before) -> None:
    for path, text in before.files.items():
        if text is None:
            with contextlib.suppress(FileNotFoundError):
                os.unlink(path)
        else:
            write_file(path, text, 0o644)
    for path in before.renamed:
        with contextlib.suppress(FileNotFoundError):
            os.unlink(f"{path}.disabled")
    loose = [name for name, on in apt.holds(list(before.held)).items() if not on]
    if loose:
        apt.hold(loose)
