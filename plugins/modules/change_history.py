#!/usr/bin/python
# SPDX-License-Identifier: Apache-2.0
"""The module `change_history`: by what a host's packages, files, settings and units became what they are."""

from __future__ import annotations

DOCUMENTATION = r"""
module: change_history
short_description: Read by what packages, files, settings and units became what they are
version_added: "0.1.0"
author: The Firstlight authors (!UNKNOWN)
description:
  - Reads apt's history and dpkg's log, the rotated ones too, and says for each package which command made it what it
    is, for whom and when. What went past apt, as C(dpkg -i) does, is told by dpkg's log alone.
  - Says when the host booted, when files were written, which file has the last word on a kernel setting, and since
    when units are in their state.
  - Changes nothing. Reads at most thirteen files of each log, 8 MiB of each, and opens no further one after 3 seconds.
  - M(firstlight.cluster.observe) does not read logs, so that looking at a host that is right stays cheap. This is the
    second question, for hosts that are not.
options:
  packages:
    description: The packages of interest and the version each has now, null when it is not installed.
    type: dict
    default: {}
  paths:
    description: Files and virtual environments of Python of interest.
    type: list
    elements: str
    default: []
  units:
    description: Units of interest.
    type: list
    elements: str
    default: []
  sysctl:
    description: Kernel settings of interest.
    type: list
    elements: str
    default: []
  fwupd:
    description: Whether to ask fwupd for the firmware that it updated.
    type: bool
    default: false
  timeout:
    description: Seconds systemd and fwupd may take to answer.
    type: int
    default: 10
attributes:
  check_mode:
    description: Reads only, so check mode is no different.
    support: full
  diff_mode:
    description: Changes nothing, so there is nothing to show.
    support: none
  idempotent:
    description: Changes nothing.
    support: full
requirements:
  - python >= 3.10
"""

EXAMPLES = r"""
- name: Find out by what a package was moved
  firstlight.cluster.change_history:
    packages:
      nvidia-utils-580: 580.126.09-0ubuntu0.24.04.2
  register: __change_history
"""

RETURN = r"""
history:
  description: What the host's logs say.
  returned: always
  type: dict
  contains:
    packages:
      description: The change that made each package what it is; packages the logs do not name are left out.
      type: dict
      returned: when packages were named
      sample: {"nvidia-utils-580": {"action": "upgrade", "before": "580.95.05-0ubuntu0.24.04.2",
               "after": "580.126.09-0ubuntu0.24.04.2", "at": "2026-11-14T06:12:03Z",
               "command": "/usr/bin/unattended-upgrade", "requested_by": "", "error": "", "ended": true, "log": "apt"}}
    since:
      description: How far back the logs were read.
      type: str
      returned: when packages were named
      sample: "2026-10-01T00:00:00Z"
    paths:
      description: When each file was last written; for one that is not there, when its directory was last changed.
      type: dict
      returned: when paths were named
      sample: {"/etc/docker/daemon.json": {"changed": "2026-11-14T06:12:03Z"}}
    units:
      description: State of each unit, since when, and how it ended.
      type: dict
      returned: when units were named
      sample: {"docker.service": {"state": "inactive", "since": "Sat 2026-11-14 06:12:03 UTC", "result": "success"}}
    sysctl:
      description: The file that has the last word on each setting at boot, and its value there.
      type: dict
      returned: when kernel settings were named
      sample: {"vm.swappiness": {"path": "/etc/sysctl.d/99-local.conf", "value": "60"}}
    fwupd:
      description: Every update of firmware that fwupd has in its history, oldest first.
      type: list
      elements: dict
      returned: when asked for, and fwupd is there
      sample: [{"device": "UEFI Device Firmware", "before": "0x03000006", "after": "0x03000007",
                "at": "2026-11-14T06:12:03Z", "state": "success"}]
    boot:
      description: When the host booted.
      type: str
      returned: always
      sample: "2026-11-14T06:20:41Z"
    errors:
      description: What could not be read, and why.
      type: dict
      returned: always
      sample: {}
"""

from ansible.module_utils.basic import AnsibleModule
from ansible_collections.firstlight.cluster.plugins.module_utils.change_log import read_changes
from ansible_collections.firstlight.cluster.plugins.module_utils.host import Host


def main() -> None:
    """Read what is asked for and hand it back."""
    module = AnsibleModule(
        argument_spec={
            "packages": {"type": "dict", "default": {}},
            "paths": {"type": "list", "elements": "str", "default": []},
            "units": {"type": "list", "elements": "str", "default": []},
            "sysctl": {"type": "list", "elements": "str", "default": []},
            "fwupd": {"type": "bool", "default": False},
            "timeout": {"type": "int", "default": 10},
        },
        supports_check_mode=True,
    )
    history = read_changes(
        Host(),
        packages=module.params["packages"],
        paths=module.params["paths"],
        units=module.params["units"],
        sysctl=module.params["sysctl"],
        fwupd=module.params["fwupd"],
        timeout=module.params["timeout"],
    )
    module.exit_json(changed=False, history=history)


if __name__ == "__main__":
    main()
