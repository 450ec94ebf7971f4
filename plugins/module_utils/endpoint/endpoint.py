# SPDX-License-Identifier: Apache-2.0
"""The public API address: which paths clients may request, how they authenticate, and their rate limits.

The nginx configuration is in the templates of role endpoint.
"""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlsplit

from ..text import is_address

UNIT = "firstlight-endpoint.service"
DIRECTORY = "/etc/firstlight/endpoint"
KEYS_DIRECTORY = f"{DIRECTORY}/keys"
CONFIGURATION_PATH = f"{DIRECTORY}/nginx.conf"
KEY_MAP_PATH = f"{DIRECTORY}/keys.map"
UPSTREAM_PATH = f"{DIRECTORY}/upstream.conf"
SERVER_PEM_PATH = f"{DIRECTORY}/server.pem"
SERVER_CERTIFICATE_PATH = f"{DIRECTORY}/server.crt"
CA_CERTIFICATE_PATH = f"{DIRECTORY}/ca.crt"
CA_KEY_PATH = f"{DIRECTORY}/ca.key"
RUNTIME_DIRECTORY = "firstlight-endpoint"
SPOOL_DIRECTORY = "firstlight-endpoint"
"""Below /var/cache: on disk, because /run is in memory, which GPUs may share."""
PENDING_PATH = f"{DIRECTORY}/reload-pending"
"""Exists from before a file changes until nginx has reloaded, so that the run after an interrupted one reloads it."""

PATHS: tuple[str, ...] = (
    "/v1/models",
    "/v1/chat/completions",
    "/v1/completions",
    "/v1/responses",
    "/v1/responses/*",
    "/v1/responses/*/cancel",
    "/v1/embeddings",
    "/v1/rerank",
    "/v1/score",
    "/v1/audio/transcriptions",
    "/v1/audio/translations",
)
"""Paths that clients may request. A star stands for one identifier."""
HEALTH_PATH = "/health"
"""The one path that needs no key."""

_IDENTIFIER = "[A-Za-z0-9_-]{1,128}"
_PATH = re.compile(r"(?:/(?:[A-Za-z0-9_-][A-Za-z0-9._-]{0,63}|\*)){1,8}")
_KEY_NAME = re.compile(r"[a-z0-9][a-z0-9_-]{0,31}")
_KEY_VALUE = re.compile(r"[A-Za-z0-9._~+/-]{20,256}={0,2}")
_HOST_NAME = re.compile(r"(?=.{1,253}\Z)(?:[A-Za-z0-9](?:[A-Za-z0-9-]{0,61}[A-Za-z0-9])?\.?)+")
_SIZE = re.compile(r"([1-9][0-9]{0,5})([kmg]?)")
_UNITS = {"": 1, "k": 1 << 10, "m": 1 << 20, "g": 1 << 30}
_MOST_CONNECTIONS = 65_535
"""The largest connection limit that nginx supports."""
_NOBODY = "255.255.255.255/32"
_WILDCARDS = ("0.0.0.0", "::")  # noqa: S104 - recognised, not bound


@dataclass(frozen=True)
class Key:
    """A client key: its name, and its requests per minute; 0 means unlimited."""

    name: str
    rate: int


def read_keys(listed: object, rate: int) -> list[Key]:
    """Validate the value of `endpoint_keys`; `rate` applies to keys without their own. Raises ValueError."""
    if not isinstance(listed, Sequence) or isinstance(listed, str):
        raise ValueError(f"endpoint_keys is {listed!r}, expected a list such as [{{name: alice}}]")
    keys = [_read_key(one, rate) for one in listed]
    twice = sorted({key.name for key in keys if [one.name for one in keys].count(key.name) > 1})
    if twice:
        raise ValueError(f"endpoint_keys has {', '.join(twice)} more than once, expected each name once: rename one")
    return keys


def _read_key(one: object, rate: int) -> Key:
    if not isinstance(one, Mapping) or set(one) - {"name", "rate"} or "name" not in one:
        raise ValueError(
            f"endpoint_keys has {one!r}, expected a mapping with name and optionally rate: {{name: alice}}"
        )
    name, own = str(one["name"]), one.get("rate", rate)
    if not _KEY_NAME.fullmatch(name):
        raise ValueError(
            f"endpoint_keys has the name {name!r}, expected up to 32 lower-case letters, digits, - and _: rename it"
        )
    return Key(name, check_number(f"the rate of key {name}", own, 0, 60_000))


def check_number(what: str, value: object, least: int, most: int) -> int:
    """Return the whole number if it is within its range. Raises ValueError."""
    text = str(value)
    if isinstance(value, bool) or not text.isdecimal() or not least <= int(text) <= most:
        raise ValueError(f"{what} is {value!r}, expected a whole number from {least} to {most}")
    return int(text)


def check_value(name: str, value: str) -> str:
    """Return the key's value if it is valid in a header and a file. Raises ValueError, which never includes the
    value."""
    if not _KEY_VALUE.fullmatch(value):
        raise ValueError(
            f"the value given for key {name} has {len(value)} characters, or some that a bearer token cannot have, "
            "expected 20 to 256 of A-Z a-z 0-9 . _ ~ + / -: give another one, or none to have one generated"
        )
    return value


def all_paths(more: object) -> list[str]:
    """Return every path that clients may request. Raises ValueError for one that is ambiguous."""
    if not isinstance(more, Sequence) or isinstance(more, str):
        raise ValueError(f"endpoint_extra_paths is {more!r}, expected a list of paths such as [/v1/messages]")
    for path in more:
        if not isinstance(path, str) or not _PATH.fullmatch(path):
            raise ValueError(
                f"endpoint_extra_paths has {path!r}, expected a path of letters, digits, ., _ and -, in which * stands "
                "for one identifier, as in /v1/responses/*: correct it"
            )
    return list(dict.fromkeys([*PATHS, HEALTH_PATH, *more]))


def path_pattern(paths: Iterable[str]) -> str:
    """Return one regular expression for the raw request target, before anything in it is decoded.

    Whatever it matches is passed on as written. A target that is one of these paths only after decoding or normalising
    does not match.
    """
    listed = "|".join(re.escape(path).replace(r"\*", _IDENTIFIER).replace(r"\-", "-") for path in paths)
    return rf"^(?P<endpoint_asked>{listed})(?:\?|$)"


def burst(rate: int) -> int:
    """Return how many requests may arrive at once: ten seconds' worth."""
    return max(1, rate // 6)


def key_map(values: Mapping[str, str]) -> str:
    """Return the lines of nginx's map from the Authorization header to the name of a key.

    They are regular expressions because nginx compares plain strings case-insensitively.
    """
    return "".join(
        f'"~^[Bb]earer +{re.escape(value).replace(chr(92) + "-", "-")}$" {name};\n'
        for name, value in sorted(values.items())
    )


def upstream_header(key: str) -> str:
    """Return the header that nginx sends to the engine instead of the client's key; empty if the engine has no key."""
    value = f"Bearer {key}" if key else ""
    return f'proxy_set_header Authorization "{value}";\n'


def check_engine_key(key: str, path: str) -> str:
    """Return the engine's own key if nginx's configuration can hold it. Raises ValueError."""
    if key and not re.fullmatch(r"[A-Za-z0-9._~+/=-]+", key):
        raise ValueError(
            f"the engine's key in {path} has characters that a bearer token cannot have, expected A-Z a-z 0-9 . _ ~ "
            "+ / - =: set another inference_server_api_key"
        )
    return key


def check_upstream(url: object) -> str:
    """Return ADDRESS:PORT of the engine. Raises ValueError."""
    parts = urlsplit(str(url))
    try:
        address, port = ipaddress.ip_address(parts.hostname or ""), parts.port
    except ValueError:
        address, port = None, None
    if parts.scheme != "http" or address is None or not port or parts.path not in ("", "/") or parts.query:
        raise ValueError(f"endpoint_upstream is {url!r}, expected http://ADDRESS:PORT such as http://127.0.0.1:290")
    return f"[{address}]:{port}" if address.version == 6 else f"{address}:{port}"


def check_address(what: str, value: object) -> str:
    """Return a normalised IP address. Raises ValueError."""
    try:
        return str(ipaddress.ip_address(str(value)))
    except ValueError as error:
        raise ValueError(f"{what} is {value!r}, expected an IP address of the host") from error


def check_networks(listed: object) -> list[str]:
    """Return the networks in normalised form, without duplicates. Raises ValueError."""
    if not isinstance(listed, Sequence) or isinstance(listed, str):
        raise ValueError(f"endpoint_clients is {listed!r}, expected a list of networks such as [10.0.0.0/8]")
    try:
        networks = list(dict.fromkeys(str(ipaddress.ip_network(str(one))) for one in listed))
    except ValueError as error:
        raise ValueError(
            f"endpoint_clients has an entry that is not a network ({error}): write it as 10.0.0.0/8"
        ) from error
    if _NOBODY in networks:
        raise ValueError(f"endpoint_clients has {_NOBODY}, not a client address and refused by nginx: remove it")
    return networks


def check_size(what: str, value: object) -> str:
    """Return a size in nginx's notation. Raises ValueError."""
    _bytes(what, value)
    return str(value)


def spooled_at_once(spool_limit: object, body_limit: object) -> int:
    """Return how many requests of the largest size fit on disk together. Raises ValueError if not even one does."""
    spool, body = _bytes("endpoint_spool_limit", spool_limit), _bytes("endpoint_body_limit", body_limit)
    if spool < body:
        raise ValueError(
            f"endpoint_spool_limit is {spool_limit}, expected at least endpoint_body_limit, which is {body_limit}: "
            "raise the first or lower the second"
        )
    return min(spool // body, _MOST_CONNECTIONS)


def _bytes(what: str, value: object) -> int:
    found = _SIZE.fullmatch(str(value))
    if not found:
        raise ValueError(f"{what} is {value!r}, expected a number followed by k, m or g, such as 16m")
    return int(found[1]) * _UNITS[found[2]]


def certificate_names(settings: Mapping[str, Any]) -> list[str]:
    """Return every name and address by which clients may reach the endpoint. Raises ValueError."""
    listen = check_address("endpoint_listen", settings["endpoint_listen"])
    given = settings["endpoint_names"]
    if not isinstance(given, Sequence) or isinstance(given, str):
        raise ValueError(f"endpoint_names is {given!r}, expected a list of names and addresses")
    names = [*map(str, given), *([] if listen in _WILDCARDS else [listen]), "localhost", "127.0.0.1"]
    for name in names:
        if not is_address(name) and not _HOST_NAME.fullmatch(name):
            raise ValueError(f"endpoint_names has {name!r}, expected a host name or an address: correct it")
    return list(dict.fromkeys(str(ipaddress.ip_address(name)) if is_address(name) else name.lower() for name in names))
