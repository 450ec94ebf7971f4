# SPDX-License-Identifier: Apache-2.0
"""Ladders: serving settings that are tried one after another, as described in a file of the catalog.

A change is a mapping of paths to values. A path is a key of firstlight_serving, `flags.--NAME` for one of the engine's
own flags, or `streams` for the load of the measurement. A null value leaves the setting at its default.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import yaml
from ansible_collections.firstlight.cluster.plugins.plugin_utils.catalog.fields import COMMON, Field, Range
from ansible_collections.firstlight.cluster.plugins.plugin_utils.catalog.load import CatalogError, check_fields
from ansible_collections.firstlight.cluster.plugins.plugin_utils.catalog.names import suggest
from ansible_collections.firstlight.cluster.plugins.plugin_utils.catalog.yaml_file import load_yaml
from ansible_collections.firstlight.cluster.plugins.plugin_utils.launch.flags import flag_name
from ansible_collections.firstlight.cluster.plugins.plugin_utils.plan.serving.flags import PLANNED_FLAGS
from ansible_collections.firstlight.cluster.plugins.plugin_utils.plan.serving.intent import SERVING_KEYS

DIRECTORY = "ladders"
USUAL = "default"
STREAMS = "streams"
FLAG = "flags."
LAYOUT = ("profile", "tensor_parallel", "pipeline_parallel", "replicas")
"""Keys that assign the GPUs. They change together and count as one lever."""
LEVERS = (
    *LAYOUT,
    *("gpu_memory_utilization", "max_model_len", "max_num_seqs", "max_num_batched_tokens", "kv_cache_dtype"),
    *("expert_parallel", "prefix_caching", "speculative", "engine_settings"),
)
"""Keys of firstlight_serving that a rung may change: those that affect the speed, not addresses or names."""
PRECISION = ("kv_cache_dtype", "--kv-cache-dtype", "--quantization", "--quantization-config", "--dtype")
"""Keys and flags whose value changes what is computed, not just when."""

_RUNG = {"name": Field((str,)), "change": Field((dict,)), "why": Field((str,), required=False)}
_STAGE = {"name": Field((str,)), "rungs": Field((list,), items=_RUNG)}
FIELDS: dict[str, Field] = {
    **COMMON,
    "workload": Field((str,), required=False),
    STREAMS: Field((int,), required=False, range=Range(least=1, most=100_000)),
    "hardware": Field((list,), required=False),
    "baseline": Field((dict,), required=False),
    "stages": Field((list,), items=_STAGE),
}

Change = dict[str, Any]


@dataclass(frozen=True)
class Rung:
    """One setting to try."""

    name: str
    stage: str
    change: Mapping[str, Any]


@dataclass(frozen=True)
class Ladder:
    """The rungs to try, their starting point, and the load."""

    name: str
    rungs: tuple[Rung, ...]
    workload: str | None = None
    streams: int | None = None
    hardware: tuple[str, ...] = ()
    """The hardware it was written for; empty for any."""
    baseline: Mapping[str, Any] = field(default_factory=dict)
    """Changes to the inventory's settings before the first rung."""

    def at_fixed_load(self) -> Ladder:
        """Return the ladder without the rungs that search for the load."""
        return Ladder(
            self.name,
            tuple(rung for rung in self.rungs if STREAMS not in rung.change),
            self.workload,
            self.streams,
            self.hardware,
            self.baseline,
        )


def load_ladder(named: str, directories: Iterable[str | Path]) -> Ladder:
    """Load the ladder from this file, or by name from the first catalog that has it. Raises CatalogError."""
    catalogs = [Path(directory) / DIRECTORY for directory in directories]
    if named.endswith((".yml", ".yaml")) or "/" in named:
        path = Path(named).expanduser()
    else:
        known = {file.stem: file for catalog in reversed(catalogs) for file in sorted(catalog.glob("*.yml"))}
        if named not in known:
            hint = suggest(named, sorted(known), otherwise="name a file, or one of the catalog")
            raise CatalogError([f"there is no ladder {named!r}: {hint}"])
        path = known[named]
    try:
        entry = load_yaml(path)
    except (OSError, UnicodeDecodeError, yaml.YAMLError, RecursionError) as error:
        raise CatalogError([f"{path} cannot be read: {' '.join(str(error).split())[:200]}"]) from error
    if not isinstance(entry, dict):
        raise CatalogError([f"{path} is not a mapping: write a ladder as in catalog/README.md"])
    return read_ladder(entry, str(path))


def read_ladder(entry: Mapping[str, Any], place: str) -> Ladder:
    """Parse the ladder of an entry. Raises CatalogError with all problems."""
    problems = ladder_problems(entry, place)
    if problems:
        raise CatalogError(problems)
    rungs = [
        Rung(str(rung["name"]), str(stage["name"]), dict(rung["change"]))
        for stage in entry["stages"]
        for rung in stage["rungs"]
    ]
    return Ladder(
        str(entry["name"]),
        tuple(rungs),
        entry.get("workload"),
        entry.get(STREAMS),
        tuple(str(one) for one in entry.get("hardware") or ()),
        dict(entry.get("baseline") or {}),
    )


def ladder_problems(entry: Mapping[str, Any], place: str) -> list[str]:
    """Return the problems of an entry; whether values are valid is left to the cluster's plan."""
    problems = check_fields(entry, FIELDS, place, "")
    if problems:
        return problems
    where = f"catalog entry {place}"
    problems += _paths(entry.get("baseline") or {}, f"{where} has the baseline")
    names: set[str] = set()
    for rung in (rung for stage in entry["stages"] for rung in stage["rungs"]):
        told = f"{where} has the rung {rung['name']!r}"
        if rung["name"] in names:
            problems.append(f"{told} twice: give each a name of its own")
        names.add(rung["name"])
        problems += _paths(rung["change"], told)
        levers = {path if path not in LAYOUT else LAYOUT[0] for path in rung["change"]}
        if len(levers) != 1:
            problems.append(
                f"{told} with {len(levers)} levers ({', '.join(sorted(map(str, levers))) or 'none'}), expected one: "
                "otherwise it is not known which of them helped; make a rung of each"
            )
    if not names:
        problems.append(f"{where} has no rung: add one to its stages")
    return problems


def _paths(change: Mapping[str, Any], told: str) -> list[str]:
    return [f"{told} with {path!r}: {why}" for path in change if (why := _wrong(path, change[path]))]


def _wrong(path: Any, value: Any) -> str:
    if path == STREAMS:
        whole = isinstance(value, int) and not isinstance(value, bool) and 0 < value <= 100_000
        return "" if whole else f"{value!r} is not a number of streams"
    if isinstance(path, str) and path.startswith(FLAG):
        name = flag_name(path.removeprefix(FLAG))
        if name is None or not name.startswith("--") or "=" in path:
            return "a flag is written as flags.--NAME, with its value after the colon"
        if name in PLANNED_FLAGS:
            return f"the plan writes it, from {PLANNED_FLAGS[name]}"
        return "" if value is None or isinstance(value, (str, int, float, bool)) else "a flag has one value"
    if path in LEVERS:
        return ""
    known = [*LEVERS, STREAMS, f"{FLAG}--NAME"]
    if path in SERVING_KEYS:
        return f"it does not affect the speed; known are {', '.join(known)}"
    return suggest(str(path), known, otherwise=f"known are {', '.join(known)}")


def merged(base: Mapping[str, Any], change: Mapping[str, Any]) -> Change:
    """Apply one change after another."""
    return {**base, **change}


def settings(change: Mapping[str, Any]) -> Change:
    """Return the part of a change that configures the server, without the client's load."""
    return {path: value for path, value in change.items() if path != STREAMS}


def is_precision(change: Mapping[str, Any]) -> bool:
    """Return whether a change affects what is computed."""
    return any((flag_name(path.removeprefix(FLAG)) or path) in PRECISION for path in change)


def overrides(former: Mapping[str, Any], change: Mapping[str, Any]) -> dict[str, Any]:
    """Return the keys of firstlight_serving that a change overrides, as input of `plan_serving`."""
    found: dict[str, Any] = {}
    for path, value in settings(change).items():
        if path.startswith(FLAG):
            flags = found.get("flags", former.get("flags")) or []
            found["flags"] = _with_flag(flags, path.removeprefix(FLAG), value)
        else:
            found[path] = value
    return found


def tuned(former: Mapping[str, Any], change: Mapping[str, Any]) -> dict[str, Any]:
    """Return the complete firstlight_serving with a change applied, as for the inventory."""
    return {key: value for key, value in {**former, **overrides(former, change)}.items() if value not in (None, [])}


def size(serving: Mapping[str, Any]) -> int:
    """Return the size of firstlight_serving: the number of keys and of words in its flags."""
    return len(serving) + len(serving.get("flags") or ())


def _with_flag(flags: Sequence[Any], name: str, value: Any) -> list[Any]:
    """Return command-line words with one flag set to another value; its negation is removed too."""
    meant = flag_name(name) or name
    bare = meant.removeprefix("--no-").removeprefix("--")
    same = {meant, f"--{bare}", f"--no-{bare}"}
    kept: list[Any] = []
    dropped = False
    for word in flags:
        found = flag_name(str(word))
        dropped = found in same if found else dropped
        if not dropped:
            kept.append(word)
    if value is None:
        return kept
    if value is False:
        return [*kept, f"--no-{bare}"]
    return [*kept, meant] if value is True else [*kept, f"{meant}={value}"]
