# SPDX-License-Identifier: Apache-2.0
"""Kernel and session settings that keep a host's memory for the model."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ansible_collections.firstlight.cluster.plugins.module_utils.core.state import root_file

SYSCTL_FILE = "/etc/sysctl.d/90-firstlight.conf"
LIMITS_FILE = "/etc/security/limits.d/90-firstlight.conf"
HEADLESS_TARGET = "multi-user.target"

_HEADER = "# Managed by Firstlight (role host_tuning): changes here are overwritten.\n"


def sysctl_conf(settings: Mapping[str, str]) -> str:
    """Text of a sysctl.d file."""
    return _HEADER + "".join(f"{key} = {value}\n" for key, value in settings.items())


def limits_conf(memlock: str) -> str:
    """Text of a limits.d file: RDMA registers memory by locking it, which the default limit forbids to users.

    Containers get their limit from Docker (`--ulimit memlock=-1`); this is for what users run on the host.
    """
    return _HEADER + f"* soft memlock {memlock}\n* hard memlock {memlock}\n"


def _memlock(value: object) -> str:
    text = str(value)
    if text != "unlimited" and not text.isdigit():
        raise ValueError(f"host_tuning_memlock is {text!r}, expected 'unlimited' or a number of KiB: set one of these")
    return text


def _swappiness(value: object) -> str:
    text = str(value)
    if not text.isdigit() or int(text) > 200:
        raise ValueError(f"host_tuning_swappiness is {text!r}, the kernel takes 0 to 200: set it to 1 for a model host")
    return str(int(text))


def desired(variables: Mapping[str, Any]) -> dict[str, Any]:
    """Little swapping, lockable memory, and, where `host_tuning_headless` says so, no graphical login."""
    settings = {"vm.swappiness": _swappiness(variables["host_tuning_swappiness"])}
    state: dict[str, Any] = {
        "files": {
            SYSCTL_FILE: root_file(sysctl_conf(settings)),
            LIMITS_FILE: root_file(limits_conf(_memlock(variables["host_tuning_memlock"]))),
        },
        "sysctl": settings,
    }
    if variables["host_tuning_headless"]:
        state["default_target"] = HEADLESS_TARGET
        state["units"] = {
            str(unit): {"enabled": False, "active": False, "if_present": True}
            for unit in variables["host_tuning_display_managers"]
        }
    return state
