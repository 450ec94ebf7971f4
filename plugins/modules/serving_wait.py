#!/usr/bin/python
# SPDX-License-Identifier: Apache-2.0
"""The module `serving_wait`: wait until a host serves nothing any more, or its groups serve."""

from __future__ import annotations

DOCUMENTATION = r"""
module: serving_wait
short_description: Wait until a host serves, or until nothing of serving is left on it
version_added: "0.1.0"
author: The Firstlight authors (!UNKNOWN)
description:
  - With O(until=idle) waits until no unit, container, port or shared-memory segment of serving is left, and the memory
    that the groups need is free again. Fails with everything that is still there when the time is over.
  - With O(until=serving), on the head, waits until the keeper says that every group serves, which it does only after a
    completion. Fails with the keeper's own reason as soon as it has given up, and with the phase and its reason when
    the time is over.
  - Only reads.
options:
  until:
    description: What is waited for.
    type: str
    choices: [idle, serving]
    required: true
  timeout:
    description: Seconds to wait.
    type: int
    default: 300
  ports:
    description: For O(until=idle), ports on which nobody may listen any more.
    type: list
    elements: int
    default: []
  former:
    description: For O(until=serving), the epoch of each group that does not count, as it is the one before a restart.
    type: dict
    default: {}
  since:
    description: For O(until=serving), the host's time before which what the keeper wrote does not count.
    type: str
attributes:
  check_mode:
    description: Returns at once, as nothing was changed that could be waited for.
    support: full
  diff_mode:
    description: Only reads.
    support: none
"""

EXAMPLES = r"""
- name: Wait until nothing is left
  firstlight.cluster.serving_wait:
    until: idle
    ports: [290, 6379]

- name: Wait until it serves
  firstlight.cluster.serving_wait:
    until: serving
    timeout: 900
"""

RETURN = r"""
outcome:
  description: V(done), or V(drained) for groups that serve nothing as long as other hosts are out of service.
  returned: success
  type: str
  sample: done
words:
  description: How it stands, in words.
  returned: always
  type: str
  sample: it serves
left:
  description: What is left, for O(until=idle).
  returned: always
  type: list
  elements: str
  sample: []
epochs:
  description: The epoch of each group, for O(until=serving).
  returned: always
  type: dict
  sample: {"server": "20261115T090000-1"}
seconds:
  description: How long it took.
  returned: always
  type: float
  sample: 12.5
"""

from typing import Any

from ansible.module_utils.basic import AnsibleModule
from ansible_collections.firstlight.cluster.plugins.module_utils.core.engine_container import KEEPER_UNIT
from ansible_collections.firstlight.cluster.plugins.module_utils.core.serving.phase import (
    DONE,
    OUT,
    Standing,
    parse_time,
)
from ansible_collections.firstlight.cluster.plugins.module_utils.host import Host
from ansible_collections.firstlight.cluster.plugins.module_utils.serving.service import wait_idle, wait_serving
from ansible_collections.firstlight.cluster.plugins.module_utils.units import last_lines


def idle_result(left: list[str], seconds: float) -> dict[str, Any]:
    """What is told of a host that was to serve nothing."""
    words = "nothing of serving is left" if not left else "; ".join(left)
    told: dict[str, Any] = {"outcome": DONE, "words": words, "left": left, "epochs": {}, "seconds": seconds}
    if left:
        told["msg"] = (
            f"After {seconds:g} s there is still something of serving: {words}. Expected nothing: see "
            f"`journalctl --unit {KEEPER_UNIT}` on the host, stop what is named, and run again"
        )
    return told


def serving_result(found: Standing, seconds: float) -> dict[str, Any]:
    """What is told of a head whose groups were to serve."""
    told: dict[str, Any] = {
        "outcome": found.verdict,
        "words": found.words,
        "left": [],
        "epochs": dict(found.epochs),
        "seconds": seconds,
    }
    if found.verdict not in (DONE, OUT):
        told["msg"] = (
            f"After {seconds:g} s it does not serve: {found.words}. Expected every group to serve: `firstlight status` "
            "and `firstlight logs` show all hosts; once what is named is mended, run restart.yml"
        )
    return told


def main() -> None:
    """Wait, and tell."""
    module = AnsibleModule(
        argument_spec={
            "until": {"type": "str", "choices": ["idle", "serving"], "required": True},
            "timeout": {"type": "int", "default": 300},
            "ports": {"type": "list", "elements": "int", "default": []},
            "former": {"type": "dict", "default": {}},
            "since": {"type": "str"},
        },
        supports_check_mode=True,
    )
    parameters = module.params
    if module.check_mode:
        module.exit_json(changed=False, outcome=DONE, words="not waited for", left=[], epochs={}, seconds=0.0)
    host = Host()
    if parameters["until"] == "idle":
        result = idle_result(*wait_idle(host, parameters["ports"], parameters["timeout"]))
    else:
        since = parse_time(parameters["since"]) if parameters["since"] else None
        result = serving_result(*wait_serving(host, parameters["timeout"], parameters["former"], since))
    if "msg" in result:
        module.fail_json(**result, log=last_lines(host, KEEPER_UNIT, 20))
    module.exit_json(changed=False, **result)


if __name__ == "__main__":
    main()
