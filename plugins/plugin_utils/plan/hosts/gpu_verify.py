# SPDX-License-Identifier: Apache-2.0
"""The expected GPUs by the hardware profile; they are only evaluated, never converged."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ansible_collections.firstlight.cluster.plugins.module_utils.gpu.health import KIND, expected_by

_FOR_READERS = ("name", "description", "source", "date", "topology", "rack_units", "startup")
"""Fields of a profile that no check reads."""


def evaluated_profile(hardware: Mapping[str, Any]) -> dict[str, Any]:
    """Return the fields of a catalog/hardware entry that checks read, as data that survives a JSON round trip."""
    return {field: _plain(value) for field, value in hardware.items() if field not in _FOR_READERS}


def _plain(value: Any) -> Any:
    if isinstance(value, Mapping):
        return {str(key): _plain(one) for key, one in value.items()}
    return [_plain(one) for one in value] if isinstance(value, (list, tuple)) else value


def desired(variables: Mapping[str, Any]) -> dict[str, Any]:
    """Return the profile to evaluate against, the pinned driver version if any, and the ids of accepted checks."""
    accept = variables.get("gpu_verify_accept") or []
    if isinstance(accept, str) or not all(isinstance(one, str) and one for one in accept):
        raise ValueError(f"gpu_verify_accept is {accept!r}, expected a list of check ids: write it as [kernel.xid]")
    want = {
        "profile": str(variables.get("gpu_verify_profile") or "unnamed"),
        "hardware": evaluated_profile(variables.get("gpu_verify_hardware") or {}),
        "driver": str(variables.get("gpu_verify_driver") or "") or None,
        "accept": sorted({str(one) for one in accept}),
    }
    expected_by(want)
    return {KIND: want}
