# SPDX-License-Identifier: Apache-2.0
"""Read the endpoint part of an intent."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

from ansible_collections.firstlight.cluster.plugins.module_utils.endpoint.endpoint import (
    all_paths,
    certificate_names,
    check_address,
    check_networks,
    check_number,
    check_size,
    read_keys,
    spooled_at_once,
)
from ansible_collections.firstlight.cluster.plugins.plugin_utils.findings import PlanErrors
from ansible_collections.firstlight.cluster.plugins.plugin_utils.plan.exposure.endpoint import DEFAULTS
from ansible_collections.firstlight.cluster.plugins.plugin_utils.plan.keys import read_mapping

ERRORS = {
    "endpoint.value": "A value that nginx or a client cannot use fails every request; refused here, it costs nothing.",
    "endpoint.keys": "Every client has a named key, so that one can be revoked without the others.",
    "endpoint.port": "Two servers on one host cannot listen on the same address and port.",
}

ENDPOINT_KEYS = (
    "enabled",
    "listen",
    "port",
    "http_port",
    "names",
    "clients",
    "keys",
    "rate",
    "key_connections",
    "body_limit",
    "spool_limit",
    "extra_paths",
    "certificate",
    "certificate_key",
    "cluster",
)
DEFAULT_KEY = "default"
_MOST_RATE = 60_000


@dataclass(frozen=True)
class Endpoint:
    """The endpoint as the intent describes it; None leaves a field to the host's address or the role's default."""

    enabled: bool = True
    listen: str | None = None
    port: int = 443
    http_port: int = 0
    names: tuple[str, ...] = ()
    clients: tuple[str, ...] = ()
    keys: tuple[Mapping[str, Any], ...] = ({"name": DEFAULT_KEY},)
    rate: int | None = None
    key_connections: int | None = None
    body_limit: str | None = None
    spool_limit: str | None = None
    extra_paths: tuple[str, ...] = ()
    certificate: str = ""
    certificate_key: str = ""
    cluster: str = ""


def read_endpoint(intent: Mapping[str, Any], errors: PlanErrors) -> Endpoint | None:
    """Read and validate firstlight_endpoint; None if it is not set."""
    if intent.get("firstlight_endpoint") is None:
        return None
    given = read_mapping(intent, "firstlight_endpoint", ENDPOINT_KEYS, errors)
    reader = _Reader(given, errors)
    keys = reader.keys()
    port = reader.value("port", 443, lambda value: check_number("port", value, 1, 65_535))
    http_port = reader.value("http_port", 0, lambda value: check_number("http_port", value, 0, 65_535))
    if http_port and http_port == port:
        errors.add(
            "endpoint.port",
            f"firstlight_endpoint.port and http_port are both {port}",
            "HTTPS and the redirect to it need different ports",
            "leave firstlight_endpoint.http_port out, or set it to 80",
        )
    certificate, certificate_key = reader.word("certificate"), reader.word("certificate_key")
    if bool(certificate) != bool(certificate_key):
        errors.add(
            "endpoint.value",
            f"firstlight_endpoint has only {'certificate' if certificate else 'certificate_key'}",
            "a certificate is given with its key, each a file on the controller",
            "set both, or neither to have a certificate generated",
        )
    limits = {
        name: reader.value(name, None, partial(check_size, f"endpoint_{name}"))
        for name in ("spool_limit", "body_limit")
    }
    spool, body = (limits[name] or DEFAULTS[f"endpoint_{name}"] for name in limits)
    try:
        spooled_at_once(spool, body)
    except ValueError:
        errors.add(
            "endpoint.value",
            f"firstlight_endpoint.spool_limit is {spool}, and body_limit is {body}",
            "a request of the largest size has to fit on disk",
            "raise firstlight_endpoint.spool_limit, or lower body_limit",
        )
    return Endpoint(
        enabled=reader.truth("enabled", True),
        listen=reader.value("listen", None, lambda value: check_address("listen", value)),
        port=port,
        http_port=http_port,
        names=tuple(reader.value("names", [], _names)),
        clients=tuple(reader.value("clients", [], check_networks)),
        keys=tuple(keys),
        rate=reader.value("rate", None, lambda value: check_number("rate", value, 0, _MOST_RATE)),
        key_connections=reader.value(
            "key_connections", None, lambda value: check_number("key_connections", value, 1, 8192)
        ),
        **limits,
        extra_paths=tuple(reader.value("extra_paths", [], _paths)),
        certificate=certificate,
        certificate_key=certificate_key,
        cluster=reader.word("cluster"),
    )


class _Reader:
    """Reads values of the mapping, and records an error for each one that its check rejects."""

    def __init__(self, given: Mapping[str, Any], errors: PlanErrors) -> None:
        self._given, self._errors = given, errors

    def value(self, key: str, default: Any, check: Callable[[Any], Any]) -> Any:
        value = self._given.get(key)
        if value is None:
            return default
        try:
            return check(value)
        except (ValueError, TypeError) as error:
            self._refuse(key, value, str(error))
            return default

    def truth(self, key: str, default: bool) -> bool:
        value = self._given.get(key)
        if isinstance(value, bool) or value is None:
            return default if value is None else value
        self._refuse(key, value, f"{key} is true or false")
        return default

    def word(self, key: str) -> str:
        value = self._given.get(key)
        if value is None or (isinstance(value, str) and value.strip() and "\n" not in value and "{" not in value):
            return value or ""
        self._refuse(key, value, f"{key} is one word")
        return ""

    def keys(self) -> list[Mapping[str, Any]]:
        """Return names, or mappings with a name and a rate; the default is one key named `default`."""
        listed = self._given.get("keys")
        if listed is None:
            return [{"name": DEFAULT_KEY}]
        written = (
            [{"name": one} if isinstance(one, str) else one for one in listed]
            if isinstance(listed, Sequence) and not isinstance(listed, str)
            else listed
        )
        try:
            read_keys(written, 0)
        except ValueError as error:
            self._errors.add(
                "endpoint.keys",
                f"firstlight_endpoint.keys is {listed!r}",
                str(error).replace("endpoint_keys", "the list"),
                "write it as [alice, {name: ci, rate: 120}], or leave it out for one key of the name default",
            )
            return [{"name": DEFAULT_KEY}]
        return [dict(one) for one in written]

    def _refuse(self, key: str, value: object, rule: str) -> None:
        self._errors.add(
            "endpoint.value",
            f"firstlight_endpoint.{key} is {value!r}",
            rule,
            f"correct firstlight_endpoint.{key}, or leave it out",
        )


def _names(value: Any) -> list[str]:
    certificate_names({"endpoint_listen": "127.0.0.1", "endpoint_names": value})
    return [str(name) for name in value]


def _paths(value: Any) -> list[str]:
    all_paths(value)
    return [str(path) for path in value]
