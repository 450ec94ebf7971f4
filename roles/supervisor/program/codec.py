# SPDX-License-Identifier: Apache-2.0
"""Reports and orders as plain data for the wire, and back.

Received data is checked field by field: the other side has the token, but may be of a newer version. Unknown fields are
ignored, missing ones have their defaults.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, fields
from typing import Any, TypeVar

from ansible_collections.firstlight.cluster.plugins.module_utils.supervisor.model import (
    Loading,
    NodeReport,
    Order,
    UnitReport,
)

from .wire import WireError

Flat = TypeVar("Flat", UnitReport, Loading, NodeReport, Order)


def report_to_data(report: NodeReport) -> dict[str, Any]:
    return asdict(report)


def report_from_data(data: Any) -> NodeReport:
    """Parse a report. Raises WireError if it is invalid."""
    report = _object(data, "report")
    units = _object(report.get("units", {}), "list of units")
    problems = report.get("problems", ())
    if not isinstance(problems, (list, tuple)) or not all(isinstance(problem, str) for problem in problems):
        raise WireError(f"received a report whose problems are not text: {problems!r}")
    return _plain(
        NodeReport,
        report,
        units={str(name): _plain(UnitReport, _object(unit, "unit")) for name, unit in units.items()},
        problems=tuple(problems),
        loading=_plain(Loading, _object(report.get("loading", {}), "reading of the engine")),
    )


def order_to_data(order: Order) -> dict[str, Any]:
    return asdict(order)


def order_from_data(data: Any) -> Order:
    """Parse an order. Raises WireError if it is invalid."""
    order = _object(data, "order")
    boots = _object(order.get("boots", {}), "list of boots")
    if not all(isinstance(boot, str) for boot in boots.values()):
        raise WireError(f"received an order whose boots are not text: {boots!r}")
    return _plain(Order, order, boots={str(node): boot for node, boot in boots.items()})


def _plain(kind: type[Flat], data: Mapping[str, Any], **parts: Any) -> Flat:
    """Build a `kind` from the known fields in `data`, each checked for its declared type, and from the `parts`."""
    types = {"str": str, "int": int, "bool": bool}
    values = dict(parts)
    for field in fields(kind):
        if field.name in parts or field.name not in data:
            continue
        value = data[field.name]
        if type(value) is not types[str(field.type)]:
            raise WireError(f"received a {kind.__name__} whose {field.name} is {value!r}, expected {field.type}")
        values[field.name] = value
    try:
        return kind(**values)
    except TypeError as error:
        raise WireError(f"received an incomplete {kind.__name__}: {error}") from error


def _object(data: Any, what: str) -> Mapping[str, Any]:
    if not isinstance(data, Mapping):
        raise WireError(f"received a {what} that is not a JSON object: {type(data).__name__}")
    return data
