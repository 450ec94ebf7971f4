# SPDX-License-Identifier: Apache-2.0
"""A node's pins, certificates and firewall as series, from the output of their own programs."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from datetime import datetime
from typing import Any

from .page import Family, family, gauge

END_DATE = "notAfter="
_REFUSES = ("drop", "reject")


def pin_families(pins: Mapping[str, str], installed: Mapping[str, str | None]) -> list[Family]:
    """Every pinned package, and whether it is installed in the version of its pin."""
    rows = [
        ({"package": name, "wanted": version, "installed": installed.get(name) or ""}, installed.get(name) == version)
        for name, version in sorted(pins.items())
    ]
    return [
        gauge(
            "firstlight_package_as_pinned",
            "Whether a package is installed in its pinned version.",
            [(labels, float(right)) for labels, right in rows],
        )
    ]


def certificate_end(text: str) -> float:
    """Parse `openssl x509 -enddate` into seconds since 1970. Raises ValueError for other text."""
    line = next((one for one in text.splitlines() if one.startswith(END_DATE)), "")
    try:
        written = " ".join(line[len(END_DATE) :].split()).replace("GMT", "+0000")
        return datetime.strptime(written, "%b %d %H:%M:%S %Y %z").timestamp()
    except ValueError:
        raise ValueError(f"openssl printed {text.strip()[:80]!r}, expected {END_DATE}DATE") from None


def certificate_families(ends: Mapping[str, float]) -> list[Family]:
    return [
        gauge(
            "firstlight_certificate_end_timestamp_seconds",
            "When a certificate expires.",
            [({"path": path}, end) for path, end in sorted(ends.items())],
        )
    ]


def dropped_packets(text: str) -> dict[str, int]:
    """Parse `nft --json list table` into the packets that its rules dropped or rejected, by chain.

    Only rules that count are included: those with a counter of their own, or with a named one. Raises ValueError.
    """
    try:
        entries = json.loads(text)["nftables"]
        listed = [(kind, body) for entry in entries for kind, body in entry.items() if isinstance(body, dict)]
    except (ValueError, KeyError, TypeError, AttributeError):
        raise ValueError("nft printed no JSON list of a table") from None
    named = {str(body.get("name")): _packets(body) for kind, body in listed if kind == "counter"}
    found = {str(body.get("name")): 0 for kind, body in listed if kind == "chain"}
    used: set[str] = set()
    for kind, body in listed:
        if kind != "rule":
            continue
        expressions = [one for one in body.get("expr") or () if isinstance(one, dict)]
        if not any(word in one for one in expressions for word in _REFUSES):
            continue
        chain = str(body.get("chain"))
        found[chain] = found.get(chain, 0) + sum(_counted(expressions, named, used))
    return found


def firewall_families(tables: Mapping[str, Mapping[str, int]]) -> list[Family]:
    return [
        family(
            "firstlight_firewall_dropped_packets_total",
            "counter",
            "Packets that the firewall dropped or rejected.",
            [
                ({"table": table, "chain": chain}, packets)
                for table, chains in sorted(tables.items())
                for chain, packets in sorted(chains.items())
            ],
        )
    ]


def _counted(expressions: list[dict[str, Any]], named: Mapping[str, int], used: set[str]) -> Iterator[int]:
    for one in expressions:
        counter = one.get("counter")
        if isinstance(counter, dict):
            yield _packets(counter)
        elif isinstance(counter, str) and counter not in used:
            # Rules may share a named counter, which counts for all of them.
            used.add(counter)
            yield named.get(counter, 0)


def _packets(counter: Mapping[str, Any]) -> int:
    packets = counter.get("packets")
    return packets if isinstance(packets, int) else 0
