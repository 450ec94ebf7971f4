# SPDX-License-Identifier: Apache-2.0
"""The key files: generated once, given or kept, and revoked. nginx sees a change after a reload."""

from __future__ import annotations

import os
import secrets
from typing import Any

from ..durable import remove_durable, write_durable
from ..host import Host
from ..serving.completion import api_key
from .endpoint import (
    KEY_MAP_PATH,
    KEYS_DIRECTORY,
    PENDING_PATH,
    UPSTREAM_PATH,
    check_engine_key,
    check_value,
    key_map,
    read_keys,
    upstream_header,
)

PREFIX = "sk-fl-"
MODE = 0o600
DIRECTORY_MODE = 0o700


class KeysError(Exception):
    """Why the keys cannot be kept, for the operator; the message never includes a key."""


def converge(host: Host, parameters: dict[str, Any], check_mode: bool) -> dict[str, Any]:
    """Bring the key files to the listed state. Raises KeysError, or ValueError for an invalid name or value."""
    names = [key.name for key in read_keys([{"name": name} for name in parameters["names"]], 0)]
    directory = parameters["directory"]
    keys_directory = os.path.join(directory, os.path.basename(KEYS_DIRECTORY))
    present = {name: (host.read_text(os.path.join(keys_directory, name)) or "").strip() for name in names}
    engine = _engine_key(host, parameters["engine_key_path"], check_mode)
    values = _values(names, present, parameters["values"], engine)
    revoked = [name for name in host.names(keys_directory) if name not in names]
    wanted = {os.path.join(keys_directory, name): f"{value}\n" for name, value in values.items()}
    wanted[os.path.join(directory, os.path.basename(KEY_MAP_PATH))] = key_map(values)
    wanted[os.path.join(directory, os.path.basename(UPSTREAM_PATH))] = upstream_header(engine)
    differing = {path: text for path, text in wanted.items() if _differs(host, path, text)}
    loose = os.path.isdir(keys_directory) and os.stat(keys_directory).st_mode & 0o777 != DIRECTORY_MODE
    changed = bool(differing or revoked or loose)
    if changed and not check_mode:
        write_durable(os.path.join(directory, os.path.basename(PENDING_PATH)), "", MODE)
        os.makedirs(keys_directory, mode=DIRECTORY_MODE, exist_ok=True)
        os.chmod(keys_directory, DIRECTORY_MODE)
        for path, text in differing.items():
            write_durable(path, text, MODE)
        for name in revoked:
            remove_durable(os.path.join(keys_directory, name))
    made = [name for name in names if values[name] != present[name]]
    return {"changed": changed, "made": made, "revoked": revoked}


def _engine_key(host: Host, path: str, check_mode: bool) -> str:
    text = host.read_text(path)
    if text is None and not check_mode:
        raise KeysError(
            f"{path} is not there or cannot be read, expected the engine's key in it: run the role inference_server "
            "first"
        )
    return check_engine_key(api_key(text or ""), path)


def _values(names: list[str], present: dict[str, str], given: dict[str, Any], engine: str) -> dict[str, str]:
    """Return a value for every name: the given one, the existing one, or a new one."""
    strange = sorted(str(name) for name in given if name not in names)
    if strange:
        raise KeysError(
            f"endpoint_key_values has values for {', '.join(strange)}, expected only names of endpoint_keys: add the "
            "name there, or remove the value"
        )
    values: dict[str, str] = {}
    for name in names:
        own = str(given.get(name) or present[name])
        value = check_value(name, own) if own else PREFIX + secrets.token_urlsafe(32)
        if value == engine:
            raise KeysError(
                f"the value of key {name} is the engine's own key, expected another one: its holder could "
                "send requests to the engine past the endpoint"
            )
        same = [other for other, taken in values.items() if taken == value]
        if same:
            raise KeysError(
                f"keys {same[0]} and {name} have the same value, expected different ones: give {name} another one"
            )
        values[name] = value
    return values


def _differs(host: Host, path: str, text: str) -> bool:
    state = host.file_state(path)
    return not state["exists"] or state["mode"] != format(MODE, "04o") or host.read_text(path) != text
