# SPDX-License-Identifier: Apache-2.0
"""The lookup `role_program`: the program that a role installs on a node, as a single file."""

from __future__ import annotations

DOCUMENTATION = r"""
name: role_program
short_description: Pack the program of a role into one file
version_added: "0.1.0"
author: The Firstlight authors (!UNKNOWN)
description:
  - Returns a program that runs on nodes by itself, as a zip archive that Python runs (zipapp), encoded in base64. The
    Python there needs nothing of this collection.
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
  firstlight.cluster.services:
    desired:
      files:
        /usr/local/lib/firstlight/supervisor.pyz:
          mode: "0644"
          owner: root
          group: root
    contents:
      /usr/local/lib/firstlight/supervisor.pyz: "{{ lookup('firstlight.cluster.role_program', 'supervisor') }}"
"""

RETURN = r"""
_raw:
  description: The program of each role in base64, in their order.
  type: list
  elements: str
"""

from base64 import b64encode
from typing import Any

from ansible.errors import AnsibleLookupError
from ansible.plugins.lookup import LookupBase
from ansible_collections.firstlight.cluster.plugins.plugin_utils.programs import PATHS, program


class LookupModule(LookupBase):
    """Returns programs built from this checkout."""

    def run(self, terms: list[str], variables: dict[str, Any] | None = None, **kwargs: Any) -> list[str]:
        """Return one base64-encoded archive per role."""
        del variables, kwargs
        unknown = [term for term in terms if term not in PATHS]
        if unknown:
            raise AnsibleLookupError(f"role {unknown[0]} has no program, expected one of {', '.join(PATHS)}")
        return [b64encode(program(str(term))).decode() for term in terms]
