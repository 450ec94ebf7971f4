#!/usr/bin/python
# SPDX-License-Identifier: Apache-2.0
"""The module `serving_logs`: what the units of serving wrote on a host, without secrets."""

from __future__ import annotations

DOCUMENTATION = r"""
module: serving_logs
short_description: Read what the units of serving wrote, without secrets
version_added: "0.1.0"
author: The Firstlight authors (!UNKNOWN)
description:
  - Reads the last lines that Ray, the servers, the balancer and the keeper of a host wrote to its journal. What looks
    like a secret, and the host's own secrets wherever they stand, are taken out on the host.
  - Only reads.
options:
  units:
    description: Units or patterns of units. Only those of Firstlight can be asked for.
    type: list
    elements: str
    default: ["firstlight-*"]
  lines:
    description: How many lines at most, the last ones.
    type: int
    default: 200
  since:
    description: What is older is left out, as C(journalctl --since) takes it.
    type: str
    default: ""
  cursor:
    description: Go on after this place, which an earlier call returned. O(since) then does not matter.
    type: str
    default: ""
attributes:
  check_mode:
    description: Only reads.
    support: full
  diff_mode:
    description: Only reads.
    support: none
"""

EXAMPLES = r"""
- name: Read the last ten minutes
  firstlight.cluster.serving_logs:
    since: 10 minutes ago
"""

RETURN = r"""
entries:
  description: The lines, oldest first. C(at) is in microseconds since 1970, C(priority) from 0 (worst) to 7.
  returned: success
  type: list
  elements: dict
  sample: [{"at": 1794733200000000, "unit": "firstlight-ray.service", "priority": 6, "text": "Ray runtime started."}]
cursor:
  description: The place after the last line, to go on from.
  returned: success
  type: str
  sample: s=1;i=2
"""

from ansible.module_utils.basic import AnsibleModule
from ansible_collections.firstlight.cluster.plugins.module_utils.host import Host
from ansible_collections.firstlight.cluster.plugins.module_utils.serving.journal import JournalReadError, read_journal

MOST_LINES = 20_000


def main() -> None:
    """Read, and tell."""
    module = AnsibleModule(
        argument_spec={
            "units": {"type": "list", "elements": "str", "default": ["firstlight-*"]},
            "lines": {"type": "int", "default": 200},
            "since": {"type": "str", "default": ""},
            "cursor": {"type": "str", "default": ""},
        },
        supports_check_mode=True,
    )
    foreign = [unit for unit in module.params["units"] if not unit.startswith("firstlight-")]
    if foreign or not module.params["units"]:
        named = ", ".join(foreign) or "nothing"
        module.fail_json(
            msg=f"units has {named}, expected units of Firstlight: write names that begin with firstlight-"
        )
    if not 0 < module.params["lines"] <= MOST_LINES:
        module.fail_json(msg=f"lines is {module.params['lines']}, expected 1 to {MOST_LINES}")
    try:
        entries, cursor = read_journal(
            Host(),
            units=module.params["units"],
            lines=module.params["lines"],
            since=module.params["since"],
            cursor=module.params["cursor"],
        )
    except JournalReadError as error:
        module.fail_json(msg=str(error))
    else:
        module.exit_json(changed=False, entries=entries, cursor=cursor)


if __name__ == "__main__":
    main()
