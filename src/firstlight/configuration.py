# SPDX-License-Identifier: Apache-2.0
"""Ansible's settings: those of the checkout hold wherever the command is called from, unless there are others.

Nothing of Ansible is imported here: it reads its settings once, when it is.
"""

from __future__ import annotations

import os
from pathlib import Path

CHECKOUT = Path(__file__).resolve().parents[2]


def environment() -> dict[str, str]:
    """The environment of Ansible, in a process of its own or in this one."""
    configuration = CHECKOUT / "ansible.cfg"
    if not configuration.is_file() or Path("ansible.cfg").exists():
        return dict(os.environ)
    return {"ANSIBLE_CONFIG": str(configuration), **os.environ}


def use_own_settings() -> None:
    """For Ansible in this process."""
    os.environ.update(environment())
