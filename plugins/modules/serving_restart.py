#!/usr/bin/python
# SPDX-License-Identifier: Apache-2.0
"""The module `serving_restart`: have the head's keeper start its groups anew."""

from __future__ import annotations

DOCUMENTATION = r"""
module: serving_restart
short_description: Have the groups of a head stopped and started anew
version_added: "0.1.0"
author: The Firstlight authors (!UNKNOWN)
description:
  - Tells the keeper of the head to stop everything of its groups on all nodes and to start it again in order. A keeper
    that has given up is started, and what it remembers of failed starts is forgotten.
  - Does not wait; M(firstlight.cluster.serving_wait) does, with what this returns.
options:
  scope:
    description:
      - V(group) has the groups of this head stopped and started anew.
      - V(keeper) starts keeper and balancer of this host where they do not run, and leaves everything else alone.
    type: str
    choices: [group, keeper]
    default: group
attributes:
  check_mode:
    description: Tells what there is, and changes nothing.
    support: full
  diff_mode:
    description: There is no state to compare.
    support: none
  idempotent:
    description: Every call is another restart, but for O(scope=keeper).
    support: partial
"""

EXAMPLES = r"""
- name: Start the group anew
  firstlight.cluster.serving_restart:
  register: restart

- name: Wait until it serves again
  firstlight.cluster.serving_wait:
    until: serving
    former: "{{ restart.former }}"
    since: "{{ restart.at }}"
"""

RETURN = r"""
former:
  description: The epoch in which each group was.
  returned: success
  type: dict
  sample: {"server": "20261115T090000-1"}
keeper:
  description: What systemd said of the keeper before.
  returned: success
  type: str
  sample: active (running)
at:
  description: The host's own time when the order was given.
  returned: success
  type: str
  sample: "2026-11-15T09:00:00+00:00"
"""

from typing import Any

from ansible.module_utils.basic import AnsibleModule
from ansible_collections.firstlight.cluster.plugins.module_utils.core.serving.phase import epochs
from ansible_collections.firstlight.cluster.plugins.module_utils.host import Host
from ansible_collections.firstlight.cluster.plugins.module_utils.serving.look import look
from ansible_collections.firstlight.cluster.plugins.module_utils.serving.service import (
    ServiceError,
    idle_services,
    restart_group,
    start_service,
    utc_now,
)


def restart(host: Host, scope: str, *, check_mode: bool) -> dict[str, Any]:
    """Give the order, or only see to it that somebody is there to take one; what there was."""
    seen = look(host, segments=False)
    told: dict[str, Any] = {"former": epochs(seen["state"]), "keeper": seen["keeper"], "at": utc_now().isoformat()}
    if scope == "keeper":
        idle = idle_services(seen)
        if idle and not check_mode:
            start_service(host)
        return {**told, "changed": bool(idle)}
    return {**told, "former": restart_group(host, check_mode=check_mode), "changed": True}


def main() -> None:
    """Give the order, and tell what there was."""
    module = AnsibleModule(
        argument_spec={"scope": {"type": "str", "choices": ["group", "keeper"], "default": "group"}},
        supports_check_mode=True,
    )
    try:
        result = restart(Host(), module.params["scope"], check_mode=module.check_mode)
    except ServiceError as error:
        module.fail_json(msg=str(error))
    else:
        module.exit_json(**result)


if __name__ == "__main__":
    main()
