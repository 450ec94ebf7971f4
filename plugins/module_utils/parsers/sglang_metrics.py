# SPDX-License-Identifier: Apache-2.0
"""Parses SGLang's page of metrics, in the text format of Prometheus, under the names used here for vLLM's."""

from __future__ import annotations

import math
from typing import Any

from .vllm_metrics import Sample, read_samples

_PREFIX = "sglang:"
_SUMS = {
    "prompt_tokens_total": "prompt_tokens",
    "generation_tokens_total": "generation_tokens",
    "num_requests_total": "finished",
}
_HIGHEST = {"num_running_reqs": "running", "num_queue_reqs": "waiting", "token_usage": "kv_cache_usage"}
"""Reported by every rank that reports anything: the same requests, not more of them."""


def parse_sglang_metrics(text: str) -> tuple[dict[str, Any], list[str]]:
    """Parse into (data, problems).

    `data` has only what the page shows: prompt_tokens, generation_tokens, running, waiting, kv_cache_usage (0 to 1),
    finished {all: requests}.
    """
    problems: list[str] = []
    samples, _ = read_samples(text, problems)
    own = [(name.removeprefix(_PREFIX), labels, value) for name, labels, value in samples if name.startswith(_PREFIX)]
    if not own:
        return {}, [*problems, "no SGLang metric: start it with --enable-metrics"]
    data = {key: sum(found) for name, key in _SUMS.items() if (found := _values(own, name))}
    data |= {key: max(found) for name, key in _HIGHEST.items() if (found := _values(own, name))}
    if "finished" in data:
        return {**data, "finished": {"all": data["finished"]}}, problems
    return data, problems


def _values(own: list[Sample], name: str) -> list[float]:
    return [value for one, _, value in own if one == name and math.isfinite(value)]
