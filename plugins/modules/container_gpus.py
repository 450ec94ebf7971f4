#!/usr/bin/python
# SPDX-License-Identifier: Apache-2.0
"""The module `container_gpus`: what a container sees of the host's GPUs."""

from __future__ import annotations

DOCUMENTATION = r"""
module: container_gpus
short_description: Prove that a container sees every GPU of the host
version_added: "0.1.0"
author: The Firstlight authors (!UNKNOWN)
description:
  - Runs C(nvidia-smi -L) in a container of an image that is on the host already, with all GPUs and without a network,
    and counts the GPUs it lists. The container is removed. Nothing is pulled.
options:
  image:
    description: The image. Any will do that can run C(nvidia-smi), which the container toolkit puts into the container.
    type: str
    required: true
  count:
    description: How many GPUs the container must see.
    type: int
    required: true
  timeout:
    description: Seconds the container may take.
    type: int
    default: 120
attributes:
  check_mode:
    description: Runs all the same, as nothing of it stays.
    support: full
  diff_mode:
    description: Changes nothing, so there is nothing to show.
    support: none
requirements:
  - python >= 3.10
"""

EXAMPLES = r"""
- name: Prove that a container sees eight GPUs
  firstlight.cluster.container_gpus:
    image: vllm/vllm-openai@sha256:0123
    count: 8
"""

RETURN = r"""
gpus:
  description: The GPUs that the container sees, by UUID.
  returned: success
  type: list
  elements: str
"""

from collections.abc import Mapping
from typing import Any

from ansible.module_utils.basic import AnsibleModule
from ansible_collections.firstlight.cluster.plugins.module_utils.core.container_gpus import arguments, judge
from ansible_collections.firstlight.cluster.plugins.module_utils.host import Host


def prove(parameters: Mapping[str, Any], host: Host) -> list[str]:
    """The UUIDs of the GPUs in a container; raises ValueError, in words, when they are not as many as expected."""
    result = host.run(arguments(parameters["image"]), float(parameters["timeout"]))
    return judge(result.rc, result.stdout, result.stderr, result.problem, parameters["image"], parameters["count"])


def main() -> None:
    """Read the parameters, run the container, report."""
    module = AnsibleModule(
        argument_spec={
            "image": {"type": "str", "required": True},
            "count": {"type": "int", "required": True},
            "timeout": {"type": "int", "default": 120},
        },
        supports_check_mode=True,
    )
    try:
        gpus = prove(module.params, Host())
    except ValueError as error:
        module.fail_json(msg=str(error))
    else:
        module.exit_json(changed=False, gpus=gpus)


if __name__ == "__main__":
    main()
