# SPDX-License-Identifier: Apache-2.0
"""The filter `driver_leaving`: which packages go when another NVIDIA driver takes the place of this one."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from ansible.errors import AnsibleFilterError
from ansible_collections.firstlight.cluster.plugins.module_utils.core import driver

DOCUMENTATION = r"""
name: driver_leaving
short_description: Name the packages that go with the NVIDIA driver that is there
version_added: "0.1.0"
author: The Firstlight authors (!UNKNOWN)
description:
  - Names what M(firstlight.cluster.observe) found beside the set of the driver's release, and parts of other releases,
    if the driver that is there is not the one that is wanted. Otherwise nothing goes.
  - For the option O(firstlight.cluster.apt_set#module:leaving), which spares the packages of the set itself.
options:
  _input:
    description: The value C(observation.driver) that M(firstlight.cluster.observe) returned.
    type: dict
    required: true
  wanted:
    description: The value C(driver) of the desired state.
    type: dict
    required: true
"""

EXAMPLES = r"""
- name: Show what goes
  ansible.builtin.debug:
    msg: "{{ seen.observation.driver | firstlight.cluster.driver_leaving({'version': '590.48.01'}) }}"
"""

RETURN = r"""
_value:
  description: Names of packages.
  type: list
  elements: str
"""


def driver_leaving(observed: object, wanted: object) -> list[str]:
    """Packages that belong to the driver that is there and not to the wanted one."""
    if not isinstance(observed, Mapping) or not isinstance(wanted, Mapping):
        raise AnsibleFilterError(
            "driver_leaving takes the driver of an observation and the driver of a desired state, found "
            f"{type(observed).__name__} and {type(wanted).__name__}: "
            "write `observation.driver | firstlight.cluster.driver_leaving(desired.driver)`"
        )
    return driver.leaving(observed, wanted)


class FilterModule:
    """Filters of this file, as Ansible asks for them."""

    def filters(self) -> dict[str, Callable[..., Any]]:
        """Names and functions."""
        return {"driver_leaving": driver_leaving}
