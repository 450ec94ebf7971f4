# SPDX-License-Identifier: Apache-2.0
"""Remove a host from a cluster: when it is refused, and what to change in the inventory."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from ansible_collections.firstlight.cluster.plugins.plugin_utils.launch.description import PROFILES

Plans = Mapping[str, Mapping[str, Any]]


def removal_problems(present: Plans, rest: Plans) -> list[str]:
    """Return why the remaining hosts would change, from the plans with and without the removed host.

    The plan itself has rejected any other problem (a model that does not fit, a number of GPUs that does not match the
    ranks).
    """
    problems = []
    for host, plan in rest.items():
        before, after = _addresses(present.get(host) or {}), _addresses(plan)
        if before != after:
            problems.append(
                f"{host} would move from {', '.join(before)} to {', '.join(after)} on the fabric, expected every other "
                "host to stay where it is: give it firstlight_fabric_number in the inventory, or describe the hosts "
                "as a rack (docs/racks.md)"
            )
    return problems


def _addresses(plan: Mapping[str, Any]) -> list[str]:
    return [str(rail["address"]) for rail in (plan.get("host") or {}).get("fabric") or ()]


def inventory_words(host: str, place: Mapping[str, Any] | None, serving: Mapping[str, Any] | None) -> list[str]:
    """Return the changes for the inventory; `place` is the host's firstlight_rack, `serving` the settings to keep."""
    if place:
        lines = [f"of rack {place.get('name')}: absent: [{place.get('position')}], in addition to those already absent"]
        if place.get("serial"):
            lines.append(f"and take position {place.get('position')} ({place['serial']}) out of its serials")
    else:
        lines = [f"take {host} out of hosts.yml"]
    return lines + [f"firstlight_serving.{key}: {value!r}" for key, value in sorted((serving or {}).items())]


def stops(plan: Mapping[str, Any], left: Sequence[str]) -> str:
    """Return a sentence on what stops with the host, empty if nothing does; `left` is what was found on it."""
    cluster, host = plan.get("cluster") or {}, str((plan.get("host") or {}).get("name"))
    profile = PROFILES.get(str(cluster.get("profile")))
    if not left or profile is None:
        return ""
    where = host if profile.several_servers else ", ".join(str(one) for one in cluster.get("hosts") or ())
    return f"{cluster.get('profile')} serves on {host} ({'; '.join(left)}) and stops on {where}"
