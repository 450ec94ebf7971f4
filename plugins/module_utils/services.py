# SPDX-License-Identifier: Apache-2.0
"""Firstlight's services: create directories, write files, reload systemd and start units, all in one call.

Nothing is recorded of the former state: the files are ours, and removing them is the rollback.
"""

from __future__ import annotations

import hashlib
import os
import shlex
import tempfile
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from .compile_cache_files import keep_cache
from .host import Host
from .problems import SettingsError
from .state import host_kinds  # noqa: F401 - registers the kinds that are compared here
from .state.json_files import merged_text, read_json_file, settings_diff
from .state.vocabulary import Difference, State, difference, differences, explain
from .text import said_lines
from .tuning.host_probes import observe_settings
from .tuning.settings import ABSENT, content_of, difference_rows, file_diff, value_diff
from .tuning.tree import UNITS, Tree, new_file
from .tuning.units import Units

_STARTING = ("condition", "start-pre", "start", "start-post", "auto-restart", "auto-restart-queued")
"""Substates of a unit that is starting, or that systemd is about to restart."""

_ENDING = (
    *("stop", "stop-watchdog", "stop-sigterm", "stop-sigkill", "stop-post"),
    *("final-watchdog", "final-sigterm", "final-sigkill"),
)
"""Substates of a unit that is stopping, and that systemd may restart afterwards."""

_UNNOTED = "0600"
"""The mode of a file until the program to be notified has run: a difference that the next run detects."""

_PROGRAM_TIMEOUT = 1800.0
_LAST_LINES = 4
_LONGEST = 600
"""The most characters of such a program's output to report."""


@dataclass(frozen=True)
class Around:
    """What services need besides their files and units, in the form of the module's options of the same names."""

    directories: Mapping[str, str] = field(default_factory=dict)
    compile_cache: Mapping[str, Any] | None = None
    validate: Mapping[str, str] = field(default_factory=dict)
    reload: Mapping[str, str] = field(default_factory=dict)
    stop: Sequence[str] = ()
    notify: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)

    def keep_cache(self, check_mode: bool) -> list[str]:
        """Create the compile cache; return the differences."""
        return keep_cache(**self.compile_cache, check_mode=check_mode) if self.compile_cache else []


class Services:
    """The services of one host. `keep` is called with every JSON file that is about to be replaced."""

    def __init__(
        self,
        host: Host,
        tree: Tree | None = None,
        timeout: float = 300.0,
        keep: Callable[[str], object] = lambda _: None,
    ) -> None:
        self.host = host
        self.keep = keep
        self.tree = tree or Tree()
        self.units = Units(host, self.tree, timeout)

    def converge(
        self,
        desired: State,
        contents: Mapping[str, bytes],
        remove: Iterable[str] = (),
        restart: Sequence[str] = (),
        no_block: bool = False,
        check_mode: bool = False,
        around: Around | None = None,
    ) -> dict[str, Any]:
        """Converge files with contents, settings in JSON files, and units.

        Raises SettingsError if systemd or a program refuses something, and ValueError, before anything is changed, for
        a file whose settings cannot be merged.
        """
        around = around or Around()
        files = {
            path: {**want, **({"sha256": hashlib.sha256(contents[path]).hexdigest()} if path in contents else {})}
            for path, want in (desired.get("files") or {}).items()
            if "content" in want or path in contents
        }
        units = desired.get("units") or {}
        stopped = {name: {"active": False, "if_present": True} for name in around.stop}
        merging, merged = self._merging(desired.get("json_files") or {})
        found = self._differing({"files": files, "units": units}, no_block)
        gone = {path: dict(ABSENT) for path in remove if self.tree.entry(path) != ABSENT}
        writing = {
            item["key"]: new_file(files[item["key"]], contents.get(item["key"]))
            for item in found
            if item["kind"] == "file"
        }
        noting = {path: after for path, after in around.notify.items() if path in writing}
        reading = dict.fromkeys([*restart, *(name for after in noting.values() for name in after.get("restart") or ())])
        again = [name for name in reading if name not in stopped and self.units.is_active(name)]
        halted = [str(item["key"]) for item in self._differing({"units": stopped}, no_block=False)]
        making = {path: mode for path, mode in around.directories.items() if not os.path.isdir(self.tree.real(path))}
        unread = {
            name: marker for name, marker in around.reload.items() if writing or self.tree.entry(marker) != ABSENT
        }
        # A starting unit reads everything anyway; the reload signal would kill a program that does not handle it yet.
        starting = {item["key"] for item in found if item["kind"] == "unit" and item["expected"].get("active")}
        reloading = [name for name in unread if name not in {*again, *starting} and self.units.is_active(name)]
        caches = around.keep_cache(check_mode=True)
        result = {
            "changed": bool(found or merging or gone or again or halted or making or unread or caches),
            "differences": [
                *explain(merging),
                *explain(found),
                *(f"file {path} is there, expected none" for path in gone),
                *(f"directory {path} is missing, expected it to exist" for path in making),
                *caches,
                *(f"unit {name} runs with its former files, expected a restart" for name in [*halted, *again]),
                *(f"unit {name} runs with its former files, expected a reload" for name in reloading),
            ],
            "diff": [
                *(settings_diff(path, seen, desired["json_files"][path]) for path, (seen, _) in merged.items()),
                *(self._file_diff(path, entry, path in contents) for path, entry in (writing | gone).items()),
                *value_diff(
                    [
                        *difference_rows(found),
                        *((f"unit {name}", "runs", "restarted") for name in [*halted, *again]),
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
        for path, entry in writing.items():
            if path in around.validate:
                self._validate(path, content_of(entry), around.validate[path])
        # Stop before anything is written: an interrupted run then leaves a unit that the next run finds stopped, never
        # one that keeps running with what it read before.
        self._converge(stopped, no_block=False)
        around.keep_cache(check_mode=False)
        for marker in unread.values():
            self.tree.put(marker, new_file({"content": "", "mode": "0600"}))
        for path, (seen, entry) in merged.items():
            if seen["exists"]:
                self.keep(self.tree.real(path))
            self.tree.put(path, entry)
        self._apply(units, writing | gone, again, no_block, noting)
        for name in reloading:
            self.units.systemctl("reload", "--", name)
        for marker in unread.values():
            self.tree.put(marker, ABSENT)
        return result

    def _merging(self, wanted: Mapping[str, Any]) -> tuple[list[Difference], dict[str, tuple[State, dict[str, Any]]]]:
        """Return the differences in JSON files and, for each file that differs, its current and its new state."""
        seen = {path: read_json_file(self.host, path, want) for path, want in wanted.items()}
        found = differences({"json_files": dict(wanted)}, {"json_files": seen}) if wanted else []
        merged = {}
        for path in (str(item["key"]) for item in found):
            want = {"mode": "0644", **wanted[path]}
            merged[path] = seen[path], new_file({**want, "content": merged_text(self.host, path, want)})
        return found, merged

    def _validate(self, path: str, content: bytes, command: str) -> None:
        with tempfile.TemporaryDirectory() as folder:
            scratch = os.path.join(folder, os.path.basename(path))
            with open(scratch, "wb") as stream:
                stream.write(content)
            result = self.host.run([scratch if word == "%s" else word for word in shlex.split(command)])
        if not result.ok:
            raise SettingsError(
                f"`{command}` rejects the new {path}: {result.summary}. Nothing was written: change the setting "
                "that it names, and run again"
            )

    def _file_diff(self, path: str, entry: Mapping[str, Any], long: bool) -> dict[str, str]:
        shown = file_diff(path, self.tree.entry(path), entry)
        if entry == ABSENT:  # it may be a secret, and its former content is of no use
            return shown | {"before": "a file\n" if shown["before"] else ""}
        if not long:
            return shown
        # A program's text is of no use in a diff: showing that its digest differs is enough.
        return shown | {"before": _digest_line(self.tree.entry(path)), "after": _digest_line(entry)}

    def _differing(self, desired: State, no_block: bool) -> list[Difference]:
        seen = observe_settings(self.host, desired, timeout=60.0)
        found = [item for item in differences(desired, seen) if not (no_block and _is_starting(item))]
        # A unit that systemd is about to start or restart is not active now, but would be in a moment.
        for name, want in desired["units"].items():
            sub = ((seen.get("units") or {}).get(name) or {}).get("sub")
            if want.get("active") is False and sub in (*_STARTING, *_ENDING):
                found.append(difference("unit", name, {"active": False}, {"sub": sub}))
        return found

    def _apply(
        self,
        units: Mapping[str, Any],
        files: Mapping[str, Any],
        again: Sequence[str],
        no_block: bool,
        noting: Mapping[str, Mapping[str, Any]],
    ) -> None:
        # Stop units while their unit files still exist.
        self._converge({name: want for name, want in units.items() if want.get("active") is False}, no_block)
        for path, entry in files.items():
            self._note(path, entry, noting.get(path) or {})
            self.tree.put(path, dict(entry))
        # Also reload for files that an interrupted run wrote and systemd never read.
        if any(path.startswith(f"{UNITS}/") for path in files) or (units and self.units.are_outdated(units)):
            self.units.reload([])
        for name in again:
            self.units.systemctl("restart", "--", name)
        self._converge({name: want for name, want in units.items() if want.get("active") is not False}, no_block)

    def _note(self, path: str, entry: Mapping[str, Any], after: Mapping[str, Any]) -> None:
        """Have a program take note of a file, before the file gets its final mode."""
        argv = [str(word) for word in after.get("argv") or ()]
        if not argv or not self.host.has(argv[0]):
            return
        self.tree.put(path, {**entry, "mode": _UNNOTED})
        result = self.host.run(argv, _PROGRAM_TIMEOUT)
        if not result.ok:
            name = os.path.basename(argv[0])
            # The last lines matter: warnings come first, and the error last.
            said = " / ".join((said_lines(result.stderr) or said_lines(result.stdout))[-_LAST_LINES:])
            told = result.problem or (f"{name} returned {result.rc}: {said[-_LONGEST:]}" if said else result.summary)
            raise SettingsError(
                f"{told}, expected `{' '.join([name, *argv[1:]])}` to apply {path}: "
                f"{after.get('fix') or 'see its output on the host, and run again'}"
            )

    def _converge(self, units: Mapping[str, Any], no_block: bool) -> None:
        if units:
            for item in self._differing({"units": units}, no_block):
                self.units.converge(item["key"], units[item["key"]], item["expected"], no_block)


def _digest_line(entry: Mapping[str, Any]) -> str:
    return f"{hashlib.sha256(content_of(entry)).hexdigest()}\n" if entry["kind"] == "file" else ""


def _is_starting(item: Difference) -> bool:
    return item["kind"] == "unit" and set(item["expected"]) == {"active"} and item["observed"].get("sub") in _STARTING
