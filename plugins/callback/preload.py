# SPDX-License-Identifier: Apache-2.0
"""Load this collection's filters once, before Ansible forks: every task on every host would load them anew."""

from __future__ import annotations

DOCUMENTATION = r"""
name: preload
type: aggregate
short_description: Loads the collection's filters once instead of once a task and host
version_added: 0.1.0
author: Firstlight maintainers (@firstlight)
description:
  - Ansible runs each task of each host in a process of its own, which it forks from the main one, and compiles a
    collection's Python anew wherever it is first needed. A task that uses one filter reads all filters of the
    collection, with all that they import.
  - This plugin makes the main process read them, before the first fork. It shows nothing and changes nothing else.
requirements:
  - Named in C(callbacks_enabled) of the configuration.
"""

import pkgutil
from importlib import import_module

from ansible.plugins.callback import CallbackBase
from ansible.plugins.loader import filter_loader

COLLECTION = "firstlight.cluster"


class CallbackModule(CallbackBase):
    """Does its work when it is made."""

    CALLBACK_VERSION = 2.0
    CALLBACK_TYPE = "aggregate"
    CALLBACK_NAME = f"{COLLECTION}.preload"
    CALLBACK_NEEDS_ENABLED = True

    def __init__(self) -> None:
        super().__init__()
        package = import_module(f"ansible_collections.{COLLECTION}.plugins.filter")
        for file in pkgutil.iter_modules(package.__path__):
            filter_loader.get_with_context(f"{COLLECTION}.{file.name}")
