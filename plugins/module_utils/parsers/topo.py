# SPDX-License-Identifier: Apache-2.0
"""Parses `nvidia-smi topo -m`: the matrix of the connections between GPUs and network cards.

The matrix is printed for people. On its way into a file it picks up escape sequences and loses tabs, the first tab of
its header, its affinity columns or its end. Its cells decide whether a machine may serve, so a row is trusted only if
it has exactly one cell for every column and its own column is the X; anything else is a problem and leaves a hole.
"""

from __future__ import annotations

import re
from typing import Any

from .captures import capture_lines
from .reading import quoted
from .smi_text import said
from .topo_tables import CELL, DEVICE, GPU, Table, label_of, run_of_cells, tables_in

_TODAY = {"SOC": "SYS"}
"""Names used by drivers before 384, and today's names for them."""
_RESIDUE = re.compile(r"(?:\^\[|\\(?:x1b|u001b|033|e)|\u241b)?\[\d{0,3}(?:;\d{1,3}){0,4}m")
"""An underline whose escape character was lost or spelled out on the way."""
_NAMED = 8
"""Contradictions that are listed individually."""
_CPUS = re.compile(r"\d[\d,-]*")
_TROUBLE = re.compile(
    r"NVIDIA-SMI has failed|Failed to|Unable to|NVML|Unknown Error|No devices were found|not found|GPU is lost"
    r"|fallen off the bus|requires? (?:a )?reset|Insufficient Permissions|Invalid |[Tt]imed out|[Ss]egmentation fault"
)
_LOST_GPU = re.compile(r"device handle|GPU is lost|fallen off the bus|requires? (?:a )?reset|Failed to initialize NVML")


def parse_topo(text: str) -> tuple[dict[str, Any], list[str]]:
    """Parse the matrix and list its problems.

    The keys are gpus, nics, cells, affinity, nic_names, gpus_complete, complete and pci_only. `cells` has the
    connection from one device to another: {"GPU0": {"GPU1": "NV18"}}; an unreadable one is left out. `gpus_complete`
    means that the GPUs have all their rows and cells and that both directions agree, `complete` the same for network
    cards too. `pci_only` marks the form of the command that leaves NVLink out.
    """
    lines = [_RESIDUE.sub("", line) for line in capture_lines(text)]
    found = tables_in(lines)
    tables = [one for one in found if not one.peers]
    tables = [one for one in tables if one.rows] or tables
    tables = [one for one in tables if not one.pci_only] or tables
    trouble = [line for line in lines if _TROUBLE.search(line) and not line.startswith("# source")]
    if not tables:
        return _without_matrix(text), [_nothing(lines, trouble, bool(found))]
    read = [_read(table) for table in tables]
    data, problems = read[0]
    if any(other["cells"] != data["cells"] or other["gpus"] != data["gpus"] for other, _ in read[1:]):
        problems.append(f"{len(read)} matrices that differ, expected one: capture each host by itself")
        data["gpus_complete"] = data["complete"] = False
    for line in trouble:
        if _LOST_GPU.search(line):
            problems.append(f"an error beside the matrix: {quoted(line)}")
            data["complete"] = False
    return data, problems


def _without_matrix(text: str) -> dict[str, Any]:
    """The driver's error in place of a matrix, which is an answer as well; empty for any other text."""
    trouble = said(text).trouble
    if not trouble:
        return {}
    nothing: dict[str, Any] = {"gpus": [], "nics": [], "cells": {}, "affinity": {}, "nic_names": {}}
    return {**nothing, "gpus_complete": False, "complete": False, "pci_only": False, "trouble": trouble}


def _nothing(lines: list[str], trouble: list[str], peers: bool) -> str:
    """Why there is no matrix, in one sentence that quotes what was found instead."""
    if trouble:
        return f"an error in place of the matrix: {quoted(trouble[0])}"
    if peers:
        return (
            "the matrix of `nvidia-smi topo -p2p`, which does not show the paths: expected that of `nvidia-smi topo -m`"
        )
    headless = next((line for line in lines if run_of_cells(label_of(line, [])[1])[0]), "")
    if headless:
        return f"rows without the header that names their columns: {quoted(headless)}"
    first = next((line for line in lines if line.strip() and not line.startswith("# source")), "")
    return f"no matrix of GPUs in {quoted(first)}" if first else "the output is empty"


def _read(table: Table) -> tuple[dict[str, Any], list[str]]:
    columns = table.columns
    problems: list[str] = []
    gpus = sorted({name for name in columns if GPU.fullmatch(name)}, key=lambda name: int(name[3:]))
    nics = [name for name in dict.fromkeys(columns) if not GPU.fullmatch(name)]
    doubtful = len(set(columns)) != len(columns)
    if doubtful:
        problems.append(f"a column twice in the header: {quoted(' '.join(columns))}")
    if gpus != [f"GPU{number}" for number in range(len(gpus))]:
        problems.append(f"columns of {', '.join(gpus)}, expected them to be numbered from GPU0 without a gap")
        doubtful = True
    seen: set[str] = set()
    cells: dict[str, dict[str, str]] = {}
    affinity: dict[str, dict[str, str | None]] = {}
    for label, rest in table.rows if not doubtful else []:
        if label not in columns:
            problems.append(f"a row of {label}, which has no column: {quoted(label + rest)}")
            doubtful |= bool(GPU.fullmatch(label))
            continue
        row, tail, problem = _row(label, rest, columns)
        if problem:
            problems.append(problem)
        if label in seen and cells.get(label) != row:
            problems.append(f"two rows of {label} that differ: {quoted(label + rest)}")
            row = None
        seen.add(label)
        cells.pop(label, None)
        if row is not None:
            cells[label] = row
        if GPU.fullmatch(label):
            affinity[label] = _affinity(tail)
    missing = [name for name in [*gpus, *nics] if name not in seen]
    if missing and not doubtful:
        problems.append(f"no row of {', '.join(missing)}: the matrix is cut off")
    problems += _contradictions(cells)
    gpus_complete = not doubtful and _agreeing(cells, gpus)
    return {
        "gpus": gpus,
        "nics": nics,
        "cells": cells,
        "affinity": affinity,
        "nic_names": {nic: table.nic_names.get(nic, "" if DEVICE.fullmatch(nic) else nic) for nic in nics},
        "gpus_complete": gpus_complete,
        "complete": gpus_complete and _agreeing(cells, [*gpus, *nics]),
        "pci_only": table.pci_only,
    }, problems


def _agreeing(cells: dict[str, dict[str, str]], names: list[str]) -> bool:
    """Whether every connection between these is known in both directions, and the same in both."""
    if any(name not in cells for name in names):
        return False
    ways = ((cells[one].get(other), cells[other].get(one)) for one in names for other in names if one != other)
    return all(there is not None and there == back for there, back in ways)


def _contradictions(cells: dict[str, dict[str, str]]) -> list[str]:
    found = []
    for one, row in cells.items():
        for other, word in row.items():
            back = cells.get(other, {}).get(one, word)
            if back != word and one < other:
                found.append(f"{one} to {other} is {word}, but {other} to {one} is {back}; both directions must match")
    more = [f"and {len(found) - _NAMED} more such pairs"] if len(found) > _NAMED else []
    return [*found[:_NAMED], *more]


def _row(label: str, rest: str, columns: list[str]) -> tuple[dict[str, str] | None, str, str]:
    """Parse a row: its cells by column, the text after them, and a problem if cells are missing.

    The cells are None if their columns are uncertain.
    """
    cells, tail = run_of_cells(rest)
    known: list[str | None] = list(cells)
    problem = ""
    surplus = any(CELL.fullmatch(word) for word in tail.split())
    if len(cells) != len(columns) or surplus:
        known, tail = _by_tabs(rest, len(columns)), ""
        told = len([cell for cell in known if cell])
        told = told or len(cells)
        problem = (
            f"the row of {label} has {told} cells that can be read, expected {len(columns)}: {quoted(label + rest)}"
        )
    if not known:
        return None, "", problem
    own = [name for name, cell in zip(columns, known, strict=True) if cell == "X"]
    if own != [label]:
        where = ", ".join(own) or "no column"
        return (
            None,
            "",
            problem or f"the row of {label} has its X at {where}, expected it at {label}: {quoted(label + rest)}",
        )
    named = zip(columns, known, strict=True)
    return {name: _TODAY.get(cell, cell) for name, cell in named if cell and name != label}, tail, problem


def _by_tabs(rest: str, count: int) -> list[str | None]:
    """The cells of a row with holes, if tabs still show which are missing; empty if they do not."""
    first, *pieces = rest.split("\t")[: count + 1]
    if len(pieces) < count or first.strip():
        return []
    cells: list[str | None] = []
    for piece in pieces:
        run, tail = run_of_cells(piece)
        if len(run) > 1 or piece.strip()[:1].isdigit():
            return []
        cells.append(run[0] if run and not tail.strip() else None)
    return cells


def _affinity(tail: str) -> dict[str, str | None]:
    """The processors and the NUMA node of a GPU, None if missing or ambiguous."""
    words = tail.split()
    if "\t" in tail:
        words = [piece.strip() for piece in tail.split("\t")]
        words = words if words[0] else words[1:]
    cpus, numa = [*words, "", ""][:2]
    # A single bare number could be either of the two.
    lonely = "\t" not in tail and len(words) < 2 and not set("-,") & set(cpus)
    return {
        "cpus": cpus if _CPUS.fullmatch(cpus) and not lonely else None,
        "numa": numa if _CPUS.fullmatch(numa) else None,
    }
