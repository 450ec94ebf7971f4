# SPDX-License-Identifier: Apache-2.0
"""Services of ours: their directories made, their files written, systemd told, their units started, in one go.

Nothing is remembered of what was there before: the files are ours, and their absence is the way back.
"""

from __future__ import annotations

import os
import shlex
import tempfile
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from .compile_cache import keep_cache
from .core import host_kinds  # noqa: F401 - registers the kinds that are compared here
from .core.host_settings import ABSENT, difference_rows, file_diff, value_diff
from .core.state import Difference, State, content_digest, difference, differences, explain
from .host import Host
from .host_probes import observe_settings
from .host_settings.problems import SettingsError
from .host_settings.tree import UNITS, Tree, new_file
from .host_settings.units import Units

_STARTING = ("condition", "start-pre", "start", "start-post", "auto-restart", "auto-restart-queued")
"""States of a unit that is on its way up, or that systemd is about to start again."""

_ENDING = (
    *("stop", "stop-watchdog", "stop-sigterm", "stop-sigkill", "stop-post"),
    *("final-watchdog", "final-sigterm", "final-sigkill"),
)
"""States of a unit that ends, and that systemd may start again when it has."""


@dataclass(frozen=True)
class Around:
    """What services need beside their files and units, as the options of the module of that name have it."""

    directories: Mapping[str, str] = field(default_factory=dict)
    compile_cache: Mapping[str, Any] | None = None
    validate: Mapping[str, str] = field(default_factory=dict)
    reload: Mapping[str, str] = field(default_factory=dict)

    def keep_cache(self, check_mode: bool) -> list[str]:
        """Bring the compile cache about; what differed."""
        return keep_cache(**self.compile_cache, check_mode=check_mode) if self.compile_cache else []


class Services:
    """The services of one host."""

    def __init__(self, host: Host, tree: Tree | None = None, timeout: float = 300.0) -> None:
        self.host = host
        self.tree = tree or Tree()
        self.units = Units(host, self.tree, timeout)

    def converge(
        self,
        desired: State,
        contents: Mapping[str, str],
        remove: Iterable[str] = (),
        restart: Sequence[str] = (),
        no_block: bool = False,
        check_mode: bool = False,
        around: Around | None = None,
    ) -> dict[str, Any]:
        """Bring files that have contents, and units, about; raises SettingsError for what systemd refuses."""
        around = around or Around()
        files = {
            path: {**want, **({"content": contents[path]} if path in contents else {})}
            for path, want in (desired.get("files") or {}).items()
            if "content" in want or path in contents
        }
        units = desired.get("units") or {}
        found = self._differing({"files": files, "units": units}, no_block)
        gone = {path: dict(ABSENT) for path in remove if self.tree.entry(path) != ABSENT}
        writing = {item["key"]: new_file(files[item["key"]]) for item in found if item["kind"] == "file"}
        again = [name for name in restart if self.units.is_active(name)]
        making = {path: mode for path, mode in around.directories.items() if not os.path.isdir(self.tree.real(path))}
        unread = {
            name: marker for name, marker in around.reload.items() if writing or self.tree.entry(marker) != ABSENT
        }
        reloading = [name for name in unread if name not in again and self.units.is_active(name)]
        caches = around.keep_cache(check_mode=True)
        result = {
            "changed": bool(found or gone or again or making or unread or caches),
            "differences": [
                *explain(found),
                *(f"file {path} is there, expected none" for path in gone),
                *(f"directory {path} is missing, expected it to exist" for path in making),
                *caches,
                *(f"unit {name} runs with what it read before, expected a restart" for name in again),
                *(f"unit {name} runs with what it read before, expected a reload" for name in reloading),
            ],
            "diff": [
                *(self._file_diff(path, entry, path in contents) for path, entry in (writing | gone).items()),
                *value_diff(
                    [
                        *difference_rows(found),
                        *((f"unit {name}", "runs", "restarted") for name in again),
                        *((f"unit {name}", "runs", "reloaded") for name in reloading),
                    ]
                ),
            ],
        }
        if check_mode:
            return result
        for path, mode in making.items():
            self.tree.make_directory(path)
            os.chmod(self.tree.real(path), int(mode, 8))
        for path in writing:
            if path in around.validate:
                self._validate(path, files[path]["content"], around.validate[path])
        around.keep_cache(check_mode=False)
        for marker in unread.values():
            self.tree.put(marker, new_file({"content": "", "mode": "0600"}))
        self._apply(units, writing | gone, again, no_block)
        for name in reloading:
            self.units.systemctl("reload", "--", name)
        for marker in unread.values():
            self.tree.put(marker, ABSENT)
        return result

    def _validate(self, path: str, text: str, command: str) -> None:
        with tempfile.TemporaryDirectory() as folder:
            scratch = os.path.join(folder, os.path.basename(path))
            with open(scratch, "w", encoding="utf-8") as stream:
                stream.write(text)
            result = self.host.run([scratch if word == "%s" else word for word in shlex.split(command)])
        if not result.ok:
            raise SettingsError(
                f"`{command}` refuses what is to be {path}: {result.summary}. Nothing was written: change the setting "
                "that it names, and run again"
            )

    def _file_diff(self, path: str, entry: Mapping[str, Any], long: bool) -> dict[str, str]:
        shown = file_diff(path, self.tree.entry(path), entry)
        if entry == ABSENT:  # it may be a secret, and what was in it is no use to anybody
            return shown | {"before": "a file\n" if shown["before"] else ""}
        # Nobody reads a program in a diff; that it is another one is what there is to know.
        return shown | {side: content_digest(shown[side]) + "\n" for side in ("before", "after") if long}

    def _differing(self, desired: State, no_block: bool) -> list[Difference]:
        seen = observe_settings(self.host, desired, timeout=60.0)
        found = [item for item in differences(desired, seen) if not (no_block and _is_starting(item))]
        # A unit that systemd is about to start, or to start again, is not active, and would be in a moment.
        for name, want in desired["units"].items():
            sub = ((seen.get("units") or {}).get(name) or {}).get("sub")
            if want.get("active") is False and sub in (*_STARTING, *_ENDING):
                found.append(difference("unit", name, {"active": False}, {"sub": sub}))
        return found

    def _apply(self, units: Mapping[str, Any], files: Mapping[str, Any], again: Sequence[str], no_block: bool) -> None:
        # What shall not run is stopped while its unit is still there.
        self._converge({name: want for name, want in units.items() if want.get("active") is False}, no_block)
        for path, entry in files.items():
            self.tree.put(path, dict(entry))
        # Also what a run that was cut off wrote, and systemd never read.
        if any(path.startswith(f"{UNITS}/") for path in files) or (units and self.units.are_outdated(units)):
            self.units.reload([])
        for name in again:
            self.units.systemctl("restart", "--", name)
        self._converge({name: want for name, want in units.items() if want.get("active") is not False}, no_block)

    def _converge(self, units: Mapping[str, Any], no_block: bool) -> None:
        if units:
            for item in self._differing({"units": units}, no_block):
                self.units.converge(item["key"], units[item["key"]], item["expected"], no_block)


def _is_starting(item: Difference) -> bool:
    return item["kind"] == "unit" and set(item["expected"]) == {"active"} and item["observed"].get("sub") in _STARTING
