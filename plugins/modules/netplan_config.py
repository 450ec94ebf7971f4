#!/usr/bin/python
# SPDX-License-Identifier: Apache-2.0
"""Module netplan_config: one netplan file, checked before it lands and taken back unless it is confirmed."""

from __future__ import annotations

DOCUMENTATION = r"""
module: netplan_config
short_description: Write or remove a netplan file, which the host reverts by itself if it cuts itself off
version_added: "0.1.0"
author: The Firstlight authors (!UNKNOWN)
description:
  - Has netplan generate all files of the host with this one in a scratch directory first, and checks what the
    renderers (systemd-networkd, NetworkManager) would read. Nothing is changed when netplan refuses a file, when
    another file gives these ports addresses or takes them by a pattern, or when files that were edited and never
    applied would come into force with it.
  - Keeps the former file and what the host has on all its ports, and starts a timer that puts all of it back. The timer
    is enabled, so a reboot in the middle does not lose it. Then writes the file and has C(netplan apply) run apart from
    the session.
  - Where C(netplan apply) would restart NetworkManager, and with it end connections that are not of these ports (Wi-Fi,
    over which the host may be managed), it is not used. Then only the ports are put in force, by C(networkctl) or
    C(nmcli), whichever has them, and the undo does the same.
  - Refuses ports that the connection of this run came over, unless they keep its address.
  - The action plugin of this name comes back over fresh SSH connections. The first looks at the ports, and takes the
    change back at once when one has not its MTU, its address or a carrier, or when an address or default route of
    other ports is gone. The second confirms, which removes the timer and all that was kept. When the controller cannot
    come back, the host reverts the change by itself, and the task fails with what happened.
  - Applies only when the file or a port differs. A change that an interrupted run left is taken back first.
options:
  path:
    description: The netplan file, below C(/etc/netplan), ending in C(.yaml).
    type: path
    required: true
  state:
    description:
      - With V(absent) the file goes, a file that it took the place of is put back, and ports that no file is for any
        more get back the MTU they had. A file that Firstlight did not write is left alone.
    type: str
    choices: [present, absent]
    default: present
  content:
    description:
      - Its text. For O(state=present). It gets a first line by which it is known as Firstlight's, if it has none.
    type: str
  ports:
    description: What the ports must be afterwards. For O(state=present).
    type: list
    elements: dict
    default: []
    suboptions:
      port:
        description: Name of the network interface.
        type: str
        required: true
      address:
        description: Its IPv4 address with prefix length.
        type: str
        required: true
      mtu:
        description: Its MTU.
        type: int
        required: true
      cage:
        description: The cage that it is in, as a plan says it. Not used here.
        type: int
      half:
        description: Which port of the cage it is, as a plan says it. Not used here.
        type: int
  timeout:
    description: Seconds the ports have to come up after C(netplan apply).
    type: int
    default: 20
  confirm_timeout:
    description:
      - Seconds the host waits for its controller before it reverts the change. At least 10 more than O(timeout).
    type: int
    default: 60
  adopt:
    description:
      - Whether to take the place of a file that Firstlight did not write. It is kept, and put back by O(state=absent).
    type: bool
    default: false
  apply_others:
    description: Whether other files that were edited and never applied may come into force with this one.
    type: bool
    default: false
  step:
    description: Which part to do. The action plugin takes them in their order; leave it out.
    type: str
    choices: [apply, check, confirm, forget]
    default: apply
  change:
    description: Name of the change, as O(step=apply) returned it. For the other steps.
    type: str
  run:
    description: Name of the run of Ansible that makes the change. Set by the action.
    type: str
  ended:
    description: >-
      Name of a change under way whose run is known to be over, so that it is taken back first. Set by the action.
    type: str
attributes:
  check_mode:
    description: Checks the change in the scratch directory, but neither writes nor applies it.
    support: full
  diff_mode:
    description: Shows the file and the ports before and after.
    support: full
requirements:
  - netplan, systemd, iproute2
  - nmcli, where NetworkManager runs
"""

EXAMPLES = """
- name: Configure one fabric port
  firstlight.cluster.netplan_config:
    path: /etc/netplan/40-cx7.yaml
    content: |
      network:
        version: 2
        ethernets:
          enp1s0f1np1:
            mtu: 9000
            addresses: [192.168.100.10/24]
    ports:
      - port: enp1s0f1np1
        address: 192.168.100.10/24
        mtu: 9000

- name: Restore the fabric ports
  firstlight.cluster.netplan_config:
    path: /etc/netplan/40-cx7.yaml
    state: absent
"""

RETURN = """
differences:
  description: One sentence for each thing that was not as it should be before.
  type: list
  elements: str
  returned: always
  sample: ["link enp1s0f1np1 has mtu 1500, expected mtu 9000"]
notes:
  description: What to know of NetworkManager on this host, also in check mode.
  type: list
  elements: str
  returned: always
  sample: ["NetworkManager runs wlP9s9 (home, over which this run came), which `netplan apply` would take down: the
            fabric's ports are applied one by one, and nothing else is touched"]
outcome:
  description: What the host did when it took the change back.
  type: dict
  returned: when it did
  sample: {"change": "0f3e9d1c4a579e53", "undone": true, "alone": true,
           "reason": "the controller did not come back within 60 s", "problem": "", "readded": [], "seconds": 61}
"""

from ansible.module_utils.basic import AnsibleModule
from ansible_collections.firstlight.cluster.plugins.module_utils.confirmed_change.change import ChangeError
from ansible_collections.firstlight.cluster.plugins.module_utils.host import Host
from ansible_collections.firstlight.cluster.plugins.module_utils.netplan.change import Changer
from ansible_collections.firstlight.cluster.plugins.module_utils.netplan.netplan_host import NetplanError

LEAST_MARGIN = 10
"""Seconds the controller needs beside the ports' own."""

PORT = {
    "port": {"type": "str", "required": True},
    "address": {"type": "str", "required": True},
    "mtu": {"type": "int", "required": True},
    "cage": {"type": "int"},
    "half": {"type": "int"},
}


def main() -> None:
    """Arguments in, result out."""
    module = AnsibleModule(
        argument_spec={
            "path": {"type": "path", "required": True},
            "state": {"type": "str", "choices": ["present", "absent"], "default": "present"},
            "content": {"type": "str"},
            "ports": {"type": "list", "elements": "dict", "default": [], "options": PORT},
            "timeout": {"type": "int", "default": 20},
            "confirm_timeout": {"type": "int", "default": 60},
            "adopt": {"type": "bool", "default": False},
            "apply_others": {"type": "bool", "default": False},
            "step": {"type": "str", "choices": ["apply", "check", "confirm", "forget"], "default": "apply"},
            "change": {"type": "str"},
            "run": {"type": "str"},
            "ended": {"type": "str"},
        },
        required_if=[
            ("state", "present", ("content",)),
            ("step", "check", ("change",)),
            ("step", "confirm", ("change",)),
        ],
        supports_check_mode=True,
    )
    host = Host()
    if not host.has("netplan"):
        module.fail_json(msg="The fabric ports cannot be configured, netplan is not installed: install netplan.io")
    ports, controller = module.params["timeout"], module.params["confirm_timeout"]
    if controller < ports + LEAST_MARGIN:
        module.fail_json(
            msg=f"confirm_timeout is {controller} s, expected at least {ports + LEAST_MARGIN} s: the ports have "
            f"{ports} s to come up, and the controller needs {LEAST_MARGIN} s to check them"
        )
    changer = Changer(module.params, host)
    try:
        if module.params["step"] == "apply":
            result = changer.begin(check_mode=module.check_mode)
        else:
            result = {"check": changer.check, "confirm": changer.confirm, "forget": changer.forget}[
                module.params["step"]
            ]()
    except (OSError, NetplanError, ChangeError) as error:
        module.fail_json(msg=str(error), refused=True)
    for words in result.pop("warnings", []):
        module.warn(words)
    module.exit_json(**result)


if __name__ == "__main__":
    main()
