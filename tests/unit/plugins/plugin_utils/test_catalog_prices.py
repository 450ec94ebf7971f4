# SPDX-License-Identifier: Apache-2.0
"""What things cost: the shipped figures, and what is refused of a site's own."""

from __future__ import annotations

import datetime as dt
from pathlib import Path
from typing import Any

import pytest
import yaml
from ansible_collections.firstlight.cluster.plugins.plugin_utils.catalog.check import check_catalog
from ansible_collections.firstlight.cluster.plugins.plugin_utils.catalog.load import BUILT_IN, load_catalog
from ansible_collections.firstlight.cluster.plugins.plugin_utils.catalog.prices import load_prices, price_of

ONE: dict[str, Any] = {
    "name": "mine",
    "source": "our contract",
    "date": "2026-11-01",
    "what": "gpu_hour",
    "hardware": ["gb10"],
    "currency": "EUR",
    "low": 1,
    "high": 3,
}


def site(directory: Path, *entries: Any) -> Path:
    (directory / "prices.yml").write_text(yaml.safe_dump([*entries]), encoding="utf-8")
    return directory


def test_the_shipped_ones_are_of_what_the_catalog_has() -> None:
    found, problems = load_prices([BUILT_IN])
    assert problems == []
    hardware = load_catalog([BUILT_IN])["hardware"]
    assert all(set(one.get("hardware", ())) <= set(hardware) for one in found)
    assert price_of(found, "host", "h100-sxm-4-nvswitch", "USD").value == 250_000  # type: ignore[union-attr]
    assert price_of(found, "host", "h200-sxm-8", "USD").source.endswith("(at least this)")  # type: ignore[union-attr]
    for what in ("kwh", "pue", "host_power", "months", "utilisation"):
        assert price_of(found, what, "anything", "USD") is not None


def test_the_sites_own_come_first_and_currencies_do_not_mix(tmp_path: Path) -> None:
    any_other = {**ONE, "name": "any", "low": 7, "high": 7}
    any_other.pop("hardware")
    found, problems = load_prices([site(tmp_path, any_other, ONE), BUILT_IN])
    assert problems == []
    prices = [price_of(found, "gpu_hour", name, "EUR") for name in ("gb10", "h100-sxm-8")]
    assert [one and one.value for one in prices] == [2, 7]
    assert price_of(found, "gpu_hour", "gb10", "USD") is None
    assert price_of(found, "months", "gb10", "EUR") is not None


@pytest.mark.parametrize(
    ("entry", "words"),
    [
        ("text", "not a mapping"),
        ({**ONE, "what": "lunch"}, "expected host or gpu_hour"),
        ({**ONE, "low": 4}, "low 4 above high 3"),
        ({**ONE, "low": -1}, "of at least 0"),
        ({**ONE, "low": 0}, "above 0"),
        ({**ONE, "low": float("nan")}, "of at least 0"),
        ({**ONE, "high": 10**400}, "at most"),
        ({**ONE, "what": "utilisation"}, "currency"),
        ({key: value for key, value in ONE.items() if key != "currency"}, "currency"),
        ({**ONE, "hardware": [4]}, "list of names"),
    ],
)
def test_what_cannot_be_used(tmp_path: Path, entry: Any, words: str) -> None:
    _, problems = load_prices([site(tmp_path, entry)])
    assert words in " ".join(problems)
    assert "prices.yml item 1" in problems[0]
    listed, _ = check_catalog([tmp_path], dt.date(2026, 11, 17))
    assert {one.kind for one in listed} == {"unreadable"}


def test_old_prices_are_listed(tmp_path: Path) -> None:
    listed, entries = check_catalog([site(tmp_path, {**ONE, "date": "2026-01-01"})], dt.date(2026, 11, 17))
    assert ([(one.kind, one.entry) for one in listed], entries) == ([("age", "prices/mine")], 1)
