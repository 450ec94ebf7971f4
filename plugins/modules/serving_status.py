#!/usr/bin/python
# SPDX-License-Identifier: Apache-2.0
"""The module `serving_status`: what serves on a host, in one look."""

from __future__ import annotations

DOCUMENTATION = r"""
module: serving_status
short_description: Read whether and how a host serves
version_added: "0.1.0"
author: The Firstlight authors (!UNKNOWN)
description:
  - Reads what the keeper of the host wrote of its groups, the units and containers that there are, who took the host
    out of service, and how much memory is free. One short look; nothing is changed and no server is asked.
options:
  ports:
    description: Ports that are looked at, beside those on which the keeper asks its servers.
    type: list
    elements: int
    default: []
attributes:
  check_mode:
    description: Only reads.
    support: full
  diff_mode:
    description: Only reads.
    support: none
"""

EXAMPLES = r"""
- name: Read how the host serves
  firstlight.cluster.serving_status:
  register: status
"""

RETURN = r"""
serving:
  description: What was found.
  returned: always
  type: dict
  contains:
    time:
      description: The host's own time.
      type: str
      returned: always
      sample: "2026-11-15T09:00:00+00:00"
    config:
      description: Head and groups, as the keeper is set up; empty where there is none.
      type: dict
      returned: always
      sample: {"node": "spark1", "head": "spark0", "groups": {"server": {"head": "spark0", "model": "tiny"}}}
    state:
      description: What the keeper last wrote; null where it wrote nothing since the host was started.
      type: dict
      returned: always
      sample: {"node": "spark1", "groups": {"server": {"phase": "serving"}}}
    keeper:
      description: What systemd says of the keeper.
      type: str
      returned: always
      sample: active (running)
    units:
      description: Units of serving that are there.
      type: dict
      returned: always
      sample: {"firstlight-ray.service": {"load": "loaded", "active": "active", "sub": "running", "result": "success"}}
    containers:
      description: Containers by name.
      type: dict
      returned: always
      sample: {"firstlight-ray": "Up 2 hours"}
    ports:
      description: Which of the ports are taken.
      type: list
      elements: int
      returned: always
      sample: [6379]
    replicas:
      description:
        - Of servers that Ray Serve spreads over hosts, how many answer and how many are planned, as the program on the
          head last said. Null on every other host.
      type: dict
      returned: always
      sample: {"answer": 1, "planned": 2}
    segments:
      description: Shared-memory segments of the engine that nobody uses.
      type: list
      elements: str
      returned: always
      sample: []
    memory:
      description: Total and free memory of the machine and of its GPUs, in bytes.
      type: dict
      returned: always
      sample: {"kind": "unified", "share": 0.85, "machine": {"name": "the memory", "total": 128000000000,
               "free": 12000000000}, "gpus": [], "parts": []}
    drained:
      description: What the marker of a host out of service says; null where there is none.
      type: dict
      returned: always
      sample: {"by": "alice at control", "reason": "new cable", "at": "2026-11-15T09:00:00+00:00"}
    problems:
      description: What could not be read, and why.
      type: dict
      returned: always
      sample: {}
left:
  description: What of serving is on the host, in words; nothing on one that serves nothing.
  returned: always
  type: list
  elements: str
  sample: [firstlight-ray.service is active (running)]
"""

from ansible.module_utils.basic import AnsibleModule
from ansible_collections.firstlight.cluster.plugins.module_utils.core.serving.left import leftovers
from ansible_collections.firstlight.cluster.plugins.module_utils.host import Host
from ansible_collections.firstlight.cluster.plugins.module_utils.serving.look import look


def main() -> None:
    """Look, and tell."""
    module = AnsibleModule(
        argument_spec={"ports": {"type": "list", "elements": "int", "default": []}}, supports_check_mode=True
    )
    seen = look(Host(), module.params["ports"])
    module.exit_json(changed=False, serving=seen, left=leftovers(seen))


if __name__ == "__main__":
    main()
