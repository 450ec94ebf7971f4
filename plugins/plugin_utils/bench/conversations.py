# SPDX-License-Identifier: Apache-2.0
"""Read the operator's file of conversations, and write the one format that the clients of all engines read."""

from __future__ import annotations

import json
import random
from collections.abc import Iterable, Mapping
from typing import Any

from ansible_collections.firstlight.cluster.plugins.plugin_utils.bench.workloads import WorkloadError

LARGEST = 1 << 30
MORE = 2
"""Conversations per request that are passed to a client, as clients skip those that are too short or too long."""


def read_conversations(text: str, path: str) -> list[tuple[str, str]]:
    """Parse pairs of prompt and answer from ShareGPT's format or JSON lines. Raises WorkloadError."""
    found = [pair for entry in _entries(text, path) if (pair := _pair(entry))]
    if not found:
        raise WorkloadError(
            f"{path} has no conversation with a prompt and an answer, expected a list like ShareGPT's "
            '([{"conversations": [{"value": "..."}, {"value": "..."}]}]), or lines such as {"prompt": "...", '
            '"completion": "..."} or {"messages": [{"content": "..."}, {"content": "..."}]}'
        )
    return found


def _entries(text: str, path: str) -> Iterable[Any]:
    try:
        if text.lstrip().startswith("["):
            listed = json.loads(text)
            return listed if isinstance(listed, list) else []
        return [json.loads(line) for line in text.splitlines() if line.strip()]
    except (ValueError, RecursionError) as error:
        raise WorkloadError(f"{path} is neither JSON nor lines of JSON ({str(error)[:120]}): correct it") from error


def _pair(entry: Any) -> tuple[str, str] | None:
    if not isinstance(entry, Mapping):
        return None
    if isinstance(entry.get("prompt"), str):
        answer = entry.get("completion") or entry.get("response") or entry.get("output")
        return (entry["prompt"], answer) if isinstance(answer, str) else None
    turns = entry.get("conversations") or entry.get("messages")
    if not isinstance(turns, list):
        return None
    told = [turn for turn in turns if isinstance(turn, Mapping) and turn.get("role", turn.get("from")) != "system"]
    words = [turn.get("value", turn.get("content")) for turn in told[:2]]
    return (words[0], words[1]) if len(words) == 2 and all(isinstance(one, str) and one for one in words) else None


def prompts_for(conversations: list[tuple[str, str]], requests: int, seed: int) -> str:
    """Sample as many conversations as a run needs, in random order. Raises WorkloadError if there are too few.

    A client with too few would repeat prompts, which the server has cached by then.
    """
    if len(conversations) < requests:
        raise WorkloadError(
            f"the file has {len(conversations)} conversations, expected at least one for each of {requests} requests: "
            "measure with fewer streams, or give a larger file"
        )
    drawn = random.Random(seed).sample(conversations, min(len(conversations), MORE * requests))  # noqa: S311 - an order
    return json.dumps([{"conversations": [{"value": one} for one in pair]} for pair in drawn])
