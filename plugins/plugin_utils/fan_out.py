# SPDX-License-Identifier: Apache-2.0
"""Who fetches large files from their source, who shares them, and who takes them from the one that shares."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

CONNECTIONS = 256
"""To so many the host that shares gives at the same time; whoever waits longer than a minute counts it as silent."""


def fan_out(
    head: str, hosts: Sequence[str], pending: Mapping[str, Sequence[Any]], full: bool = False, shared: bool = True
) -> dict[str, Any]:
    """C(fetches): hosts that go to the source, C(shares): who hands out, C(receives): hosts that take from it,
    C(streams): files that each of those may take at the same time, so that nobody waits.

    One host goes to the source, so that a site's line to the hub carries the model once. Who has everything takes no
    part. In a run without the head nobody knows what the head has, so that everyone goes to the source, as they do
    where there is no fabric to share over.
    """
    lacking = [host for host in hosts if full or pending.get(host)]
    if head not in hosts or not shared:
        return {"fetches": lacking, "shares": "", "receives": [], "streams": CONNECTIONS}
    receives = [host for host in lacking if host != head]
    return {
        "fetches": [head] if head in lacking else [],
        "shares": head if receives else "",
        "receives": receives,
        "streams": max(1, CONNECTIONS // max(1, len(receives))),
    }
