# SPDX-License-Identifier: Apache-2.0
"""Parses `nvidia-smi --query-gpu=... --format=csv`, with or without heading and units, in any order of columns."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

from .fields import TROUBLE, canonical, is_field, read_bus
from .reading import quoted
from .smi_text import VERSION, Gpu, Said, document, said

_SEPARATORS = (",", "\t", ";", "|")
_ASKED = re.compile(r"--query-(?:gpu|remapped-rows)[= ]['\"]?(?P<fields>[\w.,]+)")
_INVALID = re.compile(r"is not a valid field to query|is not recognized|invalid combination", re.IGNORECASE)
_PRODUCT = re.compile(r"(?:NVIDIA|Tesla|Quadro|GeForce|GRID)[ \w.()+/-]{2,60}")
_ELLIPSIS = ("...", "\u2026")
_PROCESS = ("pid", "process_name")
_MOST = 4096
"""The most rows parsed; more are a recording over days, whose first rows are enough."""


def parse_query_gpu(text: str, fields: Sequence[str] = ()) -> tuple[dict[str, Any], list[str]]:
    """Parse the GPUs of the query. `fields` names the columns if there is no heading; a command in the text does, too.

    Without any of these only self-evident values are taken: a product's name, a UUID, a PCI address, a version.
    """
    found = said(text)
    asked = _ASKED.search(found.command)
    columns = [canonical(name) for name in (fields or (asked["fields"].split(",") if asked else ()))]
    separator = ","
    gpus: list[dict[str, Any]] = []
    processes: list[dict[str, Any]] | None = None
    unread = torn = 0
    cut = False
    told: list[str] = list(columns)
    for line in found.lines[:_MOST]:
        if not line.strip():
            continue
        heading = _heading(line)
        if heading:
            separator, columns = heading
            told = list(dict.fromkeys([*told, *columns]))
            processes = [] if "pid" in columns and processes is None else processes
            continue
        cells = [cell.strip() for cell in line.split(separator)]
        if _INVALID.search(line):
            found.problems.append(f"nvidia-smi refused the query: {quoted(line)}")
        elif processes is not None and "pid" in columns:
            processes += _process(dict(zip(columns, cells, strict=False)))
        elif _is_row(cells, columns):
            gpus.append(_row(found, cells, columns))
            cut = 0 < len(cells) < len(columns)
            torn += bool(columns) and len(cells) != len(columns) and _ELLIPSIS[0] not in columns
        elif columns or gpus:
            unread, cut = unread + 1, True
            found.problems.append(f"a row is not understood: {quoted(line)}")
    counts = {gpu["count"] for gpu in gpus if gpu.get("count") is not None}
    return document(
        found,
        gpus,
        listed=counts.pop() if len(counts) == 1 else None,
        complete=bool(gpus) and not unread and not found.problems,
        processes=processes,
        understood=bool(told and (gpus or processes is not None)),
        fields=[name for name in told if name],
        unread=unread,
        cut=cut,
        torn=torn,
    )


def _heading(line: str) -> tuple[str, list[str]] | None:
    """The separator and the columns of a line that names fields; None for every other line."""
    for separator in _SEPARATORS:
        cells = [cell.strip() for cell in line.split(separator)]
        named = [cell for cell in cells if is_field(cell) or cell.lower() in _PROCESS]
        if named and len(named) * 2 >= len([cell for cell in cells if cell]) and not any(map(_is_product, cells)):
            return separator, [_column(cell) for cell in cells]
    return None


def _column(cell: str) -> str:
    if cell in _ELLIPSIS:
        return _ELLIPSIS[0]
    return canonical(cell)


def _is_product(cell: str) -> bool:
    return bool(_PRODUCT.fullmatch(cell.strip("\"'")))


def _is_row(cells: Sequence[str], columns: Sequence[str]) -> bool:
    """Whether this row is about a GPU: it has as many cells as there are columns, or a cell that identifies a GPU."""
    if columns and (len(cells) == len(columns) or (_ELLIPSIS[0] in columns and len(cells) >= len(columns))):
        return True
    return any(_is_product(cell) or cell.startswith(("GPU-", "MIG-")) or read_bus(cell) for cell in cells)


def _row(found: Said, cells: Sequence[str], columns: Sequence[str]) -> dict[str, Any]:
    if columns and _ELLIPSIS[0] in columns and len(cells) >= len(columns):
        cells, columns = cells[: columns.index(_ELLIPSIS[0])], columns[: columns.index(_ELLIPSIS[0])]
    if len(cells) == len(columns):
        index = next((cell for cell, name in zip(cells, columns, strict=True) if name == "index"), "")
        gpu = Gpu(found, index=int(index) if index.isdecimal() and len(index) < 4 else None)
        for name, cell in zip(columns, cells, strict=True):
            gpu.take(name, cell)
        return gpu.done()
    if columns:
        found.problems.append(f"a row has {len(cells)} cells, expected {len(columns)}: {quoted(', '.join(cells))}")
        cells = cells[:-1] if len(cells) < len(columns) else cells  # the last one may be truncated
    else:
        found.problems.append(f"no header names the columns of {quoted(', '.join(cells))}")
    return _by_shape(found, cells)


def _by_shape(found: Said, cells: Sequence[str]) -> dict[str, Any]:
    """Take the cells whose form identifies them, wherever they are."""
    gpu = Gpu(found)
    for cell in cells:
        if cell.startswith("GPU-"):
            gpu.take("uuid", cell)
        elif _is_product(cell):
            gpu.take("name", cell)
        elif read_bus(cell):
            gpu.take("bus", cell)
        elif VERSION.fullmatch(cell):
            gpu.take("driver_version", cell)
        elif cell.startswith("[") and TROUBLE.search(cell):
            gpu.take("a value", cell)
    return gpu.done()


def _process(row: dict[str, str]) -> list[dict[str, Any]]:
    pid = row.get("pid", "")
    if not pid.isdecimal():
        return []
    return [
        {"gpu": row.get("uuid") or row.get("bus"), "pid": int(pid[:9]), "type": "C", "name": row.get("process_name")}
    ]
