#!/usr/bin/python
# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

DOCUMENTATION = r"""
module: ray_node_report
short_description: Say why a node did not join its Ray cluster
version_added: "0.1.0"
author: The Firstlight authors (!UNKNOWN)
description:
  - Reads the state of the node's Ray unit and the last lines it wrote, and names the cause where it is a
    known one.
  - Where it is told the addresses, it looks whether the node has its own and reaches the head.
  - Only reads. The token is removed from the lines, should it ever stand there.
options:
  service:
    description: The node's Ray unit.
    type: str
    default: firstlight-ray.service
  token_path:
    description: The node's token, to be removed from the lines.
    type: path
    default: /etc/firstlight/cluster.token
  head_token_sha256:
    description: The digest of the head's token, to be compared with this node's. Without it they count as equal.
    type: str
  address:
    description: The node's address on the fabric, to which its Ray is bound.
    type: str
  head_address:
    description: The head's.
    type: str
  head_port:
    description: Where the head answers.
    type: int
    default: 6379
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
    address: 192.168.100.11
    head_address: 192.168.100.10
"""

RETURN = r"""
cause:
  description: Why the node did not join, and what to do.
  type: str
  returned: success
  sample: its token differs from the head's; run the ray_cluster role on it and on the head
again:
  description: Whether Ray gave up on a node that was too busy, so that starting it once more makes sense.
  type: bool
  returned: success
log:
  description: The last lines of the unit.
  type: list
  elements: str
  returned: success
"""

import errno
import socket

from ansible.module_utils.basic import AnsibleModule
from ansible_collections.firstlight.cluster.plugins.module_utils.core.ray_join import Way, cause, took_too_long
from ansible_collections.firstlight.cluster.plugins.module_utils.core.state import content_digest
from ansible_collections.firstlight.cluster.plugins.module_utils.host import Host
from ansible_collections.firstlight.cluster.plugins.module_utils.units import last_lines, unit_state

CONNECT_SECONDS = 5.0
"""Until a head on the same fabric has taken a connection, or does not answer."""


def way_to_head(address: str, head_address: str, head_port: int) -> Way:
    """Connect to the head from the address the node is planned with; nothing is sent."""
    head = f"{head_address}:{head_port}"
    try:
        with socket.create_connection((head_address, head_port), timeout=CONNECT_SECONDS, source_address=(address, 0)):
            return Way(address, True, head, "")
    except OSError as error:
        if error.errno == errno.EADDRNOTAVAIL:
            return Way(address, False, head)
        return Way(address, True, head, error.strerror or str(error))


def main() -> None:
    module = AnsibleModule(
        argument_spec={
            "service": {"type": "str", "default": "firstlight-ray.service"},
            "token_path": {"type": "path", "default": "/etc/firstlight/cluster.token", "no_log": False},
            "head_token_sha256": {"type": "str", "no_log": True},
            "address": {"type": "str"},
            "head_address": {"type": "str"},
            "head_port": {"type": "int", "default": 6379},
            "lines": {"type": "int", "default": 40},
        },
        supports_check_mode=True,
    )
    host = Host()
    service, expected = module.params["service"], module.params["head_token_sha256"]
    token = host.read_text(module.params["token_path"]) or ""
    same = not expected or content_digest(token) == expected
    log = last_lines(host, service, module.params["lines"], [token.strip()])
    address, head = module.params["address"], module.params["head_address"]
    way = way_to_head(address, head, module.params["head_port"]) if address and head else None
    state = unit_state(host, service)
    again = state.active in ("inactive", "failed") and took_too_long(log)
    module.exit_json(changed=False, cause=cause(state, log, same, way), again=again, log=log)


if __name__ == "__main__":
    main()
