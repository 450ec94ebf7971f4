# SPDX-License-Identifier: Apache-2.0
"""Parses the result of `iperf3 --json`, as seen from the client."""

from __future__ import annotations

import json
from dataclasses import dataclass


@dataclass(frozen=True)
class Throughput:
    """One measurement: Gb/s, or the reason why there is none."""

    gbit: float | None = None
    problem: str = ""


def parse_iperf3(text: str) -> Throughput:
    """Return the throughput that arrived at the receiver; text that is not an iperf3 report gives a problem."""
    try:
        report = json.loads(text)
    except ValueError:
        first = next((line.strip() for line in text.splitlines() if line.strip()), "nothing")
        return Throughput(problem=f"iperf3 printed no report: {first[:200]}")
    if not isinstance(report, dict):
        return Throughput(problem="iperf3 printed no report")
    if report.get("error"):
        return Throughput(problem=f"iperf3: {str(report['error']).removeprefix('error - ')[:200]}")
    end = report.get("end")
    # Sent data may still be in a buffer; received data has crossed the fabric.
    for total in ("sum_received", "sum_sent"):
        rate = (end.get(total) or {}).get("bits_per_second") if isinstance(end, dict) else None
        if isinstance(rate, (int, float)) and rate > 0:
            return Throughput(gbit=round(rate / 1e9, 4))
    return Throughput(problem="iperf3 counted no bytes")
