# SPDX-License-Identifier: Apache-2.0
"""What the endpoint itself answers, in the shape that OpenAI's clients read."""

from __future__ import annotations

import json
from dataclasses import dataclass


@dataclass(frozen=True)
class Answer:
    """An answer of nginx's own: for which of its statuses, what the client gets, and which header beside it."""

    statuses: str
    name: str
    """The place in the configuration, and the error's code."""
    status: int
    kind: str
    message: str
    header: str = ""


ANSWERS: tuple[Answer, ...] = (
    Answer(
        "403",
        "not_a_client",
        403,
        "permission_error",
        "this address may not ask here: have its network added to endpoint_clients",
    ),
    Answer("404", "no_such_path", 404, "invalid_request_error", "there is no such path here: ask one below /v1/"),
    Answer("405", "no_such_method", 405, "invalid_request_error", "only GET and POST are answered here"),
    Answer(
        "413",
        "too_large",
        413,
        "invalid_request_error",
        "the request is larger than this endpoint takes: send less, or have endpoint_body_limit raised",
    ),
    Answer(
        "429",
        "too_many",
        429,
        "rate_limit_error",
        "too many requests: wait a moment, and ask less often",
        "Retry-After 10",
    ),
    Answer("497", "plain_http", 400, "invalid_request_error", "this port speaks HTTPS: write https:// in the address"),
    Answer(
        "502 504",
        "engine_down",
        503,
        "service_unavailable",
        "the engine does not answer: it is starting or down, ask again in a moment",
        "Retry-After 5",
    ),
)
WRONG_KEY = Answer(
    "",
    "invalid_api_key",
    401,
    "invalid_request_error",
    "no key, or one that is not known here: send it as Authorization: Bearer KEY",
    "WWW-Authenticate Bearer",
)
"""Reached only past the limit for wrong keys, never by a status."""


def error_pages() -> list[str]:
    """Which place answers which status."""
    return [f"error_page {answer.statuses} = @{answer.name};" for answer in ANSWERS]


def answers() -> list[str]:
    """All these places."""
    return [line for answer in (WRONG_KEY, *ANSWERS) for line in _place(answer)]


def _place(answer: Answer) -> list[str]:
    error = {"message": answer.message, "type": answer.kind, "param": None, "code": answer.name}
    return [
        f"location @{answer.name} {{",
        *([f"    add_header {answer.header} always;"] if answer.header else []),
        f"    return {answer.status} '{json.dumps({'error': error})}';",
        "}",
    ]
