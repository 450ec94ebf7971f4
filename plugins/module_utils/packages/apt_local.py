# SPDX-License-Identifier: Apache-2.0
"""One transaction, forward or back, from packages kept on the host, without any repository.

Apt sees only the installed packages and the files it is given: what fails in the rehearsal is not attempted later, and
no repository can change in between.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import shutil
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from ..host import Result
from ..parsers.apt import Step, parse_simulation, parse_uris
from ..parsers.dpkg_state import BROKEN_FORMAT, Broken, parse_broken
from .apt import MOVES_PINS, NOTHING, Apt, AptError, Rehearsal
from .apt_call import ASK_NOTHING, QUIET, reasons
from .apt_moves import removal_words
from .apt_set import Pins, differing
from .moves import Move, evaluate_move, evaluate_steps

LOCK = "/var/lib/dpkg/lock-frontend"


@dataclass(frozen=True)
class Offer:
    """A package in a repository; `sha256` is empty if apt only knows a digest of another kind."""

    size: int
    sha256: str = ""


class LocalApt(Apt):
    """The package manager of a host, working from local files."""

    lock_file = LOCK

    # -- the state of dpkg ----------------------------------------------------------------------------------------

    def broken(self) -> dict[str, Broken]:
        """Return the packages that dpkg left unfinished, by name."""
        result = self.host.run(["dpkg-query", "--show", f"--showformat={BROKEN_FORMAT}"], 60)
        if not result.ok:
            raise AptError(f"The installed packages cannot be read: {result.summary}. See `dpkg --audit`")
        return parse_broken(result.stdout)

    def wait_for_others(
        self, limit: float, clock: Callable[[], float] = time.monotonic, sleep: Callable[[float], None] = time.sleep
    ) -> None:
        """Wait until no other package manager runs, such as one started by a controller that has since disconnected."""
        end = clock() + limit
        while not _free(self.lock_file):
            if clock() > end:
                raise AptError(
                    f"Another run of apt or dpkg has held {self.lock_file} for {limit:g} s. Find it with "
                    f"`fuser -v {self.lock_file}`, wait for it, and run again"
                )
            sleep(1)

    def repair_move(self, move: Move) -> bool:
        """Complete what an interrupted dpkg left unfinished, as far as no files are needed; whether there was any."""
        if not self.broken() and not self.host.run(["dpkg", "--audit"], 60).stdout.strip():
            return False
        # This fails for a package that has to be unpacked again first; the transaction then does that.
        self.host.run(["dpkg", "--configure", "-a", "--force-confdef", "--force-confold"], self.timeout, env=QUIET)
        for name, state in self.broken().items():
            if state.reinstall and name in move.remove:
                # Apt requires the archive of such a package even if it is only to be removed.
                argv = ["dpkg", "--remove", "--force-remove-reinstreq", "--force-depends", name]
                self.host.run(argv, self.timeout, env=QUIET)
        return True

    # -- rehearsing a move from the repositories ------------------------------------------------------------------

    def rehearse_move(
        self, stage: Rehearsal, packages: Pins, leaving: Sequence[str], may_move: Sequence[str], own: bool
    ) -> list[Step]:
        """Return the steps from the installed packages to a set; raises AptError if they are not acceptable."""
        installed = self.versions(sorted({*packages, *leaving}))
        names = differing(packages, installed)
        going = [name for name in leaving if installed.get(name) is not None]
        if not names and not going:
            return []
        steps = self.simulated(stage, packages, names, own, going)
        problems = evaluate_move(steps, packages, may_move, self._conflicting(stage, packages, names, steps))
        if problems:
            raise AptError(
                f"Moving to the set would change more than the two sets: {'; '.join(problems)}. {NOTHING} Name every "
                "package of the release in the set, and remove by hand what has to go, or list it "
                "in nvidia_driver_remove if it may go with the former driver"
            )
        return steps

    # -- files ----------------------------------------------------------------------------------------------------

    def offers(self, wanted: Sequence[tuple[str, str]], stage: Rehearsal | None) -> dict[tuple[str, str], Offer]:
        """Look up these packages and versions in the repositories, or in the host's own lists if there is no stage."""
        if not wanted:
            return {}
        options = stage.options("sources.list.d") if stage else []
        argv = ["apt-get", "download", "--print-uris", *options, "-o", "Acquire::ForceHash=SHA256"]
        # It prints the packages it knows, and fails for the others.
        result = self.host.run([*argv, *(f"{name}={version}" for name, version in wanted)], 120, env=QUIET)
        found = {(one.package, one.version): one for one in parse_uris(result.stdout)}
        return {
            pair: Offer(found[pair].size, found[pair].checksum.partition("SHA256:")[2])
            for pair in wanted
            if pair in found
        }

    def fresh_offers(self, wanted: Sequence[tuple[str, str]], stage: Rehearsal) -> dict[tuple[str, str], Offer]:
        """Return the same after updating the lists of all of the host's sources that respond."""
        self.host.run(["apt-get", "update", *stage.options("sources.list.d")], self.timeout, env=QUIET)
        return self.offers(wanted, stage)

    def download_files(self, directory: str, wanted: Sequence[tuple[str, str]], stage: Rehearsal | None) -> Result:
        """Download these packages into a directory; apt verifies their hashes against the signed lists."""
        options = stage.options("sources.list.d") if stage else []
        words = [f"{name}={version}" for name, version in wanted]
        # There is no option for the directory: apt-get download writes to its working directory.
        argv = ["env", f"--chdir={directory}", "apt-get", "download", *options, "-o", "APT::Sandbox::User=root", *words]
        return self.host.run(argv, self.timeout, env=QUIET)

    # -- the transaction ------------------------------------------------------------------------------------------

    def rehearse_local(self, move: Move, files: Sequence[str], status: str | None = None) -> list[Step]:
        """Return the steps of a move from these files; raises AptError if they cannot be taken or differ from the move.

        With `status`, start from the packages in that status file instead of the installed ones.
        """
        if not move.names:
            return []
        with self._alone() as options:
            pretended = ["-o", f"Dir::State::status={status}"] if status else []
            argv = ["apt-get", "install", "--simulate", "--yes", "--fix-broken", *MOVES_PINS, *options, *pretended]
            result = self.host.run([*argv, *files, *removal_words(move.remove)], self.timeout, env=QUIET)
        if not result.ok:
            raise AptError(f"Apt cannot make the move from the kept packages: {reasons(result)}")
        steps = parse_simulation(result.stdout)
        problems = evaluate_steps(steps, move)
        if problems:
            raise AptError(f"The move from the kept packages would change more than it should: {'; '.join(problems)}")
        return steps

    def run_local(self, move: Move, files: Sequence[str]) -> Result:
        """Run the transaction."""
        with self._alone() as options:
            argv = ["apt-get", "install", "--yes", "--fix-broken", *MOVES_PINS, *ASK_NOTHING, *self.lock, *options]
            return self.host.run([*argv, *files, *removal_words(move.remove)], self.timeout, env=QUIET)

    def force_local(self, move: Move, files: Sequence[str]) -> Result:
        """Run the transaction with dpkg alone, for a state apt cannot handle; the result must be checked afterwards."""
        if move.remove:
            argv = ["dpkg", "--remove", "--force-remove-reinstreq", "--force-depends", *move.remove]
            self.host.run(argv, self.timeout, env=QUIET)
        confs = ["--force-confdef", "--force-confold"]
        if files:
            argv = ["dpkg", "--install", "--force-downgrade", "--auto-deconfigure", *confs, *files]
            self.host.run(argv, self.timeout, env=QUIET)
        return self.host.run(["dpkg", "--configure", "-a", *confs], self.timeout, env=QUIET)

    @contextlib.contextmanager
    def _alone(self) -> Iterator[list[str]]:
        """Options for an apt that has no sources, no package lists and no pins."""
        directory = tempfile.mkdtemp(prefix="firstlight-apt-", dir=self.places.scratch)
        try:
            os.chmod(directory, 0o755)  # noqa: S103 - apt fetches as its own user
            os.makedirs(os.path.join(directory, "lists", "partial"))
            os.makedirs(os.path.join(directory, "none"))
            settings = {
                "Dir::Etc::sourcelist": "/dev/null",
                "Dir::Etc::sourceparts": os.path.join(directory, "none"),
                "Dir::Etc::preferences": "/dev/null",
                "Dir::Etc::preferencesparts": os.path.join(directory, "none"),
                "Dir::State::lists": os.path.join(directory, "lists"),
                "Dir::Cache::pkgcache": "",
                "Dir::Cache::srcpkgcache": "",
                "APT::Sandbox::User": "root",
            }
            yield [word for key, value in settings.items() for word in ("-o", f"{key}={value}")]
        finally:
            shutil.rmtree(directory, ignore_errors=True)


def _free(path: str) -> bool:
    """Whether nobody holds dpkg's lock, which is a POSIX record lock."""
    try:
        with open(path, "r+b") as stream:
            fcntl.lockf(stream, fcntl.LOCK_EX | fcntl.LOCK_NB)
            return True
    except FileNotFoundError:
        return True
    except OSError:
        return False
