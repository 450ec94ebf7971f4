# SPDX-License-Identifier: Apache-2.0
"""The lookup `role_program`: the program that a role installs on a node, as one text."""

from __future__ import annotations

DOCUMENTATION = r"""
name: role_program
short_description: Put the program of a role together as one text
version_added: "0.1.0"
author: The Firstlight authors (!UNKNOWN)
description:
  - Returns the source of a program that runs on nodes by itself, for a Python that knows nothing of this collection.
  - Its parts are in the directory C(program) of the role, and in this collection's module_utils.
options:
  _terms:
    description: The role, V(supervisor) or V(monitoring).
    type: list
    elements: str
    required: true
"""

EXAMPLES = r"""
- name: Write the supervisor
  ansible.builtin.copy:
    dest: /usr/local/lib/firstlight/supervisor.py
    content: "{{ lookup('firstlight.cluster.role_program', 'supervisor') }}"
    mode: "0644"
"""

RETURN = r"""
_raw:
  description: The program of each role, in their order.
  type: list
  elements: str
"""

from typing import Any

from ansible.errors import AnsibleLookupError
from ansible.plugins.lookup import LookupBase
from ansible_collections.firstlight.cluster.plugins.plugin_utils.programs import TITLES, program


class LookupModule(LookupBase):
    """The programs, from this checkout."""

    def run(self, terms: list[str], variables: dict[str, Any] | None = None, **kwargs: Any) -> list[str]:
        """One text for each role."""
        del variables, kwargs
        unknown = [term for term in terms if term not in TITLES]
        if unknown:
            raise AnsibleLookupError(f"role {unknown[0]} has no program, expected one of {', '.join(TITLES)}")
        return [program(str(term)) for term in terms]
