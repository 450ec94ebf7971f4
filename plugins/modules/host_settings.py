#!/usr/bin/python
# SPDX-License-Identifier: Apache-2.0
"""The module `host_settings`: settings of a host, and the host as it was before."""

from __future__ import annotations

DOCUMENTATION = r"""
module: host_settings
short_description: Apply the settings of a host, and restore the host as it was
version_added: "0.1.0"
author: The Firstlight authors (!UNKNOWN)
description:
  - Compares packages, files, kernel settings, units, the default target, what systemd and logind go by, lingering
    accounts, CPU governors, swap and the clock with O(desired), and changes what differs.
  - Before anything is changed for the first time, what is there is written into O(ledger) - files byte for byte with
    mode, owner and time, links of units and of the default target, values of the kernel, packages that are going to be
    installed. An entry is never written a second time. A run that was cut off is finished by the next one.
  - What an earlier run changed and O(desired) no longer names is restored.
  - With O(state=absent) everything in the ledger is restored, and the ledger is removed.
options:
  state:
    description: Whether to have the settings, or the host as it was before.
    type: str
    choices: [present, absent]
    default: present
  desired:
    description: The desired state, as C(firstlight_plan.desired.host_tuning). With O(state=absent) it is only observed.
    type: dict
    default: {}
  ledger:
    description: The file that remembers what was there before.
    type: path
    default: /var/lib/firstlight/host_tuning/ledger.json
  clock_timeout:
    description: Seconds to wait for a clock that has to be right and is not yet.
    type: int
    default: 60
attributes:
  check_mode:
    description: Reads everything, refuses the same, and changes nothing.
    support: full
  diff_mode:
    description: Shows every file, and every other setting on a line, before and after.
    support: full
  idempotent:
    description: What is right is left alone.
    support: full
requirements:
  - python >= 3.10
  - systemd
"""

EXAMPLES = r"""
- name: Set a low swappiness
  firstlight.cluster.host_settings:
    desired:
      files:
        /etc/sysctl.d/zz-firstlight.conf:
          content: "vm.swappiness = 1\n"
          mode: "0644"
          owner: root
          group: root
      sysctl:
        vm.swappiness: "1"

- name: Restore the original settings
  firstlight.cluster.host_settings:
    state: absent
"""

RETURN = r"""
differences:
  description: What was not as it should be, one sentence each.
  returned: success
  type: list
  elements: str
  sample: ["sysctl vm.swappiness is 60, expected 1"]
given_back:
  description: What was made again what it was before the first change.
  returned: success
  type: list
  elements: str
  sample: ["file /etc/default/earlyoom", "sysctl vm.swappiness"]
observation:
  description: All of O(desired) as it is afterwards, as M(firstlight.cluster.observe) returns it.
  returned: success
  type: dict
  sample: {"sysctl": {"vm.swappiness": "1"}}
"""

from ansible.module_utils.basic import AnsibleModule
from ansible_collections.firstlight.cluster.plugins.module_utils.host import Host
from ansible_collections.firstlight.cluster.plugins.module_utils.problems import SettingsError
from ansible_collections.firstlight.cluster.plugins.module_utils.tuning.converge import HostSettings
from ansible_collections.firstlight.cluster.plugins.module_utils.tuning.host_probes import observe_settings
from ansible_collections.firstlight.cluster.plugins.module_utils.tuning.settings import LEDGER


def main() -> None:
    """Read the parameters, converge, report."""
    module = AnsibleModule(
        argument_spec={
            "state": {"type": "str", "choices": ["present", "absent"], "default": "present"},
            "desired": {"type": "dict", "default": {}},
            "ledger": {"type": "path", "default": LEDGER},
            "clock_timeout": {"type": "int", "default": 60},
        },
        supports_check_mode=True,
    )
    host = Host()
    settings = HostSettings(host, module.params["ledger"])
    try:
        if module.params["state"] == "absent":
            result = settings.absent(module.check_mode)
        else:
            result = settings.present(module.params["desired"], module.check_mode, module.params["clock_timeout"])
        observation = observe_settings(host, module.params["desired"], timeout=30.0)
    except (SettingsError, ValueError) as error:
        module.fail_json(msg=str(error))
    except OSError as error:
        place = f"{error.filename}: " if error.filename else ""
        module.fail_json(
            msg=f"The settings cannot be written ({place}{error.strerror or error}), expected files that "
            "root can read and write: run with become, and run again once they can be; what was changed so far is in "
            "the ledger"
        )
    else:
        module.exit_json(**result, observation=observation)


if __name__ == "__main__":
    main()
