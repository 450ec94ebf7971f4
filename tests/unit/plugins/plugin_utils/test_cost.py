# SPDX-License-Identifier: Apache-2.0
"""Own or rent: the recipe's figures, the arithmetic as it is shown, and what must hold of any prices."""

from __future__ import annotations

import re
from dataclasses import replace
from typing import Any

import pytest
from ansible_collections.firstlight.cluster.plugins.plugin_utils.bench.cost import (
    OPTIONS,
    Case,
    case_of,
    check_options,
    cost,
    line_text,
    measured_speed,
)
from ansible_collections.firstlight.cluster.plugins.plugin_utils.catalog.load import BUILT_IN, load_catalog
from ansible_collections.firstlight.cluster.plugins.plugin_utils.catalog.prices import Given, load_prices
from ansible_collections.firstlight.cluster.plugins.plugin_utils.findings import PlanErrors
from hypothesis import given
from hypothesis import strategies as st

PRICES, _ = load_prices([BUILT_IN])
HARDWARE = load_catalog([BUILT_IN])["hardware"]


def case(**own: float | None) -> Case:
    """The recipe's machine with four GPUs."""
    figures: dict[str, float | None] = {
        "speed": 1000.0,
        "price": 250_000.0,
        "power": 3500.0,
        "kwh": 0.2,
        "pue": 1.5,
        "months": 36.0,
        "utilisation": 0.5,
        "gpu_hour": 4.0,
        "api": None,
    }
    told = {name: None if value is None else Given(value, "told") for name, value in (figures | own).items()}
    return Case(gpus=4, **told)  # type: ignore[arg-type] # only what may be None is


CASES = st.builds(
    case,
    speed=st.floats(1, 1e6),
    price=st.floats(1, 1e8),
    power=st.floats(1, 1e6),
    kwh=st.floats(0, 10),
    pue=st.floats(1, 3),
    months=st.floats(1, 120),
    utilisation=st.floats(0.01, 1),
    gpu_hour=st.floats(0.01, 100),
    api=st.floats(0.01, 1000),
)


def test_by_hand() -> None:
    found = cost(case(api=10.0))
    tokens = 1000 * 3600 * 730 * 0.5 / 1e6
    power = 3.5 * 730 * 1.5 * 0.2
    assert found["million_tokens_per_month"] == pytest.approx(tokens)
    assert found["kwh_per_million_tokens"] == pytest.approx(3.5 * 730 * 1.5 / tokens)
    assert found["own"]["per_million_tokens"] == pytest.approx((250_000 / 36 + power) / tokens)
    assert found["rent"]["per_month"] == pytest.approx(4 * 4 * 730 * 0.5)
    # Rent of a busy hour does not depend on how many of them there are.
    assert found["rent"]["per_million_tokens"] == pytest.approx(4 * 4 / (1000 * 3600) * 1e6)
    assert found["api"]["per_month"] == pytest.approx(tokens * 10)
    assert found["api"]["break_even_months"] == pytest.approx(250_000 / (tokens * 10 - power))


@pytest.mark.parametrize(("price", "running", "month"), [(200_000, 15_000, 10_000), (300_000, 25_000, 15_000)])
def test_the_recipes_break_even(price: float, running: float, month: float) -> None:
    """$200,000 to 300,000 and $15,000 to 25,000 a year of power and cooling are its $10,000 to 15,000 in two years."""
    kwh = running / (3.5 * 8760 * 1.5)
    found = cost(case(price=price, kwh=kwh, months=24.0))
    assert found["own"]["per_month"] == pytest.approx(month, rel=0.05)


def test_less_than_six_hours_a_day_is_for_rent_and_all_day_for_owning() -> None:
    """As the recipe says, with its middle prices over its three years."""
    few, all_day = (cost(case(utilisation=hours / 24)) for hours in (6, 24))
    assert few["rent"]["break_even_months"] > 36 > all_day["rent"]["break_even_months"]
    assert few["conclusions"][1].startswith("Do not own")
    assert all_day["conclusions"][1].startswith("Own")


def test_owning_that_never_pays_and_nothing_to_compare_with() -> None:
    dear = cost(case(gpu_hour=0.05))
    assert dear["rent"]["break_even_months"] is None
    assert "never pays" in dear["conclusions"][1]
    alone = cost(case(gpu_hour=None))
    assert (alone["rent"], alone["api"]) == (None, None)
    assert "--rent-per-gpu-hour" in alone["conclusions"][-1]


@given(CASES)
def test_the_arithmetic_that_is_shown_gives_what_is_shown(asked: Case) -> None:
    """Every line can be typed into a calculator; numbers are rounded to four digits, so a difference of them is not."""
    for line in cost(asked)["lines"]:
        assert line_text(line).startswith(f"{line['formula']} = {line['numbers']} = ")
        assert not re.search(r"[a-z]{2}", line["numbers"].replace("e-", "").replace("e+", ""))
        if " - " not in line["numbers"] and all(part != "0" for part in re.split("[^0-9.]+", line["numbers"])):
            typed = line["numbers"].replace(",", "").replace(" x ", " * ")
            assert eval(typed) == pytest.approx(line["value"], rel=5e-3)


@given(CASES)
def test_at_the_break_even_both_have_cost_the_same(asked: Case) -> None:
    found = cost(asked)
    own = found["own"]
    for other in (found["rent"], found["api"]):
        months = other["break_even_months"]
        if months is None:
            assert other["per_month"] <= own["power_per_month"]
            continue
        owned = own["price"] + months * own["power_per_month"]
        assert owned == pytest.approx(months * other["per_month"], rel=1e-6)
        # Before the end of the months that count it is cheaper per token, too, and only then.
        cheaper = own["per_million_tokens"] < other["per_million_tokens"]
        assert cheaper == (months < asked.months.value) or months == pytest.approx(asked.months.value)


@given(CASES)
def test_at_its_utilisation_owning_costs_what_renting_does(asked: Case) -> None:
    share = cost(asked)["rent"]["break_even_utilisation"]
    at = cost(replace(asked, utilisation=Given(share, "told")))
    assert at["own"]["per_month"] == pytest.approx(at["rent"]["per_month"])


@given(CASES, st.sampled_from(["price", "power", "kwh", "pue"]), st.floats(1.01, 10))
def test_what_costs_more_makes_owning_dearer(asked: Case, name: str, times: float) -> None:
    dearer: dict[str, Any] = {name: Given(getattr(asked, name).value * times, "told")}
    more = replace(asked, **dearer)
    before, after = cost(asked), cost(more)
    assert after["own"]["per_million_tokens"] >= before["own"]["per_million_tokens"]
    assert after["rent"]["per_million_tokens"] == before["rent"]["per_million_tokens"]
    first, second = (one["rent"]["break_even_months"] for one in (before, after))
    assert second is None or (first is not None and second >= first)


@given(CASES, st.floats(0.1, 0.99))
def test_a_busier_machine_makes_owning_cheaper_and_pays_sooner(asked: Case, share: float) -> None:
    idle = replace(asked, utilisation=Given(asked.utilisation.value * share, "told"))
    busy, idler = cost(asked), cost(idle)
    assert busy["own"]["per_million_tokens"] < idler["own"]["per_million_tokens"]
    assert busy["rent"]["per_million_tokens"] == pytest.approx(idler["rent"]["per_million_tokens"])
    assert busy["kwh_per_million_tokens"] < idler["kwh_per_million_tokens"]
    first, second = (one["rent"]["break_even_months"] for one in (busy, idler))
    assert second is None or (first is not None and first <= second)


@pytest.mark.parametrize("name", OPTIONS)
@pytest.mark.parametrize("value", [-1.0, float("nan"), float("inf"), 0.0])
def test_figures_that_no_bill_has_are_refused(name: str, value: float) -> None:
    errors = PlanErrors()
    check_options({name: value}, errors)
    if (name, value) == ("kwh", 0.0):  # a roof full of cells
        assert not errors.found
        return
    (one,) = errors.found
    assert one["id"] == "cost.arguments"
    assert OPTIONS[name][0] in one["found"]
    assert OPTIONS[name][0] in one["remedy"]


def test_a_share_is_at_most_one() -> None:
    errors = PlanErrors()
    check_options({"utilisation": 1.01, "pue": 0.9}, errors)
    assert len(errors.found) == 2


def told(name: str, gpus: int, currency: str = "USD", **values: float) -> tuple[Case | None, list[dict[str, str]]]:
    errors = PlanErrors()
    speed = Given(100.0, "told")
    found = case_of(speed, values, PRICES, HARDWARE[name], gpus=gpus, currency=currency, errors=errors)
    return found, errors.found


def test_what_the_catalog_knows() -> None:
    found, refused = told("h100-sxm-4-nvswitch", 8)
    assert refused == []
    assert found is not None
    assert (found.price.value, found.power.value, found.gpu_hour and found.gpu_hour.value) == (500_000, 7000, 4)
    assert "2 hosts at 250,000" in found.price.source
    assert all(one.source for one in (found.kwh, found.pue, found.months, found.utilisation))
    own, _ = told("h100-sxm-4-nvswitch", 8, price=1.0, power=2.0, gpu_hour=3.0)
    assert own is not None
    assert [one.source for one in (own.price, own.power)] == ["--price", "--power"]


@pytest.mark.parametrize(
    ("name", "gpus", "watts", "words"),
    [("gb10", 4, 960, "at most"), ("h200-sxm-1", 1, 875, "1 x 700 W x 1.25"), ("h100-sxm-8", 4, 10_200, "sustained")],
)
def test_the_power_of_the_hosts(name: str, gpus: int, watts: float, words: str) -> None:
    found, _ = told(name, gpus, price=1.0)
    assert found is not None
    assert found.power.value == watts
    assert words in found.power.source


def test_what_nobody_knows_is_asked_for() -> None:
    found, refused = told("h100-sxm-8", 8)
    assert found is None
    assert [(one["id"], "--price" in one["remedy"]) for one in refused] == [("cost.missing", True)]
    _, euros = told("h100-sxm-4", 4, currency="EUR")
    assert {word for one in euros for word in ("--price", "--power-price") if word + ", " in one["remedy"]} == {
        "--price",
        "--power-price",
    }
    assert told("h100-sxm-4", 4, currency="EUR", price=1.0, kwh=0.2)[0] is not None


def bench(*points: dict[str, Any], **own: Any) -> dict[str, Any]:
    configuration = {"model": "m", "hardware": "gb10", "gpus": 4}
    workload = {"name": "chat", "points": [*points]}
    return {"format": 1, "run": "r", "configuration": configuration, "workloads": [workload], **own}


def point(speed: Any, streams: Any = 16, rate: Any = None) -> dict[str, Any]:
    return {"streams": streams, "rate": rate, "summary": None if speed is None else {"output_tokens_per_s": speed}}


def measured(document: Any, streams: int | None = None, **own: Any) -> tuple[Given | None, str]:
    errors = PlanErrors()
    asked: dict[str, Any] = {"model": "m", "hardware": "gb10", "gpus": 4, **own}
    found = measured_speed(document, **asked, streams=streams, errors=errors)
    assert (found is None) == bool(errors.found)
    assert {one["id"] for one in errors.found} <= {"cost.bench"}
    return found, " ".join(one["found"] + " " + one["remedy"] for one in errors.found)


def test_a_measured_speed_is_the_fastest_or_the_one_that_is_asked_for() -> None:
    document = bench(point(90.0), point(200.0, 64), point(None, 128), point(150.0, None, 4.0))
    assert measured(document)[0] == Given(200.0, "measured: chat at 64 streams, run r")
    assert measured(document, 16)[0] == Given(90.0, "measured: chat at 16 streams, run r")
    assert "chat at 4 requests/s" in measured(document, 8)[1]


@pytest.mark.parametrize("own", [{"model": "other"}, {"hardware": "h200-sxm-1"}, {"gpus": 8}])
def test_a_benchmark_of_something_else_is_refused(own: dict[str, Any]) -> None:
    assert f"{next(iter(own.values()))} is requested" in measured(bench(point(90.0)), **own)[1]


@pytest.mark.parametrize(
    "document",
    [
        [],
        {},
        bench(format=2),
        bench(workloads="chat"),
        bench(workloads=[7, {"points": [7]}]),
        bench(configuration=None),
        bench(point("fast")),
        bench(point(float("nan")), point(-1.0), point(0)),
        bench(point(9.0, "many"), point(9.0, None, "quick")),
    ],
)
def test_what_is_no_benchmark_is_refused(document: Any) -> None:
    assert measured(document)[0] is None
