# SPDX-License-Identifier: Apache-2.0
"""Reads a whole host, its GPUs evaluated, into one document."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ..host import Host
from ..state.vocabulary import State
from .probes import observe


def observe_host(host: Host, desired_by_role: Mapping[str, Mapping[str, Any]], timeout: float = 30.0) -> State:
    """Everything these desired states name, as it is on `host` now. Raises ValueError for one with unknown words."""
    return observe(host, desired_by_role, timeout, _gpu_health)


def _gpu_health(host: Host, want: Mapping[str, Any], timeout: float) -> State:
    # On a target nothing is compiled beforehand: who does not ask for GPUs does not wait for all of their parsers.
    from ..gpu.gpu_health import read_health  # noqa: PLC0415 - see above

    return read_health(host, want, timeout)
