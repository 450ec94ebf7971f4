# SPDX-License-Identifier: Apache-2.0
"""Parses the results of perftest's bandwidth tests (`ib_write_bw`)."""

from __future__ import annotations

import re

from ..text import said_lines
from .iperf3 import Throughput

_HEADER = re.compile(r"#bytes\s+#iterations\s+BW peak\[(?P<unit>[A-Za-z]+)/sec\]\s+BW average\[(?P=unit)/sec\]")
_ROW = re.compile(r"^\s*(?P<bytes>\d+)\s+(?P<iterations>\d+)\s+(?P<peak>[\d.]+)\s+(?P<average>[\d.]+)(?:\s|$)")
_GBIT = {"Gb": 1.0, "MB": 8 * 2**20 / 1e9, "MiB": 8 * 2**20 / 1e9}
"""Each unit in Gb/s. Older releases print MB and mean MiB."""
_COMPLAINT = re.compile(r"unable|fail|couldn't|cannot|error|not found|invalid|did not", re.IGNORECASE)


def parse_perftest(stdout: str, stderr: str = "") -> Throughput:
    """Return the average of the largest message size, or the reason why the test has no result."""
    unit: str | None = None
    rows: list[tuple[int, float]] = []
    for line in stdout.splitlines():
        header = _HEADER.search(line)
        if header:
            unit, rows = header["unit"], []
            continue
        row = _ROW.match(line) if unit else None
        if row:
            rows.append((int(row["bytes"]), float(row["average"])))
    if rows and unit in _GBIT:
        return Throughput(gbit=round(max(rows)[1] * _GBIT[unit], 4))
    said = said_lines(stderr) + said_lines(stdout)
    complaint = next((line for line in said if _COMPLAINT.search(line)), (said or ["nothing"])[0])
    return Throughput(problem=f"perftest measured nothing: {complaint[:200]}")
