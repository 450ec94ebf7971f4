# SPDX-License-Identifier: Apache-2.0
"""The filter `preflight_problems`: everything that stands in the way of a bring-up."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from ansible.errors import AnsibleFilterError
from ansible_collections.firstlight.cluster.plugins.module_utils.core import preflight

DOCUMENTATION = """
name: preflight_problems
short_description: Say what stands in the way of a bring-up, and what to do about it
version_added: "0.1.0"
author: The Firstlight authors (!UNKNOWN)
description:
  - Judges an observation against the desired state of the role P(firstlight.cluster.preflight#role).
  - All problems are told at once, each with what was found, what was expected and what to do.
positional: expectations
options:
  _input:
    description: The value C(observation) that M(firstlight.cluster.observe) returned.
    type: dict
    required: true
  expectations:
    description: The desired state of the role preflight.
    type: dict
    required: true
"""

EXAMPLES = """
- name: Show what stands in the way
  ansible.builtin.debug:
    msg: "{{ seen | firstlight.cluster.preflight_problems(firstlight_plan.desired.preflight) }}"
  vars:
    seen: "{{ firstlight_observation }}"
"""

RETURN = """
_value:
  description: One sentence a problem, empty when the host may be touched.
  type: list
  elements: str
  sample:
    - "link enp1s0f1np1 is missing, expected it to exist: list the ports with `ip -br link`"
"""


def preflight_problems(observation: object, expectations: object) -> list[str]:
    """Sentences for everything about `observation` that `expectations` do not allow."""
    if not isinstance(observation, Mapping) or not isinstance(expectations, Mapping):
        raise AnsibleFilterError(
            "preflight_problems takes an observation and the desired state of preflight, found "
            f"{type(observation).__name__} and {type(expectations).__name__}: "
            "write `observation | firstlight.cluster.preflight_problems(desired)`"
        )
    try:
        return preflight.problems(observation, expectations)
    except (ValueError, TypeError, KeyError, AttributeError) as error:
        raise AnsibleFilterError(f"preflight_problems cannot judge this observation: {error}") from error


class FilterModule:
    """Filters of this file, as Ansible asks for them."""

    def filters(self) -> dict[str, Callable[..., Any]]:
        """Names and functions."""
        return {"preflight_problems": preflight_problems}
