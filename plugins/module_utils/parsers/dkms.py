# SPDX-License-Identifier: Apache-2.0
"""Parses what `dkms status` reports about the driver's module, and the traces of a failed build."""

from __future__ import annotations

import re
from dataclasses import asdict, dataclass
from typing import Any

MODULES = frozenset({"nvidia", "nvidia-open", "nvidia-srv", "nvidia-srv-open", "nvidia-current", "nvidia-current-open"})
"""Names of the driver in DKMS: nvidia in NVIDIA's packages since 570.148.08; other archives use others."""

GOOD = ("installed", "installed-weak")

# 3.x: `nvidia/580.126.20, 6.8.0-60-generic, x86_64: installed (Original modules exist)`; 2.8 of Ubuntu 20.04 and weak
# modules of any release: `nvidia, 510.47.03, 5.4.0-109-generic, x86_64: installed`.
_ROW = re.compile(
    r"^(?P<module>[^\s,/:]+)(?:/|,\s*)(?P<version>[^\s,:]+)"
    r"(?:,\s*(?P<kernel>[^\s,:]+),\s*(?P<arch>[^\s,:]+))?"
    r":\s*(?P<state>[a-z-]+)(?:\s+from\s+(?P<built_for>\S+))?(?P<notes>.*)$"
)
_NOTE = re.compile(r"\(([^()]*)\)")
_FAILED = re.compile(r"Bad return status for module build on kernel: (?P<kernel>[^\s,()]+)")
_LOG = re.compile(r"(?P<path>/\S*/make\.log)")
_ERROR = re.compile(r"(?:^|\s)(?:fatal )?error[:!]", re.IGNORECASE)
_MISSING = re.compile(r"missing|differences|diff between", re.IGNORECASE)
_LONGEST = 200


@dataclass(frozen=True)
class Build:
    """A module as DKMS lists it; without a kernel if it was never built. `notes` are DKMS's warnings."""

    module: str
    version: str
    kernel: str | None
    state: str
    notes: tuple[str, ...] = ()

    @property
    def sound(self) -> bool:
        """Whether the module is where the kernel looks for it, unchanged since it was built."""
        return self.state in GOOD and not any(_MISSING.search(note) for note in self.notes)

    @property
    def words(self) -> str:
        """A description for messages."""
        where = f" for {self.kernel}" if self.kernel else ""
        notes = f" ({'; '.join(self.notes)})" if self.notes else ""
        return f"{self.module} {self.version}{where} is {self.state}{notes}"

    def as_dict(self) -> dict[str, Any]:
        """The build as plain values, for an observation."""
        return {**asdict(self), "notes": list(self.notes)}


def parse_dkms_status(text: str) -> list[Build]:
    """Parse the driver's rows of `dkms status`, of every DKMS release; other modules and complaints are left out."""
    found = []
    for line in text.splitlines():
        row = _ROW.match(line.strip())
        if row is not None and row["module"] in MODULES:
            notes = tuple(" ".join(note.split()) for note in _NOTE.findall(row["notes"]))
            found.append(Build(row["module"], row["version"], row["kernel"], row["state"], notes))
    return found


@dataclass(frozen=True)
class FailedBuild:
    """What apt's output shows about a module that could not be built."""

    kernel: str | None
    log: str | None

    @property
    def words(self) -> str:
        """A description in DKMS's own wording, so that it can be parsed again."""
        told = [f"Bad return status for module build on kernel: {self.kernel}"] if self.kernel else []
        return ", ".join([*told, *([f"log {self.log}"] if self.log else [])])


def parse_failed_build(text: str) -> FailedBuild | None:
    """Parse the kernel and the log of a failed build; None if none failed."""
    failed = _FAILED.search(text)
    log = _LOG.search(text)
    if failed is None and log is None:
        return None
    return FailedBuild(failed["kernel"] if failed else None, log["path"] if log else None)


def last_lines(make_log: str | None, most: int = 5) -> list[str]:
    """The lines of a make.log that explain the failure: the first errors, then the end."""
    lines = [" ".join(line.split())[:_LONGEST] for line in (make_log or "").splitlines() if line.strip()]
    errors = [line for line in lines if _ERROR.search(line)]
    chosen = list(dict.fromkeys([*errors[: most - 2], *lines[-2:]]))
    return chosen[:most]
