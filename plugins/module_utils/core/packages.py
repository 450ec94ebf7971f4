# SPDX-License-Identifier: Apache-2.0
"""Packages as apt wants them named."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any


def apt_arguments(packages: Mapping[str, str | None], found: Iterable[Mapping[str, Any]]) -> list[str]:
    """`name=version` for each pinned package that differs and `name` for each other one that is missing.

    `found` are the differences between the desired state and the host, so a right host gives an empty list
    and apt, the slowest way to learn that nothing is to be done, is never asked.
    """
    differing = {item["key"] for item in found if item["kind"] == "package"}
    return [
        name if version is None else f"{name}={version}"
        for name, version in sorted(packages.items())
        if name in differing
    ]
