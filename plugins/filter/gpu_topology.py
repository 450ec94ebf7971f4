# SPDX-License-Identifier: Apache-2.0
"""The filter `gpu_topology`: render how a host's GPUs are connected."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from ansible.errors import AnsibleFilterError
from ansible_collections.firstlight.cluster.plugins.plugin_utils.gpu.picture import svg as picture
from ansible_collections.firstlight.cluster.plugins.plugin_utils.gpu.picture import table_lines

DOCUMENTATION = """
name: gpu_topology
short_description: Show how the GPUs and network ports of a host are connected
version_added: "0.1.0"
author: The Firstlight authors (!UNKNOWN)
description:
  - The matrix of C(nvidia-smi topo -m) as a table for a terminal, or as a picture, with what is wrong marked.
options:
  _input:
    description: The value C(observation.gpu_health) that M(firstlight.cluster.observe) returned, with a topology in it.
    type: dict
    required: true
  svg:
    description: Whether to draw a picture.
    type: bool
    default: false
  title:
    description: What stands above the picture.
    type: str
    default: GPUs
"""

EXAMPLES = """
- name: Show the topology
  ansible.builtin.debug:
    msg: "{{ firstlight_observation.gpu_health | firstlight.cluster.gpu_topology }}"
"""

RETURN = """
_value:
  description: Lines of a table, or with O(svg) the text of an SVG file.
  type: raw
"""


def gpu_topology(health: object, svg: bool = False, title: str = "GPUs") -> list[str] | str:
    """Return the topology as lines of a table or as an SVG picture."""
    if not isinstance(health, Mapping) or not isinstance(health.get("topology"), Mapping):
        raise AnsibleFilterError(
            f"gpu_topology takes observation.gpu_health of a host with a topology, found {type(health).__name__}: "
            "write `observation.gpu_health | firstlight.cluster.gpu_topology`"
        )
    topology, checks = health["topology"], list(health.get("checks") or ())
    try:
        return picture(topology, checks, title) if svg else list(table_lines(topology, checks))
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise AnsibleFilterError(f"gpu_topology cannot show this topology: {error}") from error


class FilterModule:
    """Filters of this file, as Ansible asks for them."""

    def filters(self) -> dict[str, Callable[..., Any]]:
        """Return the filters by name."""
        return {"gpu_topology": gpu_topology}
