# SPDX-License-Identifier: Apache-2.0
"""Variables of the environment that no part of the stack reads."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from ansible_collections.firstlight.cluster.plugins.plugin_utils.engines.findings import Finding, make_finding
from ansible_collections.firstlight.cluster.plugins.plugin_utils.engines.replaced import Replaced
from ansible_collections.firstlight.cluster.plugins.plugin_utils.engines.schema import is_later
from ansible_collections.firstlight.cluster.plugins.plugin_utils.engines.values import show


def check_environment(
    names: Iterable[str], replaced: Replaced, engine: str | None = None, version: str | None = None
) -> list[Finding]:
    """A finding for each variable that no part of the stack reads.

    Variables that an engine once read are only judged when the engine and its version are given.
    """
    findings = []
    for name in names:
        for entry in replaced.environment:
            if entry["variable"] == name and _applies(entry, engine, version):
                problem = f"the variable {show(name)} is read by nothing in this stack"
                finding = make_finding(show(name), None, known=False, problem=problem, refusal="flags.environment")
                finding["replaced_by"], finding["explanation"] = entry["replacement"], entry["meaning"]
                findings.append(finding)
                break
    return findings


def _applies(entry: Mapping[str, Any], engine: str | None, version: str | None) -> bool:
    if entry["engine"] is None:
        return True
    if entry["engine"] != engine or version is None:
        return False
    return entry["until"] is None or is_later(version, entry["until"])
