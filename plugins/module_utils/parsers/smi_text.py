# SPDX-License-Identifier: Apache-2.0
"""Common to all forms of nvidia-smi's output: complaints between the lines, and the handling of values."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from .captures import capture_lines, is_prompt
from .fields import LEFT_OUT, TROUBLE, label, read
from .reading import quoted

VERSION = re.compile(r"(?<![\d.])\d{3,4}(?:\.\d{1,4}){1,2}(?![\d.])")
"""A driver's version, such as 580.142 or 590.48.01."""

_COMPLAINT = re.compile(
    r"NVIDIA-SMI has failed|failed to initialize NVML|no devices were found|no supported gpus|"
    r"unable to (?:determine|detect) the device handle|nvidia-smi['\"]?:? (?:command )?not found|"
    r"nvidia-smi['\"]?: (?:no such file|cannot|permission denied)|couldn'?t find libnvidia-ml|"
    r"driver/library version mismatch|insufficient permissions|nvml error|(?:killed|terminated)$|"
    r"failed to (?:properly )?(?:shut ?down|get|query)",
    re.IGNORECASE,
)
_FOLLOWING = re.compile(
    r"^\s*(?:Make sure that the latest NVIDIA driver|NVML library version:|Please also try adding directory|"
    r"Reboot the system to recover|This can be|Also,? |(?:sudo )?(?:apt|snap|dnf|yum) )",
    re.IGNORECASE,
)
"""Lines that only continue a complaint."""
_WARNING = re.compile(r"^\s*WARNING:.*", re.IGNORECASE)
_RETURNED = re.compile(r"^\s*(?:rc|exit(?: code| status)?)\s*[=:]\s*(\d{1,3})\s*$", re.IGNORECASE)
_REMARK = re.compile(r"^\s*#\s*(?:source\b|\$)", re.IGNORECASE)
_VALUE = re.compile(r"^\s*(?:[|<+]|[A-Za-z][\w .()/-]{0,60}?\s+:\s)")
"""A line of a table, of XML, or with a key and a value: an error in it belongs to that value."""
_LONGEST = 400
_HUNG = {"124", "137", "143"}


@dataclass
class Said:
    """A capture of nvidia-smi: its own lines, the command if shown, and its complaints."""

    lines: list[str] = field(default_factory=list)
    command: str = ""
    trouble: list[str] = field(default_factory=list)
    warnings: list[str] = field(default_factory=list)
    problems: list[str] = field(default_factory=list)
    library: str | None = None
    """The library's version, which the message about a mismatch prints without its last part."""


def said(text: str) -> Said:
    """Split a capture into its own lines and its prompts, remarks and complaints."""
    found = Said()
    for line in capture_lines(text):
        returned = _RETURNED.match(line)
        if returned:
            _returned(found, returned[1])
        elif _REMARK.match(line) or is_prompt(line):
            found.command = line if "nvidia-smi" in line or not found.command else found.command
        elif _WARNING.match(line):
            found.warnings.append(line.strip()[:_LONGEST])
        elif _FOLLOWING.match(line):
            version = VERSION.search(line)
            found.library = version[0] if version and "NVML" in line else found.library
        elif _is_complaint(line):
            if len(found.trouble) < 64:
                found.trouble.append(" ".join(line.split())[:_LONGEST])
        else:
            found.lines.append(line)
    return found


def _is_complaint(line: str) -> bool:
    if len(line) > _LONGEST or _VALUE.match(line):
        return False
    if _COMPLAINT.search(line):
        return True
    return bool(TROUBLE.search(line)) and line.count(",") < 2


def _returned(found: Said, code: str) -> None:
    if code in _HUNG:
        found.trouble.append(f"nvidia-smi gave no answer and was ended (rc={code})")
    elif code != "0":
        found.problems.append(f"the command returned {code}, expected 0")


class Gpu:
    """A GPU being parsed: its cells become fields, complaints or problems."""

    def __init__(self, found: Said, **known: Any) -> None:
        self.fields: dict[str, Any] = {name: value for name, value in known.items() if value is not None}
        self._said = found
        self._contradicted: set[str] = set()
        self._refused: list[tuple[str, str]] = []

    def take(self, name: str, raw: str) -> None:
        """Add one cell. A field with two different values counts as missing."""
        if name in LEFT_OUT or name in self._contradicted:
            return
        cell = read(name, raw)
        if cell.trouble:
            self._refused.append((name, cell.trouble))
        elif cell.problem:
            self._said.problems.append(f"{label(self.fields)}: {cell.problem}")
        elif cell.told and name in self.fields and self.fields[name] != cell.value:
            self._contradicted.add(name)
            self._said.problems.append(f"{label(self.fields)}: {name} is {self.fields.pop(name)!r} and {cell.value!r}")
        elif cell.told:
            self.fields[name] = cell.value

    def done(self) -> dict[str, Any]:
        """Return the fields; values that were refused are reported once for each reason."""
        for reason in dict.fromkeys(reason for _, reason in self._refused):
            names = [name for name, why in self._refused if why == reason]
            more = f" and {len(names) - 1} more" if len(names) > 1 else ""
            self._said.trouble.append(f"{label(self.fields)}: {quoted(reason)} in place of {names[0]}{more}")
        return self.fields


def document(
    found: Said,
    gpus: list[dict[str, Any]],
    versions: Mapping[str, str | None] | None = None,
    *,
    listed: int | None = None,
    complete: bool = False,
    processes: list[dict[str, Any]] | None = None,
    mig: list[dict[str, Any]] | None = None,
    **more: Any,
) -> tuple[dict[str, Any], list[str]]:
    """Build the data of a source that lists GPUs, and its problems; empty if nothing at all was understood.

    `processes` is None if the source does not list them, or not to the end.
    """
    told = versions or {}
    of_gpus = {str(gpu["driver_version"]) for gpu in gpus if gpu.get("driver_version")}
    driver = told.get("driver") or (of_gpus.pop() if len(of_gpus) == 1 else None)
    if not (gpus or found.trouble or driver or listed is not None or processes or more.get("understood")):
        first = next((line for line in found.lines if line.strip()), "")
        return {}, [
            *found.problems,
            f"this is not output of nvidia-smi: {quoted(first)}" if first else "the text is empty",
        ]
    more.pop("understood", None)
    data = {
        "gpus": gpus,
        "driver": driver,
        "tool": told.get("tool"),
        "library": found.library,
        "cuda": told.get("cuda"),
        "trouble": list(dict.fromkeys(found.trouble)),
        "warnings": list(dict.fromkeys(found.warnings)),
        "listed": listed,
        "complete": complete and not found.trouble,
        "processes": processes,
        "mig": mig or [],
        **more,
    }
    return data, list(dict.fromkeys(found.problems))[:64]
