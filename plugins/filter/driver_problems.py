# SPDX-License-Identifier: Apache-2.0
"""The filter `driver_problems`: why a host's NVIDIA driver must not be touched."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any

from ansible.errors import AnsibleFilterError
from ansible_collections.firstlight.cluster.plugins.module_utils.core import driver

DOCUMENTATION = """
name: driver_problems
short_description: Say why a host's NVIDIA driver must not be touched, and what to do about it
version_added: "0.1.0"
author: The Firstlight authors (!UNKNOWN)
description:
  - Judges what M(firstlight.cluster.observe) found of the driver, before anything is installed.
  - MIG that is on, now or after the next reset, is a problem, and so is a module that would be built on a host with
    Secure Boot and no key to sign it with, or for a kernel that a reboot would start and that has no headers.
positional: packages, mig_ok, signing_ok, wanted
options:
  _input:
    description: The value C(observation.driver) that M(firstlight.cluster.observe) returned.
    type: dict
    required: true
  packages:
    description: The packages of the set; those of DKMS build a module.
    type: list
    elements: str
    required: true
  mig_ok:
    description: Whether MIG may be on.
    type: bool
    default: false
  signing_ok:
    description: Whether modules are signed in a way that cannot be seen.
    type: bool
    default: false
  wanted:
    description: The value C(driver) of the desired state; a host that has it loaded already needs no reboot.
    type: dict
"""

EXAMPLES = """
- name: Show what stands in the way
  ansible.builtin.debug:
    msg: "{{ seen.observation.driver | firstlight.cluster.driver_problems(['nvidia-dkms-580-open']) }}"
"""

RETURN = """
_value:
  description: One sentence a problem, empty when the driver may be touched.
  type: list
  elements: str
"""


def driver_problems(
    observed: object,
    packages: object,
    mig_ok: bool = False,
    signing_ok: bool = False,
    wanted: Mapping[str, Any] | None = None,
) -> list[str]:
    """Sentences for everything about this driver that forbids to touch it."""
    if not isinstance(observed, Mapping) or isinstance(packages, str) or not isinstance(packages, Iterable):
        raise AnsibleFilterError(
            "driver_problems takes the driver of an observation and a list of packages, found "
            f"{type(observed).__name__} and {type(packages).__name__}: "
            "write `observation.driver | firstlight.cluster.driver_problems(packages)`"
        )
    return driver.problems(observed, [str(name) for name in packages], bool(mig_ok), bool(signing_ok), wanted)


class FilterModule:
    """Filters of this file, as Ansible asks for them."""

    def filters(self) -> dict[str, Callable[..., Any]]:
        """Names and functions."""
        return {"driver_problems": driver_problems}
