# SPDX-License-Identifier: Apache-2.0
"""Published performance figures per machine (catalog/envelopes.yml), each with its origin."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from ansible_collections.firstlight.cluster.plugins.plugin_utils.catalog.fields import COMMON, NULL, Field, Range
from ansible_collections.firstlight.cluster.plugins.plugin_utils.catalog.load import check_fields
from ansible_collections.firstlight.cluster.plugins.plugin_utils.catalog.yaml_file import load_entries

Envelope = Mapping[str, Any]

METRICS = ("output_tokens_per_s", "decode_tokens_per_s", "ttft_ms.50", "ttft_ms.95", "tpot_ms.50", "tpot_ms.95")
"""Metrics a benchmark is compared by; `decode_tokens_per_s` is the rate of one request after its first token."""
SPEEDUP, COMMUNICATION = "speedup", "communication_share"
SCALING = (SPEEDUP, COMMUNICATION)
"""Metrics layouts are compared by: tokens/s relative to `from_tensor_parallel`, and communication's share of a step."""

_FIGURE = Field((int, float, NULL), range=Range(above=0, most=1e9))
_TOKENS = Field((int,), required=False, range=Range(least=1, most=2**30))

FIELDS: dict[str, Field] = {
    **COMMON,
    "whose": Field((str,)),
    "hardware": Field((list,)),
    "models": Field((list,)),
    "profiles": Field((list,), required=False),
    "tensor_parallel": Field((int,), range=Range(least=1, most=1024)),
    "streams": Field((int,), required=False, range=Range(least=1, most=100_000)),
    "rate": Field((int, float), required=False, range=Range(above=0, most=1e6)),
    "prompts": Field((str,), required=False, choices=("random", "conversations")),
    "input": Field((dict,), required=False, fields={"least": _TOKENS, "most": _TOKENS}),
    "metric": Field((str,), choices=(*METRICS, *SCALING)),
    "from_tensor_parallel": Field((int,), required=False, range=Range(least=1, most=1024)),
    "low": _FIGURE,
    "high": _FIGURE,
}


def load_envelopes(directories: Iterable[str | Path]) -> tuple[list[Envelope], list[str]]:
    """Return the envelopes of all envelopes.yml files, the first of each name winning, and the problems found."""
    return load_entries(directories, "envelopes.yml", check_envelope)


def check_envelope(entry: object, where: str) -> list[str]:
    """Return the problems of one envelope."""
    if not isinstance(entry, dict):
        return [f"catalog entry {where} is not a mapping: write its fields as in catalog/README.md"]
    wrong = check_fields(entry, FIELDS, where, "")
    if wrong:
        return wrong
    for name in ("hardware", "models", "profiles"):
        if not all(isinstance(one, str) for one in entry.get(name) or ()):
            wrong.append(f"catalog entry {where} has {name}: {entry[name]!r}, expected a list of names")
    if ("streams" in entry) == ("rate" in entry):
        wrong.append(f"catalog entry {where} needs either streams (closed loop) or rate (open loop): add one of them")
    if ("from_tensor_parallel" in entry) != (entry["metric"] == SPEEDUP):
        wrong.append(
            f"catalog entry {where} has metric {entry['metric']}: from_tensor_parallel goes with {SPEEDUP} only"
        )
    low, high = entry["low"], entry["high"]
    if low is None and high is None:
        wrong.append(f"catalog entry {where} has neither low nor high: add the figure from its source")
    elif low is not None and high is not None and low > high:
        wrong.append(f"catalog entry {where} has low {low:g} above high {high:g}: swap them")
    return wrong


def envelopes_for(
    envelopes: Iterable[Envelope], *, hardware: str, model: str, profile: str, tensor_parallel: int
) -> list[Envelope]:
    """Return the envelopes that apply to this kind of cluster."""
    return [
        one
        for one in envelopes
        if hardware in one["hardware"]
        and model in one["models"]
        and profile in one.get("profiles", (profile,))
        and tensor_parallel == one["tensor_parallel"]
    ]


def envelopes_at(
    envelopes: Sequence[Envelope], workload: Mapping[str, Any], streams: int | None, rate: float | None
) -> list[Envelope]:
    """Return the envelopes that apply to this workload at this number of streams or this request rate."""
    return [
        one
        for one in envelopes
        if (one.get("streams"), one.get("rate")) == (streams, rate)
        and one.get("prompts", workload.get("prompts")) == workload.get("prompts")
        and _speaks_of(one.get("input"), workload.get("input"))
    ]


def _speaks_of(limits: Mapping[str, int] | None, tokens: int | None) -> bool:
    if limits is None:
        return True
    return tokens is not None and limits.get("least", 0) <= tokens <= limits.get("most", tokens)
