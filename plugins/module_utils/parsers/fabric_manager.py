# SPDX-License-Identifier: Apache-2.0
"""Parses NVIDIA's fabric manager: what systemd reports about its unit, its log, and its version."""

from __future__ import annotations

import re
from typing import Any

from .captures import capture_lines

UNIT = "nvidia-fabricmanager"
STARTED, STOPPED, FAILED = "started", "stopped", "failed"

_VERSION_NUMBER = r"(?P<version>\d{3,4}(?:\.\d{1,4}){1,3})(?![\d.])"
_LOADED = re.compile(r"^Loaded:\s*(?P<load>loaded|not-found|masked|error|bad-setting)\b(?:\s*\((?P<rest>[^)]*)\)?)?")
_ACTIVE = re.compile(
    r"^Active:\s*(?P<active>active|inactive|failed|activating|deactivating|reloading|maintenance)\s*"
    r"(?:\((?P<sub>[\w-]+)\))?\s*(?:\(?Result:\s*(?P<result>[\w-]+)\)?)?(?P<since>\s+since\b.*)?"
)
_ACTIVE_WHOLE = re.compile(r"^Active:\s*\w+\s*\([^)]*\)")
_MAIN = re.compile(r"^Main PID:\s*(?P<pid>\d+)(?P<rest>.*)$")
_SHOWN = re.compile(r"^(?P<key>LoadState|ActiveState|SubState|UnitFileState|Result|MainPID)=(?P<value>[\w.-]*)$")
_BARE_ACTIVE = re.compile(r"^(?:active|inactive|failed|activating|deactivating|reloading)$")
_BARE_ENABLED = re.compile(r"^(?:enabled|enabled-runtime|disabled|static|masked|indirect|not-found)$")
_ABSENT = re.compile(
    r"Unit \S*fabric-?manager\S* (?:could not be found|not found|not loaded)|"
    r"fabric-?manager\S*:? .*No such file|No files found for nvidia-fabricmanager|service not found",
    re.IGNORECASE,
)
_NO_PROGRAM = re.compile(r"fabric-?manager\S*:? (?:command )?not found", re.IGNORECASE)
_VERSION = re.compile(rf"fabric ?manager version(?:\s+is)?\s*:?\s*{_VERSION_NUMBER}", re.IGNORECASE)
_VERSION_CUT = re.compile(r"fabric ?manager version(?:\s+is)?\s*:", re.IGNORECASE)
_MISMATCH = re.compile(
    r"interface version (?P<manager>\d+(?:\.\d+)*) do(?:es)?n.{0,8}t match with "
    r"driver version (?P<driver>\d+(?:\.\d+)*)"
)
_MISMATCH_WORDS = re.compile(r"do(?:es)?n.{0,8}t match with driver|version is incompatible with", re.IGNORECASE)
_NOTHING = re.compile(r"NV_WARN_NOTHING_TO_DO|nothing to do", re.IGNORECASE)
_TOPOLOGY = re.compile(r"do(?:es)?n.{0,8}t match with any supported system topology", re.IGNORECASE)
_SERVED = re.compile(
    r"successfully (?:set ?up|released) multicast team|multicast group \d+ is (?:allocated|freed)", re.IGNORECASE
)
_CONFIGURED = re.compile(r"Successfully configured all the available", re.IGNORECASE)
_FABRIC = re.compile(r"^(?P<key>State|Status)\s*:\s*(?P<value>[A-Za-z/][\w /-]{0,60})$")
_SXID = re.compile(
    r"detected NVSwitch (?P<kind>non-fatal|fatal) error (?P<number>\d{3,6})(?P<where>.*)$", re.IGNORECASE
)
_LIFE: tuple[tuple[str, re.Pattern[str]], ...] = (
    (
        FAILED,
        re.compile(r"Failed to start\b|Failed with result|process exited, code=(?:killed|dumped|exited, status=[1-9])"),
    ),
    (
        FAILED,
        re.compile(
            r"process exited, code=|fabric ?manager.{0,40} failed!|exited with|entered failed state", re.IGNORECASE
        ),
    ),
    (
        STOPPED,
        re.compile(r"Stopped .*fabric ?-?manager|fabricmanager\.service: (?:Deactivated|Succeeded)", re.IGNORECASE),
    ),
    (STARTED, re.compile(r"Started .*fabric ?-?manager|Successfully configured all the available", re.IGNORECASE)),
)
_ERROR = re.compile(r"\[(?:ERROR|CRITICAL|FATAL)\]|\bfailed\b|\berror\b", re.IGNORECASE)
_ABOUT = re.compile(r"fabric ?-?manager|\[tid \d+\]|NVSwitch", re.IGNORECASE)
_ASIDE = re.compile(r"^(?:#\s|rc\s*=\s*-?\d+$|[$]\s)")
_KEPT = 10
_LONGEST = 4000
_ENABLED = ("enabled", "enabled-runtime", "static", "alias", "indirect", "generated")


class _Reader:
    """Processes the lines; problems that a later start fixed are dropped."""

    def __init__(self) -> None:
        self.unit: dict[str, Any] = {}
        self.data: dict[str, Any] = {}
        self.sxids: dict[tuple[int, bool], dict[str, Any]] = {}
        self.errors: list[str] = []
        self.fabric: list[dict[str, Any]] = []
        self.problems: list[str] = []

    def problem(self, text: str) -> None:
        if len(self.problems) < _KEPT:
            self.problems.append(text)

    def read(self, line: str) -> None:
        if _ASIDE.match(line) or self._status(line) or self._shown(line) or self._state(line):
            return
        if _ABSENT.search(line):
            self._set("load", "not-found")
        elif _NO_PROGRAM.search(line):
            self.data["no_program"] = True
        version = _VERSION.search(line)
        if version:
            self._version(version["version"])
        elif _VERSION_CUT.search(line):
            self.problem(f"the version of the fabric manager was not understood: {line[:200]!r}")
        self._log(line)

    def _set(self, key: str, value: Any) -> None:
        if key in self.unit and self.unit[key] != value:
            self.problem(f"the unit is shown twice: {key} is {self.unit[key]} and {value}")
        self.unit[key] = value

    def _version(self, version: str) -> None:
        # A log has past versions before the current one.
        self.data["version"] = version

    def _status(self, line: str) -> bool:
        loaded, active, main = _LOADED.match(line), _ACTIVE.match(line), _MAIN.match(line)
        if loaded:
            self._set("load", loaded["load"])
            words = [word.strip() for word in (loaded["rest"] or "").split(";")]
            if len(words) > 1 and words[1]:
                self._set("enabled", words[1] in _ENABLED)
        elif active and _ACTIVE_WHOLE.match(line):
            self._set("active", active["active"])
            if active["sub"]:
                self._set("sub", active["sub"])
            if active["result"]:
                self._set("result", active["result"])
        elif line.startswith("Active:"):
            self.problem(f"the unit's state was not understood: {line[:200]!r}")
        elif main:
            self._set("main_pid", int(main["pid"]))
            if "code=" in main["rest"]:
                self._set("ended", main["rest"].strip(" ()"))
        return bool(loaded or active or main or line.startswith("Active:"))

    def _state(self, line: str) -> bool:
        """Parse `nvidia-smi -q | grep -A 2 Fabric`: the state and the status of one GPU after the other."""
        found = _FABRIC.match(line)
        if not found:
            return False
        key, value = found["key"].lower(), found["value"].strip()
        if not self.fabric or key in self.fabric[-1]:
            self.fabric.append({})
        self.fabric[-1][key] = None if value.upper() == "N/A" else value
        return True

    def _shown(self, line: str) -> bool:
        shown = _SHOWN.match(line)
        if shown:
            key, value = shown["key"], shown["value"]
            name = {"LoadState": "load", "ActiveState": "active", "SubState": "sub", "Result": "result"}.get(key)
            if name and value:
                self._set(name, value)
            elif key == "UnitFileState" and value:
                self._set("enabled", value in _ENABLED)
            elif key == "MainPID" and value.isdigit() and int(value):
                self._set("main_pid", int(value))
        elif _BARE_ACTIVE.match(line):
            self._set("active", line)
        elif _BARE_ENABLED.match(line):
            if line in ("masked", "not-found"):
                self._set("load", line)
            else:
                self._set("enabled", line in _ENABLED)
        else:
            return False
        return True

    def _log(self, line: str) -> None:
        mismatch, sxid = _MISMATCH.search(line), _SXID.search(line)
        if mismatch:
            self.data["mismatch"] = {"fabric_manager": mismatch["manager"], "driver": mismatch["driver"]}
            self.data["log_state"] = FAILED
        elif _MISMATCH_WORDS.search(line):
            self.data["mismatch"] = {}
            self.data["log_state"] = FAILED
        elif _TOPOLOGY.search(line):
            self.data["wrong_topology"] = True
            self.data["log_state"] = FAILED
        elif _NOTHING.search(line) and _ABOUT.search(line):
            self.data["nothing_to_do"] = True
            self.data["log_state"] = FAILED
        elif sxid:
            fatal = sxid["kind"].lower() == "fatal"
            key = (int(sxid["number"]), fatal)
            known = self.sxids.get(key) or {"number": key[0], "fatal": fatal, "count": 0}
            self.sxids[key] = {**known, "count": known["count"] + 1, "text": line[:300]}
        else:
            self._life(line)

    def _life(self, line: str) -> None:
        state = next((name for name, pattern in _LIFE if pattern.search(line)), None)
        if state:
            self.data["log_state"] = state
        if state == STARTED:
            self.data.pop("mismatch", None)
            self.data.pop("nothing_to_do", None)
            self.data.pop("wrong_topology", None)
            self.errors.clear()
        if _CONFIGURED.search(line):
            self.data["configured"] = True
        elif _SERVED.search(line):
            self.data["serves"] = True
        elif state == FAILED or (_ERROR.search(line) and _ABOUT.search(line)):
            self.errors = [*self.errors, line[:300]][-_KEPT:]


def parse_fabric_manager(text: str) -> tuple[dict[str, Any], list[str]]:
    """Parse what the text shows about the fabric manager.

    {"unit": {"load", "active", "sub", "result", "enabled", "main_pid", "ended"}, "version", "log_state": started,
    stopped or failed (the last in the log), "mismatch": {"fabric_manager", "driver"} (it refused this driver),
    "nothing_to_do": True (it found no NVSwitch), "wrong_topology": True (it found too few or too many of them),
    "configured": True, "serves": True (it answers requests of GPUs), "no_program": True (the shell does not find it),
    "sxids": [{"number", "fatal", "count", "text"}], "errors": [lines since the last start], "fabric": [{"state",
    "status"}] (of GPUs, as nvidia-smi -q prints them)}. Keys that the text does not show are absent.
    """
    reader = _Reader()
    lines = [line.strip()[:_LONGEST] for line in capture_lines(text)]
    for line in lines:
        if line:
            reader.read(line)
    data = dict(reader.data)
    if reader.unit:
        data["unit"] = reader.unit
    if reader.sxids:
        data["sxids"] = list(reader.sxids.values())
    if reader.errors:
        data["errors"] = reader.errors
    if reader.fabric:
        data["fabric"] = reader.fabric
    if not data and not reader.problems:
        first = next((line for line in lines if line and not _ASIDE.match(line)), "")
        reader.problem(
            f"the text has nothing about the fabric manager; it begins with {first[:160]!r}"
            if first
            else "nothing was printed"
        )
    return data, reader.problems
