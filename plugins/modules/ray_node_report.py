#!/usr/bin/python
# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

DOCUMENTATION = r"""
module: ray_node_report
short_description: Say why a node did not join its Ray cluster
version_added: "0.1.0"
author: Firstlight contributors
description:
  - Reads the state of the node's Ray unit and the last lines it wrote, and names the cause where it is a
    known one.
  - Only reads. The token is removed from the lines, should it ever stand there.
options:
  service:
    description: The node's Ray unit.
    type: str
    default: firstlight-ray.service
  token_path:
    description: The node's token, to be removed from the lines.
    type: path
    default: /etc/firstlight/ray.token
  head_token_sha256:
    description: The digest of the head's token, to be compared with this node's. Without it they count as equal.
    type: str
  lines:
    description: How many of the last lines to read.
    type: int
    default: 40
attributes:
  check_mode:
    description: Changes nothing, so it runs in check mode too.
    support: full
  diff_mode:
    description: Changes nothing.
    support: none
"""

EXAMPLES = r"""
- name: Ask why this node is missing
  firstlight.cluster.ray_node_report:
"""

RETURN = r"""
cause:
  description: Why the node did not join, and what to do.
  type: str
  returned: success
  sample: its token differs from the head's; run the ray_cluster role on it and on the head
log:
  description: The last lines of the unit.
  type: list
  elements: str
  returned: success
"""

from ansible.module_utils.basic import AnsibleModule
from ansible_collections.firstlight.cluster.plugins.module_utils.core.ray_join import cause
from ansible_collections.firstlight.cluster.plugins.module_utils.core.state import content_digest
from ansible_collections.firstlight.cluster.plugins.module_utils.host import Host
from ansible_collections.firstlight.cluster.plugins.module_utils.units import last_lines, unit_state


def main() -> None:
    module = AnsibleModule(
        argument_spec={
            "service": {"type": "str", "default": "firstlight-ray.service"},
            "token_path": {"type": "path", "default": "/etc/firstlight/ray.token", "no_log": False},
            "head_token_sha256": {"type": "str", "no_log": True},
            "lines": {"type": "int", "default": 40},
        },
        supports_check_mode=True,
    )
    host = Host()
    service, expected = module.params["service"], module.params["head_token_sha256"]
    token = host.read_text(module.params["token_path"]) or ""
    same = not expected or content_digest(token) == expected
    log = last_lines(host, service, module.params["lines"], [token.strip()])
    module.exit_json(changed=False, cause=cause(unit_state(host, service), log, same), log=log)


if __name__ == "__main__":
    main()
