# SPDX-License-Identifier: Apache-2.0
"""Read an inventory as Ansible does, without contacting a host.

This is the only module of the command that uses Ansible's own code: precedence of variables, group_vars, templates and
vaults are left to Ansible, so that `firstlight plan` and `site.yml` see the same intent.
"""

from __future__ import annotations

import contextlib
import functools
import sys
from collections.abc import Iterable, Iterator, Sequence
from importlib import import_module
from pathlib import Path
from typing import Any, NamedTuple

from ansible import constants, context
from ansible.errors import AnsibleError, AnsibleOptionsError
from ansible.inventory.manager import InventoryManager
from ansible.module_utils.common.collections import ImmutableDict
from ansible.parsing.dataloader import DataLoader
from ansible.parsing.vault import VaultSecretsContext
from ansible.plugins.loader import init_plugin_loader
from ansible.template import Templar
from ansible.utils.collection_loader._collection_config import AnsibleCollectionConfig
from ansible.utils.display import Display
from ansible.utils.vars import load_extra_vars
from ansible.vars.manager import VariableManager

# Ansible imports collections through its own finder, which must be installed before the first such import. Once it is
# installed, the first import of any other Ansible module makes it read the routing of all its plugins, which takes a
# tenth of a second; so modules needed for reading an inventory are imported first.
if AnsibleCollectionConfig.collection_finder is None:
    for module in ("doc_fragments", "inventory.ini", "inventory.script", "vars.host_group_vars"):
        import_module(f"ansible.plugins.{module}")
    init_plugin_loader()
    import_module("ansible_collections.firstlight.cluster.plugins.plugin_utils.kept_bytecode").keep_bytecode()

from ansible_collections.firstlight.cluster.plugins.plugin_utils.findings import PlanError, PlanErrors
from ansible_collections.firstlight.cluster.plugins.plugin_utils.inventory.inventory_hosts import HostIntent
from ansible_collections.firstlight.cluster.plugins.plugin_utils.inventory.strict_inventory import strict_inventory
from ansible_collections.firstlight.cluster.plugins.plugin_utils.plan.planner import ClusterPlan, refused
from ansible_collections.firstlight.cluster.plugins.plugin_utils.plan.reading import (
    VAULT_REMEDY,
    VAULT_RULE,
    Asked,
    Source,
    asked_by_variables,
    causes,
    is_vault_error,
    plan_sources,
    read_hosts,
    short_reason,
)
from ansible_collections.firstlight.cluster.plugins.plugin_utils.racks.expand import RackError

__all__ = ["Asked", "InventoryError", "plan_inventory", "read_cluster", "read_inventory"]

_VAULT = b"$ANSIBLE_VAULT;"
_NOTHING_TOLD = ("no root 'plugin' key", "Failed to parse inventory: Invalid host pattern")


class Inventory(NamedTuple):
    """The contents of an inventory: the hosts of the requested group, and all groups with their hosts."""

    hosts: list[Source]
    groups: dict[str, list[str]]
    limited: list[str]
    """The group's hosts that match the limit; all without a limit."""


class InventoryError(Exception):
    """The inventory cannot be read; each error has a finding, a rule and a remedy."""

    def __init__(self, errors: Sequence[PlanError]) -> None:
        first = errors[0]
        super().__init__(first["found"])
        self.found, self.rule, self.remedy = first["found"], first["rule"], first["remedy"]
        self.errors = tuple(errors)

    @classmethod
    def of(cls, identifier: str, found: str, rule: str, remedy: str) -> InventoryError:
        """Create the exception for a single error."""
        return cls([{"id": identifier, "found": found, "rule": rule, "remedy": remedy}])


def plan_inventory(
    sources: Sequence[str],
    *,
    extra_vars: Sequence[str] = (),
    vault_password_files: Sequence[str] = (),
    asked: Asked | None = None,
) -> ClusterPlan:
    """Return the plan of an inventory; an unreadable inventory results in a refused plan.

    `asked` overrides the inventory; without it, -e plan_stack, plan_model and plan_serving do.
    """
    try:
        with _sources(sources, "cluster", extra_vars, vault_password_files) as read:
            wanted = asked_by_variables(read.hosts) if asked is None else asked
            return plan_sources(read.hosts, asked=wanted, groups=read.groups, files=sources)
    except InventoryError as error:
        errors = PlanErrors()
        for one in error.errors:
            errors.add(one["id"], one["found"], one["rule"], one["remedy"])
        return refused((), errors)


@contextlib.contextmanager
def read_cluster(
    sources: Sequence[str],
    *,
    extra_vars: Sequence[str] = (),
    vault_password_files: Sequence[str] = (),
    limit: str | None = None,
) -> Iterator[tuple[ClusterPlan, list[Source]]]:
    """Yield the plan of all hosts and the limited hosts, whose variables can be read while the context is open.

    Raises InventoryError.
    """
    with _sources(sources, "cluster", extra_vars, vault_password_files, limit) as read:
        plan = plan_sources(read.hosts, asked=asked_by_variables(read.hosts), groups=read.groups, files=sources)
        yield plan, [host for host in read.hosts if host.name in read.limited]


def read_inventory(
    sources: Sequence[str],
    roles: Iterable[str],
    *,
    group: str = "cluster",
    extra_vars: Sequence[str] = (),
    vault_password_files: Sequence[str] = (),
) -> list[HostIntent]:
    """Return every host of the group in inventory order. Raises InventoryError."""
    errors = PlanErrors()
    with _sources(sources, group, extra_vars, vault_password_files) as found:
        hosts = read_hosts(found.hosts, roles, errors)
    if errors:
        raise InventoryError(errors.found)
    return hosts


@contextlib.contextmanager
def _sources(
    sources: Sequence[str],
    group: str,
    extra_vars: Sequence[str],
    vault_password_files: Sequence[str],
    limit: str | None = None,
) -> Iterator[Inventory]:
    """Yield the hosts as Ansible sees them, with its output redirected to stderr. Raises InventoryError."""
    rule = "an inventory is a file or directory that ansible-inventory can read"
    look = f"see what `ansible-inventory -i {' -i '.join(sources)} --list` reports"
    missing = [source for source in sources if "," not in source and not Path(source).exists()]
    if missing:
        raise InventoryError.of("inventory.unreadable", f"inventory {', '.join(missing)} does not exist", rule, look)
    # Standard output is reserved for the plan, whatever ansible.cfg makes Ansible print.
    with contextlib.redirect_stdout(sys.stderr), _strictly() as skipped, _failures() as failures:
        try:
            read = _read(sources, group, extra_vars, vault_password_files, limit)
            if skipped:
                remedy = "move it below vars, children or hosts, or correct its name"
                raise InventoryError.of("inventory.unreadable", skipped[0], rule, remedy)
            yield read
        except AnsibleError as error:
            if any(map(is_vault_error, (*failures, error))):
                files = ", ".join(map(str, _encrypted(sources))) or "a file of the inventory"
                found = f"{files} is encrypted, and none of the given vault passwords decrypts it"
                raise InventoryError.of("inventory.vault", found, VAULT_RULE, VAULT_REMEDY) from error
            garbled = _not_utf8(sources)
            if garbled:
                text = "files of an inventory are text in UTF-8"
                raise InventoryError.of(
                    "inventory.unreadable", f"{garbled} is not UTF-8", text, "save it as UTF-8"
                ) from error
            racks = [one for failure in failures for one in _rack_errors(failure)]
            if racks:
                raise InventoryError(racks) from error
            raise InventoryError.of("inventory.unreadable", _reason(error, failures), rule, look) from error


def _encrypted(sources: Sequence[str]) -> list[Path]:
    """Return the inventory files that are encrypted as a whole; Ansible does not say which one it could not decrypt."""
    found: list[Path] = []
    for path in (Path(source) for source in sources if "," not in source):
        roots = [path] if path.is_dir() else [path, path.parent / "group_vars", path.parent / "host_vars"]
        for file in (file for root in roots for file in (root, *root.rglob("*"))):
            with contextlib.suppress(OSError), file.open("rb") as stream:
                if stream.read(len(_VAULT)) == _VAULT:
                    found.append(file)
    return sorted(found)


def _not_utf8(sources: Sequence[str]) -> str | None:
    """Return file and line of the first invalid UTF-8 byte; Ansible reports neither."""
    for source in (Path(source) for source in sources if "," not in source):
        near = [source, *source.rglob("*")] if source.is_dir() else [source]
        beside = source if source.is_dir() else source.parent
        near += [path for name in ("group_vars", "host_vars") for path in (beside / name).rglob("*")]
        for path in near:
            try:
                data = path.read_bytes() if path.is_file() else b""
                data.decode()
            except UnicodeDecodeError as error:
                return f"{path}, line {data.count(bytes([10]), 0, error.start) + 1},"
            except OSError:
                continue
    return None


@contextlib.contextmanager
def _strictly() -> Iterator[list[str]]:
    """Collect warnings about keys that Ansible skips. Duplicate-key warnings are dropped, as the plan reports those."""
    found: list[str] = []
    own = vars(Display())

    def warning(msg: str, *arguments: Any, **options: Any) -> None:
        if msg.startswith("Skipping unexpected key"):
            found.append(msg)
        elif "duplicate mapping key" not in msg:
            Display.warning(Display(), msg, *arguments, **options)

    own["warning"] = warning
    try:
        yield found
    finally:
        del own["warning"]


@contextlib.contextmanager
def _failures() -> Iterator[list[BaseException]]:
    """Collect the parse failures of all inventory plugins, for each of which Ansible would print a page."""
    found: list[BaseException] = []
    own = vars(Display())

    own["error_as_warning"] = lambda msg, exception, **_: found.append(exception)  # noqa: ARG005 called by name
    try:
        yield found
    finally:
        del own["error_as_warning"]


def _rack_errors(error: BaseException) -> list[PlanError]:
    """Return the errors of a rack file, if they are the cause."""
    return next((one.errors for one in causes(error) if isinstance(one, RackError)), [])


def _reason(error: AnsibleError, failures: Sequence[BaseException]) -> str:
    """Explain the error in one sentence, with file and line where known."""
    placed = [(place, one) for one in (*failures, error) if (place := _place(one)) is not None]
    if placed:
        place, cause = placed[0]
        return f"{place} cannot be read: {short_reason(cause)}"
    # Without a file and line, the most useful failure is the last one, from the inventory plugin that accepts any text;
    # failures that merely mean that the file is YAML or meant for another plugin are skipped.
    telling = [one for one in failures if not str(one).startswith(_NOTHING_TOLD)] or failures
    return f"{short_reason(error)}: {short_reason(telling[-1])}" if telling else short_reason(error)


def _place(error: BaseException) -> str | None:
    """Return the file and line that Ansible attached to an error or its cause."""
    for one in causes(error):
        origin = getattr(one, "obj", None)
        path, line = getattr(origin, "path", None), getattr(origin, "line_num", None)
        if isinstance(path, str) and isinstance(line, int):  # an undefined value has any attribute, and fails when used
            return f"{path}:{line}"
    return None


def _check_extra_vars(extra_vars: Sequence[str], loader: DataLoader) -> None:
    """Parse each extra variable separately, to report which one is invalid. Values may be secrets and are not shown."""
    for number, one in enumerate(extra_vars, start=1):
        try:
            _load_extra_vars([one], loader)
        except AnsibleError as error:
            which = f"number {number} of the " if len(extra_vars) > 1 else "the "
            if one.startswith("@"):
                why = _reason(error, [])
            elif one.startswith(("/", ".")):
                why = "a file name must be written after @"
            elif isinstance(error, AnsibleOptionsError):
                why = "they are a list, not names with values"
            elif one.startswith(("[", "{")):
                why = short_reason(error)
            else:
                why = "their quotes or braces are not closed"
            raise InventoryError.of(
                "inventory.unreadable",
                f"{which}extra variables cannot be read: {why}",
                "extra variables are what `ansible-playbook -e` takes",
                "write -e NAME=VALUE, -e with JSON or YAML in braces, or -e @FILE",
            ) from error


def _load_extra_vars(extra_vars: Sequence[str], loader: DataLoader) -> None:
    context.CLIARGS = ImmutableDict(extra_vars=tuple(extra_vars))
    vars(load_extra_vars).pop("extra_vars", None)  # Ansible caches what an earlier call in this process read
    load_extra_vars(loader)


def _read(
    sources: Sequence[str], group: str, extra_vars: Sequence[str], vault_files: Sequence[str], limit: str | None
) -> Inventory:
    loader = DataLoader()
    loader.set_vault_secrets(_vault_secrets(loader, vault_files))
    _check_extra_vars(extra_vars, loader)
    _load_extra_vars(extra_vars, loader)
    with strict_inventory():
        inventory = InventoryManager(loader=loader, sources=list(sources))
    manager = VariableManager(loader=loader, inventory=inventory)
    members = inventory.groups[group].get_hosts() if group in inventory.groups else []
    found: list[Source] = []
    for host in members:
        variables = manager.get_vars(host=host, include_hostvars=True)
        value = functools.partial(_value, Templar(loader=loader, variables=variables), variables)
        found.append(Source(host.name, [group.name for group in host.get_groups()], variables, value))
    if limit:
        inventory.subset(limit)
    limited = [host.name for host in inventory.list_hosts(group)] if members else []
    return Inventory(found, inventory.get_groups_dict(), limited)


def _vault_secrets(loader: DataLoader, vault_files: Sequence[str]) -> list[Any]:
    fresh = VaultSecretsContext.current(optional=True) is None  # it can be initialised only once per process
    identities, default = map(
        constants.config.get_config_value, ("DEFAULT_VAULT_IDENTITY_LIST", "DEFAULT_VAULT_PASSWORD_FILE")
    )
    if not (identities or default or vault_files):
        if fresh:
            VaultSecretsContext.initialize(VaultSecretsContext([]))
        return []
    from ansible.cli import CLI  # noqa: PLC0415 - imports SSH keys and all options: only needed with a vault

    found: list[Any] = CLI.setup_vault_secrets(
        loader, list(identities), list(vault_files), auto_prompt=False, initialize_context=fresh
    )
    return found


def _value(templar: Templar, variables: dict[str, Any], key: str) -> Any:
    return templar.template(variables[key])
