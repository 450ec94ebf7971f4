# SPDX-License-Identifier: Apache-2.0
"""Kernel, session and service settings that reserve a host's memory and time for the model.

Every setting can be left alone: by the value `keep`, a switch that is off, or an empty list.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from ansible_collections.firstlight.cluster.plugins.module_utils.state.vocabulary import root_file
from ansible_collections.firstlight.cluster.plugins.module_utils.tuning import files
from ansible_collections.firstlight.cluster.plugins.module_utils.tuning.clock import SERVICES
from ansible_collections.firstlight.cluster.plugins.module_utils.tuning.settings import LEDGER, keeps
from ansible_collections.firstlight.cluster.plugins.plugin_utils.templates import render

HEADLESS_TARGET = "multi-user.target"
KEEP = "keep"

GUARD_PACKAGE = "earlyoom"
GUARD_UNIT = "earlyoom.service"
OTHER_GUARDS = ("systemd-oomd.socket", "systemd-oomd.service")
"""Ubuntu's desktop ships it. It kills whole control groups by memory pressure, which does not include the GPU's
memory, and there must be only one guard. The socket comes first, as it would start the service again."""
UPGRADE_UNITS = ("apt-daily.timer", "apt-daily-upgrade.timer", "unattended-upgrades.service")
SWAP_TARGET = "swap.target"

_SSH_MEMORY = "64M"
_LOGIND = {"RemoveIPC": "no", "KillUserProcesses": "no"}
_NAME = frozenset("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789:._+@-")
_OFF = {"enabled": False, "active": False, "if_present": True}


def desired(variables: Mapping[str, Any]) -> dict[str, Any]:
    """Return the desired state for these variables; raises ValueError for an invalid one."""
    state: dict[str, Any] = {}
    if _word(variables, "host_tuning_state", ("present", "absent")) == "present":
        for part in (_kernel, _memlock, _sessions, _headless, _guard, _upgrades, _vendor_updates, _time, _swap):
            for kind, wanted in part(variables).items():
                if isinstance(wanted, Mapping) and isinstance(state.get(kind), Mapping):
                    state[kind] = {**state[kind], **wanted}
                else:
                    state[kind] = wanted
    # Last: earlier changes that are no longer asked for are restored.
    state["ledgers"] = {LEDGER: {"keeps": keeps(state, SERVICES)}}
    return state


def _kernel(variables: Mapping[str, Any]) -> dict[str, Any]:
    swappiness = _number(variables, "host_tuning_swappiness", 0, 200, "the kernel takes 0 to 200: set it to 1")
    balancing = _number(variables, "host_tuning_numa_balancing", 0, 2, "the kernel takes 0 to 2: set it to 0")
    words = "expected the first port that needs no privilege, 1024 or above: set it to 1024"
    start = _number(variables, "host_tuning_unprivileged_port_start", 1024, 65535, words)
    governor = str(variables["host_tuning_governor"])
    if not governor.replace("_", "").isalpha():
        raise ValueError(
            f"host_tuning_governor is {governor!r}, expected a CPU governor such as performance, or keep: set one of "
            "these"
        )
    governed = governor != KEEP
    settings = {} if swappiness is None else {"vm.swappiness": swappiness}
    settings |= {} if start is None else {"net.ipv4.ip_unprivileged_port_start": start}
    optional = {} if balancing is None else {"kernel.numa_balancing": balancing}
    written: dict[str, Any] = {}
    if settings or optional:
        written[files.SYSCTL_FILE] = _file(
            "sysctl.conf", swappiness=swappiness, unprivileged_port_start=start, numa_balancing=balancing
        )
    if governed:
        written[files.GOVERNOR_FILE] = _file("governor.conf", governor=governor, governors=files.GOVERNORS)
    if not written:
        return {}
    written[files.UNIT_FILE] = _file(
        "tuning.service",
        sysctl_file=files.SYSCTL_FILE if settings or optional else "",
        governor_file=files.GOVERNOR_FILE if governed else "",
    )
    return {
        "files": written,
        "units": {files.UNIT: {"enabled": True, "active": True}},
        **({"sysctl": settings} if settings else {}),
        **({"optional_sysctl": optional} if optional else {}),
        **({"governor": governor} if governed else {}),
    }


def _memlock(variables: Mapping[str, Any]) -> dict[str, Any]:
    memlock = str(variables["host_tuning_memlock"])
    if memlock == KEEP:
        return {}
    if memlock != "unlimited" and not (memlock.isascii() and memlock.isdigit()):
        raise ValueError(
            f"host_tuning_memlock is {memlock!r}, expected 'unlimited' or a number of KiB, or keep: set one of these"
        )
    # systemd counts in bytes.
    limit = "infinity" if memlock == "unlimited" else str(int(memlock) * 1024)
    manager = _file("manager.conf", memlock=limit)
    return {
        "files": {
            files.LIMITS_FILE: _file("limits.conf", memlock=memlock),
            files.SYSTEM_FILE: manager,
            files.USER_FILE: manager,
        },
        "managers": {"systemd/DefaultLimitMEMLOCK": limit},
    }


def _sessions(variables: Mapping[str, Any]) -> dict[str, Any]:
    state: dict[str, Any] = {}
    if variables["host_tuning_keep_ipc"]:
        state["files"] = {files.LOGIND_FILE: _file("logind.conf", settings=_LOGIND)}
        state["managers"] = {f"logind/{name}": value for name, value in _LOGIND.items()}
    users = _names(variables, "host_tuning_linger_users", "accounts")
    return {**state, "linger": dict.fromkeys(users, True)} if users else state


def _headless(variables: Mapping[str, Any]) -> dict[str, Any]:
    if not variables["host_tuning_headless"]:
        return {}
    managers = [str(unit) for unit in variables["host_tuning_display_managers"]]
    return {"default_target": HEADLESS_TARGET, "units": {unit: dict(_OFF) for unit in managers}}


def _guard(variables: Mapping[str, Any]) -> dict[str, Any]:
    if not variables["host_tuning_oom_guard"]:
        return {}
    limits = [
        _number(variables, f"host_tuning_oom_{name}_percent", 1, 100, "expected a percentage of 1 to 100", keep=False)
        for name in ("memory", "swap")
    ]
    arguments = ["-r", "3600", "-m", str(limits[0]), "-s", f"{limits[1]},{limits[1]}"]
    for name in ("prefer", "avoid"):
        # Prefixes, as the kernel keeps only 15 characters of a process name.
        names = _names(variables, f"host_tuning_oom_{name}", "prefixes of process names")
        arguments += [f"--{name}", f"^({'|'.join(names)})"] if names else []
    return {
        "packages": {GUARD_PACKAGE: None},
        "files": {
            files.GUARD_FILE: _file("earlyoom", arguments=arguments),
            files.SSH_FILE: _file("ssh.conf", memory=_SSH_MEMORY),
            files.SLICE_FILE: _file("slice.conf", memory=_SSH_MEMORY),
        },
        "units": {GUARD_UNIT: {"enabled": True, "active": True}, **{unit: dict(_OFF) for unit in OTHER_GUARDS}},
    }


def _upgrades(variables: Mapping[str, Any]) -> dict[str, Any]:
    if _word(variables, "host_tuning_unattended_upgrades", ("off", KEEP)) == KEEP:
        return {}
    return {
        "files": {files.PERIODIC_FILE: _file("periodic.conf")},
        "units": {unit: dict(_OFF) for unit in UPGRADE_UNITS},
    }


def _vendor_updates(variables: Mapping[str, Any]) -> dict[str, Any]:
    """Return the units that update firmware or vendor packages by themselves, off; fwupd itself stays available."""
    if _word(variables, "host_tuning_vendor_updates", ("off", KEEP)) == KEEP:
        return {}
    units = _names(variables, "host_tuning_vendor_update_units", "units")
    wrong = [unit for unit in units if "." not in unit]
    if wrong:
        raise ValueError(
            f"host_tuning_vendor_update_units has {wrong[0]!r}, expected units with their suffix, such as "
            f"{wrong[0]}.service or {wrong[0]}.timer: correct it"
        )
    return {"units": {unit: dict(_OFF) for unit in units}}


def _time(variables: Mapping[str, Any]) -> dict[str, Any]:
    if not variables["host_tuning_time_sync"]:
        return {}
    return {"clock": {"synchronized": bool(variables["host_tuning_time_synchronized"])}}


def _swap(variables: Mapping[str, Any]) -> dict[str, Any]:
    if _word(variables, "host_tuning_swap", ("off", KEEP)) == KEEP:
        return {}
    # Not an edit of fstab: a mask can be undone without guessing what else has changed there since.
    return {"swap": "off", "units": {SWAP_TARGET: {"masked": True}}}


def _file(name: str, **values: Any) -> dict[str, Any]:
    return root_file(render("host_tuning", name, **values))


def _word(variables: Mapping[str, Any], name: str, words: Iterable[str]) -> str:
    value = variables[name]
    # YAML reads an unquoted off as false.
    text = "off" if value is False else str(value)
    if text not in words:
        raise ValueError(f"{name} is {text!r}, expected {' or '.join(words)}: set one of these")
    return text


def _number(
    variables: Mapping[str, Any], name: str, least: int, most: int, words: str, *, keep: bool = True
) -> str | None:
    text = str(variables[name])
    if keep and text == KEEP:
        return None
    if not (text.isascii() and text.isdigit() and least <= int(text) <= most):
        raise ValueError(f"{name} is {text!r}, {words}{', or to keep to leave it alone' if keep else ''}")
    return str(int(text))


def _names(variables: Mapping[str, Any], name: str, words: str) -> list[str]:
    listed = [str(one) for one in variables[name]]
    wrong = [one for one in listed if not one or one.startswith("-") or not set(one) <= _NAME]
    if wrong:
        raise ValueError(f"{name} has {wrong[0]!r}, expected {words} of letters, digits and :._+@- : correct it")
    return listed
