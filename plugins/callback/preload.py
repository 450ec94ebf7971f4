# SPDX-License-Identifier: Apache-2.0
"""Load what tasks of this collection need once, before Ansible forks: every task would load it again on every host."""

from __future__ import annotations

DOCUMENTATION = r"""
name: preload
type: aggregate
short_description: Loads the collection's code once instead of once per task and host
version_added: 0.1.0
author: The Firstlight authors (!UNKNOWN)
description:
  - Ansible runs each task of each host in a process of its own, which it forks from the main one, and compiles a
    collection's Python anew wherever it is first needed. A task that uses one filter reads all filters of the
    collection, with all that they import. The states that roles want, and the programs that are in them, are the same
    for every host, too.
  - This plugin makes the main process read them, before the first fork, and lets Python keep what it compiled, as it
    does elsewhere. It shows nothing and changes nothing else.
  - What Ansible packs of a module to send it to hosts is kept below C(~/.cache/firstlight/payloads), together with its
    bytecode, for the next run with the same sources. Hosts whose Python has another version take the sources. Nothing
    is kept there or taken from there where somebody else could write to it or to a directory above it, nor kept where
    the sources changed in the middle of the run.
requirements:
  - Named in C(callbacks_enabled) of the configuration.
"""

import contextlib
import functools
import pkgutil
from importlib import import_module
from pathlib import Path

import ansible
from ansible import constants
from ansible.executor import module_common
from ansible.plugins.callback import CallbackBase
from ansible.plugins.loader import filter_loader, lookup_loader
from ansible.release import __version__
from ansible_collections.firstlight.cluster.plugins.plugin_utils.kept_bytecode import PLUGINS, keep_bytecode
from ansible_collections.firstlight.cluster.plugins.plugin_utils.kept_payloads import (
    Payloads,
    default_store,
    look_at,
)

COLLECTION = "firstlight.cluster"
LOADERS = {"filter": filter_loader, "lookup": lookup_loader}
STATES = f"{PLUGINS}.plugin_utils.plan.states"
PROGRAMS = f"{PLUGINS}.plugin_utils.programs"


def packed_sources() -> list[Path]:
    """Return the directories of modules and module_utils; the operator's own module_utils override Ansible's."""
    installed = [
        Path(directory, name)
        for directory in (import_module(PLUGINS).__path__[0], ansible.__path__[0])
        for name in ("modules", "module_utils")
    ]
    return [*installed, *map(Path, vars(constants)["DEFAULT_MODULE_UTILS_PATH"])]


class CallbackModule(CallbackBase):
    """Preloads on creation, and stores the payloads that the run has built at its end."""

    CALLBACK_VERSION = 2.0
    CALLBACK_TYPE = "aggregate"
    CALLBACK_NAME = f"{COLLECTION}.preload"
    CALLBACK_NEEDS_ENABLED = True

    def __init__(self) -> None:
        super().__init__()
        keep_bytecode()
        for kind, loader in LOADERS.items():
            for file in pkgutil.iter_modules(import_module(f"{PLUGINS}.{kind}").__path__):
                loader.get_with_context(f"{COLLECTION}.{file.name}", class_only=True)
        import_module(STATES).load_all()
        programs = import_module(PROGRAMS)
        for role in programs.PATHS:
            programs.program(role)
        self.packed = Path(vars(constants)["DEFAULT_LOCAL_TMP"], "ansiballz_cache")
        look = functools.partial(look_at, __version__, packed_sources())
        self.payloads = Payloads(default_store(), look, getattr(module_common, "_CachedModule", None))
        # Without a usable store, a run builds everything itself, as it would without this plugin.
        with contextlib.suppress(OSError):
            self.payloads.restore(self.packed)

    def v2_playbook_on_stats(self, _stats: object) -> None:
        with contextlib.suppress(OSError):
            self.payloads.keep(self.packed)
