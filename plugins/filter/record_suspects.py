# SPDX-License-Identifier: Apache-2.0
"""The filter `record_suspects`: what to search a host's logs for."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from ansible.errors import AnsibleFilterError
from ansible_collections.firstlight.cluster.plugins.plugin_utils.comparison import records as core

DOCUMENTATION = """
name: record_suspects
short_description: Select what to look up in a host's logs
version_added: "0.1.0"
author: The Firstlight authors (!UNKNOWN)
description:
  - The value for O(firstlight.cluster.observe#module:history) that explains the records of a host that failed. A host
    that is right has none, and need not be asked.
positional: result, desired
options:
  _input:
    description: The records of one host, as P(firstlight.cluster.records#filter) gave them.
    type: list
    elements: dict
    required: true
  result:
    description: What M(firstlight.cluster.observe) returned for it, registered.
    type: dict
    required: true
  desired:
    description: The desired states by role name that it was compared with.
    type: dict
    required: true
"""

EXAMPLES = """
- name: Show what to ask about
  ansible.builtin.debug:
    msg: "{{ firstlight_records | firstlight.cluster.record_suspects(__observe, firstlight_plan.desired) }}"
"""

RETURN = """
_value:
  description: The value of O(firstlight.cluster.observe#module:history); empty when there is nothing to ask.
  type: dict
  sample: {"packages": {"nvidia-utils-580": "580.126.09-0ubuntu0.24.04.2"}, "units": ["docker.service"]}
"""


def record_suspects(found: object, result: object, desired: object) -> dict[str, Any]:
    """Return which failed checks of a host its logs may explain."""
    if not isinstance(found, (list, tuple)) or not isinstance(result, Mapping) or not isinstance(desired, Mapping):
        raise AnsibleFilterError(
            "record_suspects takes a list of records, the result of observe and desired states, found "
            f"{type(found).__name__}, {type(result).__name__} and {type(desired).__name__}: write "
            "`firstlight_records | firstlight.cluster.record_suspects(__observe, firstlight_plan.desired)`"
        )
    try:
        package = core.driver_package(desired)
        return core.suspects([dict(one) for one in found], result.get("observation") or {}, package)
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise AnsibleFilterError(f"record_suspects takes records of the filter records: {error}") from error


class FilterModule:
    """Filters of this file, as Ansible asks for them."""

    def filters(self) -> dict[str, Callable[..., Any]]:
        """Return the filters by name."""
        return {"record_suspects": record_suspects}
