# SPDX-License-Identifier: Apache-2.0
"""Locates the matrices of `nvidia-smi topo` in a text: their headers, rows and legends, not yet interpreted."""

from __future__ import annotations

import re
from dataclasses import dataclass, field

from .captures import is_prompt

GPU = re.compile(r"GPU\d{1,3}")
DEVICE = re.compile(r"(?:GPU|NIC)\d{1,3}")
_NAME = re.compile(r"[A-Za-z][A-Za-z0-9.:-]*[_0-9][\w.:-]*")
"""A network card as old drivers name its column: mlx5_0, mlx5_bond_0, rocep1s0f0."""
_LONGEST_NAME = 40
_LONGEST_ROW = 8192
_MOST_DEVICES = 256

_WORDS = r"X|NV[1-9]\d?|PIX|PXB|PHB|NODE|SYS|SOC"
# What may follow a cell: a gap, or another cell or an affinity whose tab was lost. No digit after NV6: NV60-11 could be
# NV6 and 0-11, so nothing is parsed from it.
CELL = re.compile(rf"(?P<word>{_WORDS})(?=$|\s|{_WORDS}|N/A|(?<=[A-Z])\d)")
_NEXT_CELL = re.compile(r"\s*" + CELL.pattern)
_PEER_WORDS = frozenset({"OK", "CNS", "GNS", "TNS", "NS", "DR"})

_AFFINITY = re.compile(r"CPU\s*Aff|NUMA\s*Aff|GPU\s+NUMA|CPU\b")
_JAMMED = re.compile(r"(?<=\d)(?=GPU\d|NIC\d|mlx\d)")
_LEGEND = re.compile(r"^\s*(?:NIC )?Legend\b", re.IGNORECASE)
_LEGEND_NVLINK = re.compile(r"^\s*NV#\s*=")
_LEGEND_BRIDGE = re.compile(r"^\s*PIX\s*=\s*Connection")
_LEGEND_PEER = re.compile(r"^\s*(?:OK|CNS|TNS)\s*=")
_NIC_NAME = re.compile(r"^\s*(?P<nic>NIC\d{1,3})\s*:\s*(?P<name>[\w.:-]{1,40})")
_AFFINITY_WORD = re.compile(r"\d[\d,-]*|N/A")
_PCI_ONLY = re.compile(r"\btopo\s[^\n]{0,40}?(?:-mp\b|--matrix_pci)")
_PEER_COMMAND = re.compile(r"\btopo\s[^\n]{0,40}?-p2p\b")


@dataclass
class Table:
    """One matrix as it stands in the text."""

    columns: list[str]
    affinity: bool
    pci_only: bool = False
    """The matrix of `topo -mp`, which leaves NVLink out."""
    peers: bool = False
    """The matrix of `topo -p2p`, which shows whether GPUs may communicate, but not over what."""
    legend: bool = False
    nvlink_in_legend: bool = False
    bridge_in_legend: bool = False
    rows: list[tuple[str, str]] = field(default_factory=list)
    """The device of each row, and the text after its name."""
    nic_names: dict[str, str] = field(default_factory=dict)


def tables_in(lines: list[str]) -> list[Table]:
    tables: list[Table] = []
    pci_only = peers = follows = False
    for line in lines:
        header = _header(line)
        table = tables[-1] if tables else None
        if header and table and follows and _continues(table, header[0]):
            table.columns += header[0]
            table.affinity = header[1]
        elif header and any(GPU.fullmatch(name) for name in header[0]):
            tables.append(Table(*header, pci_only=pci_only, peers=peers))
            follows = True
        elif "nvidia-smi" in line or is_prompt(line):
            pci_only, peers = bool(_PCI_ONLY.search(line)), bool(_PEER_COMMAND.search(line))
            follows = False
            if table:
                table.legend = True  # the text after a command is not part of the matrix before it
        elif table:
            follows = _take(table, line, follows)
    for table in tables:
        # The legend of `topo -mp` has no line for NVLink; that of `topo -m` has had one since NVLink exists.
        shows_nvlink = table.nvlink_in_legend or any("NV" in rest for _, rest in table.rows)
        table.pci_only = not shows_nvlink and (table.pci_only or table.bridge_in_legend)
    return tables


def _continues(table: Table, names: list[str]) -> bool:
    """Whether the names continue a header that a narrow terminal folded."""
    return not table.rows and not table.affinity and not set(names) & set(table.columns)


def _take(table: Table, line: str, follows: bool) -> bool:
    """Process one line after a header; return whether the next may continue it."""
    if _LEGEND.match(line):
        table.legend = True
    if table.legend or _LEGEND_BRIDGE.match(line):
        table.nvlink_in_legend |= bool(_LEGEND_NVLINK.match(line))
        table.bridge_in_legend |= bool(_LEGEND_BRIDGE.match(line))
        table.peers |= bool(_LEGEND_PEER.match(line))
    named = _NIC_NAME.match(line)
    if named:
        table.nic_names.setdefault(named["nic"], named["name"])
    if table.legend or named:
        return False
    label, rest = label_of(line, table.columns)
    words = rest.split()
    if label and (not words or words[0] == "X" or run_of_cells(rest)[0] or "\t" in rest):
        table.peers |= bool(_PEER_WORDS & set(words)) and not any("NV" in word or word == "SYS" for word in words)
        table.rows.append((label, rest))
        return True
    if follows and table.rows and _is_rest_of_row(line):
        label, rest = table.rows[-1]
        if len(rest) > _LONGEST_ROW:
            return False
        table.rows[-1] = (label, f"{rest}\t{line.strip()}")
        return True
    return False


def _header(line: str) -> tuple[list[str], bool] | None:
    """The devices in a header line and whether affinity columns follow; None for any other line."""
    if "GPU" not in line and "NIC" not in line and "Affinity" not in line and "_" not in line:
        return None
    body = _edge(line)
    tail = _AFFINITY.search(body)
    names = _JAMMED.sub(" ", body[: tail.start()] if tail else body).split()
    if len(names) > _MOST_DEVICES or not (names or tail):
        return None
    for name in names:
        if len(name) > _LONGEST_NAME or CELL.fullmatch(name):
            return None
        if not DEVICE.fullmatch(name) and not _NAME.fullmatch(name):
            return None
    return names, bool(tail)


def _edge(line: str) -> str:
    """Strip the bars of a wiki table and a leading comment mark from the line."""
    return re.sub(r"^\s*(?:#|//|\*)+\s", "", line).replace("|", "\t").strip(" ")


def label_of(line: str, columns: list[str]) -> tuple[str, str]:
    """The device of a row and the rest of the row; empty if the line does not start with a device."""
    body = _edge(line).strip("\t ") if "|" in line else _edge(line).lstrip()
    found = DEVICE.match(body)
    names = [found[0]] if found else sorted((name for name in columns if body.startswith(name)), key=len, reverse=True)
    for name in names:
        end = len(name)
        if end == len(body) or body[end].isspace() or CELL.match(body, end):
            return name, body[end:]
    return "", ""


def _is_rest_of_row(line: str) -> bool:
    words = line.split()
    return bool(words) and all(CELL.fullmatch(word) or _AFFINITY_WORD.fullmatch(word) for word in words)


def run_of_cells(text: str) -> tuple[list[str], str]:
    """The cells at the start of a text, even without gaps between them, and the remaining text."""
    cells: list[str] = []
    place = 0
    while found := _NEXT_CELL.match(text, place):
        cells.append(found["word"])
        place = found.end()
    return cells, text[place:]
