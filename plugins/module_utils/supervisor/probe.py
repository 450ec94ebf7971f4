# SPDX-License-Identifier: Apache-2.0
"""Probe the server with a real completion, and read its metrics. The functions block, so run them in threads."""

from __future__ import annotations

import contextlib
import http.client
import json
import socket
import ssl
import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlsplit

from ..host import Host
from ..parsers.service_metrics import ServiceTotals, parse_service_metrics
from ..parsers.sglang_metrics import parse_sglang_metrics
from ..parsers.vllm_metrics import parse_vllm_metrics
from ..serving.completion import (
    COMPLETIONS,
    api_key,
    complaint,
    is_api_error,
    reachable,
    request_body,
    tensor_parallel_of,
)
from ..serving.recent import recent
from .config import Question
from .model import Probe

PROMPT = "Say hello."
METRICS_SECONDS = 5.0
LARGEST = 8 << 20
"""The most bytes of a response to read."""


@dataclass(frozen=True)
class Reply:
    """An HTTP response, or why there is none."""

    status: int = 0
    body: str = ""
    problem: str = ""
    timed_out: bool = False


@dataclass(frozen=True)
class Counters:
    """The metrics at one moment."""

    at: float
    requests: float
    tokens: float
    running: float | None = None
    waiting: float | None = None
    kv_cache: float | None = None
    service: ServiceTotals | None = None


def exchange(url: str, path: str, limit: float, body: bytes | None = None, key: str = "") -> Reply:
    """Send one request with a total timeout of `limit` seconds, even if the server keeps sending single bytes."""
    parts = urlsplit(reachable(url))
    maker = http.client.HTTPSConnection if parts.scheme == "https" else http.client.HTTPConnection
    # Straight to the server, never through a proxy: http.client does not use any.
    connection = maker(parts.hostname or "", parts.port, timeout=limit)
    headers = {"Content-Type": "application/json", "Connection": "close"}
    if key:
        headers["Authorization"] = f"Bearer {key}"
    expired = threading.Event()
    sockets: list[socket.socket] = []

    def give_up() -> None:
        expired.set()
        for sock in sockets:
            with contextlib.suppress(OSError):
                sock.shutdown(socket.SHUT_RDWR)

    timer = threading.Timer(limit, give_up)
    timer.daemon = True
    timer.start()
    try:
        connection.connect()
        # Kept here, as the connection drops its socket after the headers, before the body has arrived.
        sockets.append(connection.sock)
        connection.request("POST" if body is not None else "GET", parts.path.rstrip("/") + path, body, headers)
        answer = connection.getresponse()
        text = answer.read(LARGEST).decode("utf-8", errors="replace")
        if expired.is_set():
            return Reply(problem=f"no answer within {limit:g} s", timed_out=True)
        return Reply(answer.status, text)
    except (OSError, http.client.HTTPException, ssl.SSLError, ValueError) as error:
        if expired.is_set() or isinstance(error, TimeoutError):
            return Reply(problem=f"no answer within {limit:g} s", timed_out=True)
        return Reply(problem=str(error) or type(error).__name__)
    finally:
        timer.cancel()
        connection.close()


def ask(host: Host, question: Question, limit: float, clock: Callable[[], float] = time.monotonic) -> Probe:
    """Probe for one token. An engine that generates tokens for others is alive, even if the probe times out."""
    key = api_key(host.read_text(question.key_path) or "") if question.key_path else ""
    before = counters(question, clock)
    started = clock()
    reply = exchange(question.url, COMPLETIONS, limit, request_body(question.model, PROMPT, 1), key)
    seconds = clock() - started
    if reply.timed_out:
        after = counters(question, clock)
        work = before and after and _work(before, after)
        if work:
            words = f"{reply.problem}, but it {work} for others meanwhile: it is busy"
            return Probe(clock(), answered=False, alive=True, words=words, seconds=seconds)
    answered, alive, words = evaluate(reply, question)
    return Probe(clock(), answered, alive, words.replace(key, "********") if key else words, seconds)


def _work(before: Counters, after: Counters) -> str:
    """Describe what an engine has done between two readings; empty if nothing.

    A long prompt is processed for minutes without generating tokens; its share of the KV cache grows meanwhile.
    """
    if after.tokens > before.tokens:
        return f"made {after.tokens - before.tokens:.0f} tokens"
    return "read a prompt" if after.kv_cache != before.kv_cache else ""


def evaluate(reply: Reply, question: Question) -> tuple[bool, bool, str]:
    """Return whether this is a completion, whether an engine that has served before is alive, and a message."""
    if reply.problem:
        return False, False, f"the server at {question.url} does not answer: {reply.problem}"
    if reply.status >= 500:
        return False, False, f"the server answered HTTP {reply.status}: {complaint(reply.body)}"
    if reply.status in (401, 403):
        found = f"the server refuses the key in {question.key_path or 'no file'} (HTTP {reply.status})"
        return False, True, f"{found}, expected the one it runs with: run playbooks/restart.yml"
    if reply.status == 404 and not is_api_error(reply.body):
        # No engine is behind this address, as when Ray's proxy has no route: nobody is served.
        found = f"the server does not know the path {COMPLETIONS} (HTTP 404: {complaint(reply.body)})"
        return False, False, f"{found}, expected a completion"
    if reply.status == 404:
        found = f"the server does not know the model {question.model} (HTTP 404: {complaint(reply.body)})"
        return False, True, f"{found}, expected it under this name: run playbooks/serve.yml"
    if reply.status != 200:
        return False, True, f"the server answered HTTP {reply.status}: {complaint(reply.body)}; expected a completion"
    document = _document(reply.body)
    usage, choices = document.get("usage"), document.get("choices")
    tokens = usage.get("completion_tokens") if isinstance(usage, Mapping) else None
    if not isinstance(choices, list) or not choices or type(tokens) is not int or tokens < 1:
        return (
            False,
            False,
            (f"the server answered HTTP 200 without a completion ({reply.body[:120]!r}), expected at least one token"),
        )
    size = tensor_parallel_of(str(document.get("system_fingerprint") or ""))
    if size != question.tensor_parallel and document.get("system_fingerprint"):
        return (
            True,
            True,
            (
                f"the server runs with tensor parallel size {size}, expected {question.tensor_parallel}: "
                "run playbooks/serve.yml"
            ),
        )
    return True, True, ""


def counters(question: Question, clock: Callable[[], float] = time.monotonic) -> Counters | None:
    """Read the server's metrics; None if it provides none."""
    reply = exchange(question.url, "/metrics", METRICS_SECONDS)
    if reply.status != 200:
        return None
    # Each engine has its own names; TensorRT-LLM has none of these metrics.
    data = parse_vllm_metrics(reply.body)[0] or parse_sglang_metrics(reply.body)[0]
    tokens = data.get("generation_tokens")
    if tokens is None:
        return None
    return Counters(
        at=clock(),
        requests=float(sum((data.get("finished") or {}).values())),
        tokens=float(tokens),
        running=data.get("running"),
        waiting=data.get("waiting"),
        kv_cache=data.get("kv_cache_usage"),
        service=parse_service_metrics(reply.body),
    )


class Load:
    """The server's load, from its counters over the last half minute, and its service quality over the last minutes."""

    WINDOW = 30.0
    RECENT = 300.0

    def __init__(self) -> None:
        self._seen: list[Counters] = []
        self._own: list[tuple[float, float]] = []

    def asked(self, at: float, seconds: float) -> None:
        """Record an answered probe of the supervisor's own, which does not count as load."""
        self._own.append((at, seconds))

    def forget(self) -> None:
        self._seen, self._own = [], []

    def add(self, now: Counters) -> dict[str, Any]:
        """Add a reading and return the values to show."""
        if self._seen and (now.requests < self._seen[-1].requests or now.tokens < self._seen[-1].tokens):
            # The engine was restarted: its counters began at zero.
            self.forget()
        self._seen = [*(one for one in self._seen if now.at - one.at <= self.RECENT), now]
        first = next(one for one in self._seen if now.at - one.at <= self.WINDOW)
        self._own = [one for one in self._own if one[0] > self._seen[0].at]
        shown = {
            "requests_per_second": None,
            "tokens_per_second": None,
            "running": now.running,
            "waiting": now.waiting,
            "kv_cache_used": None if now.kv_cache is None else round(now.kv_cache, 4),
            "recent": self._recent(now),
        }
        span = now.at - first.at
        if span > 0:
            own = sum(1 for at, _ in self._own if at > first.at)
            shown["requests_per_second"] = round(max(now.requests - first.requests - own, 0) / span, 2)
            shown["tokens_per_second"] = round(max(now.tokens - first.tokens - own, 0) / span, 1)
        return shown

    def _recent(self, now: Counters) -> dict[str, Any] | None:
        """Return what the server did for others in the last minutes."""
        first = next((one for one in self._seen[:-1] if one.service), None)
        if first is None or first.service is None or now.service is None:
            return None
        own = [seconds for at, seconds in self._own if at > first.at]
        return {
            "window_s": round(now.at - first.at, 1),
            "requests": max(now.requests - first.requests - len(own), 0),
            **recent(first.service, now.service, own),
        }


def _document(body: str) -> Mapping[str, Any]:
    try:
        document = json.loads(body)
    except ValueError:
        return {}
    return document if isinstance(document, Mapping) else {}
