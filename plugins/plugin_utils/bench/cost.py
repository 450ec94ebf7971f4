# SPDX-License-Identifier: Apache-2.0
"""Compare owning a machine with renting, as arithmetic that is shown step by step (docs/cost.md). Pure functions.

Owning costs the price up front and power every month. Renting costs hours, or tokens, and nothing else. Both serve the
same tokens: those of the hours in which the machine is busy.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from ansible_collections.firstlight.cluster.plugins.plugin_utils.bench.points import at_words
from ansible_collections.firstlight.cluster.plugins.plugin_utils.catalog.fields import Range
from ansible_collections.firstlight.cluster.plugins.plugin_utils.catalog.prices import LIMITS, Given, Price, price_of
from ansible_collections.firstlight.cluster.plugins.plugin_utils.findings import PlanErrors
from ansible_collections.firstlight.cluster.plugins.plugin_utils.sizing.models.fields import plain

ERRORS = {
    "cost.arguments": "Prices, power, months and utilisation must be plausible numbers.",
    "cost.missing": "What a machine costs and draws is in the catalog or given as an option: a guess would decide.",
    "cost.bench": (
        "A measured speed is valid only for the model, the hardware and the GPUs that it was measured with."
    ),
}

HOURS = 730.0
"""Hours of a month: 8760 / 12."""

OPTIONS: Mapping[str, tuple[str, Range]] = {
    "price": ("--price", LIMITS["host"]),
    "power": ("--power", Range(above=0, most=1e9)),
    "kwh": ("--power-price", LIMITS["kwh"]),
    "pue": ("--pue", LIMITS["pue"]),
    "months": ("--months", LIMITS["months"]),
    "utilisation": ("--utilisation", LIMITS["utilisation"]),
    "gpu_hour": ("--rent-per-gpu-hour", LIMITS["gpu_hour"]),
    "api": ("--api-price-per-million", Range(above=0, most=1e6)),
}
"""Inputs with their option and valid range."""

CAVEATS = (
    "Power is counted as under load for all hours, rent only for busy hours.",
    "Not counted: staff, space, switches and cables, repairs, interest, resale value.",
)


@dataclass(frozen=True)
class Case:
    """The inputs of the calculation, each with its source."""

    speed: Given
    """Output tokens/s while busy."""
    gpus: int
    price: Given
    power: Given
    """Power of all hosts under load, in watts."""
    kwh: Given
    pue: Given
    months: Given
    utilisation: Given
    gpu_hour: Given | None = None
    api: Given | None = None
    """Price of a hosted service per million output tokens."""
    currency: str = "USD"


def check_options(values: Mapping[str, float | None], errors: PlanErrors) -> None:
    """Add an error for each option outside its valid range."""
    for name, (option, limits) in OPTIONS.items():
        value = values.get(name)
        if value is not None and value not in limits:
            errors.add(
                "cost.arguments", f"{option} is {value}", f"{option} is a number {limits.words}", f"correct {option}"
            )


def case_of(
    speed: Given,
    values: Mapping[str, float | None],
    prices: Iterable[Price],
    hardware: Mapping[str, Any],
    *,
    gpus: int,
    currency: str,
    errors: PlanErrors,
) -> Case | None:
    """Build the case from the given values, else from the catalog; None, with errors, if something is missing."""
    listed, name = list(prices), str(hardware["name"])

    def known(what: str) -> Given | None:
        value = values.get(what)
        return Given(value, OPTIONS[what][0]) if value is not None else price_of(listed, what, name, currency)

    hosts = -(-gpus // hardware["gpus"])
    found = {what: known(what) for what in ("kwh", "pue", "months", "utilisation", "gpu_hour", "api")}
    host = price_of(listed, "host", name, currency)
    if values.get("price") is not None or host is None:
        found["price"] = known("price")
    else:
        found["price"] = Given(host.value * hosts, f"{_hosts(hosts, host.value)}, {host.source}", host.detail)
    found["power"] = known("power") or _power(hardware, gpus, price_of(listed, "host_power", name, currency))
    optional = ("gpu_hour", "api")
    for what in (one for one in found if found[one] is None and one not in optional):
        option = OPTIONS[what][0]
        of = f" in {currency}" if what in ("price", "kwh") else ""
        errors.add(
            "cost.missing",
            f"{option} is not given, and the catalog has nothing for {name}{of}",
            f"{option} is given, or prices.yml or the hardware's profile of a catalog has it",
            f"give {option}, or add it to prices.yml of a catalog of your own (--catalog)",
        )
    if errors.found:
        return None
    return Case(speed, gpus, currency=currency, **found)  # type: ignore[arg-type] # none of the others is None here


def _hosts(hosts: int, each: float) -> str:
    return f"{hosts} host{'' if hosts == 1 else 's'} at {each:,.0f}"


def _power(hardware: Mapping[str, Any], gpus: int, whole: Given | None) -> Given | None:
    """Return the power of all hosts: from the profile's host figure, else from its GPUs and the rest of a host."""
    hosts = -(-gpus // hardware["gpus"])
    told, limit = hardware.get("host_power_w") or {}, hardware.get("power_limit_w")
    profile = f"hardware {hardware['name']}"
    if told.get("sustained"):
        watts = told["sustained"]
        return Given(float(hosts * watts), f"{_hosts(hosts, watts)} W sustained, {profile}")
    if limit and whole:
        source = f"{gpus} x {limit} W x {whole.value:g}, {profile} and {whole.source}"
        return Given(gpus * limit * whole.value, source, whole.detail)
    if told.get("transient"):
        watts = told["transient"]
        return Given(float(hosts * watts), f"{_hosts(hosts, watts)} W at most, {profile}: the actual draw is lower")
    return None


class _Sheet:
    """Collects the steps as they are computed. A formula names earlier values, from which its numbers are filled in."""

    def __init__(self, currency: str, known: Mapping[str, float]) -> None:
        self.currency, self.known, self.lines = currency, dict(known), list[dict[str, Any]]()

    def line(self, name: str, value: float, formula: str, unit: str | None = None) -> float:
        names = "|".join(map(re.escape, sorted(self.known, key=len, reverse=True)))
        numbers = re.sub(names, lambda found: number(self.known[found[0]]), formula)
        unit = self.currency if unit is None else unit
        self.lines.append({"name": name, "formula": formula, "numbers": numbers, "value": value, "unit": unit})
        self.known[name] = value
        return value

    def instead(self, name: str, month: float) -> dict[str, Any]:
        """Return an alternative that costs `month` every month, with the months until owning has cost less."""
        known = self.known
        million = month / known["tokens per month"]
        self.line(f"{name}, per million tokens", million, f"{name}, per month / tokens per month")
        saved = month - known["power per month"]
        months = known["price"] / saved if saved > 0 else None
        if months is not None:
            told = f"price / ({name}, per month - power per month)"
            self.line(f"owning has cost less than {name} after", months, told, "months")
        return {"per_month": month, "per_million_tokens": million, "break_even_months": months}


def cost(case: Case) -> dict[str, Any]:
    """Compute the document: monthly cost of each option, cost per million tokens, break-even, and every step."""
    speed, busy, price = case.speed.value, case.utilisation.value, case.price.value
    watts, pue, kwh, span = case.power.value, case.pue.value, case.kwh.value, case.months.value
    told = {"tokens/s": speed, "utilisation": busy, "watts": watts, "PUE": pue, "price of a kWh": kwh, "price": price}
    sheet = _Sheet(case.currency, {**told, "months": span, "hours": HOURS})
    tokens = sheet.line(
        "tokens per month",
        speed * 3600 * HOURS * busy / 1e6,
        "tokens/s x 3600 x hours x utilisation / 1000000",
        "million",
    )
    energy = sheet.line("energy per month", watts / 1000 * HOURS * pue, "watts / 1000 x hours x PUE", "kWh")
    each = sheet.line("energy per million tokens", energy / tokens, "energy per month / tokens per month", "kWh")
    running = sheet.line("power per month", energy * kwh, "energy per month x price of a kWh")
    written_off = sheet.line("price per month", price / span, "price / months")
    month = sheet.line("owned, per month", written_off + running, "price per month + power per month")
    million = sheet.line("owned, per million tokens", month / tokens, "owned, per month / tokens per month")
    own = {"price": price, "power_per_month": running, "per_month": month, "per_million_tokens": million}
    rent = api = None
    if case.gpu_hour is not None:
        hour = case.gpu_hour.value
        sheet.known |= {"GPUs": case.gpus, "price of an hour": hour}
        rented = case.gpus * hour * HOURS * busy
        sheet.line("rented, per month", rented, "GPUs x price of an hour x hours x utilisation")
        rent = sheet.instead("rented", rented)
        rent["break_even_utilisation"] = month / (case.gpus * hour * HOURS)
        sheet.line(
            "owning is cheaper from a utilisation of",
            rent["break_even_utilisation"],
            "owned, per month / (GPUs x price of an hour x hours)",
            "",
        )
    if case.api is not None:
        sheet.known["price of a million"] = case.api.value
        paid = tokens * case.api.value
        sheet.line("from a service, per month", paid, "tokens per month x price of a million")
        api = sheet.instead("from a service", paid)
    return {
        "currency": case.currency,
        "tokens_per_s": speed,
        "million_tokens_per_month": tokens,
        "kwh_per_month": energy,
        "kwh_per_million_tokens": each,
        "own": own,
        "rent": rent,
        "api": api,
        "lines": sheet.lines,
        "assumed": _assumed(case),
        "caveats": list(CAVEATS),
        "conclusions": list(_conclusions(case, own, {"renting by the hour": rent, "the service": api})),
    }


def _conclusions(case: Case, own: Mapping[str, float], others: Mapping[str, Mapping[str, Any] | None]) -> Iterable[str]:
    span = f"{case.months.value:g} months"
    yield (
        f"Owning pays off where anything else would cost more than {number(own['per_month'])} {case.currency} a month."
    )
    for name, one in others.items():
        if one is None:
            continue
        months = one["break_even_months"]
        if months is None:
            yield f"Owning never pays off against {name}: its power alone costs as much."
        elif months <= case.months.value:
            yield f"Own: against {name} it has paid off after {months:.1f} of {span}."
        else:
            yield (
                f"Do not own: against {name} it would have paid off after {months:.1f} months, later than after {span}."
            )
    if not any(others.values()):
        yield "Give --rent-per-gpu-hour or --api-price-per-million to compare with: the catalog has no rent for it."


def _assumed(case: Case) -> list[dict[str, Any]]:
    named = {
        "tokens/s": case.speed,
        f"price, {case.currency}": case.price,
        "watts under load": case.power,
        f"a kWh, {case.currency}": case.kwh,
        "PUE": case.pue,
        "months": case.months,
        "utilisation": case.utilisation,
        f"a GPU and hour, {case.currency}": case.gpu_hour,
        f"a million tokens of a service, {case.currency}": case.api,
    }
    return [
        {"name": name, "value": one.value, "source": one.source, "detail": one.detail}
        for name, one in named.items()
        if one is not None
    ]


def number(value: float) -> str:
    """Format a number with as many digits as a bill needs."""
    return f"{value:,.0f}" if abs(value) >= 1000 else f"{value:.4g}"


def line_text(line: Mapping[str, Any]) -> str:
    """Render one step: formula = numbers = result."""
    return f"{line['formula']} = {line['numbers']} = {number(line['value'])} {line['unit']}".rstrip()


def measured_speed(
    document: object, *, model: str, hardware: str, gpus: int, streams: int | None, errors: PlanErrors
) -> Given | None:
    """Return the tokens/s of the fastest point of a benchmark, optionally only at this number of streams."""
    found = document if isinstance(document, Mapping) else {}
    if found.get("format") != 1 or not isinstance(found.get("workloads"), list):
        errors.add(
            "cost.bench",
            "the file is not a benchmark result",
            "--bench is what `firstlight bench --output FILE` writes, format 1",
            "measure again, or name another file",
        )
        return None
    configuration = found.get("configuration")
    told = configuration if isinstance(configuration, Mapping) else {}
    for name, asked in {"model": model, "hardware": hardware, "gpus": gpus}.items():
        if told.get(name) != asked:
            errors.add(
                "cost.bench",
                f"{name} {plain(str(told.get(name)), 80)} was measured, {plain(str(asked), 80)} is requested",
                "a benchmark is valid for the model, hardware and GPUs that it was measured with",
                "name the result of that cluster, or leave --bench out to estimate",
            )
    points = dict(_points(found["workloads"]))
    chosen = {key: speed for key, speed in points.items() if streams is None or key[1] == streams}
    if not chosen:
        known = "; ".join(f"{name} at {at_words(count, rate)}" for name, count, rate in points)
        errors.add(
            "cost.bench",
            f"no point with {'figures' if streams is None else f'{streams} streams'} is in the result",
            "the speed is that of a measured point",
            f"measure it, or leave --concurrency out for the fastest; measured: {plain(known, 300) or 'none'}",
        )
    if errors.found:
        return None
    (name, count, rate), speed = max(chosen.items(), key=lambda one: one[1])
    run = plain(str(found.get("run")), 80)
    return Given(speed, f"measured: {plain(name, 80)} at {at_words(count, rate)}, run {run}")


def _points(workloads: Iterable[Any]) -> Iterable[tuple[tuple[str, int | None, float | None], float]]:
    """Yield the speed of every point that has one, by workload, streams and rate."""
    for workload in (one for one in workloads if isinstance(one, Mapping)):
        for point in (one for one in workload.get("points") or () if isinstance(one, Mapping)):
            summary, streams, rate = point.get("summary"), point.get("streams"), point.get("rate")
            speed = summary.get("output_tokens_per_s") if isinstance(summary, Mapping) else None
            loads = isinstance(streams, int | None) and isinstance(rate, int | float | None)
            if loads and isinstance(speed, int | float) and math.isfinite(speed) and 0 < speed < 1e12:
                yield (str(workload.get("name")), streams, rate), float(speed)
