# SPDX-License-Identifier: Apache-2.0
"""The access token of a model hub, from a file of the host or as an option; no message contains it."""

from __future__ import annotations

import os
import stat

from .snapshot_store import HubError


def hub_token(given: str | None, path: str | None, endpoint: str) -> str:
    """Return the token to send, or an empty string. Raises HubError if it is unusable, or would be sent over http."""
    token = _plain(given.strip(), "the access token") if given else read_token(path)
    if token and not endpoint.startswith("https:"):
        raise HubError(
            f"an access token is given for {endpoint}, expected an https address: over http anyone on "
            "the path could read it. Use https, or leave model_weights_token_path and model_weights_token empty"
        )
    return token


def read_token(path: str | None) -> str:
    """Read the access token from a file; empty without a path."""
    if not path:
        return ""
    try:
        with open(path, encoding="utf-8") as stream:
            mode = stat.S_IMODE(os.fstat(stream.fileno()).st_mode)
            token = stream.read().strip()
    except (OSError, UnicodeDecodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else "it is not text"
        raise HubError(
            f"the access token in {path} cannot be read ({reason}): put the token there, readable by root, "
            "or leave model_weights_token_path empty"
        ) from error
    if mode & 0o077:
        raise HubError(f"{path} with an access token has mode {mode:04o}, expected 0600: others can read it; chmod it")
    return _plain(token, path)


def _plain(token: str, where: str) -> str:
    if all("!" <= character <= "~" for character in token):
        return token
    # Otherwise, the error about an invalid header would show the token.
    raise HubError(
        f"{where} contains more than one word, or characters that no token has, expected an access token alone: "
        "put only that there"
    )
