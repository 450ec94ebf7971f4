# SPDX-License-Identifier: Apache-2.0
"""The filter `record_lines`: render a host's verification as text."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from ansible.errors import AnsibleFilterError
from ansible_collections.firstlight.cluster.plugins.plugin_utils.comparison import records as core

DOCUMENTATION = """
name: record_lines
short_description: Show the records of a host that did not pass, and count those that did
version_added: "0.1.0"
author: The Firstlight authors (!UNKNOWN)
description:
  - Lines for people, of what P(firstlight.cluster.records#filter) gave for one host.
options:
  _input:
    description: The records of one host.
    type: list
    elements: dict
    required: true
  brief:
    description: One line with what is wrong and what to do, instead of the table.
    type: bool
    default: false
"""

EXAMPLES = """
- name: Show the checks that did not pass
  ansible.builtin.debug:
    msg: "{{ firstlight_records | firstlight.cluster.record_lines }}"
"""

RETURN = """
_value:
  description: The lines; with O(brief) none when everything is right.
  type: list
  elements: str
  sample:
    - "FAIL     hold.nvidia-utils-580: no, expected yes"
    - "         do   run site.yml"
    - "11 of 12 checks passed"
"""


def record_lines(found: object, brief: bool = False) -> list[str]:
    """Return the table, or a one-line verdict (none if all checks passed)."""
    if not isinstance(found, (list, tuple)) or not all(isinstance(one, Mapping) for one in found):
        raise AnsibleFilterError(
            f"record_lines takes a list of records, found {type(found).__name__}: give it what the filter records gave"
        )
    listed = [dict(one) for one in found]
    try:
        if not brief:
            return core.lines(listed)
        bad = core.wrong(listed)
        return [core.verdict_line(str(bad[0]["host"]), bad)] if bad else []
    except KeyError as error:
        raise AnsibleFilterError(f"record_lines takes records, but one of them has no {error}") from error


class FilterModule:
    """Filters of this file, as Ansible asks for them."""

    def filters(self) -> dict[str, Callable[..., Any]]:
        """Return the filters by name."""
        return {"record_lines": record_lines}
