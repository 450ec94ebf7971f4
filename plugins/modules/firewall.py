#!/usr/bin/python
# SPDX-License-Identifier: Apache-2.0
"""Module firewall: one nftables table, checked before it is loaded and taken back unless it is confirmed."""

from __future__ import annotations

DOCUMENTATION = r"""
module: firewall
short_description: Load a host's firewall, which the host reverts by itself if it locks its controller out
version_added: "0.1.0"
author: The Firstlight authors (!UNKNOWN)
description:
  - Writes one file with the nftables table C(inet firstlight) and loads it in one step. No other table is touched, so
    Docker's rules stay, and nothing that Docker does removes this one.
  - Refuses rules that would not let in the SSH connection that the module itself was started over, as O(ssh_ports),
    O(ssh_from), O(fabric) and O(openings) tell. Has the kernel take the rules in a network namespace of its own first.
    Nothing is changed when one of these fails.
  - Keeps the former file and the rules in force, and starts a timer that puts both back. The timer is enabled, so a
    reboot in the middle does not lose it.
  - The action plugin of this name comes back over fresh SSH connections and confirms, which removes the timer and all
    that was kept. When the controller cannot come back, the host takes the rules back by itself, and the task fails
    with what happened.
  - Loads only when the file or the rules in force differ, so rules that were changed by hand are put right. A change
    that an interrupted run left is taken back first.
options:
  path:
    description: The file with the rules. Its directory must be there.
    type: path
    default: /etc/firstlight/firewall.nft
  content:
    description: >-
      The rules, as role firewall's template makes them of the settings below. Required with O(state=present).
    type: str
  state:
    description: With V(absent) the rules and their file go. That needs no confirmation.
    type: str
    choices: [present, absent]
    default: present
  ssh_ports:
    description: Ports on which SSH is let in, on every interface.
    type: list
    elements: str
    default: ["22"]
  ssh_from:
    description: Networks from which SSH is let in. Empty means anywhere.
    type: list
    elements: str
    default: []
  fabric:
    description: The fabric. Everything from a peer is let in on its interfaces, and nothing but SSH from anybody else.
    type: dict
    default: {}
    suboptions:
      interfaces:
        description: Names of the fabric's interfaces on this host.
        type: list
        elements: str
      peers:
        description: Addresses of all nodes on the fabric.
        type: list
        elements: str
  openings:
    description: What else is let in, on other interfaces than the fabric's; also to ports that containers publish.
    type: list
    elements: dict
    default: []
    suboptions:
      name:
        description: A name for people.
        type: str
        required: true
      protocol:
        description: V(tcp) or V(udp).
        type: str
        required: true
      ports:
        description: Ports, or ranges such as V(8000-8010).
        type: list
        elements: str
        required: true
      from:
        description: Networks that may come. V(0.0.0.0/0) and V(::/0) are everybody.
        type: list
        elements: str
        required: true
  confirm_timeout:
    description: Seconds the host waits for its controller before it reverts the change. At least 10.
    type: int
    default: 60
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
    description: Checks the rules, but neither writes nor loads them.
    support: full
  diff_mode:
    description: Shows the file and the rules in force before and after.
    support: full
requirements:
  - nftables, systemd, util-linux, iproute2
"""

EXAMPLES = """
- name: Allow SSH, the fabric and the endpoint
  firstlight.cluster.firewall:
    content: "{{ desired.files['/etc/firstlight/firewall.nft'].content }}"
    ssh_ports: [22]
    fabric:
      interfaces: [enp1s0f1np1]
      peers: [192.168.100.10, 192.168.100.11]
    openings:
      - name: endpoint
        protocol: tcp
        ports: [443]
        from: [10.20.0.0/16]
  vars:
    desired: "{{ lookup('firstlight.cluster.desired_state', 'firewall') }}"

- name: Remove the firewall rules
  firstlight.cluster.firewall:
    state: absent
"""

RETURN = """
differences:
  description: One sentence for each thing that was not as it should be before.
  type: list
  elements: str
  returned: when O(step=apply)
  sample: ["the rules of /etc/firstlight/firewall.nft are not in force, expected them in force"]
outcome:
  description: What the host did when it took the change back.
  type: dict
  returned: when it did
  sample: {"change": "0f3e9d1c4a579e53", "undone": true, "alone": true,
           "reason": "the controller did not come back within 60 s", "problem": "", "readded": [], "seconds": 61}
"""

from ansible.module_utils.basic import AnsibleModule
from ansible_collections.firstlight.cluster.plugins.module_utils.confirmed_change.change import ChangeError
from ansible_collections.firstlight.cluster.plugins.module_utils.firewall.change import FirewallChanger
from ansible_collections.firstlight.cluster.plugins.module_utils.firewall.firewall import RULES_PATH
from ansible_collections.firstlight.cluster.plugins.module_utils.firewall.firewall_host import FirewallError
from ansible_collections.firstlight.cluster.plugins.module_utils.host import Host

LEAST_TIMEOUT = 10
"""Seconds the controller needs to come back twice."""

FABRIC = {
    "interfaces": {"type": "list", "elements": "str"},
    "peers": {"type": "list", "elements": "str"},
}
OPENING = {
    "name": {"type": "str", "required": True},
    "protocol": {"type": "str", "required": True},
    "ports": {"type": "list", "elements": "str", "required": True},
    "from": {"type": "list", "elements": "str", "required": True},
}


def main() -> None:
    """Arguments in, result out."""
    module = AnsibleModule(
        argument_spec={
            "path": {"type": "path", "default": RULES_PATH},
            "content": {"type": "str"},
            "state": {"type": "str", "choices": ["present", "absent"], "default": "present"},
            "ssh_ports": {"type": "list", "elements": "str", "default": ["22"]},
            "ssh_from": {"type": "list", "elements": "str", "default": []},
            "fabric": {"type": "dict", "default": {}, "options": FABRIC},
            "openings": {"type": "list", "elements": "dict", "default": [], "options": OPENING},
            "confirm_timeout": {"type": "int", "default": 60},
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
    if module.params["confirm_timeout"] < LEAST_TIMEOUT:
        module.fail_json(
            msg=f"confirm_timeout is {module.params['confirm_timeout']} s, expected at least {LEAST_TIMEOUT} s: the "
            "controller needs that long to reconnect"
        )
    if module.params["state"] == "present" and not module.check_mode and not host.has("nft"):
        module.fail_json(msg="The rules cannot be loaded, nft is not installed: install nftables")
    changer = FirewallChanger(module.params, host)
    steps = {"check": changer.check, "confirm": changer.confirm, "forget": changer.forget}
    try:
        if module.params["step"] == "apply":
            result = changer.begin(check_mode=module.check_mode)
        else:
            result = steps[module.params["step"]]()
    except (OSError, ValueError, FirewallError, ChangeError) as error:
        module.fail_json(msg=str(error), refused=True)
    for words in result.pop("warnings", []):
        module.warn(words)
    module.exit_json(**result)


if __name__ == "__main__":
    main()
