# SPDX-License-Identifier: Apache-2.0
"""How many examples a property is tried with, and how many cases of many that differ little."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import TypeVar

from hypothesis import HealthCheck, settings

PROFILE_ALL = 100
"""Examples per property in the profile `all`."""
FEWEST = 5

Case = TypeVar("Case")


def share_of_examples() -> float:
    """What of them is tried in this run."""
    return settings.get_profile(settings.get_current_profile_name()).max_examples / PROFILE_ALL


def examples(count: int, suppress_health_check: Collection[HealthCheck] = ()) -> settings:
    """Settings with `count` examples in the profile `all`, and with a share of them in the others."""
    profile = settings.get_profile(settings.get_current_profile_name())
    suppressed = [*profile.suppress_health_check, *suppress_health_check]
    return settings(max_examples=max(FEWEST, round(count * share_of_examples())), suppress_health_check=suppressed)


def some(cases: Sequence[Case], first: int = 0) -> Sequence[Case]:
    """All cases in the profile `all`, and every so many-th of them in the others, from one that the caller chooses.

    However few there are, one is tried.
    """
    step = round(1 / share_of_examples())
    return cases[first % max(1, min(step, len(cases))) :: step]
