# SPDX-License-Identifier: Apache-2.0
"""Runs on a node of the lab, with the product's own code beside it, and tests paths on request.

It keeps running between two orders: the start of Python and of SSH is not part of what is measured.
"""

from __future__ import annotations

import json
import sys
import time

from ansible_collections.firstlight.cluster.plugins.module_utils.fabric.connectivity.bandwidth import Meter
from ansible_collections.firstlight.cluster.plugins.module_utils.fabric.connectivity.facts import read_ports
from ansible_collections.firstlight.cluster.plugins.module_utils.fabric.connectivity.pings import Pinger
from ansible_collections.firstlight.cluster.plugins.module_utils.fabric.connectivity.ports import MEETING_PORT
from ansible_collections.firstlight.cluster.plugins.module_utils.fabric.connectivity.rail_tests import RailTest, Task
from ansible_collections.firstlight.cluster.plugins.module_utils.host import Host


def main() -> None:
    """One line in, one line out."""
    host = Host()
    ports, _ = read_ports(host)
    meter = Meter(host, MEETING_PORT + 1, 1, 0, 1)
    print("ready", flush=True)
    for line in sys.stdin:
        order = json.loads(line)
        if meter.amount != order["amount"]:
            meter = Meter(host, MEETING_PORT + 1, 1, order["amount"], 1)
        task = Task(
            host=order["host"],
            run=order["run"],
            members=order["members"],
            absent=frozenset(),
            ports=order["ports"],
            peers=order["peers"],
            bandwidth=order["amount"] > 0,
            port=MEETING_PORT,
            start=30,
            limit=300,
        )
        pinger = Pinger(host, order["count"], 1, time.monotonic())
        print(json.dumps(RailTest(host, task, pinger, meter).paths(ports)), flush=True)


if __name__ == "__main__":
    main()
