# SPDX-License-Identifier: Apache-2.0
"""Resolve the hosts named by `-e nodes=` or `-e node=`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

Groups = Mapping[str, Sequence[str]]


def chosen(given: object, groups: Groups, *, single: bool = False) -> dict[str, Any]:
    """Return the cluster's hosts named directly or by group, or why the selection is invalid.

    - `hosts`: their names, in the order of the inventory
    - `problem`: one sentence; empty if there is none
    """
    cluster = [str(name) for name in groups.get("cluster") or ()]
    words = _words(given)
    if not words:
        return _refused(f"no host is named, expected {_example(cluster, single)}")
    wanted: set[str] = set()
    for word in words:
        meant = {word} if word in cluster else set(groups.get(word) or ()) & set(cluster)
        if not meant:
            return _refused(_stranger(word, groups, cluster))
        wanted |= meant
    hosts = [name for name in cluster if name in wanted]
    if single and len(hosts) != 1:
        return _refused(f"{', '.join(hosts)} are named, expected one host: run the command for each of them")
    heads = sorted(wanted & {str(name) for name in groups.get("head") or ()})
    if heads:
        return _refused(
            f"{heads[0]} is the head, expected other hosts of the cluster: without the head nothing serves, and a "
            "new one is "
            "a bring-up: run site.yml"
        )
    return {"hosts": hosts, "problem": ""}


def _words(given: object) -> list[str]:
    if isinstance(given, str):
        return [word for word in given.replace(",", " ").split() if word]
    if isinstance(given, Sequence):
        return [str(word) for word in given]
    return []


def _refused(problem: str) -> dict[str, Any]:
    return {"hosts": [], "problem": problem}


def _example(cluster: Sequence[str], single: bool) -> str:
    last = cluster[-1] if cluster else "NAME"
    return f"the host to act on: add -e node={last}" if single else f"the new hosts: add -e nodes={last}"


def _stranger(word: str, groups: Groups, cluster: Sequence[str]) -> str:
    known = ", ".join(cluster) or "none"
    if word in (groups.get("all") or ()):
        return (
            f"{word} is in the inventory but not in its group cluster, expected one of {known}: if the rack file has "
            "several clusters, choose one with FIRSTLIGHT_CLUSTER"
        )
    return (
        f"{word} is neither a host of the cluster nor a group with any, expected one of {known}: add it to the "
        "inventory first (raise count of its rack, or add an entry), and check with ansible-inventory --graph"
    )
