#!/usr/bin/python
# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

DOCUMENTATION = r"""
module: endpoint_client
short_description: Bring what clients of the endpoint need to the controller
version_added: "0.1.0"
author: The Firstlight authors (!UNKNOWN)
description:
  - Reads the endpoint's keys and the certificate of its authority on the host, and keeps them on the controller, in
    files that only their owner can read. Files of keys that are not listed any more are taken away there.
  - A host that answers with other keys than those of O(names), with something that is no key, or with a certificate
    that is none, is not believed. Nothing is written then, and RV(problem) says why.
  - An action of the same name does so; this module is the part of it that reads on the host. The task must have
    C(no_log), because Ansible shows what modules answer when it is asked to be verbose. What went wrong is in
    RV(problem), for a task that may be shown.
options:
  names:
    description: The keys to bring.
    type: list
    elements: str
    required: true
  authority:
    description: Whether to bring the certificate of the cluster's own authority, too.
    type: bool
    default: true
  directory:
    description: Where the files are on the host.
    type: path
    default: /etc/firstlight/endpoint
  cluster:
    description: What the cluster is called on the controller. The name of the inventory's directory, when it is empty.
    type: str
    default: ""
  client_directory:
    description: >-
      Where the files go on the controller. Empty for C(firstlight/CLUSTER) below C(XDG_STATE_HOME), which is
      C(~/.local/state) where it is not set.
    type: str
    default: ""
attributes:
  check_mode:
    description: Says whether files would be written or taken away.
    support: full
  diff_mode:
    description: A secret has no diff.
    support: none
"""

EXAMPLES = r"""
- name: Bring the keys to the controller
  firstlight.cluster.endpoint_client:
    names: [alice, ci]
  no_log: true
"""

RETURN = r"""
client_directory:
  description: Where the files are on the controller.
  type: str
  returned: success
problem:
  description: Why the files could not be brought; empty when they are there.
  type: str
  returned: success
"""

import os

from ansible.module_utils.basic import AnsibleModule
from ansible_collections.firstlight.cluster.plugins.module_utils.core.endpoint import (
    CA_CERTIFICATE_PATH,
    KEYS_DIRECTORY,
)
from ansible_collections.firstlight.cluster.plugins.module_utils.host import Host


def read(host: Host, directory: str, names: list[str]) -> tuple[dict[str, str], str]:
    """The keys that are there, by name, and the authority's certificate."""
    place = os.path.join(directory, os.path.basename(KEYS_DIRECTORY))
    found = {name: (host.read_text(os.path.join(place, os.path.basename(name))) or "").strip() for name in names}
    authority = host.read_text(os.path.join(directory, os.path.basename(CA_CERTIFICATE_PATH))) or ""
    return {name: value for name, value in found.items() if value}, authority


def main() -> None:
    module = AnsibleModule(
        argument_spec={
            "names": {"type": "list", "elements": "str", "required": True},
            "authority": {"type": "bool", "default": True},
            "directory": {"type": "path", "default": "/etc/firstlight/endpoint"},
            "cluster": {"type": "str", "default": ""},
            "client_directory": {"type": "str", "default": ""},
        },
        supports_check_mode=True,
    )
    keys, authority = read(Host(), module.params["directory"], module.params["names"])
    module.exit_json(changed=False, keys=keys, authority_pem=authority if module.params["authority"] else "")


if __name__ == "__main__":
    main()
