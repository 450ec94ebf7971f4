# SPDX-License-Identifier: Apache-2.0
"""The filter `snapshot_records`: the result of re-reading the model's files, as records of a verification."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from ansible.errors import AnsibleFilterError
from ansible_collections.firstlight.cluster.plugins.plugin_utils.comparison.snapshot_records import bytes_record

DOCUMENTATION = """
name: snapshot_records
short_description: Make records of what reading the model's files again found
version_added: "0.1.0"
author: The Firstlight authors (!UNKNOWN)
description:
  - Gives one record, as P(firstlight.cluster.records#filter) does, which names the files that are not as they were
    verified. A host that could not be asked could not be checked, which is never right.
positional: host
options:
  _input:
    description: What M(firstlight.cluster.model_snapshot) returned that verified it, also when it failed.
    type: dict
    required: true
  host:
    description: The host's name.
    type: str
    required: true
"""

EXAMPLES = """
- name: Add the model results to the records
  ansible.builtin.set_fact:
    firstlight_records: "{{ firstlight_records + result | firstlight.cluster.snapshot_records(inventory_hostname) }}"
"""

RETURN = """
_value:
  description: A list of one record.
  type: list
  elements: dict
"""


def snapshot_records(result: object, host: object) -> list[dict[str, Any]]:
    """Return a list with the one record."""
    if not isinstance(result, Mapping):
        raise AnsibleFilterError(
            f"snapshot_records takes what model_snapshot returned, found {type(result).__name__}: see the example in "
            "its documentation"
        )
    return [bytes_record(str(host), result)]


class FilterModule:
    """Filters of this file, as Ansible asks for them."""

    def filters(self) -> dict[str, Callable[..., Any]]:
        """Return the filters by name."""
        return {"snapshot_records": snapshot_records}
