# SPDX-License-Identifier: Apache-2.0
"""Which runs of a benchmark count."""

from __future__ import annotations

from typing import Any

import pytest
from ansible_collections.firstlight.cluster.plugins.plugin_utils.bench.limits import limits, uncounted

RUN: dict[str, Any] = {"requests": 200, "failed": 0, "failures": {}, "client_load": 0.3}


@pytest.mark.parametrize(
    ("own", "words"),
    [
        ({}, None),
        ({"failed": 2, "failures": {"timeout": 2}}, None),
        (
            {"failed": 3, "failures": {"HTTP 502": 1, "timeout": 2}},
            "3 of 200 requests failed (HTTP 502: 1, timeout: 2), expected at most 1%",
        ),
        ({"client_load": None}, None),
        ({"client_load": 0.9}, None),
        ({"client_load": 0.97}, "client was the bottleneck: it used 97% of the processor time it can use, expected at"),
    ],
)
def test_a_run_counts_or_says_why_not(own: dict[str, Any], words: str | None) -> None:
    found = uncounted({**RUN, **own})
    assert found is None if words is None else str(found).startswith(words)


def test_every_limit_is_a_share() -> None:
    assert all(0 < limits()[name] < 1 for name in ("failed", "client_load", "cached", "spread"))
