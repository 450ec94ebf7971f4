# SPDX-License-Identifier: Apache-2.0
"""Evaluate the burn-in of a whole cluster: each host's own checks, and those across all hosts."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from ansible_collections.firstlight.cluster.plugins.module_utils.gpu.burn_in.runs import wrong_lines
from ansible_collections.firstlight.cluster.plugins.module_utils.gpu.health import as_accepted
from ansible_collections.firstlight.cluster.plugins.plugin_utils.comparison.records import Record, make_record

from .power import cluster_checks


def evaluate_cluster(
    results: Mapping[str, Mapping[str, Any]], power: Mapping[str, Any], accepted: Sequence[str] = ()
) -> dict[str, Any]:
    """Return `records` by host, and `wrong` with a line for every cross-host check that did not pass.

    `results` has the module's result for each host, with the profile as `hardware`.
    """
    together = cluster_checks(results, power)
    records: dict[str, list[Record]] = {}
    wrong: list[str] = []
    for host, result in results.items():
        checks = as_accepted([*(result.get("checks") or ()), *together[host]], accepted)
        records[host] = [
            make_record(
                one["id"], host, one["expected"], one["observed"], one["verdict"], one["remedy"], one["command"]
            )
            for one in checks
        ]
        wrong += [f"{host}: {line}" for line in wrong_lines(together[host], accepted)]
    return {"records": records, "wrong": wrong}
