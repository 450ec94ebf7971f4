# SPDX-License-Identifier: Apache-2.0
"""One transaction from packages that are kept on the host, in either direction, with no repository in sight.

Apt sees the installed packages and the files it is given, and nothing else: what it cannot do with them at the
rehearsal it will not try later, and no repository can change its mind in between.
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
    """A package in a repository; the digest is empty where apt knows another kind of it."""

    size: int
    sha256: str = ""


class LocalApt(Apt):
    """The package manager of a host, working from files at hand."""

    lock_file = LOCK

    # -- the state of dpkg ----------------------------------------------------------------------------------------

    def broken(self) -> dict[str, Broken]:
        """Packages that dpkg left half done, by name."""
        result = self.host.run(["dpkg-query", "--show", f"--showformat={BROKEN_FORMAT}"], 60)
        if not result.ok:
            raise AptError(f"The installed packages cannot be read: {result.summary}. Look at `dpkg --audit`")
        return parse_broken(result.stdout)

    def wait_for_others(
        self, limit: float, clock: Callable[[], float] = time.monotonic, sleep: Callable[[float], None] = time.sleep
    ) -> None:
        """Until no other package manager runs: it may be the one of a controller that is gone, still at its work."""
        end = clock() + limit
        while not _free(self.lock_file):
            if clock() > end:
                raise AptError(
                    f"Another run of apt or dpkg has held {self.lock_file} for {limit:g} s. Find it with "
                    f"`fuser -v {self.lock_file}`, let it end, and run again"
                )
            sleep(1)

    def mend(self, move: Move) -> bool:
        """Finish what a cut-off run of dpkg left half done, as far as it can be without more files; whether it was."""
        if not self.broken() and not self.host.run(["dpkg", "--audit"], 60).stdout.strip():
            return False
        # It fails where a package has to be unpacked again first: that is what the transaction then does.
        self.host.run(["dpkg", "--configure", "-a", "--force-confdef", "--force-confold"], self.timeout, env=QUIET)
        for name, state in self.broken().items():
            if state.reinstall and name in move.remove:
                # Apt wants such a package's archive even where it only has to go.
                argv = ["dpkg", "--remove", "--force-remove-reinstreq", "--force-depends", name]
                self.host.run(argv, self.timeout, env=QUIET)
        return True

    # -- a move from the repositories, on paper -------------------------------------------------------------------

    def rehearse_move(
        self, stage: Rehearsal, packages: Pins, leaving: Sequence[str], may_move: Sequence[str], own: bool
    ) -> list[Step]:
        """The steps from what is installed to a set; raises AptError when they must not be taken."""
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
                "package of the release in the set, and remove by hand what has to go, or name it in "
                "nvidia_driver_remove where it may go with the former driver"
            )
        return steps

    # -- files ----------------------------------------------------------------------------------------------------

    def offers(self, wanted: Sequence[tuple[str, str]], stage: Rehearsal | None) -> dict[tuple[str, str], Offer]:
        """What repositories have of these packages and versions; by the host's own lists where there is no stage."""
        if not wanted:
            return {}
        options = stage.options("sources.list.d") if stage else []
        argv = ["apt-get", "download", "--print-uris", *options, "-o", "Acquire::ForceHash=SHA256"]
        # It tells of those it knows, and complains of the others.
        result = self.host.run([*argv, *(f"{name}={version}" for name, version in wanted)], 120, env=QUIET)
        found = {(one.package, one.version): one for one in parse_uris(result.stdout)}
        return {
            pair: Offer(found[pair].size, found[pair].checksum.partition("SHA256:")[2])
            for pair in wanted
            if pair in found
        }

    def fresh_offers(self, wanted: Sequence[tuple[str, str]], stage: Rehearsal) -> dict[tuple[str, str], Offer]:
        """The same after all of the host's sources were asked for their lists, those that answer."""
        self.host.run(["apt-get", "update", *stage.options("sources.list.d")], self.timeout, env=QUIET)
        return self.offers(wanted, stage)

    def download_files(self, directory: str, wanted: Sequence[tuple[str, str]], stage: Rehearsal | None) -> Result:
        """Fetch these files into a directory; apt checks their hashes against the signed lists."""
        options = stage.options("sources.list.d") if stage else []
        words = [f"{name}={version}" for name, version in wanted]
        # There is no option for the directory: apt-get download writes where it is run.
        argv = ["env", f"--chdir={directory}", "apt-get", "download", *options, "-o", "APT::Sandbox::User=root", *words]
        return self.host.run(argv, self.timeout, env=QUIET)

    # -- the transaction ------------------------------------------------------------------------------------------

    def rehearse_local(self, move: Move, files: Sequence[str], status: str | None = None) -> list[Step]:
        """The steps of a move from these files; raises AptError when they cannot be taken or are others.

        With `status` it starts from the packages that file tells of, instead of those that are installed.
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
        """The one transaction."""
        with self._alone() as options:
            argv = ["apt-get", "install", "--yes", "--fix-broken", *MOVES_PINS, *ASK_NOTHING, *self.lock, *options]
            return self.host.run([*argv, *files, *removal_words(move.remove)], self.timeout, env=QUIET)

    def force_local(self, move: Move, files: Sequence[str]) -> Result:
        """The same by dpkg alone, for a state that apt gives up on; afterwards the whole has to be checked again."""
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
        """Options for an apt that knows no source, no list and no pin."""
        directory = tempfile.mkdtemp(prefix="firstlight-apt-", dir=self.places.scratch)
        try:
            os.chmod(directory, 0o755)  # noqa: S103 - apt fetches as a user of its own
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
    """Whether nobody holds dpkg's lock, which is one of the POSIX kind."""
    try:
        with open(path, "r+b") as stream:
            fcntl.lockf(stream, fcntl.LOCK_EX | fcntl.LOCK_NB)
            return True
    except FileNotFoundError:
        return True
    except OSError:
        return False
