# SPDX-License-Identifier: Apache-2.0
"""Check the types of a launch description's values, so that every later check can rely on them."""

from __future__ import annotations

import ipaddress
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from ansible_collections.firstlight.cluster.plugins.module_utils.compile_cache import expected_instead
from ansible_collections.firstlight.cluster.plugins.module_utils.engine_container import (
    MOST_REPLICAS,
    container_expected_instead,
)
from ansible_collections.firstlight.cluster.plugins.module_utils.text import is_address

from .description import PROFILES, LaunchDescription, LaunchHost


@dataclass(frozen=True)
class Problem:
    """A problem: what was found, which rule it breaks, and what to change."""

    id: str
    found: str
    rule: str
    remedy: str

    @property
    def sentence(self) -> str:
        """The whole problem in one line."""
        return f"{self.found}: {self.rule}; {self.remedy}"


Problems = Iterator[Problem]

_MOST = 2**31 - 1
_TEXT = (
    "model_directory",
    "served_name",
    "head",
    "listen",
    "venv",
    "env_file",
    "runtime",
    "ray_worker_ports",
    "shared_memory",
)
_OPTIONAL_TEXT = ("image", "version", "kv_cache_dtype", "tool_call_parser", "reasoning_parser")
_WHOLE = {
    "tensor_parallel": (1, 65536),
    "pipeline_parallel": (1, 65536),
    "gpus_per_host": (1, 1024),
    "port": (1, 65535),
    "master_port": (1, 65535),
    "ray_port": (1, 65535),
    "mpi_port": (1, 65535),
    "distributed_timeout": (10, 86400),
    "ray_cpus": (0, 65536),
    "ray_object_store_bytes": (1, 2**50),
}
_OPTIONAL_WHOLE = ("max_model_len", "max_num_seqs", "max_num_batched_tokens", "start_timeout")


def wrong(name: str, value: Any, expected: str) -> Problem:
    shown = repr(value)
    shown = shown if len(shown) <= 80 else f"{shown[:77]}..."
    return Problem("launch.value", f"{name} of the launch is {shown}", f"expected {expected}", f"correct {name}")


def value_problems(description: LaunchDescription) -> Problems:
    """Yield the problems of all values with an invalid type or range."""
    if not isinstance(description.profile, str) or description.profile not in PROFILES:
        yield wrong("profile", description.profile, f"one of {', '.join(PROFILES)}")
    yield from _texts(description)
    yield from _numbers(description)
    for name in ("prefix_caching", "expert_parallel"):
        if not _is_one_of(getattr(description, name), (None, True, False)):
            yield wrong(name, getattr(description, name), "true or false")
    if not _is_one_of(description.rdma, (True, False)):
        yield wrong("rdma", description.rdma, "true or false")
    yield from _speculative(description.speculative)
    yield from _environment("environment", description.environment)
    if expected := expected_instead(description.compile_cache):
        yield wrong("compile_cache", description.compile_cache, expected)
    if expected := container_expected_instead(description.container):
        yield wrong("container", description.container, expected)
    if not description.hosts:
        yield wrong("hosts", [], "at least one host")
    for host in description.hosts:
        yield from _host_values(host)


def _texts(description: LaunchDescription) -> Problems:
    for name in (*_TEXT, *_OPTIONAL_TEXT):
        value = getattr(description, name)
        if name in _OPTIONAL_TEXT and value is None:
            continue
        if not _is_word(value) or not value:
            yield wrong(name, value, "text without control characters")
    flags: Any = description.flags
    if not isinstance(flags, tuple) or not all(_is_word(word) for word in flags):
        yield wrong("flags", flags, "a list of words without control characters")


def _numbers(description: LaunchDescription) -> Problems:
    # A limit per host, although only replicas on a single host have a unit and a port each.
    replicas = (1, MOST_REPLICAS * max(1, len(description.hosts)))
    for name, (least, most) in {
        **_WHOLE,
        **dict.fromkeys(_OPTIONAL_WHOLE, (1, _MOST)),
        "replicas": replicas,
    }.items():
        value = getattr(description, name)
        if name in _OPTIONAL_WHOLE and value is None:
            continue
        if not _is_whole(value, least, most):
            yield wrong(name, value, f"a whole number from {least} to {most}")
    share: Any = description.gpu_memory_utilization
    if share is not None and (isinstance(share, bool) or not isinstance(share, (int, float)) or not 0 < share <= 1):
        yield wrong("gpu_memory_utilization", share, "a number above 0 and at most 1")


def _host_values(host: LaunchHost) -> Problems:
    if not _is_word(host.name) or not host.name:
        yield wrong("a host's name", host.name, "text without control characters")
    if not _is_whole(host.rank, 0, 65535):
        yield wrong(f"the rank of {host.name}", host.rank, "a whole number from 0 to 65535")
    if not is_address(host.address):
        yield wrong(f"the address of {host.name}", host.address, "an IP address")
    if host.interface is not None and (not _is_word(host.interface) or not host.interface):
        yield wrong(f"the interface of {host.name}", host.interface, "a port's name")
    yield from _environment(f"the environment of {host.name}", host.environment)


def _speculative(value: Any) -> Problems:
    if value is None:
        return
    right = isinstance(value, Mapping) and set(value) == {"method", "tokens"} and value["method"] == "mtp"
    if not right or not _is_whole(value["tokens"], 1, 64):
        yield Problem(
            "launch.setting",
            f"speculative of the launch is {value!r}",
            "it is {method: mtp, tokens: N} with N from 1 to 64, the only method all engines share",
            "correct it, or write the engine's own flags for another method",
        )


def _environment(name: str, values: Any) -> Problems:
    if not isinstance(values, Mapping):
        yield wrong(name, values, "a mapping of variables")
        return
    for variable, value in values.items():
        plain = _is_word(variable) and str(variable).replace("_", "a").isalnum() and str(variable).isascii()
        if not plain or str(variable)[0].isdigit():
            yield wrong(name, variable, "names of letters, digits and _")
        elif not isinstance(value, (str, int, float)) or not _is_word(str(value)):
            yield wrong(f"{name} {variable}", "a value", "one line of text or a number")


def _is_one_of(value: Any, known: tuple[Any, ...]) -> bool:
    """Whether a value is one of these by identity: unlike with `in`, 1 is not true."""
    return any(value is one for one in known)


def _is_word(value: Any) -> bool:
    return isinstance(value, str) and not any(ord(character) < 32 or ord(character) == 127 for character in value)


def _is_whole(value: Any, least: int, most: int) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and least <= value <= most


def is_loopback(value: str) -> bool:
    return value == "localhost" or (is_address(value) and ipaddress.ip_address(value).is_loopback)
