#!/usr/bin/python
# SPDX-License-Identifier: Apache-2.0
"""The module `roce_qos`: one lossless class for RoCE on a host's ports, kept by a systemd unit."""

from __future__ import annotations

DOCUMENTATION = r"""
module: roce_qos
short_description: Configure a lossless RoCE class on ports, with dcb of iproute2
version_added: "0.1.0"
author: The Firstlight authors (!UNKNOWN)
description:
  - Writes the systemd template C(firstlight-roce-qos@.service) and enables an instance for each port.
  - An instance turns priority flow control (PFC) on for one priority and off for all others, and gives that priority
    the packets of one DSCP. With such a mapping a driver trusts DSCP.
  - The traffic class of connections made through librdmacm is set where the kernel offers it. NCCL takes its own from
    E(NCCL_IB_TC).
  - The ports are read back. What they do not show as asked for is an error.
  - How a NIC answers ECN marks is only looked at, as the drivers of the kernel have no switch for it. RV(notes) tells
    what was seen.
  - The switch must have the same class. Nothing here can see whether it has.
options:
  ports:
    description: Names of the network ports. Ports that have an instance and are not listed lose it.
    type: list
    elements: str
    default: []
  priority:
    description: The priority that is paused in place of dropped. Required with O(state=present).
    type: int
  dscp:
    description: The DSCP of the packets of that priority. Required with O(state=present).
    type: int
  unit:
    description: Text of the systemd template, as role fabric_network makes it. Required with O(state=present).
    type: str
  state:
    description:
      - Whether the class is there.
      - V(absent) stops the instances, which sets the ports back, and removes the template.
    type: str
    choices: [present, absent]
    default: present
attributes:
  check_mode:
    description: Reports what would change.
    support: full
  diff_mode:
    description: Shows the class of each port and the template before and after.
    support: full
requirements:
  - python >= 3.10
  - iproute2 with C(dcb) (5.11 or newer) and a driver with DCB, such as mlx5_core
seealso:
  - name: dcb-pfc
    description: Priority flow control of a port.
    link: https://man7.org/linux/man-pages/man8/dcb-pfc.8.html
  - name: dcb-app
    description: Which packets belong to which priority.
    link: https://man7.org/linux/man-pages/man8/dcb-app.8.html
"""

EXAMPLES = r"""
- name: Configure the lossless RoCE class on both rails
  firstlight.cluster.roce_qos:
    ports: [enp1s0f1np1, enP2p1s0f1np1]
    priority: 3
    dscp: 26
    unit: "{{ lookup('ansible.builtin.file', 'firstlight-roce-qos@.service') }}"

- name: Remove the lossless RoCE class
  firstlight.cluster.roce_qos:
    state: absent
"""

RETURN = r"""
problems:
  description: One sentence for each thing that was not as it should be before.
  type: list
  elements: str
  returned: always
  sample: ["enp1s0f1np1: PFC is on for no priority, expected priority 3"]
notes:
  description: What cannot be set from here and is worth knowing, about ECN and librdmacm.
  type: list
  elements: str
  returned: with state present
"""

from ansible.module_utils.basic import AnsibleModule
from ansible_collections.firstlight.cluster.plugins.module_utils.fabric.qos import checked_qos
from ansible_collections.firstlight.cluster.plugins.module_utils.fabric.qos_host import QosError, QosHost
from ansible_collections.firstlight.cluster.plugins.module_utils.host import Host


def main() -> None:
    """Read the parameters, converge, report."""
    module = AnsibleModule(
        argument_spec={
            "ports": {"type": "list", "elements": "str", "default": []},
            "priority": {"type": "int"},
            "dscp": {"type": "int"},
            "unit": {"type": "str"},
            "state": {"type": "str", "choices": ["present", "absent"], "default": "present"},
        },
        required_if=[("state", "present", ("priority", "dscp", "unit"))],
        supports_check_mode=True,
    )
    wanted = module.params["state"] == "present"
    try:
        qos = checked_qos({name: module.params[name] for name in ("priority", "dscp")}) if wanted else None
        ports = module.params["ports"] if wanted else []
        result = QosHost(Host(), check_mode=module.check_mode).converge(ports, qos, module.params["unit"])
    except (QosError, ValueError) as error:
        module.fail_json(msg=str(error))
    except OSError as error:
        module.fail_json(
            msg=f"{error.filename} cannot be written ({error.strerror}), expected a directory root can write to: "
            "run with become"
        )
    else:
        module.exit_json(**result)


if __name__ == "__main__":
    main()
