# SPDX-License-Identifier: Apache-2.0
"""Packages that a setting needs: installed without changing others, and purged again."""

from __future__ import annotations

from collections.abc import Sequence

from ..host import Host
from ..packages.apt_call import ASK_NOTHING, QUIET, reasons
from ..parsers.apt import Step, parse_simulation
from ..parsers.dpkg import DPKG_FORMAT, parse_dpkg_query
from ..problems import SettingsError

_TIMEOUT = 900.0
_LOCK = ("-o", "DPkg::Lock::Timeout=600")


class Packages:
    """Apt, for one or two packages."""

    def __init__(self, host: Host) -> None:
        self.host = host

    def installed(self, names: Sequence[str]) -> list[str]:
        """Return which of these are installed."""
        argv = ["dpkg-query", "--show", f"--showformat={DPKG_FORMAT}", *names]
        found = parse_dpkg_query(self.host.run(argv, 60).stdout, names)
        return [name for name in names if found.get(name) is not None]

    def coming(self, name: str, fetch: bool) -> list[str]:
        """Return what installing the package would add; raises SettingsError if that fails or changes others.

        Package lists that do not contain it are only updated with `fetch`; without it, an unknown package is assumed to
        install alone.
        """
        steps = self._simulated(name, fetch)
        moved = [step.name for step in steps if step.old is not None]
        if moved:
            raise SettingsError(
                f"Package {name} cannot be installed without changing {', '.join(sorted(set(moved)))}, expected "
                "nothing else to change: install it by hand, or turn off the setting that needs it"
            )
        return sorted({step.name for step in steps} | {name})

    def _simulated(self, name: str, fetch: bool) -> list[Step]:
        argv = ["apt-get", "install", "--simulate", "--yes", "--no-install-recommends", name]
        result = self.host.run(argv, _TIMEOUT, env=QUIET)
        if not result.ok and not fetch:
            return []
        lists = ""
        if not result.ok:
            update = self.host.run(["apt-get", "update", *_LOCK], _TIMEOUT, env=QUIET)
            result = self.host.run(argv, _TIMEOUT, env=QUIET)
            if not update.ok:
                lists = f" (the package lists could not be fetched: {reasons(update)})"
        if not result.ok:
            raise SettingsError(
                f"Package {name} cannot be installed: {reasons(result)}{lists}. Nothing was changed. Add a source "
                "that has it, or turn off the setting that needs it"
            )
        return list(parse_simulation(result.stdout))

    def install(self, name: str) -> None:
        """Install a package with its dependencies."""
        argv = ["apt-get", "install", "--yes", "--no-install-recommends", *ASK_NOTHING, *_LOCK, name]
        result = self.host.run(argv, _TIMEOUT, env=QUIET)
        if not result.ok or not self.installed([name]):
            raise SettingsError(
                f"Package {name} was not installed: {reasons(result)}. See /var/log/apt/term.log on the host, and run "
                "again"
            )

    def accounts(self) -> set[str]:
        """Return the accounts of the host."""
        return {line.partition(":")[0] for line in (self.host.read_text("/etc/passwd") or "").splitlines() if line}

    def remove_accounts(self, names: Sequence[str]) -> None:
        """Remove accounts that came with a package, which purging leaves behind."""
        for name in names:
            if name in self.accounts():
                result = self.host.run(["userdel", name], 60)
                if not result.ok:
                    raise SettingsError(f"Account {name} was added by a package and stays: {result.summary}. Run again")

    def purge(self, names: Sequence[str]) -> None:
        """Purge packages; raises SettingsError if other packages now depend on them."""
        there = self.installed(names)
        if not there:
            return
        simulated = self.host.run(["apt-get", "purge", "--simulate", "--yes", *there], _TIMEOUT, env=QUIET)
        others = sorted({step.name for step in parse_simulation(simulated.stdout)} - set(names))
        if others:
            raise SettingsError(
                f"Package {', '.join(there)} was installed for a setting, but {', '.join(others)} needs it now, "
                "expected nothing else to go: remove that first, or keep both by removing the setting's "
                "entries from the ledger"
            )
        result = self.host.run(["apt-get", "purge", "--yes", *_LOCK, *there], _TIMEOUT, env=QUIET)
        if not result.ok or self.installed(names):
            raise SettingsError(f"Package {', '.join(there)} could not be removed: {reasons(result)}. Run again")
