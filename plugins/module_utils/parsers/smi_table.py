# SPDX-License-Identifier: Apache-2.0
"""Parses the table that plain `nvidia-smi` prints: versions, two or three lines per GPU, MIG devices, processes."""

from __future__ import annotations

import re
from typing import Any

from .reading import quoted
from .smi_text import Gpu, Said, document, said

_VERSIONS = re.compile(r"NVIDIA-SMI\s+(?P<tool>\d{3,4}(?:\.\d{1,4}){1,2})(?![\d.])")
_DRIVER = re.compile(r"(?:Driver|KMD)\s+Version:\s*(?P<version>\d{3,4}(?:\.\d{1,4}){1,2})(?=\s|\|)", re.IGNORECASE)
_CUDA = re.compile(r"CUDA(?:\s+UMD)?\s+Version:\s*(?P<version>\d{1,2}\.\d{1,2})(?=\s|\|)", re.IGNORECASE)
_FIRST = re.compile(r"^\s*(?P<index>\d{1,3})\s+(?P<name>\S.*?)\s+(?P<mode>On|Off|N/A|ERR!|WDDM|TCC|MCDM)\s*$")
_BUS = re.compile(r"^\s*(?P<bus>[0-9A-Fa-f]{4,8}:[0-9A-Fa-f]{2}:[0-9A-Fa-f]{2}\.[0-7])(?:\s+\S+)?\s*$")
_STATE = re.compile(
    r"^\s*(?:\S+%?)\s+(?P<temperature>-?\d+C|N/A|ERR!)\s+(?P<pstate>P\d+|N/A|ERR!)\s+"
    r"(?P<draw>\d+W|N/A|ERR!)\s*/\s*(?P<cap>\d+W|N/A|ERR!)\s*$"
)
_MEMORY = re.compile(r"^\s*(?P<used>\d+MiB|N/A|ERR!)\s*/\s*(?P<total>\d+MiB|N/A|ERR!)\s*$")
_LOAD = re.compile(r"^\s*(?P<load>\d+%|N/A|ERR!)\s+(?P<mode>\S.*?)\s*$")
_MIG_MODE = re.compile(r"^\s*(?P<mode>Enabled|Disabled|N/A|ERR!)(?P<pending>\*?)\s*$")
_MIG_DEVICE = re.compile(r"^\s*(?P<gpu>\d{1,3})\s+(?P<gi>\d{1,3})\s+(?P<ci>\d{1,3})\s+(?P<device>\d{1,3})\s*$")
_PROCESS = re.compile(
    r"^\s*(?P<gpu>\d{1,3})\s+(?:\S{1,4}\s+\S{1,4}\s+)?(?P<pid>\d{1,10})\s+(?P<type>(?:M\+)?[CG](?:\+[CG])?)\s+"
    r"(?P<name>\S.*?)(?:\s+(?P<memory>\d+MiB|N/A))?\s*$"
)
_RULE = re.compile(r"^\s*[+|][-=+|]{3,}\s*$")


def parse_smi_table(text: str) -> tuple[dict[str, Any], list[str]]:
    """Parse the table. It is complete once its processes follow: before that, another GPU may have been cut off."""
    table = _Table(said(text))
    for line in table.found.lines:
        table.line(line)
    return table.document()


class _Table:
    """The parser's position: before the table, at the GPUs, at the MIG devices, at the processes."""

    def __init__(self, found: Said) -> None:
        self.found = found
        self.part = ""
        self.versions: dict[str, str] = {}
        self.gpus: list[dict[str, Any]] = []
        self.mig: list[dict[str, Any]] = []
        self.processes: list[dict[str, Any]] = []
        self.processes_end = False
        self._gpu: Gpu | None = None
        self._row = 0
        self._listing = False
        self._unread = 0

    def line(self, line: str) -> None:
        """Process one line of the capture."""
        inner = line.strip()
        if "NVIDIA-SMI" in inner and _VERSIONS.search(inner):
            self._header(inner)
        elif "Processes:" in inner:
            self._end()
            self.part = "processes"
        elif re.match(r"^\|\s*MIG devices:", inner):
            self._end()
            self.part = "mig"
        elif re.match(r"^\|?\s*GPU\s+Name\b", inner):
            self.part = "gpus"
        elif _RULE.match(inner):
            self._end()
            if self.part == "processes":
                self.processes_end = self._listing and "=" not in inner
                self._listing = self._listing or "=" in inner
        elif inner.startswith("|"):
            self._cells(inner.strip("|").split("|"), inner)

    def _header(self, line: str) -> None:
        self._end()
        tool, driver, cuda = _VERSIONS.search(line), _DRIVER.search(line), _CUDA.search(line)
        for name, version in (("tool", tool and tool["tool"]), ("driver", driver and driver["version"])):
            if version and self.versions.setdefault(name, version) != version:
                self.found.problems.append(f"the {name} is of version {self.versions[name]} and {version}")
        if cuda:
            self.versions["cuda"] = cuda["version"]
        if not driver:
            self.found.problems.append(f"no driver version in {quoted(line)}")
        self.part = "gpus"

    def _cells(self, cells: list[str], line: str) -> None:
        if self.part == "processes":
            self._process(line)
        elif self.part == "mig":
            device = _MIG_DEVICE.match(cells[0]) if len(cells) >= 3 else None
            if device:
                self.mig.append({name: int(value) for name, value in device.groupdict().items()})
        elif len(cells) == 3:
            self._gpu_row(cells, line)
        elif re.match(r"^\s*\d+\s+\S", cells[0]) or self._gpu is not None:
            self._refuse(line)

    def _gpu_row(self, cells: list[str], line: str) -> None:
        first, bus = _FIRST.match(cells[0]), _BUS.match(cells[1])
        if first and bus:
            self._end()
            self._gpu, self._row = Gpu(self.found, index=int(first["index"])), 1
            self._gpu.take("name", first["name"])
            self._gpu.take("bus", bus["bus"])
            if first["mode"] in ("On", "Off", "ERR!"):
                self._gpu.take("persistence_mode", first["mode"])
            self._ecc(self._gpu, cells[2].strip())
        elif self._gpu is None:
            if line.strip(" |") and not re.search(r"Bus-Id|Memory-Usage|MIG M\.", line):
                self._refuse(line)
        elif self._row == 1:
            self._row = 2
            self._second(self._gpu, cells, line)
        elif self._row == 2:
            self._row = 3
            mode = _MIG_MODE.match(cells[2])
            if mode:
                self._mig_mode(self._gpu, mode["mode"], bool(mode["pending"]))
            elif cells[2].strip():
                self._refuse(line)
        else:
            self._refuse(line)  # a fourth line belongs to the next GPU, whose rule or first line is damaged

    def _ecc(self, gpu: Gpu, cell: str) -> None:
        """Parse the count of errors, or the mode: `Off`, or `On` if MIG devices have the counts."""
        if cell.isdecimal():
            gpu.take("ecc.mode.current", "On")
            gpu.take("ecc.errors.uncorrected.volatile.total", cell)
        elif cell in ("On", "Off", "N/A", "ERR!"):
            gpu.take("ecc.mode.current", cell)
        else:
            self._refuse(cell)

    def _second(self, gpu: Gpu, cells: list[str], line: str) -> None:
        state, memory, load = _STATE.match(cells[0]), _MEMORY.match(cells[1]), _LOAD.match(cells[2])
        if state:
            for name, group in (
                ("temperature.gpu", "temperature"),
                ("pstate", "pstate"),
                ("power.draw", "draw"),
                ("enforced.power.limit", "cap"),
            ):
                gpu.take(name, state[group])
        if memory:
            gpu.take("memory.used", memory["used"])
            gpu.take("memory.total", memory["total"])
        elif cells[1].strip() in ("Not Supported", "N/A"):
            gpu.take("memory.total", "N/A")
        if load:
            gpu.take("utilization.gpu", load["load"])
            gpu.take("compute_mode", load["mode"])
        if not (state and load and "memory.total" in gpu.fields):
            self._refuse(line)

    def _mig_mode(self, gpu: Gpu, mode: str, pending: bool) -> None:
        """Parse the MIG mode; a star marks one that the next reset changes."""
        gpu.take("mig.mode.current", mode)
        if mode in ("Enabled", "Disabled"):
            after = {"Enabled": "Disabled", "Disabled": "Enabled"}[mode] if pending else mode
            gpu.take("mig.mode.pending", after)

    def _process(self, line: str) -> None:
        if not self._listing or "No running processes found" in line:
            return
        found = _PROCESS.match(line.strip().strip("|"))
        if found:
            memory = (found["memory"] or "").removesuffix("MiB")
            self.processes.append(
                {
                    "gpu": int(found["gpu"]),
                    "pid": int(found["pid"]),
                    "type": found["type"],
                    "name": found["name"],
                    "memory.used": int(memory) if memory.isdecimal() else None,
                }
            )
        elif line.strip(" |"):
            self._refuse(line)

    def _refuse(self, line: str) -> None:
        self._unread += 1
        self.found.problems.append(f"a line of the table is not understood: {quoted(line)}")

    def _end(self) -> None:
        """Finish the block of the current GPU."""
        if self._gpu is not None:
            self.gpus.append(self._gpu.done())
        self._gpu, self._row = None, 0

    def document(self) -> tuple[dict[str, Any], list[str]]:
        """Return what was parsed."""
        cut = self._gpu is not None
        self._end()
        if cut:
            self.found.problems.append("the table ends within a GPU")
        if self.versions and self.part != "processes":
            self.found.problems.append("the table ends before its processes")
        return document(
            self.found,
            self.gpus,
            self.versions,
            complete=self.part == "processes" and not self._unread,
            processes=self.processes if self.processes_end else None,
            mig=self.mig,
            understood=self.processes_end or self.mig,
            unread=self._unread,
        )
