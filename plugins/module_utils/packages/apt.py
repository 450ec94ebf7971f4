# SPDX-License-Identifier: Apache-2.0
"""Apt on a target, with a rehearsal: a transaction is first fetched, simulated and checked in a scratch directory.

The rehearsal sees the host's packages, its package lists and its sources, with the new files in place of the old ones.
Nothing on the host changes until it has passed, and it runs the same way in check mode.
"""

from __future__ import annotations

import contextlib
import os
import re
import shutil
import tempfile
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from ..host import Host, Result, write_file
from ..parsers.apt import (
    Fetch,
    Step,
    parse_madison,
    parse_preferences,
    parse_records,
    parse_simulation,
    parse_sources,
    parse_uris,
    relation_names,
)
from ..parsers.dkms import parse_failed_build
from ..parsers.dpkg import DPKG_FORMAT, HOLD_FORMAT, parse_dpkg_query, parse_holds, upstream_version
from .apt_call import ASK_NOTHING, QUIET, reasons
from .apt_moves import concerning, foreign, removal_words, touching
from .apt_set import Pins, apt_words, differing, evaluate, going_along
from .deb_store import remember

NOTHING = "Nothing was changed."
MOVES_PINS = ("--no-install-recommends", "--allow-downgrades", "--allow-change-held-packages")
CONFLICTS = ("Conflicts", "Breaks", "Replaces")
SOURCES = "/sources.list.d/"
OWN_PINS = "00-firstlight-"
_SET = re.compile(r"/apt\.conf\.d/52firstlight-([a-z0-9-]+)$")


class AptError(Exception):
    """Why the set cannot be installed, in one message."""


@dataclass(frozen=True)
class Places:
    """The paths that apt uses; tests substitute others."""

    etc: str = "/etc/apt"
    lists: str = "/var/lib/apt/lists"
    scratch: str = "/var/tmp"  # noqa: S108 - a directory of its own is made there
    archives: str = "/var/cache/apt/archives"
    dkms: str = "/var/lib/dkms"
    build_log: str = "/var/log/firstlight-dkms-make.log"


@dataclass(frozen=True)
class ForeignPin:
    """A record in apt preferences that are not Firstlight's."""

    file: str
    package: str
    pin: str
    priority: str


@dataclass
class Rehearsal:
    """The scratch directory of one rehearsal, and the apt options for it."""

    directory: str
    own: list[str] = field(default_factory=list)

    def path(self, *parts: str) -> str:
        """Return a path in the scratch directory."""
        return os.path.join(self.directory, *parts)

    def options(self, sources: str, preferences: str = "preferences.d") -> list[str]:
        """Return the options that make apt use these sources and the lists and preferences of the scratch directory."""
        settings = {
            "Dir::Etc::sourcelist": "/dev/null",
            "Dir::Etc::sourceparts": self.path(sources),
            "Dir::Etc::preferencesparts": self.path(preferences),
            "Dir::State::lists": self.path("lists"),
            "Dir::Cache::pkgcache": "",
            "Dir::Cache::srcpkgcache": "",
            "APT::Get::List-Cleanup": "0",
            "Acquire::Retries": "2",
            "Acquire::http::Timeout": "20",
            "Acquire::https::Timeout": "20",
        }
        return [word for key, value in settings.items() for word in ("-o", f"{key}={value}")]


class Apt:
    """The package manager of a host."""

    def __init__(self, host: Host, timeout: float, lock_timeout: int, places: Places | None = None) -> None:
        self.host = host
        self.timeout = timeout
        self.lock = ("-o", f"DPkg::Lock::Timeout={lock_timeout}")
        self.places = places or Places()

    # -- reading ------------------------------------------------------------------------------------------------

    def versions(self, names: Sequence[str]) -> dict[str, str | None]:
        """Return the installed version of each package."""
        return parse_dpkg_query(self._query(DPKG_FORMAT, names), names)

    def holds(self, names: Sequence[str]) -> dict[str, bool]:
        """Return for each package whether it is on hold."""
        return parse_holds(self._query(HOLD_FORMAT, names), names)

    def _query(self, form: str, names: Sequence[str]) -> str:
        if not names:
            return ""
        result = self.host.run(["dpkg-query", "--show", f"--showformat={form}", *names], 60)
        if result.problem or result.rc not in (0, 1):
            raise AptError(f"The installed packages cannot be read: {result.summary}. {NOTHING} See `dpkg --audit`.")
        return result.stdout

    def former_sources(self, files: Mapping[str, str]) -> list[str]:
        """Return source files on the host that this set installed earlier and that are no longer in `files`."""
        names = [found.group(1) for path in files if (found := _SET.search(path))]
        directory = os.path.join(self.places.etc, "sources.list.d")
        return [
            path
            for name in names
            for one in _names(directory)
            if re.fullmatch(rf"firstlight-{re.escape(name)}(-.+)?\.sources", one)
            and (path := os.path.join(directory, one)) not in files
        ]

    def superseded_sources(self, files: Mapping[str, str], sources: Iterable[str]) -> list[str]:
        """Return source files on the host that list only repositories of the set, with a different keyring.

        Apt fails if two sources of one repository name different keyrings; NVIDIA's cuda-keyring and the guides of most
        vendors leave such a source behind.
        """
        own = {one.repository: one.signed_by for path in sources for one in parse_sources(files[path])}
        directory = os.path.join(self.places.etc, "sources.list.d")
        found = []
        for path in (os.path.join(directory, one) for one in _names(directory) if one.endswith((".list", ".sources"))):
            named = parse_sources(self.host.read_text(path)) if path not in files else []
            if named and all(own.get(one.repository, one.signed_by) != one.signed_by for one in named):
                found.append(path)
        return found

    def foreign_pins(self, packages: Iterable[str]) -> list[ForeignPin]:
        """Return the preferences of others that apply to every package, or to one of these."""
        names = set(packages)
        directory = os.path.join(self.places.etc, "preferences.d")
        paths = [os.path.join(directory, one) for one in _names(directory) if not one.startswith(OWN_PINS)]
        return [
            ForeignPin(path, one.package, one.pin, one.priority)
            for path in [os.path.join(self.places.etc, "preferences"), *paths]
            for one in concerning(parse_preferences(self.host.read_text(path)), names)
        ]

    # -- rehearsing ---------------------------------------------------------------------------------------------

    @contextlib.contextmanager
    def rehearsal(
        self, files: Mapping[str, str], sources: Collection[str] = (), without: Collection[str] = ()
    ) -> Iterator[Rehearsal]:
        """Create a scratch directory with the host's apt settings, overlaid with these files.

        `sources` are the paths in `files` that are the set's own sources; `without` are files of the host that will be
        removed.
        """
        directory = tempfile.mkdtemp(prefix="firstlight-apt-", dir=self.places.scratch)
        try:
            os.chmod(directory, 0o755)  # noqa: S103 - apt fetches as its own user
            stage = Rehearsal(directory)
            for name in ("own.d", "sources.list.d", "preferences.d", "keyrings", os.path.join("lists", "partial")):
                os.makedirs(stage.path(name))
            self._stage(stage, files, sources, without)
            yield stage
        finally:
            shutil.rmtree(directory, ignore_errors=True)

    def _stage(
        self, stage: Rehearsal, files: Mapping[str, str], sources: Collection[str], without: Collection[str]
    ) -> None:
        keyrings = {path: stage.path("keyrings", os.path.basename(path)) for path in files if "/keyrings/" in path}
        for folder in ("sources.list.d", "preferences.d"):
            for name in _names(os.path.join(self.places.etc, folder)):
                there = os.path.join(self.places.etc, folder, name)
                if there not in files and there not in without:
                    self._stage_own(there, stage.path(folder, name), keyrings)
        main = os.path.join(self.places.etc, "sources.list")
        if os.path.exists(main):
            os.symlink(main, stage.path("sources.list.d", "main.list"))
        for path, content in files.items():
            text = _signed_by(content, keyrings)
            folder = os.path.basename(os.path.dirname(path))
            if folder in ("sources.list.d", "preferences.d", "keyrings"):
                write_file(stage.path(folder, os.path.basename(path)), text, 0o644)
            if path in sources:
                name = os.path.basename(path)
                os.makedirs(stage.path(alone(path)))
                for folder in ("own.d", alone(path)):
                    write_file(stage.path(folder, name), text, 0o644)

    def _stage_own(self, there: str, staged: str, keyrings: Mapping[str, str]) -> None:
        """Stage a file of the host; a source that names a keyring of the set refers to the staged one."""
        text = self.host.read_text(there) or ""
        changed = _signed_by(text, keyrings)
        if changed == text:
            os.symlink(there, staged)
        else:
            write_file(staged, changed, 0o600)

    def fetch(self, stage: Rehearsal, own: bool, words: str) -> None:
        """Fetch the package lists of the set's own sources, or of all if it has none; apt verifies signatures."""
        argv = ["apt-get", "update", "--error-on=any", *stage.options("own.d" if own else "sources.list.d")]
        result = self.host.run(argv, self.timeout, env=QUIET)
        if not result.ok:
            raise AptError(
                f"The package source {words} cannot be used: {reasons(result)}. {NOTHING} Expected a repository that "
                "answers, is signed by the pinned key and has not expired: correct the source or the mirror it names"
            )
        stage.own = [name for name in _names(stage.path("lists")) if os.path.isfile(stage.path("lists", name))]
        for name in _names(self.places.lists):
            there = os.path.join(self.places.lists, name)
            if name not in (*stage.own, "lock") and os.path.isfile(there):
                shutil.copy2(there, stage.path("lists", name))

    def rehearse(
        self,
        stage: Rehearsal,
        packages: Pins,
        names: Sequence[str],
        own: bool,
        never: Sequence[str] = (),
        leaving: Sequence[str] = (),
        variable: str | None = None,
    ) -> list[Step]:
        """Return the steps of installing these packages; raises AptError if they are not acceptable.

        `leaving` are installed packages that are removed in the same transaction. `variable` is the setting in which an
        operator can name more of these, for the message.
        """
        steps = self.simulated(stage, packages, names, own, leaving)
        conflicting = self._conflicting(stage, packages, names, steps)
        problems = evaluate(steps, packages, conflicting, never, leaving)
        if problems:
            others = going_along(steps, packages, [*conflicting, *leaving])
            named = f", or allow its removal along with what the set replaces: {variable}: [{', '.join(others)}]"
            consent = named if variable and others else ""
            raise AptError(
                f"Installing the set would change more than the set: {'; '.join(problems)}. {NOTHING} Name every "
                f"package of the release in the set, and remove by hand what has to go{consent}"
            )
        return steps

    def simulated(
        self, stage: Rehearsal, packages: Pins, names: Sequence[str], own: bool, leaving: Sequence[str]
    ) -> list[Step]:
        """Return the steps apt would take to install `names` and remove `leaving`; raises AptError if it cannot."""
        result = self._simulate(stage, packages, names, leaving)
        if not result.ok and own:
            # Dependencies of the set may be in sources whose lists are outdated or were never fetched.
            self.host.run(["apt-get", "update", *stage.options("sources.list.d")], self.timeout, env=QUIET)
            result = self._simulate(stage, packages, names, leaving)
        if not result.ok:
            told = self._offers(stage, packages, names) + self._other_pins(packages)
            told += self._unnamed(stage, packages, names, leaving) if own else ""
            raise AptError(
                f"Apt cannot install the set: {reasons(result)}. {told}{NOTHING} Correct the pins or the source"
            )
        return parse_simulation(result.stdout)

    def _simulate(self, stage: Rehearsal, packages: Pins, names: Sequence[str], leaving: Sequence[str] = ()) -> Result:
        argv = ["apt-get", "install", "--simulate", "--yes", *MOVES_PINS, *stage.options("sources.list.d")]
        return self.host.run([*argv, *apt_words(packages, names), *removal_words(leaving)], self.timeout, env=QUIET)

    def origins(
        self,
        stage: Rehearsal,
        packages: Pins,
        names: Sequence[str],
        sources: Mapping[str, Sequence[str]],
        leaving: Sequence[str] = (),
    ) -> list[Fetch]:
        """Return the files needed to install these packages; raises AptError if one is not from its own source.

        `sources` maps the path of each of the set's own sources to the packages that must come from it; other packages
        may come from anywhere.
        """
        os.makedirs(stage.path("archives", "partial"), exist_ok=True)
        argv = ["apt-get", "install", "--print-uris", "--yes", *MOVES_PINS, *stage.options("sources.list.d")]
        argv += ["-o", f"Dir::Cache::archives={stage.path('archives')}", "-o", "Acquire::ForceHash=SHA256"]
        result = self.host.run([*argv, *apt_words(packages, names), *removal_words(leaving)], self.timeout, env=QUIET)
        files = parse_uris(result.stdout)
        for source, listed in sources.items():
            own = {name: packages[name] for name in names if name in listed}
            if not own:
                continue
            shown = self.host.run(["apt-cache", "show", *stage.options(alone(source)), *apt_words(own, own)], 60)
            elsewhere = foreign(own, files, parse_records(shown.stdout))
            if elsewhere:
                raise AptError(
                    f"Packages of the set would come from another source: {'; '.join(elsewhere[:5])}. {NOTHING} "
                    f"Expected them from {source}, which does not offer these, or offers another file "
                    "of that version: remove the other source, or correct the pins"
                )
        return files

    def _offers(self, stage: Rehearsal, packages: Pins, names: Sequence[str]) -> str:
        """List the available versions of the packages whose pinned version is not available, for the message."""
        result = self.host.run(["apt-cache", "madison", *stage.options("sources.list.d"), *names], 60)
        offers = parse_madison(result.stdout)
        missing = [name for name in names if packages[name] and packages[name] not in offers.get(name, [])]
        told = [f"{name} is offered as {', '.join(offers[name][:5])}" for name in missing[:3] if name in offers]
        told += [f"{name} is not offered at all" for name in missing[:3] if name not in offers]
        return f"{'; '.join(told)}. " if told else ""

    def _unnamed(self, stage: Rehearsal, packages: Pins, names: Sequence[str], leaving: Sequence[str]) -> str:
        """List packages of the set's own sources that it needs but does not name, for the message.

        They are found by simulating the installation without our pins with a negative priority.
        """
        os.makedirs(stage.path("open.d"), exist_ok=True)
        for name in _names(stage.path("preferences.d")):
            text = self.host.read_text(stage.path("preferences.d", name)) or ""
            kept = (
                text
                if not name.startswith(OWN_PINS)
                else "\n\n".join(stanza for stanza in text.split("\n\n") if "\nPin-Priority: -1" not in stanza)
            )
            write_file(stage.path("open.d", name), kept, 0o644)
        options = stage.options("sources.list.d", "open.d")
        argv = ["apt-get", "install", "--simulate", "--yes", *MOVES_PINS, *options]
        words = [*apt_words(packages, names), *removal_words(leaving)]
        steps = parse_simulation(self.host.run([*argv, *words], self.timeout, env=QUIET).stdout)
        come = {step.name: step.new for step in steps if step.new and step.name not in packages}
        if not come:
            return ""
        shown = self.host.run(["apt-cache", "show", *stage.options("own.d"), *apt_words(come, come)], 60)
        own = {(record["Package"], record.get("Version")) for record in parse_records(shown.stdout)}
        found = [f"{name}: {version}" for name, version in sorted(come.items()) if (name, version) in own]
        return (
            f"The set depends on these packages of its own source, but does not name them: {', '.join(found)}. "
            if found
            else ""
        )

    def _other_pins(self, packages: Pins) -> str:
        """List the preferences of others that may be the cause, for the message."""
        found = [
            f"{one.file} ({one.package}: {one.pin}, priority {one.priority})" for one in self.foreign_pins(packages)
        ]
        return f"Other preferences files cover these packages, too: {'; '.join(found[:5])}. " if found else ""

    def _conflicting(self, stage: Rehearsal, packages: Pins, names: Sequence[str], steps: Sequence[Step]) -> set[str]:
        """Return the packages to be removed that conflict with the set, by name or by what they provide."""
        going = [step.name for step in steps if step.new is None]
        if not going:
            return set()
        shown = self.host.run(["apt-cache", "show", *stage.options("sources.list.d"), *apt_words(packages, names)], 60)
        against = relation_names(parse_records(shown.stdout), CONFLICTS)
        there = parse_records(self.host.run(["dpkg-query", "--status", *going], 60).stdout)
        provided = {one["Package"]: relation_names([one], ("Provides",)) | {one["Package"]} for one in there}
        return {name for name in going if provided.get(name, {name}) & against}

    # -- changing -----------------------------------------------------------------------------------------------

    def download(self, stage: Rehearsal, packages: Pins, names: Sequence[str], leaving: Sequence[str] = ()) -> None:
        """Fetch every package before anything changes, so that a repository that fails now does no harm."""
        argv = ["apt-get", "install", "--download-only", "--yes", *MOVES_PINS, *self.lock]
        words = [*apt_words(packages, names), *removal_words(leaving)]
        result = self.host.run([*argv, *stage.options("sources.list.d"), *words], self.timeout, env=QUIET)
        if not result.ok:
            raise AptError(f"The packages cannot be fetched: {reasons(result)}. {NOTHING} Run again once they can be")

    def keep(self, files: Sequence[Fetch], directory: str) -> list[str]:
        """Keep the downloaded packages under apt's own file names, for a rollback after the repository drops them."""
        os.makedirs(directory, mode=0o755, exist_ok=True)
        kept = []
        digests = {}
        for one in files:
            local = one.uri.startswith("file:")
            there = one.uri.removeprefix("file:") if local else os.path.join(self.places.archives, one.name)
            target = os.path.join(directory, one.name)
            kind, _, digest = one.checksum.partition(":")
            known = {one.name: digest} if kind == "SHA256" else {}
            if self._is_kept(target, one):
                digests.update(known)
                continue
            if self.host.size_and_mtime(there) is None:
                continue
            # Use a temporary name until the file is complete. Apt only ever replaces files in its cache, so a hard link
            # is safe.
            scratch = os.path.join(directory, f".firstlight-{one.name}")
            with contextlib.suppress(FileNotFoundError):
                os.unlink(scratch)
            try:
                (shutil.copyfile if local else os.link)(there, scratch)
            except OSError:
                shutil.copyfile(there, scratch)
            os.replace(scratch, target)
            kept.append(target)
            if self._is_kept(target, one):
                digests.update(known)
        remember(directory, digests)
        return kept

    def _is_kept(self, path: str, one: Fetch) -> bool:
        found = self.host.size_and_mtime(path)
        kind, _, digest = one.checksum.partition(":")
        return found is not None and found[0] == one.size and (kind != "SHA256" or self.host.sha256(path) == digest)

    def publish(self, stage: Rehearsal) -> None:
        """Copy the fetched package lists to the host's apt."""
        os.makedirs(self.places.lists, exist_ok=True)
        for name in stage.own:
            if name != "lock":
                with open(stage.path("lists", name), "rb") as stream:
                    write_file(os.path.join(self.places.lists, name), stream.read(), 0o644)

    def install(self, stage: Rehearsal, packages: Pins, names: Sequence[str], leaving: Sequence[str] = ()) -> None:
        """Run the transaction from the downloaded packages, with exactly the settings that were rehearsed."""
        self.repair()
        # Not with --no-download: apt then does not find packages of a file: source, as it never copies them.
        argv = ["apt-get", "install", "--yes", *MOVES_PINS, *ASK_NOTHING, *self.lock]
        words = [*apt_words(packages, names), *removal_words(leaving)]
        result = self.host.run([*argv, *stage.options("sources.list.d"), *words], self.timeout, env=QUIET)
        wrong = differing({name: packages[name] for name in names}, self.versions(list(names)))
        wrong += [name for name, version in self.versions(list(leaving)).items() if version is not None]
        if not result.ok or wrong:
            left = f" Not as pinned now: {', '.join(wrong)}." if wrong else ""
            failed = parse_failed_build(f"{result.stdout}\n{result.stderr}")
            build = f" DKMS built no module ({failed.words})." if failed else ""
            raise AptError(
                f"Apt failed in the middle of the transaction: {reasons(result)}.{build}{left} See "
                "/var/log/apt/term.log on the host, and run again: the role continues where it stopped"
            )

    def repair(self) -> None:
        """Complete what an interrupted dpkg left unfinished."""
        if self.host.run(["dpkg", "--audit"], 60).stdout.strip():
            self.host.run(["dpkg", "--configure", "-a", "--force-confdef", "--force-confold"], self.timeout, env=QUIET)

    def brought(self, names: Sequence[str]) -> list[str]:
        """Return installed packages that these depend on or recommend, other than these themselves."""
        if not names:
            return []
        there = parse_records(self.host.run(["dpkg-query", "--status", *names], 60).stdout)
        wanted = sorted(relation_names(there, ("Depends", "Recommends")) - set(names))
        return [name for name, version in self.versions(wanted).items() if version is not None]

    def keep_by_hand(self, names: Sequence[str]) -> None:
        """Mark these as manually installed, so that autoremove keeps them without the packages that needed them."""
        result = self.host.run(["apt-mark", "manual", *names], 120, env=QUIET)
        if not result.ok:
            raise AptError(
                "The set is installed, but these packages could not be marked as manually installed, "
                f"expected `apt-get autoremove` to leave them alone: {', '.join(names)} ({result.summary}). Run "
                "`apt-mark manual` with them"
            )

    def purge(self, names: Sequence[str]) -> None:
        """Purge the configuration of removed packages; apt would otherwise go on reading their preferences."""
        result = self.host.run(["dpkg", "--purge", *names], 120, env=QUIET)
        if not result.ok:
            raise AptError(
                f"The set is installed, but the preferences of {', '.join(names)} are still there ({result.summary}). "
                f"Run `dpkg --purge {' '.join(names)}`"
            )

    def hold(self, names: Sequence[str]) -> None:
        """Put these packages on hold, so that no upgrade changes them."""
        result = self.host.run(["apt-mark", "hold", *names], 120, env=QUIET)
        missed = [name for name, held in self.holds(list(names)).items() if not held]
        if not result.ok or missed:
            raise AptError(
                f"These packages could not be held: {', '.join(missed) or ', '.join(names)} ({result.summary}). Run "
                "again, and see `apt-mark showhold`"
            )

    def unhold(self, names: Sequence[str]) -> None:
        """Release the hold on packages that no longer belong to the set."""
        result = self.host.run(["apt-mark", "unhold", *names], 120, env=QUIET)
        if not result.ok:
            raise AptError(f"These packages are still held: {', '.join(names)} ({result.summary}). Run again")

    def simulate_upgrade(self, names: Sequence[str]) -> None:
        """Raise AptError if a dist-upgrade would change one of these packages despite holds and pins."""
        result = self.host.run(["apt-get", "dist-upgrade", "--simulate", "--yes"], self.timeout, env=QUIET)
        moved = touching(parse_simulation(result.stdout), names)
        if moved:
            raise AptError(
                f"The set is installed, but `apt-get dist-upgrade` would change {'; '.join(moved)}, expected nothing "
                "of the set to change: see `apt-mark showhold` and /etc/apt/preferences.d for what overrides it"
            )


def addresses(files: Mapping[str, str], sources: Iterable[str]) -> str:
    """Return the URIs and suites of these sources, for a message."""
    rows = [line for path in sources for line in files[path].splitlines() if line.startswith(("URIs: ", "Suites: "))]
    return " ".join(row.partition(": ")[2] for row in rows) or "of the host"


def alone(source: str) -> str:
    """The name of the rehearsal folder that contains this source only."""
    return f"{os.path.basename(source)}.d"


def refuse_unnamed(steps: Iterable[Step], packages: Pins, release: str | None) -> None:
    """Raise AptError if a dependency belongs to the release but the set does not name it."""
    come = [(step.name, step.new) for step in steps if step.new and step.name not in packages]
    unnamed = [f"{name} {version}" for name, version in come if release and upstream_version(version) == release]
    if unnamed:
        raise AptError(
            f"Packages of release {release} would be installed that the set does not name: {', '.join(unnamed)}. "
            f"{NOTHING} Add them to the set: what is not named is neither pinned nor held"
        )


def _signed_by(text: str, keyrings: Mapping[str, str]) -> str:
    for real, staged in keyrings.items():
        text = text.replace(f"Signed-By: {real}\n", f"Signed-By: {staged}\n")
    return text


def _names(directory: str) -> list[str]:
    try:
        return sorted(os.listdir(directory))
    except OSError:
        return []
