# SPDX-License-Identifier: Apache-2.0
"""Workloads of benchmarks, as described in the catalog (catalog/README.md)."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from ansible_collections.firstlight.cluster.plugins.plugin_utils.catalog.fields import COMMON, NULL, Field, Range
from ansible_collections.firstlight.cluster.plugins.plugin_utils.catalog.load import CatalogError, check_fields
from ansible_collections.firstlight.cluster.plugins.plugin_utils.catalog.names import suggest
from ansible_collections.firstlight.cluster.plugins.plugin_utils.catalog.yaml_file import load_entries

FILE = "workloads.yml"
RANDOM, CONVERSATIONS = "random", "conversations"
TARGETS = ("ttft_ms", "tpot_ms", "e2e_ms")
USUAL = ("latency", "chat")
"""Workloads that are measured by default."""

_TOKENS = Field((int, NULL), required=False, range=Range(least=1, most=10_000_000))
_SECONDS = Field((int,), required=False, range=Range(least=1, most=86_400))
FIELDS: dict[str, Field] = {
    **COMMON,
    "prompts": Field((str,), choices=(RANDOM, CONVERSATIONS)),
    "input": _TOKENS,
    "output": _TOKENS,
    "prefix": _TOKENS,
    "streams": Field((list,), required=False),
    "rates": Field((list,), required=False),
    "requests_per_stream": Field((int,), required=False, range=Range(least=1, most=10_000)),
    "seconds": _SECONDS,
    "warmups": Field((int, NULL), required=False, range=Range(least=0, most=100_000)),
    "repeats": Field((int,), required=False, range=Range(least=1, most=100)),
    "targets": Field(
        (dict, NULL),
        required=False,
        fields={name: Field((int, float, NULL), required=False, range=Range(above=0)) for name in TARGETS},
    ),
    "limit_s": _SECONDS,
    "stall_s": _SECONDS,
}


class WorkloadError(ValueError):
    """A workload cannot be measured; the message includes the remedy."""


@dataclass(frozen=True)
class Workload:
    """Prompts of one kind, at each number of streams (closed loop) and at each request rate (open loop)."""

    name: str
    prompts: str = RANDOM
    input: int | None = None
    output: int | None = None
    prefix: int | None = None
    """Tokens before those of `input` that all prompts of a run share, like a system prompt."""
    streams: tuple[int, ...] = ()
    rates: tuple[float, ...] = ()
    requests_per_stream: int = 10
    seconds: int = 60
    """Duration of an open loop."""
    warmups: int | None = None
    """Requests before the measured ones; None means twice the streams, but at least four."""
    repeats: int = 3
    targets: Mapping[str, float | None] | None = None
    limit_s: int = 3600
    stall_s: int = 300

    @property
    def tokens(self) -> int:
        """The context that one request needs at most, as far as it is known."""
        return (self.prefix or 0) + (self.input or 0) + (self.output or 0)

    def shown(self) -> dict[str, Any]:
        """Return the workload's part of a result document, without the points."""
        targets = {name: (self.targets or {}).get(name) for name in TARGETS}
        own = {"name": self.name, "input": self.input, "output": self.output, "prompts": self.prompts}
        return {**own, **({"prefix": self.prefix} if self.prefix else {}), "targets": targets}


def load_workloads(directories: Iterable[str | Path]) -> dict[str, Workload]:
    """Load the workloads of all directories, the first of each name winning. Raises CatalogError with all problems."""
    entries, problems = load_entries(directories, FILE, _wrong)
    if problems:
        raise CatalogError(problems)
    return {entry["name"]: _workload(entry) for entry in entries}


def _wrong(entry: object, place: str) -> list[str]:
    if not isinstance(entry, dict):
        return [f"{place}: expected a mapping"]
    problems = check_fields(entry, FIELDS, place, "")
    if problems:
        return problems
    for name, types, most in (("streams", (int,), 100_000), ("rates", (int, float), 100_000)):
        for value in entry.get(name) or ():
            if isinstance(value, bool) or not isinstance(value, types) or not 0 < value <= most:
                problems.append(f"catalog entry {place} has {value!r} in {name}, expected numbers from 1 to {most}")
    if not (entry.get("streams") or entry.get("rates")):
        problems.append(f"catalog entry {place} lacks streams and rates: add one of them")
    if entry["prompts"] == RANDOM and not (entry.get("input") and entry.get("output")):
        problems.append(f"catalog entry {place} lacks input or output: random prompts have a length")
    if entry["prompts"] != RANDOM and entry.get("prefix"):
        problems.append(f"catalog entry {place} has a prefix, which only random prompts have: leave it out")
    return problems


def _workload(entry: Mapping[str, Any]) -> Workload:
    own = {key: value for key, value in entry.items() if key in Workload.__dataclass_fields__}
    numbers = {
        "streams": tuple(entry.get("streams") or ()),
        "rates": tuple(float(rate) for rate in entry.get("rates") or ()),
    }
    return Workload(**{**own, **numbers})


def chosen(
    known: Mapping[str, Workload],
    names: Sequence[str] = (),
    *,
    streams: Sequence[int] = (),
    rates: Sequence[float] = (),
    repeats: int | None = None,
    context: int | None = None,
    conversations: bool = False,
) -> list[Workload]:
    """Return the requested workloads, with streams, rates or repeats overridden if given.

    Raises WorkloadError for one that is unknown or cannot be measured with this context.
    """
    picked = []
    for name in dict.fromkeys(names or USUAL):
        if name not in known:
            hint = suggest(name, sorted(known), otherwise=f"add it to {FILE} of a directory of firstlight_catalog")
            raise WorkloadError(f"there is no workload {name!r}: {hint}")
        one = known[name]
        if one.prompts == CONVERSATIONS and not conversations:
            raise WorkloadError(f"workload {name} needs a file of conversations: name one with --conversations FILE")
        if context and one.tokens > context:
            if names:
                raise WorkloadError(
                    f"workload {name} has {one.tokens} tokens in prompt and answer, expected at most {context}, the "
                    "server's context: choose another workload, or add a shorter one to your catalog"
                )
            continue
        if streams or rates:
            one = replace(one, streams=tuple(streams), rates=tuple(float(rate) for rate in rates))
        picked.append(replace(one, repeats=repeats) if repeats else one)
    if not picked:
        raise WorkloadError(
            f"no usual workload ({', '.join(USUAL)}) fits into the server's context of {context} tokens: add a shorter "
            f"one to {FILE} of your catalog, and name it with --workload"
        )
    return picked
