# SPDX-License-Identifier: Apache-2.0
"""Where Ansible finds a node of a rack."""

from __future__ import annotations

from ansible_collections.firstlight.cluster.plugins.plugin_utils.racks.blocks import address
from ansible_collections.firstlight.cluster.plugins.plugin_utils.racks.document import Rack


def reached_at(rack: Rack, position: int) -> str | None:
    """The node's own address, that in the management range, or the name `reach` makes; None: the host's own name."""
    if rack.addresses:
        return rack.addresses.get(position)
    if rack.management is not None:
        # A position beyond the range is refused as such; no two nodes may look like one because of it.
        return address(rack.management.at(position)) if position <= rack.management.size else None
    if rack.reach is None:
        return None
    place = rack.reach.replace("{name}", rack.host(position)).replace("{position}", str(position))
    return place.replace("{serial}", rack.nodes.serials.get(position, "").lower())
