# SPDX-License-Identifier: Apache-2.0
"""The filter `driver_in_use`: whether an NVIDIA driver would be replaced under what serves with it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from ansible.errors import AnsibleFilterError
from ansible_collections.firstlight.cluster.plugins.module_utils.core import preflight

DOCUMENTATION = """
name: driver_in_use
short_description: Say whether the NVIDIA driver would be replaced under what serves with it
version_added: "0.1.0"
author: The Firstlight authors (!UNKNOWN)
description:
  - Judges where a host differs from the role P(firstlight.cluster.nvidia_driver#role) before it runs. Packages that
    would move are a problem while Ray or the server runs; holds, files and units are none.
positional: observation, policy
options:
  _input:
    description: The differences of the role nvidia_driver, from P(firstlight.cluster.differences#filter).
    type: list
    elements: dict
    required: true
  observation:
    description: The value C(observation) that M(firstlight.cluster.observe) returned.
    type: dict
    required: true
  policy:
    description: The role's variable C(nvidia_driver_policy); nothing moves unless it is C(install).
    type: str
    required: true
"""

EXAMPLES = """
- name: Show what would move under a running server
  ansible.builtin.debug:
    msg: "{{ firstlight_pending.nvidia_driver | firstlight.cluster.driver_in_use(firstlight_observation, 'install') }}"
"""

RETURN = """
_value:
  description: One sentence, or nothing where the driver may be installed.
  type: list
  elements: str
"""


def driver_in_use(pending: object, observation: object, policy: object) -> list[str]:
    """Why this driver must not be installed now."""
    if not isinstance(pending, list) or not isinstance(observation, Mapping) or not isinstance(policy, str):
        raise AnsibleFilterError(
            "driver_in_use takes a list of differences, an observation and a policy, found "
            f"{type(pending).__name__}, {type(observation).__name__} and {type(policy).__name__}: write "
            "`firstlight_pending.nvidia_driver | firstlight.cluster.driver_in_use(firstlight_observation, policy)`"
        )
    try:
        return preflight.driver_in_use(pending, observation, policy)
    except (ValueError, TypeError, KeyError, AttributeError) as error:
        raise AnsibleFilterError(f"driver_in_use cannot judge these differences: {error}") from error


class FilterModule:
    """Filters of this file, as Ansible asks for them."""

    def filters(self) -> dict[str, Callable[..., Any]]:
        """Names and functions."""
        return {"driver_in_use": driver_in_use}
