# SPDX-License-Identifier: Apache-2.0
"""Whether a response of the server is a real completion by the requested model, computed on all its GPUs.

vLLM reports the number of GPUs in every completion, SGLang in its settings. TensorRT-LLM does not report it: there, the
command of its unit, which is compared with the plan, has to suffice.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlsplit, urlunsplit

from ..systemd import UnitState

ENGINES = ("vllm", "sglang", "tensorrt-llm")
KEY_VARIABLE = "VLLM_API_KEY"
"""The variable of the environment file that holds the API key, for all engines."""
COMPLETIONS = "/v1/chat/completions"
SETTINGS_PAGE = "/server_info"
"""The page where SGLang shows its settings to clients with its key."""

PATIENCE = 3
"""The number of restarts, while waiting for a unit, after which it is considered unable to start."""


@dataclass(frozen=True)
class Answer:
    """A completion of the expected shape."""

    reply: str
    fingerprint: str
    tokens: int


class NotYetError(Exception):
    """The server is not ready; retry while its unit runs."""


class RefusedError(NotYetError):
    """The server has read the request and refuses it; retry while it may be starting."""


class WrongAnswerError(ValueError):
    """The server's answer is wrong, and retrying will not change it."""


def request_body(model: str, prompt: str, max_tokens: int) -> bytes:
    """Build the request, as deterministic as the engine allows."""
    document = {
        "model": model,
        "messages": [{"role": "user", "content": prompt}],
        "max_tokens": max_tokens,
        "temperature": 0,
    }
    return json.dumps(document).encode()


def reachable(url: str) -> str:
    """Return the URL for a client on the same host: wildcard addresses are replaced by loopback."""
    parts = urlsplit(_bracketed(url))
    if parts.scheme not in ("http", "https") or not parts.hostname:
        raise ValueError(f"url is {url!r}, expected http://ADDRESS:PORT")
    loopback = {"0.0.0.0": "127.0.0.1", "::": "[::1]"}.get(parts.hostname)  # noqa: S104 - recognised, not bound
    if loopback is None:
        return urlunsplit(parts).rstrip("/")
    port = f":{parts.port}" if parts.port else ""
    return urlunsplit((parts.scheme, loopback + port, parts.path, "", "")).rstrip("/")


def _bracketed(url: str) -> str:
    """Put brackets around an IPv6 address in a URL, as variables have it without (::1 becomes [::1])."""
    scheme, separator, rest = url.partition("://")
    place, slash, path = rest.partition("/")
    if place.count(":") < 2 or "[" in place:
        return url
    address, _, port = place.rpartition(":")
    return f"{scheme}{separator}[{address}]:{port}{slash}{path}"


def api_key(text: str) -> str:
    """Parse the API key from the text of an environment file; empty if there is none."""
    for line in text.splitlines():
        name, separator, value = line.partition("=")
        if separator and name.strip() == KEY_VARIABLE:
            return value.strip()
    return ""


def evaluate(status: int, body: str, tensor_parallel: int, engine: str = "vllm") -> Answer:
    """Parse the completion in an HTTP response; raises NotYetError or WrongAnswerError for anything else.

    Most failures may be temporary: a proxy, or an engine's own front end, listens before the engine does. Only two
    things cannot change while the server runs: the key it was started with, and the settings that a completion shows.
    """
    if status in (401, 403):
        raise WrongAnswerError(
            f"the server refuses the API key (HTTP {status}): it runs with another one than the file on disk holds; "
            "run playbooks/restart.yml"
        )
    if status == 404:
        # In the API's error format, the engine does not know the model; otherwise whatever listens has no such path
        # yet.
        raise (RefusedError if is_api_error(body) else NotYetError)(
            f"HTTP 404: {complaint(body)}; expected the model under its served name: if this persists, check "
            "inference_server_served_name and what else listens on the port"
        )
    if status in (400, 422):
        raise RefusedError(f"HTTP {status}: {complaint(body)}")
    if status != 200:
        raise NotYetError(f"HTTP {status}: {complaint(body)}")
    try:
        document = json.loads(body)
    except ValueError as error:
        raise NotYetError(
            f"an answer that is not JSON ({body[:80]!r}), expected a chat completion: if this persists, check what "
            "listens on the port"
        ) from error
    answer = _answer(document, engine)
    if engine != "vllm":
        return answer
    if (found := tensor_parallel_of(answer.fingerprint)) != tensor_parallel:
        raise WrongAnswerError(
            f"the server answered with system_fingerprint {answer.fingerprint!r}, which says tensor parallel size "
            f"{found}, expected {tensor_parallel} (-tp{tensor_parallel} in it): it runs with other settings than "
            "planned; run site.yml again, or correct the tensor parallel size"
        )
    return answer


def tensor_parallel_of(fingerprint: str) -> int:
    """Parse the size from a fingerprint such as vllm-0.32.0-tp4-1a2b; a server on one GPU omits it."""
    sizes = [part[2:] for part in fingerprint.split("-") if part.startswith("tp") and part[2:].isdecimal()]
    return int(sizes[0]) if sizes else 1


def settings_fingerprint(status: int, body: str, tensor_parallel: int) -> str:
    """Make a fingerprint of SGLang's settings. They include the key, so none of their text goes into messages."""
    if status != 200:
        raise NotYetError(f"HTTP {status} for its settings")
    try:
        document = json.loads(body)
    except ValueError as error:
        raise WrongAnswerError(
            f"the server returned settings that are not JSON, expected those of SGLang at {SETTINGS_PAGE}; "
            "check what listens on the port"
        ) from error
    found = document.get("tp_size") if isinstance(document, Mapping) else None
    if found != tensor_parallel:
        raise WrongAnswerError(
            f"the server reports tp_size {found if isinstance(found, int) else 'as missing'}, expected "
            f"{tensor_parallel}: it runs with other settings than planned; run site.yml again, or correct the tensor "
            "parallel size"
        )
    version = str(document.get("version") or "unknown")[:40]
    return f"sglang-{version}-tp{found}"


def _answer(document: object, engine: str) -> Answer:
    """Return the parts of a chat completion that prove that tokens were generated."""
    named = ", system_fingerprint" if engine == "vllm" else ""
    shape = f"expected a chat completion (choices[0].message.content, usage.completion_tokens{named})"
    if not isinstance(document, Mapping):
        raise NotYetError(f"a {type(document).__name__}, {shape}: if this persists, check what listens there")
    message = _message(document)
    # A reasoning model may spend a short answer entirely on thinking; that is text from the model too.
    replies = [message.get(name) for name in ("content", "reasoning", "reasoning_content")]
    reply = next((text for text in replies if isinstance(text, str)), None)
    if reply is None:
        raise NotYetError(f"a completion without text ({str(document)[:200]}), {shape}; see the server's log")
    usage = document.get("usage")
    tokens = usage.get("completion_tokens") if isinstance(usage, Mapping) else None
    if type(tokens) is not int or tokens < 1:
        raise NotYetError(f"a completion of {tokens!r} tokens, expected at least 1; see the server's log")
    fingerprint = document.get("system_fingerprint") if engine == "vllm" else engine
    if not isinstance(fingerprint, str):
        raise WrongAnswerError(f"the completion has no system_fingerprint, {shape}; check the engine's version")
    return Answer(reply=reply, fingerprint=fingerprint, tokens=tokens)


def _message(document: Mapping[str, Any]) -> Mapping[str, Any]:
    choices = document.get("choices")
    first = choices[0] if isinstance(choices, list) and choices else None
    message = first.get("message") if isinstance(first, Mapping) else None
    return message if isinstance(message, Mapping) else {}


def complaint(body: str) -> str:
    """Return the server's error message, taken from its JSON error if it is one."""
    try:
        document = json.loads(body)
    except ValueError:
        return body.strip()[:200] or "no text"
    error = document.get("error", document) if isinstance(document, Mapping) else document
    if isinstance(error, Mapping):
        error = error.get("message", error)
    return str(error)[:300]


def is_api_error(body: str) -> bool:
    """Whether the engine's API itself refused; a proxy in front of it replies with text or a format of its own."""
    try:
        document = json.loads(body)
    except ValueError:
        return False
    if not isinstance(document, Mapping):
        return False
    error = document.get("error")
    return (isinstance(error, Mapping) and "message" in error) or document.get("object") == "error"


def hopeless(service: str, before: UnitState, now: UnitState) -> str | None:
    """Return why waiting for this unit is pointless, or None while it may still start."""
    if now.load != "loaded":
        return f"{service} is {now.load}, expected it to run; run site.yml again"
    if now.active == "failed":
        return (
            f"{service} has failed ({now.words}), expected it to run; see its last lines, fix the cause, converge again"
        )
    if now.active == "inactive":
        return f"{service} is stopped ({now.words}), expected it to run; run playbooks/serve.yml again"
    if now.restarts - before.restarts >= PATIENCE:
        return (
            f"{service} restarted {now.restarts - before.restarts} times during the wait ({now.words}), "
            "expected it to stay up; see its last lines, fix the cause, converge again"
        )
    return None
