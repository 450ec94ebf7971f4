# SPDX-License-Identifier: Apache-2.0
"""Fixed prompts for a server: requests that make its answers reproducible, and the parsing of the responses."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from .completion import complaint

SEED = 20261118
CONTEXT_STATUSES = (400, 413, 422)
"""Statuses with which engines refuse a prompt that does not fit into the context: it is skipped, the others are
asked."""


class CannotAskError(Exception):
    """Why there is no answer: `kind` in a word or two, and the server's message."""

    def __init__(self, kind: str, words: str) -> None:
        super().__init__(f"{kind}: {words}" if words else kind)
        self.kind = kind


class LeftOutError(Exception):
    """The engine refuses this prompt."""


def question(model: str, prompt: str, max_tokens: int, engine: str) -> bytes:
    """Build the request: greedy, with a seed, and returning token IDs where the engine supports it.

    vLLM: `return_token_ids`, vllm-project/vllm pull request 22587. SGLang: the same, sgl-project/sglang pull request
    30917, not streamed; earlier releases ignore the field. TensorRT-LLM rejects unknown fields. Reasoning models are
    asked not to think: reasoning has no expected text, and would use up all the tokens.
    """
    document: dict[str, Any] = {
        "model": model,
        "messages": [{"role": "user", "content": prompt}],
        "max_tokens": max_tokens,
        "temperature": 0,
        "seed": SEED,
    }
    if engine != "tensorrt-llm":
        document |= {"return_token_ids": True, "chat_template_kwargs": {"enable_thinking": False}}
    return json.dumps(document).encode()


def read_answer(status: int, body: str) -> dict[str, Any]:
    """Return text, token IDs and finish reason. Raises LeftOutError or CannotAskError."""
    if status in CONTEXT_STATUSES:
        raise LeftOutError(f"HTTP {status}: {complaint(body)}")
    if status != 200:
        raise CannotAskError(f"HTTP {status}", complaint(body))
    try:
        document = json.loads(body)
    except ValueError:
        raise CannotAskError("no completion", body[:80]) from None
    choices = document.get("choices") if isinstance(document, Mapping) else None
    choice = choices[0] if isinstance(choices, list) and choices else None
    message = choice.get("message") if isinstance(choice, Mapping) else None
    if not isinstance(choice, Mapping) or not isinstance(message, Mapping):
        raise CannotAskError("no completion", body[:80])
    texts = [message.get(name) for name in ("content", "reasoning", "reasoning_content")]
    tokens = choice.get("token_ids")
    right = isinstance(tokens, list) and all(type(one) is int for one in tokens)
    return {
        "text": next((text for text in texts if isinstance(text, str) and text), ""),
        "token_ids": tokens if right else None,
        "finish_reason": str(choice.get("finish_reason") or ""),
    }
