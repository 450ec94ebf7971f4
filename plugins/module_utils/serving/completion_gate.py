# SPDX-License-Identifier: Apache-2.0
"""Whether a server is up, which means that it returns a completion of the expected shape."""

from __future__ import annotations

import dataclasses
import http.client
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Mapping
from typing import Any

from ..host import Host
from ..units import unit_state
from .completion import (
    COMPLETIONS,
    SETTINGS_PAGE,
    Answer,
    NotYetError,
    RefusedError,
    api_key,
    evaluate,
    hopeless,
    reachable,
    request_body,
    settings_fingerprint,
)
from .files import STATE_PATH
from .kinds import group_of_unit, supervisor_words, unrecoverable_reason

DEFAULTS: dict[str, Any] = {
    "key_path": "/etc/firstlight/server.env",
    "engine": "vllm",
    "service": "firstlight-server.service",
    "timeout": 900,
    "prompt": "Say hello in one short sentence.",
    "max_tokens": 32,
}
REQUEST_SECONDS = 300
"""The timeout of a request: generous, because the first completion may compile kernels."""

PAUSE_SECONDS = 2.0

REFUSED_SECONDS = 30.0
"""An engine that refuses the same request with the same message for this long is up: its model and settings are
final."""


class GateError(Exception):
    """Why the server does not count as up."""


def ask(parameters: dict[str, Any], key: str, remaining: float) -> Answer:
    """Ask once; raises NotYetError while retrying makes sense."""
    size, engine = parameters["expect_tensor_parallel"], parameters.get("engine", "vllm")
    body = request_body(parameters["model"], parameters["prompt"], parameters["max_tokens"])
    answer = evaluate(*exchange(parameters["url"], COMPLETIONS, key, remaining, body), size, engine)
    if engine != "sglang":
        return answer
    told = settings_fingerprint(*exchange(parameters["url"], SETTINGS_PAGE, key, remaining), size)
    return dataclasses.replace(answer, fingerprint=told)


def exchange(url: str, path: str, key: str, remaining: float, data: bytes | None = None) -> tuple[int, str]:
    """Return status and body of one request; raises NotYetError if there is no response."""
    headers = {"Content-Type": "application/json"}
    if key:
        headers["Authorization"] = f"Bearer {key}"
    request = urllib.request.Request(  # noqa: S310 - `reachable` accepts only http and https
        f"{reachable(url)}{path}", data=data, headers=headers
    )
    # The server is on this host or its own network: never use a proxy, which would see the key.
    opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
    try:
        with opener.open(request, timeout=min(max(remaining, 1.0), REQUEST_SECONDS)) as response:
            return response.status, response.read().decode("utf-8", errors="replace")
    except urllib.error.HTTPError as error:
        with error:
            return error.code, error.read().decode("utf-8", errors="replace")
    except (OSError, http.client.HTTPException) as error:
        raise NotYetError(str(getattr(error, "reason", None) or error)) from error


def supervisor_file(host: Host) -> tuple[str | None, float | None]:
    """Return the content of the supervisor's state file and its age in seconds."""
    stamp = host.size_and_mtime(STATE_PATH)
    return (None, None) if stamp is None else (host.read_text(STATE_PATH), time.time() - stamp[1] / 1e9)


def supervisor_of(host: Host, service: str) -> dict[str, Any] | None:
    """Return the supervisor's state of the group that the unit belongs to; None if no supervisor manages it."""
    return group_of_unit(*supervisor_file(host), service)


def supervisor_says(host: Host) -> str:
    """Quote the supervisor, which knows more than the server's log: what it waits for, and why the last start ended."""
    words = supervisor_words(*supervisor_file(host))
    return f". The supervisor reports: {words}" if words else ""


def wait(
    host: Host,
    parameters: dict[str, Any],
    key: str,
    clock: Callable[[], float] = time.monotonic,
    pause: Callable[[float], None] = time.sleep,
) -> dict[str, Any]:
    """Retry until there is a completion, the timeout is over, or the unit cannot start any more."""
    started = clock()
    service = parameters["service"]
    before, kept = unit_state(host, service), supervisor_of(host, service)
    refused, refused_since = "", started
    while True:
        asked = clock()
        try:
            answer = ask(parameters, key, parameters["timeout"] - (asked - started))
        except NotYetError as error:
            words = str(error) if isinstance(error, RefusedError) else ""
            if words != refused:
                refused, refused_since = words, clock()
            elif refused and clock() - refused_since >= REFUSED_SECONDS:
                told = f"the server at {parameters['url']} refuses the request ({error}), with the same message for "
                raise GateError(f"{told}{REFUSED_SECONDS:.0f} s: correct the model or its settings") from error
            group = supervisor_of(host, service)
            if group and (in_vain := unrecoverable_reason(kept, group)):
                raise GateError(f"the server at {parameters['url']} does not answer ({error}): {in_vain}") from error
            if not group and (in_vain := hopeless(service, before, unit_state(host, service))):
                told = f"the server at {parameters['url']} does not answer ({error}): {in_vain}"
                raise GateError(told + supervisor_says(host)) from error
            if clock() - started >= parameters["timeout"]:
                told = (
                    f"the server at {parameters['url']} gave no completion within {parameters['timeout']} s "
                    f"(last: {error}), its unit {service} is {unit_state(host, service).words}: see its last lines; a "
                    "large model may need a longer inference_server_start_timeout"
                )
                raise GateError(told + supervisor_says(host)) from error
            pause(PAUSE_SECONDS)
            continue
        return {
            "reply": answer.reply,
            "fingerprint": answer.fingerprint,
            "tokens": answer.tokens,
            "seconds": round(clock() - started, 1),
            "completion_seconds": round(clock() - asked, 2),
        }


def server_key(host: Host, params: Mapping[str, Any]) -> str:
    """Return the server's API key; empty if it requires none."""
    return api_key(host.read_text(params["key_path"]) or "")


def complete(host: Host, params: Mapping[str, Any]) -> dict[str, Any]:
    """Request a completion from the server on this host; `params` are the options of module chat_completion.

    Raises GateError, WrongAnswerError or ValueError.
    """
    asked = {**DEFAULTS, **params}
    reachable(asked["url"])
    return wait(host, asked, server_key(host, asked))
