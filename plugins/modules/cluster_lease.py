#!/usr/bin/python
# SPDX-License-Identifier: Apache-2.0
"""The module `cluster_lease`: hold the lease of a cluster for as long as a run lives. Its other half is the action."""

from __future__ import annotations

DOCUMENTATION = r"""
module: cluster_lease
short_description: Allow only one run at a time to change a cluster
version_added: "0.1.0"
author: The Firstlight authors (!UNKNOWN)
description:
  - Takes the lease of the cluster, a file on its head that says who changes the cluster and since when. A run that
    finds it held says whose it is and fails, before anything is changed. Run it on the head, once.
  - For as long as the run lives, a process on the controller renews the lease twice a minute. When the run ends, in
    whatever way, that process gives the lease back.
  - A run that was killed together with that process leaves its lease. The next run on the same machine sees that the
    process is gone, and takes the lease over. So does a run of the same user and machine name once no heartbeat has
    come for three minutes. Anybody else has to name the owner in O(break_owner).
  - A run whose lease was broken is stopped with the next heartbeat.
  - Where the host does not answer, no lease is taken, which a warning says.
options:
  break_owner:
    description: >-
      Take the lease although this owner holds it, as C(alice@control). For one whose run is known to be over. Where
      somebody else holds it, or by now does, the lease is not taken.
    type: str
    default: ""
  path:
    description: The file.
    type: path
    default: /var/lib/firstlight/lease.json
  run:
    description: The name of the run. Set by the action.
    type: str
  owner:
    description: Who runs it. Set by the action.
    type: str
  machine:
    description: A name for the controller, within which a process number means the same. Set by the action.
    type: str
  pid:
    description: The process of the run. Set by the action.
    type: int
  playbook:
    description: What is run. Set by the action.
    type: str
  replace:
    description: The run whose lease is taken over. Set by the action.
    type: str
    default: ""
attributes:
  check_mode:
    description: A run that only checks changes nothing, and takes no lease.
    support: full
  diff_mode:
    description: A lease is gone when the run is over.
    support: none
  idempotent:
    description: A run that holds the lease already holds it still.
    support: full
requirements:
  - python >= 3.10
"""

EXAMPLES = r"""
- name: Acquire the cluster lease
  firstlight.cluster.cluster_lease:
    break_owner: "{{ firstlight_break_lease | default('') }}"
  delegate_to: "{{ groups['head'] | first }}"
  run_once: true
  become: true
"""

RETURN = r"""
taken:
  description: Whether this run holds the lease now.
  returned: where the lease was taken
  type: bool
renewed:
  description: Whether it held the lease before.
  returned: when this run holds the lease
  type: bool
lease:
  description: Who holds it. C(since) is by the head's clock.
  returned: where the lease was taken
  type: dict
  sample: {"run": "4d1c07be5f1f2a90-4711-1827364", "owner": "alice@control", "machine": "4d1c07be5f1f2a90", "pid": 4711,
           "playbook": "site.yml", "since": "2026-11-15 09:00:04 UTC"}
age:
  description: Seconds since its last heartbeat, null if unknown.
  returned: where the lease was taken
  type: float
  sample: 12.5
"""

from ansible.module_utils.basic import AnsibleModule
from ansible_collections.firstlight.cluster.plugins.module_utils.lease import FIELDS, PATH, LeaseError, Leases


def main() -> None:
    """Take the lease, or tell whose it is."""
    module = AnsibleModule(
        argument_spec={
            "break_owner": {"type": "str", "default": ""},
            "path": {"type": "path", "default": PATH},
            "run": {"type": "str"},
            "owner": {"type": "str"},
            "machine": {"type": "str"},
            "pid": {"type": "int"},
            "playbook": {"type": "str"},
            "replace": {"type": "str", "default": ""},
        },
        required_together=[FIELDS],
        supports_check_mode=True,
    )
    if module.check_mode:
        module.exit_json(changed=False)
    try:
        wanted = {name: module.params[name] for name in FIELDS}
        result = Leases(module.params["path"]).take(wanted, module.params["replace"])
    except LeaseError as error:
        module.fail_json(msg=str(error))
    module.exit_json(changed=False, **result)


if __name__ == "__main__":
    main()
