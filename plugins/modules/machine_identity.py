#!/usr/bin/python
# SPDX-License-Identifier: Apache-2.0
"""The module `machine_identity`: which machine a host is."""

from __future__ import annotations

DOCUMENTATION = r"""
module: machine_identity
short_description: Read which machine a host is
version_added: "0.1.0"
author: The Firstlight authors (!UNKNOWN)
description:
  - Reads the serial number that the firmware shows to root. A host keeps its name when its machine is replaced; the
    serial
    number tells the two apart.
options: {}
attributes:
  check_mode:
    description: Only reads.
    support: full
  diff_mode:
    description: Only reads.
    support: none
"""

EXAMPLES = r"""
- name: Read which machine it is
  firstlight.cluster.machine_identity:
  register: answer
"""

RETURN = r"""
serial:
  description: The serial number; empty where the firmware has none.
  returned: success
  type: str
  sample: "1423725010001"
"""

from ansible.module_utils.basic import AnsibleModule
from ansible_collections.firstlight.cluster.plugins.module_utils.core.parsers.serial import parse_serial
from ansible_collections.firstlight.cluster.plugins.module_utils.host import Host

FIRMWARE = "/sys/class/dmi/id/product_serial"
ASK = ("dmidecode", "-s", "system-serial-number")


def read_serial(host: Host) -> str:
    """From the kernel's file, else from the firmware's tables; empty where neither has one."""
    shown = host.read_text(FIRMWARE)
    if shown is None:
        answer = host.run(ASK)
        shown = answer.stdout if answer.ok else ""
    return parse_serial(shown) or ""


def main() -> None:
    """Read and report."""
    module = AnsibleModule(argument_spec={}, supports_check_mode=True)
    try:
        serial = read_serial(Host())
    except OSError as error:
        module.fail_json(msg=f"{FIRMWARE} cannot be read: {error}, expected root's rights: run with become.")
    module.exit_json(changed=False, serial=serial)


if __name__ == "__main__":
    main()
