# SPDX-License-Identifier: Apache-2.0
"""Query a cluster's endpoint with OpenAI's own client, and explain failures in a sentence."""

from __future__ import annotations

import json
import ssl
import stat
import sys
from typing import Any

import openai
from ansible_collections.firstlight.cluster.plugins.plugin_utils.client_help import ClientHelp

from firstlight.console import safe
from firstlight.errors import FirstlightError

TIMEOUT_SECONDS = 600.0
CONNECT_SECONDS = 5.0


def read_key(help_: ClientHelp) -> str:
    """Read the API key from its file. Raises FirstlightError if the file is missing or readable by others."""
    path = help_.files.key(help_.key)
    try:
        mode = path.stat().st_mode
        key = path.read_text(encoding="utf-8").strip()
    except FileNotFoundError as error:
        raise FirstlightError(
            f"{path} does not exist, expected the key {help_.key!r}: run site.yml from this machine, which fetches it, "
            "or copy it from another controller"
        ) from error
    if stat.S_IMODE(mode) & 0o077:
        raise FirstlightError(f"{path} can be read by others, expected mode 0600: chmod it, and have the key revoked")
    return key


def ask(help_: ClientHelp, question: str, *, stream: bool, as_json: bool) -> None:
    """Send the question and print the answer. Raises FirstlightError with a one-sentence explanation."""
    key = read_key(help_)
    transport = openai.DefaultHttpxClient(verify=_trust(help_), trust_env=False)  # a proxy would see the key
    timeout = openai.Timeout(TIMEOUT_SECONDS, connect=CONNECT_SECONDS)
    try:
        with openai.OpenAI(
            base_url=help_.url, api_key=key, http_client=transport, timeout=timeout, max_retries=0
        ) as client:
            if stream:
                _show_stream(client, help_.model, question)
            else:
                _show_whole(client, help_.model, question, as_json)
    except openai.OpenAIError as error:
        raise FirstlightError(reason(error, help_)) from error


def _trust(help_: ClientHelp) -> ssl.SSLContext:
    if not help_.own_authority:
        return ssl.create_default_context()
    path = help_.files.authority
    if not path.is_file():
        raise FirstlightError(
            f"{path} does not exist, expected the certificate of the cluster's authority: run site.yml from this "
            "machine"
        )
    try:
        return ssl.create_default_context(cafile=str(path))
    except ssl.SSLError as error:
        raise FirstlightError(
            f"{path} is not a certificate ({error.reason}): run site.yml, which fetches it"
        ) from error


def reason(error: openai.OpenAIError, help_: ClientHelp) -> str:
    """Explain why there is no answer, and what to do about it."""
    if isinstance(error, openai.APITimeoutError):
        return f"{help_.url} gave no answer in time: see `firstlight status`"
    if isinstance(error, openai.APIConnectionError):
        causes = _causes(error)
        if "CERTIFICATE_VERIFY_FAILED" in causes:
            return (
                f"the certificate of {help_.url} is not trusted: its authority is not the one in "
                f"{help_.files.authority}, or the name is not in it; run site.yml again, which updates both"
            )
        return f"{help_.url} cannot be reached ({causes}): see `firstlight status`, and check for a firewall in between"
    if isinstance(error, openai.AuthenticationError):
        return (
            f"the key {help_.key!r} is not known to {help_.url} (401): it was revoked or is of another cluster; run "
            "site.yml, or use another --key"
        )
    if isinstance(error, openai.RateLimitError):
        return (
            f"the key {help_.key!r} has exceeded its rate (429): wait a moment, or raise its rate in "
            "firstlight_endpoint.keys"
        )
    if isinstance(error, openai.NotFoundError):
        return f"{help_.url} has no model {help_.model!r} (404): leave --model out"
    if isinstance(error, openai.APIStatusError):
        return f"{help_.url} answered {error.status_code}: {safe(_message(error))}"
    return safe(str(error))


def _causes(error: BaseException) -> str:
    found: BaseException = error
    while found.__cause__ is not None:
        found = found.__cause__
    return safe(str(found)) or type(found).__name__


def _message(error: openai.APIStatusError) -> str:
    body: Any = error.body
    return str(body.get("message") or body) if isinstance(body, dict) else error.message


def _show_whole(client: openai.OpenAI, model: str, question: str, as_json: bool) -> None:
    answer = client.chat.completions.create(model=model, messages=[{"role": "user", "content": question}])
    text = answer.choices[0].message.content or ""
    print(json.dumps(answer.model_dump(), indent=2) if as_json else safe(text))


def _show_stream(client: openai.OpenAI, model: str, question: str) -> None:
    pieces = client.chat.completions.create(model=model, messages=[{"role": "user", "content": question}], stream=True)
    for piece in pieces:
        for choice in piece.choices:
            sys.stdout.write(safe(choice.delta.content or ""))
            sys.stdout.flush()
    sys.stdout.write("\n")
