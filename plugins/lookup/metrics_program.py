# SPDX-License-Identifier: Apache-2.0
"""The lookup `metrics_program`: the program of metrics as the one text that a node runs."""

from __future__ import annotations

DOCUMENTATION = r"""
name: metrics_program
short_description: Put the program of metrics together as one text
version_added: "0.1.0"
author: The Firstlight authors (!UNKNOWN)
description:
  - Returns the source of the program that tells a monitoring host how a node is, for a Python that knows nothing of
    this collection.
options:
  _terms:
    description: Nothing.
    type: list
    elements: str
    default: []
"""

EXAMPLES = r"""
- name: Write the program of metrics
  ansible.builtin.copy:
    dest: /usr/local/lib/firstlight/metrics.py
    content: "{{ lookup('firstlight.cluster.metrics_program') }}"
    mode: "0644"
"""

RETURN = r"""
_raw:
  description: The program, as the only entry.
  type: list
  elements: str
"""

from typing import Any

from ansible.plugins.lookup import LookupBase
from ansible_collections.firstlight.cluster.plugins.module_utils.metrics.bundle import program


class LookupModule(LookupBase):
    """The program, from this checkout."""

    def run(self, terms: list[str], variables: dict[str, Any] | None = None, **kwargs: Any) -> list[str]:
        """One text."""
        del terms, variables, kwargs
        return [program()]
