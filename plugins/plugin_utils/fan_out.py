# SPDX-License-Identifier: Apache-2.0
"""Decide which hosts fetch large files from their source, which one shares them, and which receive them from it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

CONNECTIONS = 256
"""Concurrent connections the sharing host serves; a receiver that waits more than a minute takes it for silent."""


def fan_out(
    head: str, hosts: Sequence[str], pending: Mapping[str, Sequence[Any]], full: bool = False, shared: bool = True
) -> dict[str, Any]:
    """Assign the hosts of a run their parts in fetching files.

    C(fetches): hosts that download from the source, C(shares): the host that serves the others, C(receives): hosts that
    download from it, C(streams): files that each of these may download at a time, so that none of them waits.

    One host downloads from the source, so that the model crosses the site's uplink once. Hosts that have everything
    take no part. In a run without the head it is unknown what the head has, so every host downloads from the source,
    as they do without a fabric to share over.
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
