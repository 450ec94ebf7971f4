# SPDX-License-Identifier: Apache-2.0
"""Find misspelt groups and variables of an inventory, as opposed to an owner's own.

An owner's variable may have any name that is more than one letter away from one that is read here.
"""

from __future__ import annotations

import difflib
from collections.abc import Collection, Iterable, Mapping, Sequence
from pathlib import Path

from ansible_collections.firstlight.cluster.plugins.plugin_utils.findings import PlanErrors
from ansible_collections.firstlight.cluster.plugins.plugin_utils.gpu.power import BUDGET
from ansible_collections.firstlight.cluster.plugins.plugin_utils.inventory.inventory_hosts import (
    HOST_KEYS,
    RACK,
    HostIntent,
)
from ansible_collections.firstlight.cluster.plugins.plugin_utils.plan.bench.intent import BENCH_KEYS
from ansible_collections.firstlight.cluster.plugins.plugin_utils.plan.exposure.endpoint_intent import ENDPOINT_KEYS
from ansible_collections.firstlight.cluster.plugins.plugin_utils.plan.exposure.firewall_intent import FIREWALL_KEYS
from ansible_collections.firstlight.cluster.plugins.plugin_utils.plan.exposure.monitoring_intent import MONITORING_KEYS
from ansible_collections.firstlight.cluster.plugins.plugin_utils.plan.fabric.intent import FABRIC_KEYS
from ansible_collections.firstlight.cluster.plugins.plugin_utils.plan.hosts.rack import KEYS as RACK_KEYS
from ansible_collections.firstlight.cluster.plugins.plugin_utils.plan.keys import INTENT_KEYS
from ansible_collections.firstlight.cluster.plugins.plugin_utils.plan.serving.intent import SERVING_KEYS
from ansible_collections.firstlight.cluster.plugins.plugin_utils.plan.serving.quality import QUALITY_KEYS
from ansible_collections.firstlight.cluster.plugins.plugin_utils.plan.serving.targets import TARGET_KEYS
from ansible_collections.firstlight.cluster.plugins.plugin_utils.sizing.models.weights_files import LISTS

ERRORS = {
    "intent.misspelt": "A variable one letter away from one that is read would silently do nothing.",
    "intent.indentation": "A block that lost its indentation leaves an empty mapping, and keys that are never read.",
    "inventory.variables": "Ansible ignores a file of variables that is not named after a group or a host.",
    "inventory.group": "Hosts in a misspelt group are left out, or do not get what the group is for.",
}

MAPPINGS: Mapping[str, Sequence[str]] = {
    "firstlight_serving": SERVING_KEYS,
    "firstlight_fabric": FABRIC_KEYS,
    "firstlight_endpoint": ENDPOINT_KEYS,
    "firstlight_monitoring": MONITORING_KEYS,
    "firstlight_targets": TARGET_KEYS,
    "firstlight_bench": BENCH_KEYS,
    "firstlight_quality": QUALITY_KEYS,
    "firstlight_firewall": FIREWALL_KEYS,
    "firstlight_power": BUDGET,
    "firstlight_model_files": LISTS,
    RACK: RACK_KEYS,
}
"""The variables that are mappings with keys of their own."""

GROUPS = ("cluster", "head", "workers")
"""The groups that playbooks run on."""
_RACK = "rack_"
"""Prefix of the rack groups."""

_WITHOUT_DIGITS = str.maketrans("", "", "0123456789")
_READ = ("", ".yml", ".yaml", ".json")
"""Suffixes of variable files."""
_NOT_FOR_ANSIBLE = (".bak", ".md", ".orig", ".retry", ".rpmnew", ".rpmsave", ".rst", ".swp")

CONNECTION = (
    "ansible_become",
    "ansible_become_exe",
    "ansible_become_flags",
    "ansible_become_method",
    "ansible_become_pass",
    "ansible_become_password",
    "ansible_become_user",
    "ansible_connection",
    "ansible_host",
    "ansible_host_key_checking",
    "ansible_password",
    "ansible_pipelining",
    "ansible_port",
    "ansible_private_key_file",
    "ansible_python_interpreter",
    "ansible_remote_tmp",
    "ansible_shell_executable",
    "ansible_shell_type",
    "ansible_ssh_args",
    "ansible_ssh_common_args",
    "ansible_ssh_executable",
    "ansible_ssh_extra_args",
    "ansible_ssh_host",
    "ansible_ssh_host_key_checking",
    "ansible_ssh_pass",
    "ansible_ssh_password",
    "ansible_ssh_pipelining",
    "ansible_ssh_port",
    "ansible_ssh_private_key",
    "ansible_ssh_private_key_file",
    "ansible_ssh_private_key_passphrase",
    "ansible_ssh_retries",
    "ansible_ssh_timeout",
    "ansible_ssh_transfer_method",
    "ansible_ssh_use_tty",
    "ansible_ssh_user",
    "ansible_private_key",
    "ansible_timeout",
    "ansible_user",
)
"""Ansible's connection variables, as inventories write them; Ansible silently ignores any other name."""
_MEANT = {
    "ansible_address": "ansible_host",
    "ansible_hostname": "ansible_host",
    "ansible_identity_file": "ansible_ssh_private_key_file",
    "ansible_ip": "ansible_host",
    "ansible_key_file": "ansible_ssh_private_key_file",
    "ansible_login": "ansible_user",
    "ansible_pass": "ansible_password",
    "ansible_ssh_key": "ansible_ssh_private_key_file",
    "ansible_ssh_key_file": "ansible_ssh_private_key_file",
    "ansible_sudo": "ansible_become",
    "ansible_username": "ansible_user",
}
"""Names that Ansible does not know, and the ones their authors mean."""


def one_edit(one: str, other: str) -> bool:
    """Whether the names differ by one inserted, deleted or replaced letter, or by two swapped neighbours."""
    short, long = sorted((one, other), key=len)
    if len(long) - len(short) > 1 or one == other:
        return False
    start = next((at for at, (a, b) in enumerate(zip(short, long, strict=False)) if a != b), len(short))
    if len(short) < len(long):
        return short[start:] == long[start + 1 :]
    swapped = short[start + 1 : start + 2] + short[start]
    return short[start + 1 :] == long[start + 1 :] or swapped + short[start + 2 :] == long[start:]


def nearest(name: str, known: Iterable[str]) -> str | None:
    """Return the known name that equals this one or is one edit away from it, ignoring case."""
    lower = name.lower()
    return next((one for one in known if lower == one or one_edit(lower, one)), None)


def nearest_group(group: str, names: Iterable[str]) -> str | None:
    """Return the group that may be a misspelling of this one."""
    return next((name for name in names if name != group and nearest(name, (group,))), None)


def check_groups(names: Iterable[str], errors: PlanErrors) -> None:
    """Refuse groups whose names are misspellings of those that playbooks run on."""
    for name in sorted({*names} - {*GROUPS}):
        meant = nearest(name, GROUPS) or _rack(name)
        if meant:
            errors.add(
                "inventory.group",
                f"the inventory has a group {name}",
                f"the groups that are read are {', '.join(GROUPS)} and rack_NAME, in lower case",
                f"did you mean {meant}? A group of your own needs a less similar name",
            )


def _rack(name: str) -> str | None:
    """Return the rack group that was meant: rack_b for rack-b; `racks` may be a group of all racks."""
    lower = name.lower()
    if name.startswith(_RACK) or lower == "racks":
        return None
    for length in range(len(_RACK) + 1, len(_RACK) - 2, -1):
        first, rest = lower[:length], lower[length:]
        if rest and (first == _RACK or one_edit(first, _RACK)):
            return f"{_RACK}{rest}"
    return None


def check_variable_files(files: Iterable[Path], groups: Mapping[str, Sequence[str]], errors: PlanErrors) -> None:
    """Refuse variable files that Ansible does not read because of a slip in their name."""
    names = {"group_vars": {"all", *GROUPS, *groups}, "host_vars": {*groups.get("all", ())}}
    for path in files:
        folder = nearest(path.parent.name, names)
        if folder is None or path.name.startswith(".") or path.suffix in _NOT_FOR_ANSIBLE or path.name.endswith("~"):
            continue
        known, name = names[folder], path.stem if path.suffix in _READ else path.name
        meant = folder if path.parent.name != folder else None
        if meant is None and name not in known:
            # A different number is a different host, which may have been removed and may return.
            near = next((one for one in sorted(known) if nearest(name, (one,)) and not _renumbered(name, one)), None)
            meant = f"{near or path.stem}.yml" if near or path.stem in known else None
        if meant:
            errors.add(
                "inventory.variables",
                f"{path} is not read",
                "variables are in group_vars/GROUP.yml and host_vars/HOST.yml, of groups and hosts that exist",
                f"did you mean {meant}?",
            )


def _renumbered(name: str, other: str) -> bool:
    return name.translate(_WITHOUT_DIGITS) == other.translate(_WITHOUT_DIGITS)


def check_names(hosts: Sequence[HostIntent], known: Collection[str], errors: PlanErrors) -> None:
    """Refuse misspelt variables, and keys outside their mapping; `known` holds the variables of roles."""
    others = {name for host in hosts for name in host.others}
    places = {name: [mapping for mapping, keys in MAPPINGS.items() if name in keys] for name in others}
    _check_mappings(hosts, {name: found for name, found in places.items() if found}, errors)
    names = (*INTENT_KEYS, *HOST_KEYS, *CONNECTION, *sorted(known))
    for name in sorted(name for name, found in places.items() if not found and name not in CONNECTION):
        meant = _meant(name, names)
        if meant:
            errors.add(
                "intent.misspelt",
                f"variable {name} is set",
                "it is never read, and its name is close to one that is read",
                f"did you mean {meant}? A variable of your own needs a less similar name",
            )


def _meant(name: str, known: Sequence[str]) -> str | None:
    if name in _MEANT:
        return _MEANT[name]
    found = nearest(name, known)
    first = name.lower().partition("_")[0]
    if found or not (first.startswith("firstlight") or one_edit(first, "firstlight")):
        return found
    return next(iter(difflib.get_close_matches(name.lower(), known, n=1, cutoff=0)))


def _check_mappings(hosts: Sequence[HostIntent], places: Mapping[str, Sequence[str]], errors: PlanErrors) -> None:
    """Refuse mappings without a value, and their keys at the top level; one error per slip."""
    empty = [name for name in MAPPINGS if any(name in host.intent and host.intent[name] is None for host in hosts)]
    owned: dict[tuple[str, ...], list[str]] = {}
    for key, owners in sorted(places.items()):
        likely = [owner for owner in owners if owner in empty][:1] or owners
        owned.setdefault(tuple(likely), []).append(key)
    for owners, keys in owned.items():
        owner, listed = " or ".join(owners), " and ".join(filter(None, (", ".join(keys[:-1]), keys[-1])))
        bare = f", and {owner} has no value" if owners[0] in empty else ""
        errors.add(
            "intent.indentation",
            f"{listed} {'is' if len(keys) == 1 else 'are'} at the top level{bare}",
            f"{'it is a key' if len(keys) == 1 else 'they are keys'} of {owner}; such a variable is never read",
            f"indent {'it' if len(keys) == 1 else 'them'} below {owner}; a variable of your own needs another name",
        )
    for key in ("vars", "children"):
        host = next((host.name for host in hosts if key in host.others), None)
        if host:
            errors.add(
                "intent.indentation",
                f"{host} has a variable {key}",
                f"{key} belongs to a group; variables of a host are written directly below its name",
                f"take {key} out, and indent what is below it under {host}",
            )
    for name in empty:
        if (name,) not in owned:
            errors.add(
                "intent.indentation",
                f"{name} has no value",
                f"{name} is a mapping with the keys {', '.join(MAPPINGS[name])}",
                "indent its keys below it, or take the line out",
            )
