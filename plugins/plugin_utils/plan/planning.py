# SPDX-License-Identifier: Apache-2.0
"""Plan the hosts of an inventory: read the files that the plan needs, then call the pure planner."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from ansible_collections.firstlight.cluster.plugins.plugin_utils.catalog.load import BUILT_IN, CatalogError
from ansible_collections.firstlight.cluster.plugins.plugin_utils.findings import PlanErrors
from ansible_collections.firstlight.cluster.plugins.plugin_utils.inventory.inventory_hosts import HostIntent
from ansible_collections.firstlight.cluster.plugins.plugin_utils.inventory.repeated_keys import check_repeated_keys
from ansible_collections.firstlight.cluster.plugins.plugin_utils.packages.openpgp import armored
from ansible_collections.firstlight.cluster.plugins.plugin_utils.plan.image.recipe import recipe_name
from ansible_collections.firstlight.cluster.plugins.plugin_utils.plan.inventory_names import (
    check_groups,
    check_variable_files,
)
from ansible_collections.firstlight.cluster.plugins.plugin_utils.plan.planner import ClusterPlan, plan_cluster, refused
from ansible_collections.firstlight.cluster.plugins.plugin_utils.plan.planner_context import (
    PlannerContext,
    load_planner_context,
)
from ansible_collections.firstlight.cluster.plugins.plugin_utils.plan.stack.sources import key_files
from ansible_collections.firstlight.cluster.plugins.plugin_utils.plan.states import ROLES
from ansible_collections.firstlight.cluster.plugins.plugin_utils.roles import load_roles
from ansible_collections.firstlight.cluster.plugins.plugin_utils.sizing.models.files import parse_config_file

ERRORS = {
    "source.key-file": "A key that cannot be read cannot be compared with its fingerprint, or given to apt.",
    "venv.lock": "A virtual environment is defined by its lock; without one it would be whatever the index has today.",
}

_LONGEST_KEY = 200_000
"""Largest key file, in bytes; the keyrings of distributions are smaller."""
_LONGEST_LOCK = 10_000_000


def plan_hosts(
    hosts: Sequence[HostIntent],
    group: str = "cluster",
    stack: str | None = None,
    groups: Mapping[str, Sequence[str]] | None = None,
    sources: Iterable[str] = (),
) -> ClusterPlan:
    """Return the plan of these hosts, or its errors. Reads catalog, roles, config.json and keys; contacts no host.

    `stack` replaces the stack of the intent; `groups` are the inventory's groups with their hosts, `sources` its files
    and directories.
    """
    if stack is not None:
        hosts = [dataclasses.replace(host, intent={**host.intent, "firstlight_stack": stack}) for host in hosts]
    errors = PlanErrors()
    sources = tuple(sources)
    check_repeated_keys(sources, errors)
    if errors:
        return refused((), errors)  # which of the two is meant decides what else is invalid
    check_groups(groups or (), errors)
    check_variable_files(_variable_files(sources), groups or {}, errors)
    if not hosts:
        errors.add(
            "inventory.empty",
            f"group {group} has no hosts",
            f"the hosts to bring up are in group {group}",
            f"list them in hosts.yml under {group} > children > head and workers; of a rack file with several clusters "
            "choose one with FIRSTLIGHT_CLUSTER",
        )
        return refused((), errors)
    intent = dict(hosts[0].intent)
    directories = catalog_directories(intent, errors)
    try:
        planner_context = load_planner_context(directories, load_roles(BUILT_IN.parent / "roles", ROLES))
    except CatalogError as error:
        for problem in error.problems:
            errors.add(
                "catalog.unusable",
                problem,
                "a catalog entry has the fields of catalog/README.md",
                "correct the file, or take its directory out of firstlight_catalog",
            )
        return refused(hosts, errors)
    return plan_cluster(
        intent,
        hosts,
        planner_context,
        config=_config(intent, errors),
        files=_keys(intent, errors)
        | _recipe_lock(intent, planner_context, directories, errors)
        | _ray_locks(_stack(intent, planner_context), directories, errors)
        | _locks(hosts, _stack(intent, planner_context), directories, errors),
        errors=errors,
    )


def _variable_files(sources: Iterable[str]) -> list[Path]:
    """Return the variable files of groups and hosts, or directories of such files, where Ansible looks for them."""
    found: list[Path] = []
    for source in (Path(source) for source in sources if "," not in source):
        directory = source if source.is_dir() else source.parent
        for below in sorted(path for path in directory.glob("*_var*") if path.is_dir()):
            found += sorted(below.iterdir()) or [below / "all.yml"]
    return found


def _stack(intent: Mapping[str, Any], planner_context: PlannerContext) -> Mapping[str, Any]:
    name = intent.get("firstlight_stack")
    return planner_context.catalog["stacks"].get(name, {}) if isinstance(name, str) else {}


def catalog_directories(intent: Mapping[str, Any], errors: PlanErrors) -> list[str]:
    """Return the catalog directories, the site's own first."""
    site = intent.get("firstlight_catalog") or []
    if not isinstance(site, (list, tuple)):
        errors.add(
            "intent.type",
            f"firstlight_catalog is {site!r}",
            "firstlight_catalog is a list of directories",
            "write it as a YAML list",
        )
        site = []
    return [*(str(path) for path in site), str(BUILT_IN)]


def _keys(intent: Mapping[str, Any], errors: PlanErrors) -> dict[str, str]:
    """Return the content of the key files that the intent names."""
    found: dict[str, str] = {}
    for name in key_files(intent):
        data, reason = _read_bytes(Path(name).expanduser(), _LONGEST_KEY)
        found[name] = ""
        try:
            found[name] = "" if reason else armored(data)
        except ValueError as error:
            reason = str(error)
        if reason:
            errors.add(
                "source.key-file",
                f"key_file {name} of firstlight_sources cannot be read: {reason}",
                "it is a public key on this machine, binary or ASCII-armored",
                "correct the path, or write the key with `gpg --armor --export`",
            )
    return found


def _locks(
    hosts: Sequence[HostIntent], stack: Mapping[str, Any], directories: Sequence[str], errors: PlanErrors
) -> dict[str, str]:
    """Return the lock of the stack's virtual environment, from the catalog, and those that the operator names."""
    found: dict[str, str] = {}
    own = (stack.get("venv") or {}).get("lock")
    wanted = {str(own): _lock_path(str(own), directories)} if own else {}
    given = {host.variables["engine_venv_lock"] for host in hosts if _is_path(host.variables.get("engine_venv_lock"))}
    for name, path in {**wanted, **{name: Path(name).expanduser() for name in given}}.items():
        content, reason = _read(path, _LONGEST_LOCK)
        found[name] = content
        if reason:
            errors.add(
                "venv.lock",
                f"the lock {path} cannot be read: {reason}",
                "a virtual environment is installed from a lock with the hash of every wheel",
                "correct engine_venv_lock, or venv.lock of the stack, which is a file in locks/ of the catalog",
            )
    return found


def _recipe_lock(
    intent: Mapping[str, Any], planner_context: PlannerContext, directories: Sequence[str], errors: PlanErrors
) -> dict[str, str]:
    """Return the lock of the recipe that the image is built from, from the catalog."""
    recipe = planner_context.catalog["recipes"].get(recipe_name(intent, _stack(intent, planner_context)))
    if recipe is None:
        return {}
    path = _lock_path(str(recipe["lock"]), directories)
    content, reason = _read(path, _LONGEST_LOCK)
    if reason:
        errors.add(
            "image.recipe",
            f"the lock {path} of recipe {recipe['name']} cannot be read: {reason}",
            "an image is built from a lock with the hash of every wheel",
            f"correct lock in recipes/{recipe['name']}.yml, which is a file in locks/ of the catalog",
        )
    return {str(recipe["lock"]): content}


def _ray_locks(stack: Mapping[str, Any], directories: Sequence[str], errors: PlanErrors) -> dict[str, str]:
    """Return the locks of the Ray layer, from the catalog."""
    found: dict[str, str] = {}
    for name in map(str, filter(None, ((stack.get("ray") or {}).get("locks") or {}).values())):
        found[name], reason = _read(_lock_path(name, directories), _LONGEST_LOCK)
        if reason:
            errors.add(
                "stack.ray-lock",
                f"the lock {_lock_path(name, directories)} of stack {stack.get('name')} cannot be read: {reason}",
                "what is installed into an image as root is pinned, every wheel by its hash",
                "correct ray.locks of the stack, which are files in locks/ of the catalog",
            )
    return found


def _lock_path(name: str, directories: Sequence[str]) -> Path:
    """Return the path of a catalog lock, preferring the site's own."""
    listed = [Path(directory) / "locks" / name for directory in directories]
    return next((path for path in listed if path.is_file()), listed[-1])


def _is_path(value: Any) -> bool:
    return isinstance(value, str) and bool(value)


def _read(path: Path, most: int) -> tuple[str, str]:
    """Return a file's text, and the reason if it cannot be read."""
    data, reason = _read_bytes(path, most)
    try:
        return data.decode("ascii"), reason
    except UnicodeDecodeError:
        return "", "it is not ASCII text"


def _read_bytes(path: Path, most: int) -> tuple[bytes, str]:
    """Return a file's content, and the reason if it cannot be read."""
    try:
        with path.open("rb") as stream:
            data = stream.read(most + 1)
    except (OSError, ValueError) as error:  # a name with a null byte is a ValueError
        return b"", error.strerror if isinstance(error, OSError) and error.strerror else str(error)
    return (data, "") if len(data) <= most else (b"", f"it has more than {most} bytes")


def _config(intent: Mapping[str, Any], errors: PlanErrors) -> Mapping[str, Any] | None:
    """Return the config.json that the intent names, if any."""
    path = intent.get("firstlight_model_config")
    if path is None:
        return None
    if not isinstance(path, str):
        errors.add(
            "intent.type",
            f"firstlight_model_config is {path!r}",
            "firstlight_model_config is the path of a config.json",
            "write the path as text",
        )
        return None
    return parse_config_file(path, errors)
