# SPDX-License-Identifier: Apache-2.0
"""Under which address Ansible reaches a node of a rack."""

from __future__ import annotations

from ansible_collections.firstlight.cluster.plugins.plugin_utils.racks.blocks import address
from ansible_collections.firstlight.cluster.plugins.plugin_utils.racks.document import Rack


def reached_at(rack: Rack, position: int) -> str | None:
    """Return the node's address: its own, from the management range, or by `reach`; None for the host's name."""
    if rack.addresses:
        return rack.addresses.get(position)
    if rack.management is not None:
        # A position beyond the range is reported as such; it must not also look like a duplicate address.
        return address(rack.management.at(position)) if position <= rack.management.size else None
    if rack.reach is None:
        return None
    place = rack.reach.replace("{name}", rack.host(position)).replace("{position}", str(position))
    return place.replace("{serial}", rack.nodes.serials.get(position, "").lower())
