# SPDX-License-Identifier: Apache-2.0
"""Parses the kernel log of dmesg, journalctl -k or syslog: Xid, SXid, slow PCIe links, lost GPUs and links."""

from __future__ import annotations

import re
from typing import Any

from .captures import capture_lines, is_prompt
from .kernel_log_ports import Ports
from .log_stamps import stamp_seconds, stamp_text

_BUS = r"[0-9A-Fa-f]{4,8}:[0-9A-Fa-f]{2}:[0-9A-Fa-f]{2}(?:\.[0-7])?"
_XID = re.compile(
    rf"(?<![A-Za-z])Xid\s*\(\s*(?:PCI:)?(?P<bus>{_BUS})\s*\)\s*:\s*(?P<number>\d{{1,4}})(?!\d)(?P<rest>.*)$",
    re.IGNORECASE,
)
_SXID = re.compile(
    rf"(?<![A-Za-z])SXid\s*\(\s*(?:PCI:)?(?P<bus>{_BUS})\s*\)\s*:\s*(?P<number>\d{{3,6}})\s*,(?P<rest>.*)$",
    re.IGNORECASE,
)
_LIKE_XID = re.compile(
    rf"(?<![A-Za-z])S?Xid\b|NVRM:?\s*X(?![A-Za-z]{{3}})|NVRM:.{{0,12}}\(\s*PCI:|\(\s*PCI:[0-9A-Fa-f:.]{{4,16}}\)?\s*:?\s*\d{{2,6}}\s*,"
    rf"|{_BUS}\)\s*:\s*\d{{2,6}}\s*,",
    re.IGNORECASE,
)
_DRIVER = re.compile(r"NVRM|nvidia|PCI:", re.IGNORECASE)
_CUT = re.compile(r"NVRM:\s*\S{0,4}\s*$|nvidia-nvswitch\d*:?\s*\S{0,4}\s*$")
_FATAL = re.compile(r"(?<![-\w])Fatal\b", re.IGNORECASE)
_NON_FATAL = re.compile(r"\bNon-?fatal\b", re.IGNORECASE)
_SEVERITY = re.compile(r"\bSeverity\s+(?P<severity>[01])\b")
_PCIE = re.compile(
    rf"(?P<driver>[\w.-]+)\s+(?P<bus>{_BUS})(?:\s+\S+)?:\s+(?P<have>\d+(?:\.\d+)?)\s+Gb/s "
    r"available PCIe bandwidth, limited by (?P<speed>\d+(?:\.\d+)?)\s+GT/s (?:PCIe )?x(?P<width>\d+) link "
    r"at (?P<at>[0-9A-Fa-f:.]+) \(capable of (?P<could>\d+(?:\.\d+)?)\s+Gb/s with "
    r"(?P<best>\d+(?:\.\d+)?)\s+GT/s (?:PCIe )?x(?P<widest>\d+) link\)"
)
_LIKE_PCIE = "available PCIe bandwidth, limited by"
_FAULTS = (
    ("mismatch", re.compile(r"NVRM: API mismatch", re.IGNORECASE)),
    ("none", re.compile(r"No NVIDIA .{0,20}found", re.IGNORECASE)),
    ("lost", re.compile(r"fallen off the bus|\bGPU is lost\b", re.IGNORECASE)),
    (
        "init",
        re.compile(
            r"RmInitAdapter failed|rm_init_adapter failed|devices were initialized",
            re.IGNORECASE,
        ),
    ),
    (
        "gsp",
        re.compile(
            r"waiting for RPC response from GPU|GSP RM heartbeat timed out|GSP.{0,40}\btimed? ?out", re.IGNORECASE
        ),
    ),
)
_ANY_BUS = re.compile(_BUS)
_KERNEL = re.compile(
    r"^(?:<\d{1,3}>)?\s*\[?\s*\d{1,10}\.\d{3,6}(?:\s*<[^>]*>)?\]|^\[[A-Z]\w{2}\s|^\[\s*\+\d|^kern\s*:|^\d{1,4},\d+,\d+,[^;]+;"
    r"|^\d{4}-\d\d-\d\dT[\d:]{8},\d{6}[+-]\d\d:\d\d\s|\bkernel(?:\[\d+\])?:|\bNVRM:|\bnvidia-nvswitch\d*:"
)
_SYSLOG = re.compile(
    r"^(?:[A-Z][a-z]{2}\s+\d{1,2}\s\d\d:\d\d:\d\d|\d{4}-\d\d-\d\d[T ]\d\d:\d\d:\d\d)\S*\s+\S+\s+[^\s:]+:"
)
_SOURCE = re.compile(
    r"(?:\]|,\d{6}[+-]\d\d:\d\d|kernel(?:\[\d+\])?:)\s*(?:\[\s*\d+\.\d+\]\s*)?"
    r"(?P<source>[A-Za-z][\w./-]{1,30})(?::|\s[0-9a-f]{4}:)"
)
_BOOT = re.compile(r"\bLinux version \d|\bCommand line: ")
_BOOT_SECONDS = 5.0
_LOADING = re.compile(r"NVRM: loading NVIDIA ")
_NVSWITCH = re.compile(r"\bnvidia-nvswitch(?:\d+:|: Probing device)")
"""What the driver writes about an NVSwitch that it found; some releases print the name alone on every machine."""
_GREP = re.compile(r"""\b[ze]?grep\b(?P<rest>(?:"[^"]*"|'[^']*'|[^|"'])*)""")
_ASIDE = re.compile(r"^(?:#\s|rc\s*=\s*-?\d+$|-- )")
_REFUSED = re.compile(
    r"dmesg:.*(?:failed|denied|not permitted)|Operation not permitted|Permission denied|not seeing messages from"
)
_FAULT = re.compile(r"(?:NVRM|nvidia-nvswitch\d{0,3}): S?Xid")
_LONGEST = 4000
_PROBLEMS = 20
_SOURCES = 5
"""The number of different writers from which on a log counts as unfiltered."""


class _Reader:
    """Processes the lines once, and merges repeated events."""

    def __init__(self) -> None:
        self.xids: dict[tuple[Any, ...], dict[str, Any]] = {}
        self.sxids: dict[tuple[Any, ...], dict[str, Any]] = {}
        self.faults: dict[tuple[Any, ...], dict[str, Any]] = {}
        self.pcie: dict[str, dict[str, Any]] = {}
        self.ports = Ports()
        self.problems: dict[str, str] = {}
        self.kernel_lines = self.lines = 0
        self.filter: str | None = None
        self.nvidia = self.nvswitch = self.found_nvswitch = self.from_boot = self.from_load = False
        self.sources: set[str] = set()
        self.last = ""

    def read(self, line: str) -> None:
        if _ASIDE.match(line) or (is_prompt(line) and not _XID.search(line)):
            self._command(line)
            return
        kernel = bool(_KERNEL.search(line))
        if not kernel and not _SYSLOG.match(line):
            if _REFUSED.search(line):
                self.problem("refused", line)
            elif _LIKE_XID.search(line) and _DRIVER.search(line):
                self._nvidia_line(line)
            elif _LIKE_PCIE in line:
                self._pcie_line(line)
            return
        self.lines += 1
        if kernel:
            self._kernel_line(line)
        self.ports.read(line)

    def end(self) -> None:
        """Check the last line: a truncated one may have been a fault."""
        if _CUT.search(self.last):
            self.problem("sxid" if "nvswitch" in self.last else "xid", self.last)

    def _command(self, line: str) -> None:
        """Record the command's filter, which decides what the log can show at all."""
        found = _GREP.search(line)
        if found and not line.startswith("#"):
            self.filter = found["rest"].strip()

    def problem(self, about: str, line: str) -> None:
        if len(self.problems) < _PROBLEMS:
            self.problems[f"{about}: this line was not understood: {line[:200]!r}"] = about

    def _kernel_line(self, line: str) -> None:
        first = self.kernel_lines == 0
        self.kernel_lines += 1
        if first or not self.from_boot:
            when = stamp_seconds(line) if first else None
            if _BOOT.search(line) or (when and when[0] == "uptime" and when[1] < _BOOT_SECONDS):
                self.from_boot = True
        if len(self.sources) < _SOURCES:
            source = _SOURCE.search(line)
            if source:
                self.sources.add(source["source"].rstrip("0123456789"))
        self.last = line
        self.nvidia = self.nvidia or "NVRM:" in line
        self.from_load = self.from_load or bool(_LOADING.search(line))
        self.nvswitch = self.nvswitch or "nvidia-nvswitch" in line
        self.found_nvswitch = self.found_nvswitch or bool(_NVSWITCH.search(line))
        if _LIKE_PCIE in line:
            self._pcie_line(line)
        elif _DRIVER.search(line):
            self._nvidia_line(line)

    def _nvidia_line(self, line: str) -> None:
        xid, sxid = _XID.search(line), _SXID.search(line)
        if xid:
            number = int(xid["number"])
            text = xid["rest"].lstrip(" ,").strip()
            if not xid["rest"].strip() or not re.match(r"\s*[,\s]", xid["rest"]):
                self.problem("xid", line)  # the number may be cut off
            # The text says which action Xid 154 asks for, and whether an NVLink error is fatal.
            kind = text[:80] if number >= 144 else ""
            self._merge(
                self.xids,
                (number, xid["bus"].lower(), kind),
                line,
                number=number,
                bus=xid["bus"].lower(),
                text=text[:200],
            )
        elif sxid:
            self._sxid_line(line, sxid)
        elif _LIKE_XID.search(line):
            self.problem("sxid" if "nvswitch" in line else "xid", line)
        else:
            for what, pattern in _FAULTS:
                if pattern.search(line):
                    bus = _ANY_BUS.search(line.partition("NVRM")[2] or line)
                    where = bus[0].lower() if bus else ""
                    text = line.partition("NVRM:")[2].strip() or line
                    self._merge(self.faults, (what, where), line, what=what, bus=where, text=text[:200])
                    break

    def _sxid_line(self, line: str, found: re.Match[str]) -> None:
        rest = found["rest"].strip()
        key = (int(found["number"]), found["bus"].lower())
        told = True if _FATAL.search(rest) else (False if _NON_FATAL.search(rest) else None)
        severity = _SEVERITY.search(rest)
        known = self.sxids.get(key)
        if known and told is None:  # detail lines, which follow the one that counts
            if known["fatal"] is None and severity:
                known["fatal"] = severity["severity"] == "1"
            return
        if told is None and severity:
            told = severity["severity"] == "1"
        if known and known["fatal"] is not None and told is not None:
            told = told or known["fatal"]
        self._merge(self.sxids, key, line, number=key[0], bus=key[1], fatal=told, text=rest[:200])

    def _pcie_line(self, line: str) -> None:
        found = _PCIE.search(line)
        if not found:
            self.problem("pcie", line)
            return
        self.pcie[found["bus"].lower()] = {
            "driver": found["driver"],
            "bus": found["bus"].lower(),
            "gbit": float(found["have"]),
            "gt_s": float(found["speed"]),
            "width": int(found["width"]),
            "at": found["at"],
            "capable_gbit": float(found["could"]),
            "capable_gt_s": float(found["best"]),
            "capable_width": int(found["widest"]),
        }

    @staticmethod
    def _merge(events: dict[tuple[Any, ...], dict[str, Any]], key: tuple[Any, ...], line: str, **values: Any) -> None:
        """Keep one entry per event and device, with its count; the newest moves to the end."""
        known = events.pop(key, None)
        when = stamp_text(line)
        first = known["first"] if known else when
        events[key] = {**values, "count": (known["count"] if known else 0) + 1, "first": first, "last": when}


def _pieces(line: str) -> list[str]:
    """Split a line with several faults, whose line ends were lost, at each; the timestamp stays with the first."""
    starts = [found.start() for found in _FAULT.finditer(line)][1:]
    return [line[begin:end] for begin, end in zip([0, *starts], [*starts, None], strict=True)]


def parse_kernel_log(text: str) -> tuple[dict[str, Any], list[str]]:
    """Parse what the log says about GPUs, switches, PCIe links and ports, and the damaged lines that look like it.

    {"lines", "kernel_lines", "from_boot" and "from_load": it starts at boot, or includes the load of the driver,
    "nvidia" and "nvswitch": these drivers have written to it, "found_nvswitch": the latter about a switch that it
    found, "varied": many others have written, "filter": what the command filtered it by, "xids": [{"number", "bus",
    "count", "first", "last", "text"}] the newest last, "sxids": the same with "fatal" (None: unknown), "faults":
    [{"what": lost, init, none, gsp or mismatch, "bus", ...}] that came without a number, "pcie": [links that carry less
    than the device can], "ports": {port: {"down", "up", "most_in_24_h", "last", "ended_down"}}, "doubts": {problem:
    xid, sxid, pcie or refused}}.
    """
    reader = _Reader()
    for line in capture_lines(text):
        for piece in _pieces(line):
            if piece.strip():
                reader.read(piece.strip()[:_LONGEST])
    reader.end()
    problems = list(reader.problems)
    if not reader.lines and not reader.xids and not reader.sxids:
        if not problems:
            first = next((line.strip() for line in capture_lines(text) if line.strip()), "")
            problems = [
                f"the text has no log lines; it begins with {first[:160]!r}" if first else "nothing was printed"
            ]
        return {}, problems
    data: dict[str, Any] = {
        "lines": reader.lines,
        "kernel_lines": reader.kernel_lines,
        "from_boot": reader.from_boot,
        "from_load": reader.from_load,
        "nvidia": reader.nvidia,
        "nvswitch": reader.nvswitch,
        "found_nvswitch": reader.found_nvswitch,
        "varied": len(reader.sources) >= _SOURCES,
        "filter": reader.filter,
        "xids": list(reader.xids.values()),
        "sxids": list(reader.sxids.values()),
        "faults": list(reader.faults.values()),
        "pcie": list(reader.pcie.values()),
        "ports": reader.ports.summary(),
        "doubts": dict(reader.problems),
    }
    return data, problems
