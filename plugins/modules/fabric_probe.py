#!/usr/bin/python
# SPDX-License-Identifier: Apache-2.0
"""Module fabric_probe: prove that every peer answers full-size packets on every rail."""

from __future__ import annotations

DOCUMENTATION = """
module: fabric_probe
short_description: Prove the fabric from this host to its peers with full-size packets
version_added: "0.1.0"
author: Firstlight contributors
description:
  - Pings every peer on every rail with packets that fill the MTU and may not be fragmented.
  - Where such a packet does not come back an ordinary one is sent, so that the message can tell a dead
    link from a switch that does not pass jumbo frames.
  - Keeps a record of the proof on the host, so that a later run knows whether this fabric was ever proven.
    A failed proof removes the record.
options:
  host:
    description: Name of this host in the records.
    type: str
    required: true
  peers:
    description: Every other host, once for each rail.
    type: list
    elements: dict
    required: true
    suboptions:
      host:
        description: Name of the peer.
        type: str
        required: true
      port:
        description: This host's port on the rail.
        type: str
        required: true
      address:
        description: The peer's address on the rail, without prefix length.
        type: str
        required: true
      mtu:
        description: MTU of the rail; packets of this size must arrive.
        type: int
        required: true
  count:
    description: Packets for each peer and rail.
    type: int
    default: 2
  timeout:
    description: Seconds to wait for an answer.
    type: int
    default: 1
  settle:
    description:
      - Seconds during which a failed pair is asked again.
      - A port that has just been configured needs moments until its switch port forwards.
    type: int
    default: 10
  workers:
    description: Pings at a time.
    type: int
    default: 16
  proof:
    description: File that is written when every pair passed and removed when one did not.
    type: path
attributes:
  check_mode:
    description:
      - Sends nothing in check mode, the ports may not be configured yet.
        Says whether the record of the proof would change if every pair passes.
    support: full
  diff_mode:
    description: Shows the record of the proof.
    support: full
"""

EXAMPLES = """
- name: Prove the first rail to one peer
  firstlight.cluster.fabric_probe:
    host: spark0
    peers:
      - host: spark1
        port: enp1s0f1np1
        address: 192.168.100.11
        mtu: 9000
"""

RETURN = """
records:
  description: One record for each peer and rail.
  type: list
  elements: dict
  returned: always
  sample:
    - id: fabric.enp1s0f1np1.spark1
      host: spark0
      peer: spark1
      port: enp1s0f1np1
      address: 192.168.100.11
      expected: 9000-byte packets arrive unfragmented
      observed: 2 of 2 answered, 0.06 ms
      verdict: pass
      remedy: ""
"""

import contextlib
import os
import time
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from ansible.module_utils.basic import AnsibleModule
from ansible_collections.firstlight.cluster.plugins.module_utils.core import ping
from ansible_collections.firstlight.cluster.plugins.module_utils.host import Host, write_file


def probe(host: Host, name: str, peer: dict[str, Any], count: int, timeout: int, deadline: float) -> dict[str, Any]:
    """Ask one pair until it passes or the time to settle is over, and judge it."""
    limit = count * (timeout + 1) + 5.0
    while True:
        ran = host.run(ping.argv(peer["port"], peer["address"], peer["mtu"], count, timeout), timeout=limit)
        large = ping.parse(ran.stdout, ran.stderr or ran.problem)
        if not ping.worth_retrying(large) or time.monotonic() >= deadline:
            break
        time.sleep(1)
    small = None
    if not large.ok:
        ran = host.run(ping.small_argv(peer["port"], peer["address"], count, timeout), timeout=limit)
        small = ping.parse(ran.stdout, ran.stderr or ran.problem)
    return ping.judge(name, peer, large, small)


def outcome(path: str | None, before: str | None, after: str | None, records: list[dict[str, Any]]) -> dict[str, Any]:
    """The module's result; only the record of the proof is ever changed."""
    if path is None:
        return {"changed": False, "records": records}
    diff = {"before_header": path, "after_header": path, "before": before or "", "after": after or ""}
    return {"changed": before != after, "records": records, "diff": diff}


def keep_proof(path: str, content: str, before: str | None, passed: bool) -> None:
    """Write the record of a proof that passed, remove that of one that did not."""
    if not passed:
        with contextlib.suppress(FileNotFoundError):
            os.unlink(path)
        return
    if before == content:
        return
    os.makedirs(os.path.dirname(path), mode=0o755, exist_ok=True)
    write_file(path, content, 0o644)


def main() -> None:
    """Probe all pairs at once, keep the record, say what is wrong in one message."""
    peer_spec = {
        "host": {"type": "str", "required": True},
        "port": {"type": "str", "required": True},
        "address": {"type": "str", "required": True},
        "mtu": {"type": "int", "required": True},
    }
    module = AnsibleModule(
        argument_spec={
            "host": {"type": "str", "required": True},
            "peers": {"type": "list", "elements": "dict", "required": True, "options": peer_spec},
            "count": {"type": "int", "default": 2},
            "timeout": {"type": "int", "default": 1},
            "settle": {"type": "int", "default": 10},
            "workers": {"type": "int", "default": 16},
            "proof": {"type": "path"},
        },
        supports_check_mode=True,
    )
    params = module.params
    host = Host()
    content = ping.proof_text(params["peers"]) if params["proof"] and params["peers"] else None
    before = host.read_text(params["proof"]) if params["proof"] else None
    if module.check_mode:
        module.exit_json(**outcome(params["proof"], before, content, []))
    if params["peers"] and not host.has("ping"):
        module.fail_json(msg="The fabric cannot be proven, ping is missing: install iputils-ping.", records=[])
    deadline = time.monotonic() + params["settle"]
    with ThreadPoolExecutor(max_workers=max(1, params["workers"])) as pool:
        records = list(
            pool.map(
                lambda peer: probe(host, params["host"], peer, params["count"], params["timeout"], deadline),
                params["peers"],
            )
        )
    passed = not ping.failures(records)
    result = outcome(params["proof"], before, content if passed else None, records)
    if content is not None:
        try:
            keep_proof(params["proof"], content, before, passed)
        except OSError as error:
            module.fail_json(
                msg=f"The record of the proof cannot be written: {error}: make it writable for root.",
                **result,
            )
    if not passed:
        module.fail_json(msg=ping.message(records), **result)
    module.exit_json(**result)


if __name__ == "__main__":
    main()
