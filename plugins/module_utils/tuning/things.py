# SPDX-License-Identifier: Apache-2.0
"""The things of a ledger on a host: their current state, and how to restore the former one."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any

from ..host import Host
from ..problems import SettingsError, tried
from ..state.vocabulary import one_spaced, sysctl_path
from .files import GOVERNORS, GUARD_FILE, LOGIND_FILE, SYSTEM_FILE
from .packages import Packages
from .settings import ABSENT, DEFAULT_TARGET, DEFAULT_TARGET_LINK, GOVERNOR, SWAP, split
from .tree import Tree
from .tuning_probe import LINGER, read_governors, read_linger, read_swap
from .units import Units

READERS = {GUARD_FILE: "earlyoom.service"}
"""Files that a service reads only at startup. It is stopped before its file changes and started afterwards: an
interrupted run then leaves a service that is visibly stopped, not one that runs with its former settings."""

MANAGERS = {SYSTEM_FILE: "systemd", LOGIND_FILE: "logind"}
"""Files that a manager reads again on request."""


class Things:
    """Everything on a host that a setting may change."""

    def __init__(self, host: Host, tree: Tree) -> None:
        self.host = host
        self.tree = tree
        self.units = Units(host, tree)
        self.packages = Packages(host)

    def snapshot(self, name: str) -> Any:
        """Return the current state of a thing as a ledger entry; of a package only whether it is installed."""
        kind, key = split(name)
        reader: dict[str, Callable[[], Any]] = {
            "file": lambda: self.tree.entry(key),
            DEFAULT_TARGET: lambda: self.tree.entry(DEFAULT_TARGET_LINK),
            "unit": lambda: self.units.snapshot(key),
            "sysctl": lambda: self.sysctl(key),
            GOVERNOR: lambda: {policy: one["governor"] for policy, one in read_governors(self.host).items()},
            SWAP: lambda: read_swap(self.host),
            "linger": lambda: read_linger(self.host, [key])[key],
            "package": lambda: {"names": self.packages.installed([key]), "accounts": []},
        }
        return reader[kind]()

    def sysctl(self, key: str) -> str | None:
        """Return a setting of the running kernel; None if the kernel does not have it."""
        text = self.host.read_text(sysctl_path(key))
        return None if text is None else one_spaced(text)

    # --- setting ---------------------------------------------------------------------------------------------------

    def set_sysctl(self, key: str, value: str) -> None:
        """Set a value of the running kernel."""
        self._write(sysctl_path(key), value)

    def set_governors(self, governors: Mapping[str, str]) -> None:
        """Set the governor of each CPU policy."""
        for policy, governor in governors.items():
            self._write(f"{GOVERNORS}/{policy}/scaling_governor", governor)

    def _write(self, path: str, value: str) -> None:
        try:
            self.tree.write_value(path, value)
        except OSError as error:
            raise SettingsError(
                f"{path} does not accept {value} ({error.strerror}), expected a kernel that does: run with become, "
                "on a host whose /proc/sys and /sys are writable, or leave the setting alone"
            ) from error

    def swap_off(self) -> None:
        """Disable all swap devices."""
        for one in read_swap(self.host):
            self._run(["swapoff", one["device"]], "free memory for what is swapped out")

    def swap_on(self, former: Iterable[Mapping[str, Any]]) -> None:
        """Enable the former swap devices again."""
        now = {one["device"] for one in read_swap(self.host)}
        for one in former:
            if one["device"] not in now:
                # Negative priorities are assigned by the kernel, and cannot be requested.
                priority = ["--priority", str(one["priority"])] if one["priority"] >= 0 else []
                self._run(["swapon", *priority, one["device"]], "check whether it is still there")

    def is_account(self, name: str) -> bool:
        """Whether this account exists."""
        return self.host.run(["getent", "passwd", name], 30).ok

    def set_linger(self, user: str, linger: bool) -> None:
        """Let the services of an account outlive its sessions, or not."""
        if not linger and not self.is_account(user):
            # logind refuses an account that no longer exists; this file is all that is left of it.
            self.tree.put(f"{LINGER}/{user}", dict(ABSENT))
            return
        word = "enable-linger" if linger else "disable-linger"
        self._run(["loginctl", "--no-ask-password", word, user], "check whether logind runs")

    def _run(self, argv: list[str], advice: str) -> None:
        result = self.host.run(argv, 300)
        if not result.ok:
            raise SettingsError(
                f"`{' '.join(argv)}` failed: {result.summary}. Expected it to work: {advice}, run again"
            )

    # --- restoring ---------------------------------------------------------------------------------------------------

    def give_back(self, things: Mapping[str, Any]) -> list[str]:
        """Restore these things to their state in the ledger; may be interrupted at any point and repeated.

        Returns the errors; everything else has been restored.
        """
        by_kind: dict[str, dict[str, Any]] = {}
        for name, entry in things.items():
            kind, key = split(name)
            by_kind.setdefault(kind, {})[key] = entry
        files, units = by_kind.get("file", {}), by_kind.get("unit", {})
        self.units.stop_new(units)
        self._stop_readers(files)
        problems = []
        for entry in by_kind.get("package", {}).values():
            problems += tried(self.packages.purge, entry["names"])
            problems += tried(self.packages.remove_accounts, entry["accounts"])
        for path, entry in files.items():
            self._put(path, entry)
        for entry in by_kind.get(DEFAULT_TARGET, {}).values():
            self._put(DEFAULT_TARGET_LINK, entry)
        for entry in units.values():
            self.units.restore_links(entry)
        if files or units:
            self.units.reload([MANAGERS[path] for path in files if path in MANAGERS])
        problems += self.units.restore_activity(units)
        for key, value in by_kind.get("sysctl", {}).items():
            # If the kernel no longer has it, or its port is gone, there is nothing to restore.
            if value is not None and self.sysctl(key) not in (None, value):
                problems += tried(self.set_sysctl, key, value)
        for governors in by_kind.get(GOVERNOR, {}).values():
            there = {policy: one["governor"] for policy, one in read_governors(self.host).items()}
            wanted = {policy: one for policy, one in governors.items() if there.get(policy, one) != one}
            problems += tried(self.set_governors, wanted)
        for former in by_kind.get(SWAP, {}).values():
            problems += tried(self.swap_on, former)
        for user, linger in by_kind.get("linger", {}).items():
            if read_linger(self.host, [user])[user] is not linger:
                problems += tried(self.set_linger, user, linger)
        return problems

    def _put(self, path: str, entry: Mapping[str, Any]) -> None:
        if self.tree.entry(path) != entry:
            self.tree.put(path, dict(entry))

    def _stop_readers(self, files: Iterable[str]) -> None:
        for path in files:
            unit = READERS.get(path)
            if unit and self.units.is_there(unit) and self.units.is_active(unit):
                self.units.systemctl("stop", "--", unit)

    def write_files(self, entries: Mapping[str, Mapping[str, Any]]) -> None:
        """Write new files; services that read them only at startup are stopped first."""
        self._stop_readers(entries)
        for path, entry in entries.items():
            self.tree.put(path, dict(entry))
