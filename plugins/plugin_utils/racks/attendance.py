# SPDX-License-Identifier: Apache-2.0
"""Which hosts of a run are present: its racks, and the message about missing hosts. Pure functions."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from ansible_collections.firstlight.cluster.plugins.plugin_utils.progress.text import join_hosts

PREFIX = "rack_"
MOST_NAMED = 32


def rack_groups(groups: Mapping[str, Sequence[str]], cluster: str = "cluster") -> dict[str, list[str]]:
    """Return the rack groups with their hosts in the cluster, in the order of the inventory."""
    running = set(map(str, groups.get(cluster) or ()))
    racks = {
        str(name): [str(host) for host in hosts if str(host) in running]
        for name, hosts in groups.items()
        if str(name).startswith(PREFIX)
    }
    return {name: hosts for name, hosts in racks.items() if hosts}


def missing_by_rack(
    expected: Sequence[str], present: Sequence[str], racks: Mapping[str, Sequence[str]]
) -> dict[str, list[str]]:
    """Return missing hosts by rack; those without a rack under an empty name."""
    out = [host for host in expected if host not in set(present)]
    rack_of = {host: rack for rack, hosts in racks.items() for host in hosts}
    found: dict[str, list[str]] = {}
    for host in out:
        found.setdefault(rack_of.get(host, ""), []).append(host)
    return found


def attendance_message(expected: Sequence[str], missing: Mapping[str, Sequence[str]], phase: str = "") -> str:
    """Return the message about missing hosts; empty if none is. Without a phase, serving was about to start."""
    out = sum(map(len, missing.values()))
    if not out:
        return ""
    named = "; ".join(f"{rack or 'of no rack'}: {join_hosts(hosts, MOST_NAMED)}" for rack, hosts in missing.items())
    if not any(missing):
        named = join_hosts(missing[""], MOST_NAMED)
    others = len(expected) - out
    begun = f"{phase} was not started on the other {others}" if phase else "nothing of it was started"
    prepared = "" if phase else f" The other {others} are prepared."
    limit = ":".join(rack for rack in missing if rack)
    again = f" For their racks alone: --limit {limit}." if limit else ""
    it, be = ("it", "is") if out == 1 else ("them", "are")
    return (
        f"{out} of {len(expected)} hosts {be} out ({named}), expected all of them: serving needs every host, so "
        f"{begun}.{prepared} Do: fix what is reported for {it}, then run this again; completed steps are not "
        f"repeated.{again}"
    )
