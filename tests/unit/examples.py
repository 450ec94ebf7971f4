# SPDX-License-Identifier: Apache-2.0
"""How many examples a property is tried with."""

from __future__ import annotations

from collections.abc import Collection

from hypothesis import HealthCheck, settings

PROFILE_ALL = 100
"""Examples per property in the profile `all`."""
FEWEST = 5


def examples(count: int, suppress_health_check: Collection[HealthCheck] = ()) -> settings:
    """Settings with `count` examples in the profile `all`, and with a share of them in the others."""
    profile = settings.get_profile(settings.get_current_profile_name())
    share = profile.max_examples / PROFILE_ALL
    suppressed = [*profile.suppress_health_check, *suppress_health_check]
    return settings(max_examples=max(FEWEST, round(count * share)), suppress_health_check=suppressed)
