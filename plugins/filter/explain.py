# SPDX-License-Identifier: Apache-2.0
"""The filter `explain`: render differences as sentences."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ansible.errors import AnsibleFilterError
from ansible_collections.firstlight.cluster.plugins.plugin_utils.comparison.differences import explain as sentences

DOCUMENTATION = """
name: explain
short_description: Describe differences in sentences
version_added: "0.1.0"
author: The Firstlight authors (!UNKNOWN)
description:
  - One line a difference, with what was found and what was expected.
options:
  _input:
    description: A list of differences, one role's part of what P(firstlight.cluster.differences#filter) gave.
    type: list
    elements: dict
    required: true
"""

EXAMPLES = """
- name: Show why host_tuning has work to do
  ansible.builtin.debug:
    msg: "{{ firstlight_pending.host_tuning | firstlight.cluster.explain }}"
"""

RETURN = """
_value:
  description: One sentence a difference.
  type: list
  elements: str
  sample: ["sysctl vm.swappiness is 60, expected 1"]
"""


def explain(found: object) -> list[str]:
    """Return one sentence for each difference."""
    if not isinstance(found, (list, tuple)):
        raise AnsibleFilterError(
            f"explain takes a list of differences, found {type(found).__name__}: "
            "give it one role's list, as `firstlight_pending.host_tuning`"
        )
    try:
        return sentences(found)
    except (TypeError, KeyError) as error:
        raise AnsibleFilterError(f"explain takes differences, each with kind and key: {error}") from error


class FilterModule:
    """Filters of this file, as Ansible asks for them."""

    def filters(self) -> dict[str, Callable[..., Any]]:
        """Return the filters by name."""
        return {"explain": explain}
