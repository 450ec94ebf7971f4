# SPDX-License-Identifier: Apache-2.0
"""Parses `nvidia-smi nvlink`: -s (speed of every link), -e (errors of every link), -c (capabilities of every link)."""

from __future__ import annotations

import re
from typing import Any

from .captures import capture_lines, is_prompt

STATUS, ERRORS, CAPABILITIES, REMOTE = "status", "errors", "capabilities", "remote"

_PIECES = re.compile(r"(?<=\S)\s*(?=GPU \d{1,3}: |Link\s+\d{1,3}\s*[:,]|Device does not |NVML: Unable )")
"""Where a newline was lost: text that normally starts a line also does so after other text."""
_GPU = re.compile(r"^GPU\s*(?P<index>\d{1,3})\s*:\s*(?P<rest>.*)$")
_NAMED = re.compile(r"^(?P<name>[^()]*?)\s*\(UUID:\s*(?P<uuid>[^\s()]+)\)$")
_LINK = re.compile(r"^Link\s*(?P<link>\d{1,3})\s*:\s*(?P<rest>.*)$", re.IGNORECASE)
_CAN = re.compile(r"^Link\s*(?P<link>\d{1,3})\s*,\s*(?P<what>[^:]{1,80}):\s*(?P<value>\w+)$", re.IGNORECASE)
_SPEED = re.compile(r"^(?P<speed>\d{1,6}(?:\.\d{1,6})?)\s*(?P<unit>GB|MB)/s$")
_INACTIVE = re.compile(r"^<?(?:in-?active|down|off|disabled)>?$", re.IGNORECASE)
_COUNTER = re.compile(r"^(?P<name>[A-Za-z][A-Za-z0-9 _/-]{1,60}?)\s*:\s*(?P<value>\S.*)$")
_REMOTE = re.compile(r"^Remote Device\s+(?P<bus>[0-9A-Fa-f:.]+)\s*:\s*Link\s*(?P<far>\d+)$")
_ABSENT = re.compile(r"does not have or support NVLink|Nvlink information.{0,40}Not Supported", re.IGNORECASE)
_MIG = re.compile(r"nvlink queries are not supported for devices in MIG mode", re.IGNORECASE)
_ALL_INACTIVE = re.compile(r"all links are in-?active", re.IGNORECASE)
_NUMBER = re.compile(r"^\d{1,20}$")
_FRACTION = re.compile(r"^(?P<number>\d{1,20}(?:\.\d{1,9})?(?:e[+-]?\d{1,3})?)(?:\s+[KMGT]i?B(?:/s)?)?$", re.IGNORECASE)
_NONE = re.compile(r"^\[?N/A\]?$", re.IGNORECASE)
_TROUBLE = re.compile(
    r"NVIDIA-SMI has failed|Failed to initialize NVML|Unable to determine the device handle|No devices were found|"
    r"(?:is|GPU) lost\b|fallen off the bus|requires? (?:a )?reset|nvidia-smi: (?:command )?not found|"
    r"(?:timed out|no answer within)",
    re.IGNORECASE,
)
_SUSPICIOUS = re.compile(
    r"error|fail|unable|invalid|lost|unknown|denied|link|GB/s|\[?\.\.\.|\u2026|UUID|inactive", re.IGNORECASE
)
_ASIDE = re.compile(r"^(?:#|rc\s*=\s*-?\d+$|[$]\s)")
_ASKED = re.compile(r"nvidia-smi\s+nvlink\b(?P<rest>.*)$")
_ONE_GPU = re.compile(r"(?:^|\s)(?:-i|--id)(?:[\s=]|$)")
_PROBLEMS = 20
_LONGEST = 200_000
"""Characters of a line: more than the counters of all GPUs of a host fill when every newline is lost."""


class _Reader:
    """Processes the lines, keeping track of the GPU that they belong to."""

    def __init__(self) -> None:
        self.gpus: list[dict[str, Any]] = []
        self.shows: list[str] = []
        self.trouble: list[str] = []
        self.problems: list[str] = []
        self.one_gpu: bool | None = None
        self.lines = 0
        self.gpu: dict[str, Any] | None = None
        self.told: set[tuple[str, str, str]] = set()

    def problem(self, text: str) -> None:
        if len(self.problems) < _PROBLEMS:
            self.problems.append(text)

    def read(self, line: str) -> None:
        if len(line) > _LONGEST:
            self.problem(f"a line of {len(line)} characters was not read completely")
            line = line[:_LONGEST]
        asked = _ASKED.search(line)
        if _ASIDE.match(line) or is_prompt(line) or (asked and line.startswith(("nvidia-smi", "sudo"))):
            if asked and not line.startswith("#"):
                self.one_gpu = bool(_ONE_GPU.search(asked["rest"]))
            return
        self.lines += 1
        for piece in _PIECES.sub("\n", line).split("\n"):
            self._piece(piece.strip())

    def _piece(self, piece: str) -> None:
        gpu, link, can = _GPU.match(piece), _LINK.match(piece), _CAN.match(piece)
        if _TROUBLE.search(piece):
            self.trouble.append(piece[:300])
        elif gpu:
            self._begin(int(gpu["index"]), gpu["rest"])
        elif link:
            self._link(str(int(link["link"])), link["rest"].strip(), piece)
        elif can:
            self._can(str(int(can["link"])), can["what"].strip(), can["value"], piece)
        elif _ABSENT.search(piece):
            self._show(STATUS)
            self._current()["supported"] = False
        elif _MIG.search(piece):
            self._show(STATUS)
            self._current()["mig"] = True
        elif _ALL_INACTIVE.search(piece):
            self._show(STATUS)
            self._current()["all_inactive"] = True
        elif _SUSPICIOUS.search(piece):
            self.problem(f"this line was not understood: {piece[:160]!r}")

    def _begin(self, index: int, rest: str) -> None:
        named = _NAMED.match(rest)
        name, uuid = (named["name"], named["uuid"]) if named else (None, None)
        self.told = set()
        self.gpu = next((one for one in self.gpus if one["index"] == index), None)
        if self.gpu is None:
            self.gpu = {"index": index}
            self.gpus.append(self.gpu)
        elif uuid and self.gpu.get("uuid") not in (None, uuid):
            self.problem(f"GPU {index} is shown twice, as {self.gpu['uuid']} and as {uuid}")
        if named:
            self.gpu.update(name=name, uuid=uuid)
        elif rest and "(" not in rest:
            self.gpu.setdefault("name", rest.strip())
        elif rest:
            self.problem(f"the name of GPU {index} was not understood: {rest[:160]!r}")

    def _current(self) -> dict[str, Any]:
        if self.gpu is None:
            self.gpu = {"index": None}
            self.gpus.append(self.gpu)
            self.problem("there are links before the first line that names a GPU")
        return self.gpu

    def _show(self, what: str) -> None:
        if what not in self.shows:
            self.shows.append(what)

    def _once(self, what: str, link: str, name: str = "") -> bool:
        """Whether this item is new for the current GPU; a repetition means that a line in between was lost."""
        key = (what, link, name)
        if key in self.told:
            self.problem(f"link {link} of GPU {self._current()['index']} is shown twice: the line of a GPU may be lost")
            return False
        self.told.add(key)
        return True

    def _link(self, link: str, rest: str, piece: str) -> None:
        gpu = self._current()
        speed, counter, remote = _SPEED.match(rest), _COUNTER.match(rest), _REMOTE.match(rest)
        if speed or _INACTIVE.match(rest):
            value = None
            if speed:
                value = float(speed["speed"]) / (1000 if speed["unit"] == "MB" else 1)
            self._show(STATUS)
            links = gpu.setdefault("links", {})
            self._once(STATUS, link)
            if link in links and links[link] != value:
                self.problem(f"link {link} of GPU {gpu['index']} is shown twice, as {links[link]} and as {value}")
                value = None if None in (links[link], value) else min(links[link], value)
            links[link] = value
        elif remote:
            self._show(REMOTE)
            gpu.setdefault("remote", {})[link] = {"bus": remote["bus"], "link": int(remote["far"])}
        elif counter and _value(counter["value"]) is not False:
            self._count(gpu, link, counter["name"], _value(counter["value"]))
        else:
            self.problem(f"link {link} of GPU {gpu['index']} was not understood: {piece[:160]!r}")

    def _count(self, gpu: dict[str, Any], link: str, words: str, value: float | None) -> None:
        self._show(ERRORS)
        name = " ".join(words.split()).lower().removesuffix(" errors")
        counts = gpu.setdefault("errors", {}).setdefault(link, {})
        self._once(ERRORS, link, name)
        # Two different values: take the higher one, as a count of errors never falls.
        known = counts.get(name)
        counts[name] = value if known is None else max(known, value or 0)

    def _can(self, link: str, what: str, value: str, piece: str) -> None:
        if value.lower() not in ("true", "false"):
            self.problem(f"the capabilities of link {link} were not understood: {piece[:160]!r}")
            return
        self._show(CAPABILITIES)
        self._current().setdefault("capabilities", {}).setdefault(link, {})[what] = value.lower() == "true"


def _value(text: str) -> float | bool | None:
    """A count; None for N/A; False for anything else."""
    plain = text.strip()
    if _NONE.match(plain):
        return None
    if _NUMBER.match(plain):
        return int(plain)
    fraction = _FRACTION.match(plain)
    return float(fraction["number"]) if fraction else False


def parse_nvlink(text: str) -> tuple[dict[str, Any], list[str]]:
    """Parse every GPU with its links, and list what was not understood.

    {"gpus": [{"index", "name", "uuid", "links": {"0": GB/s, "7": None (inactive)}, "errors": {"0": {"replay": 0}},
    "supported": False (it reports that it has no NVLink), "all_inactive": True, "mig": True (links cannot be
    queried)}], "shows": ["status", "errors", ...], "trouble": [what nvidia-smi printed instead of an answer],
    "one_gpu": whether the command selected one (-i)}. Keys that the text does not show are absent. A command that
    printed nothing gives no GPUs and `silent`.
    """
    reader = _Reader()
    for line in capture_lines(text):
        if line.strip():
            reader.read(line.strip())
    data: dict[str, Any] = {}
    if reader.gpus or reader.trouble:
        data = {"gpus": reader.gpus, "shows": reader.shows, "trouble": reader.trouble}
    elif not reader.lines:
        data = {"gpus": [], "shows": [], "trouble": [], "silent": True}
        reader.problem("nothing was printed")
    if data and reader.one_gpu is not None:
        data["one_gpu"] = reader.one_gpu
    if not data and not reader.problems:
        first = next((line.strip() for line in capture_lines(text) if line.strip()), "")
        reader.problem(f"the text has no GPU and no link; it begins with {first[:160]!r}")
    return data, reader.problems
