# SPDX-License-Identifier: Apache-2.0
"""Combinations known to fail in some versions of an engine: data, with the source of each report.

A hazard is refused, avoided by a flag or a variable that the plan writes, or only reported. Each has a date by which it
must be reviewed: engines get fixed, and a precaution that nobody needs any more costs speed.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from ansible_collections.firstlight.cluster.plugins.module_utils.versions import is_older, version_key
from ansible_collections.firstlight.cluster.plugins.plugin_utils.catalog.yaml_file import load_entries
from ansible_collections.firstlight.cluster.plugins.plugin_utils.engines.written import Written
from ansible_collections.firstlight.cluster.plugins.plugin_utils.findings import PlanErrors
from ansible_collections.firstlight.cluster.plugins.plugin_utils.sizing.models.shape import ModelShape

ERRORS = {
    "hazard.known": (
        "A combination that is known to fail or to give wrong answers in these versions of the engine, as recorded in "
        "catalog/hazards.yml with its source."
    ),
}
Hazard = Mapping[str, Any]

_TEXTS = ("name", "engine", "found", "why", "remedy", "source")
_DAYS = ("date", "review_by")
_REQUIRED = (*_TEXTS, *_DAYS, "when")
_OPTIONAL = ("from", "before", "note", "avoid", "warn")
_TRUTHS = ("expert_parallel", "pipeline_parallel", "experts")
_LISTS = ("quantization", "model_types", "except_model_types", "compute_capability", "kv_cache")
_CONDITIONS = (*_TRUTHS, *_LISTS, "flag")


def load_hazards(directories: Iterable[str | Path]) -> tuple[list[Mapping[str, Any]], list[str]]:
    """Load the hazards of every directory's hazards.yml, where the first of a name wins; and the files' problems."""

    def check(entry: object, where: str) -> list[str]:
        wrong = _wrong(entry)
        return [f"{where}: {wrong}"] if wrong else []

    return load_entries(directories, "hazards.yml", check)


def _wrong(entry: object) -> str | None:
    if not isinstance(entry, dict):
        return "expected a mapping"
    missing = [key for key in _REQUIRED if key not in entry]
    unknown = [str(key) for key in entry if key not in (*_REQUIRED, *_OPTIONAL)]
    if missing:
        return f"lacks {', '.join(missing)}"
    if unknown:
        return f"has unknown fields {', '.join(unknown)}"
    for key in (*_TEXTS, "from", "before", "note"):
        if not isinstance(entry.get(key, ""), (str, type(None))):
            return f"{key} is text"
    for key in _DAYS:
        if _day(entry[key]) is None:
            return f"{key} is a day, written as 2026-11-17"
    if not isinstance(entry.get("warn", False), bool):
        return "warn is true or false"
    return _wrong_when(entry["when"]) or _wrong_avoid(entry.get("avoid"))


def _wrong_when(when: object) -> str | None:
    if not isinstance(when, dict) or not when or any(key not in _CONDITIONS for key in when):
        return f"when is a mapping of {', '.join(_CONDITIONS)}"
    for key in _LISTS:
        if not _are_texts(when.get(key, [])):
            return f"when.{key} is a list of texts"
    flag = when.get("flag", {"name": "--flag", "values": []})
    if not isinstance(flag, dict) or set(flag) != {"name", "values"} or not _are_texts(flag["values"]):
        return "when.flag is a mapping of name and values"
    return None


def _wrong_avoid(avoid: object) -> str | None:
    if avoid is None:
        return None
    if not isinstance(avoid, dict) or len({"flag", "variable"} & set(avoid)) != 1 or "value" not in avoid:
        return "avoid is a mapping of flag or variable, value and, for a flag, refuse"
    if set(avoid) - {"flag", "variable", "value", "refuse"} or not _are_texts(avoid.get("refuse", [])):
        return "avoid has flag or variable, value and refuse, a list of texts"
    if not all(isinstance(avoid.get(key, ""), str) for key in ("flag", "variable", "value")):
        return "avoid.flag, avoid.variable and avoid.value are texts: put numbers in quotes"
    return None


def _are_texts(value: object) -> bool:
    return isinstance(value, list) and all(isinstance(one, str) for one in value)


def _day(value: object) -> dt.date | None:
    """Return a date; YAML reads an unquoted date as one, and a date with a time as a datetime."""
    if isinstance(value, dt.date):
        return value.date() if isinstance(value, dt.datetime) else value
    try:
        return dt.date.fromisoformat(value) if isinstance(value, str) else None
    except ValueError:
        return None


@dataclass(frozen=True)
class Case:
    """The combination that is checked for hazards."""

    shape: ModelShape
    engine: str = "vllm"
    version: str | None = None
    """None is any version."""
    compute_capability: str | None = None
    """None if the hardware's profile has none."""
    expert_parallel: bool = False
    kv_cache: str = "auto"
    flags: Written = field(default_factory=Written)
    """The operator's own flags."""
    pipeline_parallel: bool = False


@dataclass(frozen=True)
class Precautions:
    """What the plan does about hazards besides refusing."""

    flags: tuple[str, ...] = ()
    environment: Mapping[str, str] = field(default_factory=dict)
    notes: tuple[str, ...] = ()
    met: tuple[Mapping[str, str], ...] = ()
    """Every hazard that applies to the plan, refused or not: name, review_by, source."""


def check_hazards(case: Case, hazards: Sequence[Hazard], errors: PlanErrors) -> Precautions:
    """Refuse what is known to fail in this engine version; return precautions and notes for the other hazards."""
    flags: list[str] = []
    environment: dict[str, str] = {}
    notes: list[str] = []
    met: list[Mapping[str, str]] = []
    for hazard in hazards:
        if not _applies(hazard, case):
            continue
        avoid = hazard.get("avoid") or {}
        own = case.flags.text(avoid["flag"]) if "flag" in avoid else None
        if own is not None and not _among(own, avoid.get("refuse", ())):
            continue  # the operator has chosen another workaround
        met.append({"name": hazard["name"], "review_by": str(_day(hazard["review_by"])), "source": hazard["source"]})
        if own is not None or not (avoid or hazard.get("warn")):
            errors.add("hazard.known", _told(hazard, case), hazard["why"], hazard["remedy"])
            continue
        what = hazard["remedy"]
        if "flag" in avoid:
            flags += [avoid["flag"], avoid["value"]]
            what = f"the plan adds {avoid['flag']} {avoid['value']}"
        elif avoid:
            environment[avoid["variable"]] = avoid["value"]
            what = f"the plan sets {avoid['variable']}={avoid['value']}"
        notes.append(f"{_told(hazard, case)}: {what}")
    return Precautions(tuple(flags), environment, tuple(notes), tuple(met))


def _told(hazard: Hazard, case: Case) -> str:
    version = case.version or "of any version"
    return f"{hazard['name']}: {hazard['found']} ({case.engine} {version}, {case.shape.name})"


def overdue(met: Iterable[Mapping[str, str]], today: dt.date) -> list[str]:
    """Return messages on hazards whose review is overdue; they apply until somebody has reviewed them."""
    return [
        f"the hazard {one['name']} was due for review by {one['review_by']}: check whether a newer engine has "
        f"fixed it ({one['source']}), then set a later review_by or a `before` in hazards.yml of your catalog"
        for one in met
        if (day := _day(one["review_by"])) is not None and day < today
    ]


def _applies(hazard: Hazard, case: Case) -> bool:
    when, shape = hazard["when"], case.shape
    if hazard["engine"] != case.engine or not _in_range(case.version, hazard.get("from"), hazard.get("before")):
        return False
    found: dict[str, Any] = {
        "expert_parallel": case.expert_parallel,
        "pipeline_parallel": case.pipeline_parallel,
        "experts": shape.experts is not None,
        "quantization": shape.quantization.method,
        "model_types": shape.model_type,
        "compute_capability": case.compute_capability,
        "kv_cache": case.kv_cache.lower(),
    }
    if any(key in when and when[key] != found[key] for key in _TRUTHS):
        return False
    if any(key in found and found[key] not in when[key] for key in _LISTS if key in when):
        return False
    if shape.model_type in when.get("except_model_types", ()):
        return False
    flag = when.get("flag")
    return flag is None or _among(case.flags.text(flag["name"]), flag["values"])


def _among(value: str | None, values: Iterable[str]) -> bool:
    """Engines read most values in any case, and - for _."""
    return value is not None and _word(value) in {_word(one) for one in values}


def _word(text: str) -> str:
    return text.strip().lower().replace("-", "_")


def _in_range(version: str | None, first: str | None, before: str | None) -> bool:
    """A version that is missing or cannot be parsed is in every range: better a hazard too many than one overlooked."""
    if version_key(version) is None:
        return True
    return not is_older(version, first) and (before is None or is_older(version, before))
