# SPDX-License-Identifier: Apache-2.0
"""A few clients that ask without a pause for a while, and what came of every question."""

from __future__ import annotations

import threading
import time
from dataclasses import dataclass, field

import openai

from tests.e2e.serving.asking import EXACTLY, QUESTION, TOKENS, Endpoint
from tests.e2e.serving.processes import wait_for


@dataclass
class Load:
    """What the clients saw."""

    answered: int = 0
    failed: int = 0
    """Questions that brought no answer when they were asked once."""
    failed_twice: int = 0
    """Those of them that brought none when they were asked once more, either."""
    slowest: float = 0.0
    words: list[str] = field(default_factory=list)

    @property
    def summary(self) -> str:
        return (
            f"{self.answered + self.failed} questions, {self.failed} failed, {self.failed_twice} of them also with one "
            f"retry, the slowest took {self.slowest:.1f} s"
        )


@dataclass
class Clients:
    """So many of them, for so many seconds."""

    endpoint: Endpoint
    number: int = 4
    seconds: float = 60
    load: Load = field(default_factory=Load)
    _threads: list[threading.Thread] = field(default_factory=list)
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def start(self) -> None:
        self._threads = [threading.Thread(target=self._ask, daemon=True) for _ in range(self.number)]
        for thread in self._threads:
            thread.start()

    def under_way(self) -> None:
        """Wait until each of them has had two answers."""
        wait_for(lambda: self.load.answered >= 2 * self.number, 60, "that the clients are answered")

    def wait(self) -> Load:
        for thread in self._threads:
            thread.join(self.seconds + 120)
        return self.load

    def _ask(self) -> None:
        end = time.monotonic() + self.seconds
        with self.endpoint.client(60) as client:
            model = client.models.list().data[0].id
            while time.monotonic() < end:
                began = time.monotonic()
                first = _fault(client, model)
                again = _fault(client, model) if first else ""
                with self._lock:
                    self.load.answered += not first
                    self.load.failed += bool(first)
                    self.load.failed_twice += bool(again)
                    self.load.slowest = max(self.load.slowest, time.monotonic() - began)
                    self.load.words += [word for word in (first, again) if word]


def _fault(client: openai.OpenAI, model: str) -> str:
    """Why there is no whole answer; empty where there is one."""
    try:
        completion = client.chat.completions.create(
            model=model,
            messages=[{"role": "user", "content": QUESTION}],
            max_tokens=TOKENS,
            temperature=0,
            extra_body=EXACTLY,
        )
    except openai.OpenAIError as error:
        return str(error)[:300]
    whole = completion.usage is not None and completion.usage.completion_tokens == TOKENS
    return "" if whole else f"half an answer: {completion}"[:300]
