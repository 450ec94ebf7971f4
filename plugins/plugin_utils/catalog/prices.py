# SPDX-License-Identifier: Apache-2.0
"""Prices of machines, GPU hours and power (catalog/prices.yml), each with its source and date."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ansible_collections.firstlight.cluster.plugins.plugin_utils.catalog.fields import COMMON, NULL, Field, Range
from ansible_collections.firstlight.cluster.plugins.plugin_utils.catalog.load import check_fields
from ansible_collections.firstlight.cluster.plugins.plugin_utils.catalog.yaml_file import load_entries

Price = Mapping[str, Any]

MONEY = ("host", "gpu_hour", "kwh")
"""Kinds of prices that have a currency."""
LIMITS: dict[str, Range] = {
    "host": Range(above=0, most=1e12),
    "gpu_hour": Range(above=0, most=1e6),
    "kwh": Range(least=0, most=1e3),
    "pue": Range(least=1, most=10),
    "host_power": Range(least=1, most=10),
    "months": Range(above=0, most=1200),
    "utilisation": Range(above=0, most=1),
}
"""Valid range of each kind; anything outside is taken for a typo."""

FIELDS: dict[str, Field] = {
    **COMMON,
    "what": Field((str,), choices=tuple(LIMITS)),
    "hardware": Field((list,), required=False),
    "currency": Field((str,), required=False),
    "low": Field((int, float), range=Range(least=0, most=1e12)),
    "high": Field((int, float, NULL), range=Range(least=0, most=1e12)),
}


@dataclass(frozen=True)
class Given:
    """A figure with a short source and the source text of its catalog entry."""

    value: float
    source: str
    detail: str = ""


def load_prices(directories: Iterable[str | Path]) -> tuple[list[Price], list[str]]:
    """Return the prices of all prices.yml files, the first of each name winning, and the problems found."""
    return load_entries(directories, "prices.yml", check_price)


def check_price(entry: object, where: str) -> list[str]:
    """Return the problems of one price."""
    if not isinstance(entry, dict):
        return [f"catalog entry {where} is not a mapping: write its fields as in catalog/README.md"]
    wrong = check_fields(entry, FIELDS, where, "")
    if wrong:
        return wrong
    if not all(isinstance(one, str) for one in entry.get("hardware") or ()):
        wrong.append(f"catalog entry {where} has hardware: {entry['hardware']!r}, expected a list of names")
    if ("currency" in entry) != (entry["what"] in MONEY):
        wrong.append(f"catalog entry {where} needs a currency for {', '.join(MONEY)}, and for nothing else")
    low, high = entry["low"], entry["high"]
    if high is not None and low > high:
        wrong.append(f"catalog entry {where} has low {low:g} above high {high:g}: swap them")
    limits = LIMITS[entry["what"]]
    wrong += [
        f"catalog entry {where} has {entry['what']} {one:g}, expected a number {limits.words}"
        for one in (low, high)
        if one is not None and one not in limits
    ]
    return wrong


def price_of(prices: Iterable[Price], what: str, hardware: str, currency: str) -> Given | None:
    """Return the middle of the first range for this hardware, else of the first for any; None if there is none."""
    known = [one for one in prices if one["what"] == what and one.get("currency", currency) == currency]
    own = [one for one in known if hardware in one.get("hardware", ())]
    found = next(iter([*own, *(one for one in known if "hardware" not in one)]), None)
    if found is None:
        return None
    low, high = found["low"], found["high"]
    value = low if high is None else (low + high) / 2
    about = "at least this" if high is None else "" if low == high else f"middle of {low:,g} to {high:,g}"
    named = f"catalog/prices.yml {found['name']}, {found['date']}"
    return Given(float(value), f"{named} ({about})" if about else named, str(found["source"]))
