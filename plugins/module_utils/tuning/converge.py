# SPDX-License-Identifier: Apache-2.0
"""Apply the settings of a host, and restore the former ones.

The order is always the same: observe, refuse what is impossible, record the current state in the ledger, change it.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Mapping
from typing import Any

from ..host import Host
from ..problems import SettingsError
from ..state import host_kinds  # noqa: F401 - registers the kinds that are compared here
from ..state.vocabulary import Difference, State, differences, explain
from .clock import PACKAGE, PACKAGE_UNIT
from .host_probes import observe_settings
from .kinds import is_waiting
from .ledger import Book
from .settings import DEFAULT_TARGET, GOVERNOR, SWAP, difference_rows, file_diff, split, thing, value_diff
from .things import MANAGERS, READERS, Things
from .tree import Tree, new_file

Result = dict[str, Any]

_LOOKED = frozenset(
    {
        "packages", "files", "sysctl", "optional_sysctl", "units", "default_target", "managers", "linger", "governor",
        "swap", "clock", "ledgers",
    }
)  # fmt: skip


class HostSettings:
    """The settings of one host."""

    def __init__(self, host: Host, ledger: str, tree: Tree | None = None, pause: Callable[[float], None] = time.sleep):
        self.host = host
        self.things = Things(host, tree or Tree())
        self.book = Book(self.things.tree, ledger)
        self.pause = pause

    # --- present -----------------------------------------------------------------------------------------------------

    def present(self, desired: State, check_mode: bool, clock_timeout: float = 0.0) -> Result:
        """Apply the desired state; raises SettingsError, before the first change wherever possible."""
        self._refuse_kinds(desired)
        ledger = self.book.read() or {"things": {}}
        seen = self._observe(desired)
        found = differences(desired, seen)
        changing = [item for item in found if not is_waiting(item)]
        self._refuse(found)
        wanted = {path: new_file(want) for path, want in (desired.get("files") or {}).items()}
        files = {item["key"]: wanted[item["key"]] for item in changing if item["kind"] == "file"}
        kept = [name for one in (desired.get("ledgers") or {}).values() for name in one["keeps"]]
        stale = {name: one for name, one in ledger["things"].items() if "ledgers" in desired and name not in kept}
        coming = self._coming(changing, fetch=not check_mode)
        result: Result = {
            "changed": bool(changing),
            "differences": explain(changing),
            "given_back": sorted(stale),
            "diff": [
                *(file_diff(path, self.things.tree.entry(path), entry) for path, entry in files.items()),
                *value_diff([*self._clock_rows(changing), *difference_rows(_without_clock(changing))]),
                *self._back_diff(stale),
            ],
        }
        if check_mode:
            return result
        # Even with nothing to restore: an interrupted run leaves an empty ledger.
        if any(item["kind"] == "ledger" for item in changing):
            self._give_back(stale)
        if changing:
            self._remember(changing, files, coming)
            self._install(coming)
            self._apply(desired, changing, files)
        if desired.get("clock", {}).get("synchronized"):
            self._wait_for_clock(desired, clock_timeout)
        return result

    def _observe(self, desired: State) -> State:
        seen = observe_settings(self.host, desired, timeout=60.0)
        if seen["errors"]:
            told = "; ".join(f"{kind}: {message}" for kind, message in sorted(seen["errors"].items()))
            raise SettingsError(
                f"The host cannot be read ({told}), expected all settings to be readable: run with become"
            )
        return seen

    @staticmethod
    def _refuse_kinds(desired: State) -> None:
        strange = sorted(set(desired) - _LOOKED)
        if strange:
            raise SettingsError(
                f"The desired state has {', '.join(strange)}, expected only {', '.join(sorted(_LOOKED))}: other "
                "modules "
                "handle these"
            )

    def _refuse(self, found: list[Difference]) -> None:
        for item in found:
            if item["kind"] == "governor" and "offered" in item["observed"]:
                raise SettingsError(
                    f"{explain([item])[0]}. Nothing was changed. Set host_tuning_governor to one of these, or to keep"
                )
            if item["kind"] == "linger" and item["expected"] and not self.things.is_account(item["key"]):
                raise SettingsError(
                    f"There is no account {item['key']} on this host, expected every one of host_tuning_linger_users. "
                    "Nothing was changed. Create the account, or remove it from the list"
                )

    def _coming(self, changing: list[Difference], fetch: bool) -> dict[str, list[str]]:
        names = [item["key"] for item in changing if item["kind"] == "package"]
        names += [PACKAGE for item in changing if item["kind"] == "clock" and not item["observed"]["service"]]
        return {name: self.things.packages.coming(name, fetch) for name in names}

    @staticmethod
    def _clock_rows(changing: list[Difference]) -> list[tuple[str, Any, Any]]:
        rows: list[tuple[str, Any, Any]] = []
        for item in changing:
            if item["kind"] == "clock" and not item["observed"]["service"]:
                rows.append((f"package {PACKAGE}", "not installed", "installed"))
                rows.append((f"unit {PACKAGE_UNIT}", "not installed", {"enabled": True, "active": True}))
            elif item["kind"] == "clock":
                wanted = {field: value for field, value in item["expected"].items() if field != "synchronized"}
                seen = {field: item["observed"][field] for field in wanted}
                rows.append((f"unit {item['observed']['service']}", seen, wanted))
        return rows

    def _remember(self, changing: list[Difference], files: Mapping[str, Any], coming: Mapping[str, list[str]]) -> None:
        """Record everything that the changes will touch, before the first of them."""
        names = [thing("file", path) for path in files]
        names += [thing("unit", READERS[path]) for path in files if path in READERS]
        for item in changing:
            if item["kind"] in ("sysctl", "unit", "linger", DEFAULT_TARGET, GOVERNOR, SWAP):
                names.append(thing(item["kind"], item["key"]))
            if item["kind"] == "clock":
                names.append(thing("unit", item["observed"]["service"] or PACKAGE_UNIT))
        things = {name: self._before_us(self.things.snapshot(name)) for name in dict.fromkeys(names)}
        things |= {thing("package", name): {"names": listed, "accounts": []} for name, listed in coming.items()}
        self.book.remember(things, self.things.tree.missing_directories(files))

    def _before_us(self, entry: Any) -> Any:
        """Drop from a unit's snapshot the directories that an earlier run created: they are removed with its links."""
        if not isinstance(entry, Mapping) or "folders" not in entry:
            return entry
        taken = (self.book.read() or {"things": {}})["things"].values()
        earlier = [one["folders"] for one in taken if isinstance(one, Mapping) and "folders" in one]
        return {**entry, "folders": [one for one in entry["folders"] if all(one in known for known in earlier)]}

    def _install(self, coming: Mapping[str, list[str]]) -> None:
        for name, listed in coming.items():
            before = self.things.packages.accounts()
            self.things.packages.install(name)
            accounts = sorted(self.things.packages.accounts() - before)
            if accounts:
                self.book.amend(thing("package", name), {"names": listed, "accounts": accounts})

    def _apply(self, desired: State, changing: list[Difference], files: Mapping[str, Any]) -> None:
        by_kind: dict[str, list[Difference]] = {}
        for item in changing:
            by_kind.setdefault(item["kind"], []).append(item)
        clock = by_kind.get("clock", [])
        self.things.write_files(files)
        managers = [MANAGERS[path] for path in files if path in MANAGERS]
        managers += [item["key"].partition("/")[0] for item in by_kind.get("manager", [])]
        if managers or any(path.startswith("/etc/systemd/") for path in files):
            self.things.units.reload(managers)
        for item in by_kind.get(DEFAULT_TARGET, []):
            self.things.units.systemctl("set-default", "--", str(item["expected"]))
        self._apply_units(desired)
        for item in clock:
            name = item["observed"]["service"] or PACKAGE_UNIT
            self.things.units.converge(name, {"enabled": True}, {"enabled": True, "active": True})
        for item in by_kind.get("sysctl", []):
            self.things.set_sysctl(item["key"], str(item["expected"]))
        for item in by_kind.get(GOVERNOR, []):
            self.things.set_governors(dict.fromkeys(item["observed"], str(item["expected"])))
        if by_kind.get(SWAP):
            self.things.swap_off()
        for item in by_kind.get("linger", []):
            self.things.set_linger(item["key"], bool(item["expected"]))

    def _apply_units(self, desired: State) -> None:
        """Observe again: a package may have enabled its unit, and a unit whose file changed was stopped."""
        wanted = desired.get("units") or {}
        if not wanted:
            return
        state = {"units": wanted}
        for item in differences(state, self._observe(state)):
            self.things.units.converge(item["key"], wanted[item["key"]], item["expected"])

    def _wait_for_clock(self, desired: State, timeout: float) -> None:
        """Give a newly started service time to synchronise; whether it has is checked by the verification."""
        state = {"clock": desired["clock"]}
        end = time.monotonic() + timeout
        while any(is_waiting(item) for item in differences(state, self._observe(state))) and time.monotonic() < end:
            self.pause(2.0)

    # --- absent ------------------------------------------------------------------------------------------------------

    def absent(self, check_mode: bool) -> Result:
        """Restore everything in the ledger, and remove the ledger."""
        ledger = self.book.read()
        things = {} if ledger is None else ledger["things"]
        result: Result = {
            "changed": ledger is not None,
            "differences": [],
            "given_back": sorted(things),
            "diff": self._back_diff(things),
        }
        if ledger is not None and not check_mode:
            self._give_back(things)
        return result

    def _give_back(self, things: Mapping[str, Any]) -> None:
        problems = self.things.give_back(things)
        if problems:
            raise SettingsError(
                f"Not everything could be restored, the ledger {self.book.path} stays: {' '.join(problems)}"
            )
        ledger = self.book.read() or {"directories": []}
        for folder in sorted(ledger["directories"], reverse=True):
            self.things.tree.remove_directory(folder)
        gone = [one for one in ledger["directories"] if not os.path.isdir(self.things.tree.real(one))]
        self.book.forget(things, gone)

    def _back_diff(self, things: Mapping[str, Any]) -> list[dict[str, str]]:
        shown = []
        rows: list[tuple[str, Any, Any]] = []
        for name, entry in things.items():
            kind, key = split(name)
            now = self.things.snapshot(name)
            if kind == "package":
                rows += [(name, "installed", "not installed")] if now["names"] else []
            elif now == entry:
                continue
            elif kind == "file":
                shown.append(file_diff(key, now, entry))
            elif kind == "unit":
                rows.append((name, _unit_words(now), _unit_words(entry)))
            elif kind == DEFAULT_TARGET:
                rows.append((name, now.get("target"), entry.get("target")))
            else:
                rows.append((name, now, entry))
        return [*shown, *value_diff(rows)]


def _unit_words(entry: Mapping[str, Any]) -> dict[str, Any]:
    return {"active": entry["active"], "links": sorted(entry["links"])}


def _without_clock(found: list[Difference]) -> list[Difference]:
    return [item for item in found if item["kind"] != "clock"]
