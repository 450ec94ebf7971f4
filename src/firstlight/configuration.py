# SPDX-License-Identifier: Apache-2.0
"""Ansible's settings: those of the checkout apply wherever the command is called from, unless others are present.

Nothing of Ansible is imported here, because it reads its settings only once, at import time.
"""

from __future__ import annotations

import os
from pathlib import Path

CHECKOUT = Path(__file__).resolve().parents[2]


def environment() -> dict[str, str]:
    """Return the environment for Ansible, whether in a subprocess or in this process."""
    configuration = CHECKOUT / "ansible.cfg"
    if not configuration.is_file() or Path("ansible.cfg").exists():
        return dict(os.environ)
    return {"ANSIBLE_CONFIG": str(configuration), **os.environ}


def use_own_settings() -> None:
    """Apply the settings to Ansible in this process."""
    os.environ.update(environment())
