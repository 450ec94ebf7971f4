# SPDX-License-Identifier: Apache-2.0
"""The burn-in's copies between each GPU and the host's memory: how fast they were, and whether they were intact."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from ...parsers.reading import Reading
from ..check import Check, could_not_check, failed, not_applicable, passed
from ..expected import Expected

_WAYS = {"to_device_gb_s": "to the GPU", "from_device_gb_s": "from the GPU"}
_REMEDY = (
    "check gpu.pcie and kernel.pcie for a link that is narrow or of an older generation; reseat the board or its "
    "riser, and look for ACS or an IOMMU that redirects the copies"
)


def check_host_copy(reading: Reading, gpus: Sequence[Mapping[str, Any]], expected: Expected) -> Check:
    """Check both directions on every GPU against the profile's minimum, and that the data came back unchanged."""
    minimum = (expected.hardware.get("burn_in") or {}).get("host_copy_gb_s")
    name = "burn_in.host_copy"
    want = (
        f"copies at {float(minimum):g} GB/s or more, to and from the host" if minimum else "no minimum in the profile"
    )
    if expected.unified:
        return not_applicable(name, reading, "none", "the GPU shares the host's memory")
    found = {gpu["index"]: gpu.get("host_copy") for gpu in gpus}
    broken = [index for index, one in found.items() if isinstance(one, Mapping) and one.get("is_equal") is False]
    if broken:
        remedy = "take the GPU out of service: data copied over its link comes back changed; look for AER in `dmesg`"
        return failed(name, reading, "copies come back unchanged", f"{_named(broken)}: changed", remedy)
    slow = [
        f"GPU {index}: {one[key]:g} GB/s {words}"
        for index, one in found.items()
        for key, words in _WAYS.items()
        if minimum and isinstance(one, Mapping) and _is_rate(one.get(key)) and one[key] < float(minimum)
    ]
    if slow:
        return failed(name, reading, want, ", ".join(slow), _REMEDY)
    missing = [index for index, one in found.items() if not _is_complete(one)]
    if missing:
        why = f"no result from {_named(missing)}"
        return could_not_check(name, reading, want, why, "fix what burn_in.ran reports, then run the burn-in again")
    told = " and ".join(
        f"{min(one[key] for one in found.values() if one):g} GB/s {words}" for key, words in _WAYS.items()
    )
    return (
        passed(name, reading, want, told) if minimum else not_applicable(name, reading, want, f"{told}, not evaluated")
    )


def _is_rate(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and value > 0


def _is_complete(one: Any) -> bool:
    return isinstance(one, Mapping) and one.get("is_equal") is True and all(_is_rate(one.get(key)) for key in _WAYS)


def _named(indices: Sequence[int]) -> str:
    return f"GPU{'' if len(indices) == 1 else 's'} {', '.join(str(index) for index in indices)}"
