# SPDX-License-Identifier: Apache-2.0
"""Read a whole host into one document, including the evaluation of its GPUs."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ..host import Host
from ..state.vocabulary import State
from .probes import observe


def observe_host(host: Host, desired_by_role: Mapping[str, Mapping[str, Any]], timeout: float = 30.0) -> State:
    """Observe everything that these desired states name on `host`. Raises ValueError for a state with unknown keys."""
    return observe(host, desired_by_role, timeout, _gpu_health)


def _gpu_health(host: Host, want: Mapping[str, Any], timeout: float) -> State:
    # Targets have no compiled bytecode: a run that does not ask for GPUs should not wait for all of their parsers.
    from ..gpu.gpu_health import read_health  # noqa: PLC0415 - see above

    return read_health(host, want, timeout)
