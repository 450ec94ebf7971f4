#!/usr/bin/python
# SPDX-License-Identifier: Apache-2.0
"""Module fabric_connectivity: one host's part in the connectivity test of a fabric."""

from __future__ import annotations

DOCUMENTATION = """
module: fabric_connectivity
short_description: Take part in the connectivity test of a fabric, in rounds of pairs, and record it
version_added: "0.1.0"
author: The Firstlight authors (!UNKNOWN)
description:
  - Every host of a fabric runs this once, all of them at the same time. Each goes through the same rounds, in each of
    which it has another partner, so that no host is in two tests at a time and the time grows with the number of
    hosts, not of pairs.
  - Sends packets that fill the MTU and may not be fragmented to every peer on every rail. Where they do not come back
    it looks for the largest that do.
  - Asks on every rail whether somebody else has this host's address, and the kernel whether packets to each peer leave
    by the rail's port.
  - With O(bandwidth) the two partners of a round meet, over the fabric itself, and measure TCP throughput with iperf3
    and, with O(rdma) and where both have an RDMA device, RDMA bandwidth with ib_write_bw, each way by itself.
  - Evaluates nothing. P(firstlight.cluster.group_state#lookup) does, with what all hosts saw.
  - With O(state=tested) a host keeps the list of the peers to which its fabric was tested, so that a later run knows
    whether this fabric ever was. Another list of peers is another record. Beside it, in a file that ends in
    C(.firmware), it keeps the versions of its BIOS, of the NICs behind its ports and of its GPUs that it was tested
    with, and since when. Firmware changes past apt, resets ports and rewires PCIe, so other firmware needs another
    connectivity test.
  - With O(state=absent), for a connectivity test that failed, the record goes. The firmware's stays, so that a
    verification can still say what changed since the one that passed.
options:
  state:
    description: Whether to take part in the connectivity test, to write its record, or to remove the record.
    type: str
    choices: [measured, tested, absent]
    default: measured
  path:
    description: The record. Its directory is made where it is missing. Required unless O(state=measured).
    type: path
  forget:
    description: With O(state=absent), remove the record of the firmware, too, as when the ports are restored.
    type: bool
    default: false
  host:
    description: Name of this host among the O(members). Required with O(state=measured), as O(run) and O(members) are.
    type: str
  run:
    description: A number of this run, the same on all hosts. Who asks with another one is not answered.
    type: str
  members:
    description: Names of all hosts of the fabric, in the same order on each of them. The rounds follow from it.
    type: list
    elements: str
  absent:
    description: Hosts that take no part in this run. They are pinged, but no host waits for them.
    type: list
    elements: str
    default: []
  ports:
    description: >-
      This host's rails as they are planned. Without them its addresses are read from its ports. With O(state=tested)
      those whose NICs' firmware is kept.
    type: list
    elements: dict
    default: []
    suboptions:
      port:
        description: Name of the port.
        type: str
        required: true
      address:
        description: Its address with prefix length.
        type: str
        required: true
      mtu:
        description: Its MTU.
        type: int
        required: true
      cage:
        description: The cage that the port is in. Not used here.
        type: int
      half:
        description: Which port of the cage it is. Not used here.
        type: int
  peers:
    description: Every other host, once for each rail. Required unless O(state=absent).
    type: list
    elements: dict
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
  bandwidth:
    description: Whether throughput is measured, which fills the fabric for some seconds a round.
    type: bool
    default: false
  rdma:
    description: Whether RDMA is measured with the throughput. Without it no RDMA device is used.
    type: bool
    default: false
  count:
    description: Packets for each peer and rail.
    type: int
    default: 2
  wait:
    description: Seconds to wait for an answer to a packet.
    type: int
    default: 1
  settle:
    description: Seconds from the start during which a failed path is asked again, as a port that has just been
      configured needs moments until its switch port forwards.
    type: int
    default: 10
  start:
    description: Seconds that the other hosts may need to start, too; four more for each of the O(members). So long it
      also waits for the end of an earlier run on this host.
    type: int
    default: 60
  limit:
    description: Seconds after which no partner is waited for any more.
    type: int
    default: 900
  seconds:
    description: Seconds of each measurement of throughput.
    type: int
    default: 3
  amount:
    description: Bytes that each measurement of TCP throughput sends, instead of for O(seconds). V(0) for a time.
    type: int
    default: 0
  streams:
    description: TCP connections of a measurement. One alone does not fill a fast link.
    type: int
    default: 4
  port:
    description: TCP port on the fabric addresses where partners meet. The next two are iperf3's and ib_write_bw's.
    type: int
    default: 27600
attributes:
  check_mode:
    description: >-
      Sends nothing in check mode and returns an empty report; the ports may not be configured yet. Says whether the
      record would change.
    support: full
  diff_mode:
    description: Shows the record.
    support: full
"""

EXAMPLES = """
- name: Test one rail between two hosts
  firstlight.cluster.fabric_connectivity:
    host: spark0
    run: "4711"
    members: [spark0, spark1]
    peers:
      - host: spark1
        port: enp1s0f1np1
        address: 192.168.100.11
        mtu: 9000

- name: Record a connectivity test that passed
  firstlight.cluster.fabric_connectivity:
    state: tested
    path: /var/lib/firstlight/fabric.connectivity
    peers: "{{ fabric_network_peers }}"
    ports: "{{ fabric_network_ports }}"
"""

RETURN = """
report:
  description: What this host saw; the input of P(firstlight.cluster.group_state#lookup).
  type: dict
  returned: with O(state=measured)
  sample:
    host: spark0
    rounds: 1
    seconds: 1.4
    paths:
      - {round: 0, peer: spark1, port: enp1s0f1np1, address: 192.168.100.11, mtu: 9000, ping: {ok: true, largest: 9000}}
"""

import signal
from types import FrameType

from ansible.module_utils.basic import AnsibleModule
from ansible_collections.firstlight.cluster.plugins.module_utils.fabric.connectivity.record import keep_record
from ansible_collections.firstlight.cluster.plugins.module_utils.fabric.connectivity.run import (
    DEFAULTS,
    RefusedTestError,
    run_tests,
)
from ansible_collections.firstlight.cluster.plugins.module_utils.host import Host

PORT_SPEC = {
    "port": {"type": "str", "required": True},
    "address": {"type": "str", "required": True},
    "mtu": {"type": "int", "required": True},
}
PLACE_SPEC = {"cage": {"type": "int"}, "half": {"type": "int"}}
"""What a plan also says of a port."""


def end_in_order() -> None:
    """Let SIGTERM end the module as an exception does: the servers that it started are ended first."""
    signal.signal(signal.SIGTERM, _end)


def _end(number: int, _frame: FrameType | None) -> None:
    raise SystemExit(128 + number)


def main() -> None:
    """Go through the rounds and hand back what was seen, or keep the record."""
    end_in_order()
    module = AnsibleModule(
        argument_spec={
            "state": {"type": "str", "choices": ["measured", "tested", "absent"], "default": "measured"},
            "path": {"type": "path"},
            "forget": {"type": "bool", "default": False},
            "host": {"type": "str"},
            "run": {"type": "str"},
            "members": {"type": "list", "elements": "str"},
            "absent": {"type": "list", "elements": "str", "default": DEFAULTS["absent"]},
            "ports": {
                "type": "list",
                "elements": "dict",
                "default": DEFAULTS["ports"],
                "options": {**PORT_SPEC, **PLACE_SPEC},
            },
            "peers": {
                "type": "list",
                "elements": "dict",
                "options": {"host": {"type": "str", "required": True}, **PORT_SPEC},
            },
            "bandwidth": {"type": "bool", "default": DEFAULTS["bandwidth"]},
            "rdma": {"type": "bool", "default": DEFAULTS["rdma"]},
            "count": {"type": "int", "default": DEFAULTS["count"]},
            "wait": {"type": "int", "default": DEFAULTS["wait"]},
            "settle": {"type": "int", "default": DEFAULTS["settle"]},
            "start": {"type": "int", "default": DEFAULTS["start"]},
            "limit": {"type": "int", "default": DEFAULTS["limit"]},
            "seconds": {"type": "int", "default": DEFAULTS["seconds"]},
            "amount": {"type": "int", "default": DEFAULTS["amount"]},
            "streams": {"type": "int", "default": DEFAULTS["streams"]},
            "port": {"type": "int", "default": DEFAULTS["port"]},
        },
        required_if=[
            ("state", "measured", ("host", "run", "members", "peers")),
            ("state", "tested", ("path", "peers")),
            ("state", "absent", ("path",)),
        ],
        supports_check_mode=True,
    )
    if module.params["state"] != "measured":
        try:
            module.exit_json(**keep_record(module.params, Host(), check_mode=module.check_mode))
        except OSError as error:
            module.fail_json(
                msg=f"The record of the connectivity test cannot be written: {error}: "
                "make room and let root write there."
            )
    if module.check_mode and module.params["host"] in module.params["members"]:
        module.exit_json(changed=False, report={})
    try:
        module.exit_json(changed=False, report=run_tests(Host(), module.params))
    except RefusedTestError as error:
        module.fail_json(msg=str(error))


if __name__ == "__main__":
    main()
