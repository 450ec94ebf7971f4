#!/usr/bin/python
# SPDX-License-Identifier: Apache-2.0
"""Module fabric_record: what a host keeps of a proof of its fabric."""

from __future__ import annotations

DOCUMENTATION = """
module: fabric_record
short_description: Keep or remove the record that a fabric was proven
version_added: "0.1.0"
author: The Firstlight authors (!UNKNOWN)
description:
  - A host keeps the list of the peers to which its fabric was proven, so that a later run knows whether this fabric
    ever was. Another list of peers is another record.
options:
  path:
    description: The record. Its directory is made where it is missing.
    type: path
    required: true
  peers:
    description: Every other host, once for each rail, with C(host), C(port), C(address) and C(mtu).
    type: list
    elements: dict
    required: true
  state:
    description: Whether the proof passed and is kept, or failed and its record goes.
    type: str
    choices: [present, absent]
    default: present
attributes:
  check_mode:
    description: Says whether the record would change.
    support: full
  diff_mode:
    description: Shows the record.
    support: full
"""

EXAMPLES = """
- name: Keep the record of a proof that passed
  firstlight.cluster.fabric_record:
    path: /var/lib/firstlight/fabric.proof
    peers: "{{ fabric_network_peers }}"
"""

RETURN = """
proven:
  description: Whether the host has the record now; in check mode, whether it would have.
  type: bool
  returned: success
"""

import contextlib
import os

from ansible.module_utils.basic import AnsibleModule
from ansible_collections.firstlight.cluster.plugins.module_utils.core.ping import proof_text
from ansible_collections.firstlight.cluster.plugins.module_utils.host import Host, write_file


def put(path: str, after: str | None) -> None:
    """Leave this record there, or none."""
    if after is None:
        with contextlib.suppress(FileNotFoundError):
            os.unlink(path)
        return
    os.makedirs(os.path.dirname(path), mode=0o755, exist_ok=True)
    write_file(path, after, 0o644)


def main() -> None:
    """Compare the record with what is to be kept."""
    module = AnsibleModule(
        argument_spec={
            "path": {"type": "path", "required": True},
            "peers": {"type": "list", "elements": "dict", "required": True},
            "state": {"type": "str", "choices": ["present", "absent"], "default": "present"},
        },
        supports_check_mode=True,
    )
    path = module.params["path"]
    before = Host().read_text(path)
    try:
        after = proof_text(module.params["peers"]) if module.params["state"] == "present" else None
        if before != after and not module.check_mode:
            put(path, after)
    except (KeyError, TypeError, ValueError) as error:
        module.fail_json(msg=f"A peer lacks {error}: give each its host, port, address and mtu.")
    except OSError as error:
        module.fail_json(msg=f"The record of the proof cannot be written: {error}: make it writable for root.")
    diff = {"before_header": path, "after_header": path, "before": before or "", "after": after or ""}
    module.exit_json(changed=before != after, proven=after is not None, diff=diff)


if __name__ == "__main__":
    main()
