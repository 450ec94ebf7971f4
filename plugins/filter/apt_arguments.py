# SPDX-License-Identifier: Apache-2.0
"""The filter `apt_arguments`: which packages apt has to be asked for."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from ansible.errors import AnsibleFilterError
from ansible_collections.firstlight.cluster.plugins.module_utils.core import packages as core

DOCUMENTATION = """
name: apt_arguments
short_description: Name the packages that differ as apt wants them named
version_added: "0.1.0"
author: Firstlight contributors
description:
  - Gives C(name=version) for every pinned package that is missing or has another version, and C(name) for
    every unpinned one that is missing.
  - Empty where all packages are right, so that apt need not be run at all.
positional: found
options:
  _input:
    description: Versions by package name, null for any version.
    type: dict
    required: true
  found:
    description: One role's list out of what P(firstlight.cluster.differences#filter) returned.
    type: list
    elements: dict
    required: true
"""

EXAMPLES = """
- name: Show what apt would be asked for
  ansible.builtin.debug:
    msg: "{{ {'docker.io': none} | firstlight.cluster.apt_arguments(firstlight_pending.container_runtime) }}"
"""

RETURN = """
_value:
  description: Arguments for apt, sorted by name.
  type: list
  elements: str
  sample: ["docker.io=20.10.24+dfsg1-1+deb12u1"]
"""


def apt_arguments(packages: object, found: object) -> list[str]:
    """The packages among `packages` that `found` names as different."""
    if not isinstance(packages, Mapping) or not isinstance(found, (list, tuple)):
        raise AnsibleFilterError(
            "apt_arguments takes versions by package name and a list of differences, found "
            f"{type(packages).__name__} and {type(found).__name__}: "
            "write `packages | firstlight.cluster.apt_arguments(differences)`"
        )
    try:
        return core.apt_arguments(packages, found)
    except (KeyError, TypeError) as error:
        raise AnsibleFilterError(f"apt_arguments needs differences with kind and key: {error}") from error


class FilterModule:
    """Filters of this file, as Ansible asks for them."""

    def filters(self) -> dict[str, Callable[..., Any]]:
        """Names and functions."""
        return {"apt_arguments": apt_arguments}
