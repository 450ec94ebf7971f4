# SPDX-License-Identifier: Apache-2.0
"""Parses `ip -j addr show`."""

from __future__ import annotations

from typing import Any

from .text import parse_json_list


def parse_ip_addresses(text: str) -> dict[str, dict[str, Any]]:
    """Parse every link by name, with its MTU, global addresses and whether it carries traffic.

    Raises ValueError when the text is not what `ip -j` prints.
    """
    links: dict[str, dict[str, Any]] = {}
    for entry in parse_json_list(text, "ip -j addr"):
        # Older iproute2 prints an empty object for each link that a filter left out.
        if not entry.get("ifname"):
            continue
        flags = entry.get("flags") or []
        links[str(entry["ifname"])] = {
            "exists": True,
            "mtu": entry.get("mtu"),
            "addresses": [
                f"{address['local']}/{address['prefixlen']}"
                for address in entry.get("addr_info") or []
                if address.get("local") and address.get("scope") == "global"
            ],
            "up": "UP" in flags and "NO-CARRIER" not in flags and entry.get("operstate") != "DOWN",
        }
    return links
