# SPDX-License-Identifier: Apache-2.0
"""What host_tuning makes of its variables."""

from __future__ import annotations

from typing import Any

import pytest
from ansible_collections.firstlight.cluster.plugins.module_utils.core.desired.host_tuning import desired
from ansible_collections.firstlight.cluster.plugins.module_utils.core.differences import differences
from ansible_collections.firstlight.cluster.plugins.module_utils.core.state import ideal

SYSCTL = """\
# Managed by Firstlight (role host_tuning): changes here are overwritten.
vm.swappiness = 1
"""

LIMITS = """\
# Managed by Firstlight (role host_tuning): changes here are overwritten.
* soft memlock unlimited
* hard memlock unlimited
"""


def variables(**changes: Any) -> dict[str, Any]:
    return {
        "host_tuning_swappiness": 1,
        "host_tuning_memlock": "unlimited",
        "host_tuning_headless": True,
        "host_tuning_display_managers": ["gdm.service", "lightdm.service"],
        **changes,
    }


def test_state() -> None:
    state = desired(variables())
    owned = {"mode": "0644", "owner": "root", "group": "root"}
    off = {"enabled": False, "active": False, "if_present": True}
    assert state == {
        "files": {
            "/etc/sysctl.d/90-firstlight.conf": {"content": SYSCTL, **owned},
            "/etc/security/limits.d/90-firstlight.conf": {"content": LIMITS, **owned},
        },
        "sysctl": {"vm.swappiness": "1"},
        "default_target": "multi-user.target",
        "units": {"gdm.service": off, "lightdm.service": off},
    }
    assert differences(state, ideal(state)) == []


def test_a_host_with_a_desktop_keeps_it() -> None:
    state = desired(variables(host_tuning_headless=False))
    assert "default_target" not in state
    assert "units" not in state


def test_an_absent_display_manager_is_right() -> None:
    state = desired(variables())
    seen = ideal(state)
    seen["units"]["gdm.service"] = {"load": "not-found", "enabled": False, "active": False, "sub": "dead"}
    assert differences(state, seen) == []


@pytest.mark.parametrize("value", ["lots", "-1", "", None])
def test_memlock_is_refused(value: object) -> None:
    with pytest.raises(ValueError, match=r"host_tuning_memlock is .*expected 'unlimited' or a number of KiB"):
        desired(variables(host_tuning_memlock=value))


@pytest.mark.parametrize("value", [-1, 201, "low", 1.5])
def test_swappiness_is_refused(value: object) -> None:
    with pytest.raises(ValueError, match="the kernel takes 0 to 200"):
        desired(variables(host_tuning_swappiness=value))
