#!/usr/bin/python
# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

DOCUMENTATION = r"""
module: ray_nodes
short_description: Wait until the nodes of a Ray cluster have joined, or report why one did not
version_added: "0.1.0"
author: The Firstlight authors (!UNKNOWN)
description:
  - On the head, with O(members), asks Ray inside its container which nodes are alive, until all expected ones are or
    the time is over. A head whose unit has ended is not waited for. Nodes that did not join are returned, the caller
    decides what to say about them.
  - On a node that did not join, with O(node), reads the state of its Ray unit and the last lines it wrote, looks
    whether the node has its address and reaches the head, and names the cause where it is a known one. The token is
    removed from the lines, should it ever stand there.
  - Only reads.
options:
  container:
    description: The head's Ray container.
    type: str
    default: firstlight-ray
  service:
    description: The Ray unit of the host.
    type: str
    default: firstlight-ray.service
  address:
    description: Where the head answers, as C(address:port).
    type: str
    required: true
  members:
    description: Expected nodes, the host's name by its address in the cluster.
    type: dict
  size:
    description: Nodes the cluster must have at least. Required with O(members).
    type: int
  gpus:
    description: GPUs that each of the expected nodes must offer at least.
    type: int
    default: 0
  timeout:
    description: Seconds to wait.
    type: int
    default: 180
  node:
    description: This node's address on the fabric, to which its Ray is bound.
    type: str
  token_path:
    description: With O(node), the node's token, to be removed from the lines.
    type: path
    default: /etc/firstlight/cluster.token
  head_token_sha256:
    description: >-
      With O(node), the digest of the head's token, to be compared with this node's. Without it they count as equal.
    type: str
  lines:
    description: With O(node), how many of the last lines to read.
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
- name: Wait for the workers
  firstlight.cluster.ray_nodes:
    address: 192.168.100.10:6379
    members:
      192.168.100.10: spark0
      192.168.100.11: spark1
    size: 2

- name: Determine why this node is missing
  firstlight.cluster.ray_nodes:
    address: 192.168.100.10:6379
    node: 192.168.100.11
"""

RETURN = r"""
alive:
  description: Addresses of the nodes that are alive.
  type: list
  elements: str
  returned: with O(members)
absent:
  description: Names of the hosts that are not in the cluster. Where the head does not answer, that is everyone.
  type: list
  elements: str
  returned: with O(members)
missing:
  description: Those of them that are the cause. Where the head does not answer, that is the head alone.
  type: list
  elements: str
  returned: with O(members)
short:
  description: Hosts that joined with fewer GPUs than expected, and how many they offer.
  type: dict
  returned: with O(members)
elsewhere:
  description: Missing hosts that joined under another address than expected, and that address.
  type: dict
  returned: with O(members)
summary:
  description: One sentence about the cluster.
  type: str
  returned: with O(members)
  sample: 2 of 2 nodes joined in 7 s
cause:
  description: Why the node did not join, and what to do.
  type: str
  returned: with O(node)
  sample: its token differs from the head's; run the ray_cluster role on it and on the head
again:
  description: Whether Ray gave up on a node that was too busy, so that starting it once more makes sense.
  type: bool
  returned: with O(node)
log:
  description: The last lines of the unit.
  type: list
  elements: str
  returned: with O(node)
"""

import errno
import socket
import time
from collections.abc import Callable
from typing import Any

from ansible.module_utils.basic import AnsibleModule
from ansible_collections.firstlight.cluster.plugins.module_utils.host import Host
from ansible_collections.firstlight.cluster.plugins.module_utils.ray.join import (
    JOIN_SCRIPT,
    Way,
    alive,
    cause,
    elsewhere,
    missing,
    parse_nodes,
    short,
    took_too_long,
)
from ansible_collections.firstlight.cluster.plugins.module_utils.ray.status import status_words
from ansible_collections.firstlight.cluster.plugins.module_utils.state.vocabulary import content_digest
from ansible_collections.firstlight.cluster.plugins.module_utils.systemd import UnitState
from ansible_collections.firstlight.cluster.plugins.module_utils.text import said_lines
from ansible_collections.firstlight.cluster.plugins.module_utils.units import last_lines, unit_state

IMPORT_SECONDS = 60
"""What Python and Ray may take to start inside the container on a busy host, on top of the time to wait."""
CONNECT_SECONDS = 5.0
"""Until a head on the same fabric has taken a connection, or does not answer."""


def ask(host: Host, parameters: dict[str, Any], remaining: float) -> tuple[list[dict[str, Any]] | None, str]:
    """One conversation with Ray: its nodes, or None and why there was no answer."""
    argv = ["docker", "exec", parameters["container"], "python3", "-c", JOIN_SCRIPT, parameters["address"]]
    argv += [
        ",".join(parameters["members"]),
        str(parameters["size"]),
        f"{max(remaining, 1):.0f}",
        str(parameters["gpus"]),
    ]
    result = host.run(argv, timeout=remaining + IMPORT_SECONDS)
    lines = said_lines(result.stderr)
    return parse_nodes(result.stdout), result.problem or (lines[-1][:300] if lines else result.summary)


def said_of_itself(host: Host, parameters: dict[str, Any]) -> str:
    """What the cluster says of itself, for the message about who is missing."""
    result = host.run(["docker", "exec", parameters["container"], "ray", "status"], timeout=IMPORT_SECONDS)
    try:
        return status_words(result.stdout)
    except ValueError:
        return result.summary


def has_ended(state: UnitState) -> bool:
    """Whether nothing runs there, and nothing is about to."""
    return state.load == "loaded" and state.active in ("inactive", "failed")


def wait(
    host: Host,
    parameters: dict[str, Any],
    clock: Callable[[], float] = time.monotonic,
    pause: Callable[[float], None] = time.sleep,
) -> dict[str, Any]:
    """Ask until everyone is there, the time is over or the head has ended; one that still starts is asked again."""
    started = clock()
    ended = 0
    while True:
        remaining = parameters["timeout"] - (clock() - started)
        nodes, reason = ask(host, parameters, remaining)
        if nodes is not None:
            break
        # Twice: systemd may not have begun yet with a start that somebody has just asked for.
        ended = ended + 1 if has_ended(unit_state(host, parameters["service"])) else 0
        if ended > 1 or clock() - started >= parameters["timeout"]:
            head = parameters["members"].get(parameters["address"].rpartition(":")[0])
            return {
                "alive": [],
                "absent": list(parameters["members"].values()),
                # One cause, told once: without its head nobody can join.
                "missing": [head] if head else list(parameters["members"].values()),
                "short": {},
                "elsewhere": {},
                "summary": f"Ray on the head at {parameters['address']} does not answer ({reason})",
            }
        pause(2)
    there, gone = alive(nodes), missing(nodes, parameters["members"])
    fewer = short(nodes, parameters["members"], parameters["gpus"])
    summary = f"{len(there)} of {parameters['size']} nodes joined in {clock() - started:.0f} s"
    if gone or fewer or len(there) < parameters["size"]:
        summary += f"; Ray reports: {said_of_itself(host, parameters)}"
    astray = elsewhere(nodes, parameters["members"])
    return {
        "alive": there,
        "absent": gone,
        "missing": gone,
        "short": fewer,
        "elsewhere": astray,
        "summary": summary,
    }


def way_to_head(address: str, head: str) -> Way:
    """Connect to the head from the address the node is planned with; nothing is sent."""
    head_address, _, port = head.rpartition(":")
    try:
        with socket.create_connection((head_address, int(port)), timeout=CONNECT_SECONDS, source_address=(address, 0)):
            return Way(address, True, head, "")
    except OSError as error:
        if error.errno == errno.EADDRNOTAVAIL:
            return Way(address, False, head)
        return Way(address, True, head, error.strerror or str(error))


def report(host: Host, parameters: dict[str, Any]) -> dict[str, Any]:
    """Why this node did not join."""
    expected = parameters["head_token_sha256"]
    token = host.read_text(parameters["token_path"]) or ""
    same = not expected or content_digest(token) == expected
    log = last_lines(host, parameters["service"], parameters["lines"], [token.strip()])
    state = unit_state(host, parameters["service"])
    return {
        "cause": cause(state, log, same, way_to_head(parameters["node"], parameters["address"])),
        "again": has_ended(state) and took_too_long(log),
        "log": log,
    }


def main() -> None:
    module = AnsibleModule(
        argument_spec={
            "container": {"type": "str", "default": "firstlight-ray"},
            "service": {"type": "str", "default": "firstlight-ray.service"},
            "address": {"type": "str", "required": True},
            "members": {"type": "dict"},
            "size": {"type": "int"},
            "gpus": {"type": "int", "default": 0},
            "timeout": {"type": "int", "default": 180},
            "node": {"type": "str"},
            "token_path": {"type": "path", "default": "/etc/firstlight/cluster.token", "no_log": False},
            "head_token_sha256": {"type": "str", "no_log": True},
            "lines": {"type": "int", "default": 40},
        },
        mutually_exclusive=[("members", "node")],
        required_one_of=[("members", "node")],
        required_together=[("members", "size")],
        supports_check_mode=True,
    )
    answer = report if module.params["node"] else wait
    module.exit_json(changed=False, **answer(Host(), module.params))


if __name__ == "__main__":
    main()
