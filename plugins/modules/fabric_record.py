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
  - Beside it, in a file that ends in C(.firmware), it keeps the versions of its BIOS, of the NICs behind its ports and
    of its GPUs that it was proven with, and since when. Firmware changes past apt, resets ports and rewires PCIe, so
    other firmware needs another proof. A proof that fails leaves this file alone, so that a verification can still say
    what changed since the one that passed.
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
  ports:
    description: The host's ports of the fabric, whose NICs' firmware is kept.
    type: list
    elements: str
    default: []
  forget:
    description: With O(state=absent), remove the record of the firmware, too, as when the ports are given back.
    type: bool
    default: false
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
    ports: [enp1s0f1np1, enP2p1s0f1np1]
"""

RETURN = """
proven:
  description: Whether the host has the record now; in check mode, whether it would have.
  type: bool
  returned: success
"""

import contextlib
import os
import time
from collections.abc import Mapping
from typing import Any

from ansible.module_utils.basic import AnsibleModule
from ansible_collections.firstlight.cluster.plugins.module_utils.core.firmware import firmware_path, kept_text
from ansible_collections.firstlight.cluster.plugins.module_utils.core.ping import proof_text
from ansible_collections.firstlight.cluster.plugins.module_utils.firmware_probe import read_versions
from ansible_collections.firstlight.cluster.plugins.module_utils.host import Host, write_file


def put(path: str, after: str | None) -> None:
    """Leave this record there, or none."""
    if after is None:
        with contextlib.suppress(FileNotFoundError):
            os.unlink(path)
        return
    os.makedirs(os.path.dirname(path), mode=0o755, exist_ok=True)
    write_file(path, after, 0o644)


def wanted(params: Mapping[str, Any], host: Host, now: str) -> dict[str, tuple[str | None, str | None]]:
    """By path, what there is and what there is to be. Raises KeyError, TypeError or ValueError for bad peers."""
    path: str = params["path"]
    firmware = firmware_path(path)
    before, before_firmware = host.read_text(path), host.read_text(firmware)
    if params["state"] == "present":
        kept = kept_text(before_firmware, read_versions(host, params["ports"]), now)
        return {path: (before, proof_text(params["peers"])), firmware: (before_firmware, kept)}
    return {path: (before, None), firmware: (before_firmware, None if params["forget"] else before_firmware)}


def main() -> None:
    """Compare the records with what is to be kept."""
    module = AnsibleModule(
        argument_spec={
            "path": {"type": "path", "required": True},
            "peers": {"type": "list", "elements": "dict", "required": True},
            "ports": {"type": "list", "elements": "str", "default": []},
            "forget": {"type": "bool", "default": False},
            "state": {"type": "str", "choices": ["present", "absent"], "default": "present"},
        },
        supports_check_mode=True,
    )
    try:
        files = wanted(module.params, Host(), time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()))
        changed = {path: pair for path, pair in files.items() if pair[0] != pair[1]}
        for path, (_, after) in changed.items():
            if not module.check_mode:
                put(path, after)
    except (KeyError, TypeError, ValueError) as error:
        module.fail_json(msg=f"A peer lacks {error}: give each its host, port, address and mtu.")
    except OSError as error:
        module.fail_json(msg=f"The record of the proof cannot be written: {error}: make room and let root write there.")
    diff = [
        {"before_header": path, "after_header": path, "before": before or "", "after": after or ""}
        for path, (before, after) in changed.items()
    ]
    module.exit_json(changed=bool(changed), proven=files[module.params["path"]][1] is not None, diff=diff)


if __name__ == "__main__":
    main()
