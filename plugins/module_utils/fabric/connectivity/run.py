# SPDX-License-Identifier: Apache-2.0
"""One host's part in a connectivity test of the fabric, from its parameters to its results."""

from __future__ import annotations

import time
from collections.abc import Mapping
from typing import Any

from ...host import Host
from .bandwidth import Meter
from .pings import Pinger
from .ports import MEETING_PORT
from .rail_tests import RailTest, Task
from .rendezvous import EndedTestError
from .rounds import patience


class RefusedTestError(Exception):
    """Why there is no connectivity test, for the operator."""


DEFAULTS: dict[str, Any] = {
    "absent": [],
    "ports": [],
    "bandwidth": False,
    "rdma": False,
    "count": 2,
    "wait": 1,
    "settle": 10,
    "start": 60,
    "limit": 900,
    "seconds": 3,
    "amount": 0,
    "streams": 4,
    "port": MEETING_PORT,
}
_TASK = ("host", "run", "members", "ports", "peers", "bandwidth", "rdma", "port", "limit")


def run_tests(host: Host, params: Mapping[str, Any]) -> dict[str, Any]:
    """Run this host's tests; `params` are the options of module fabric_connectivity. Raises RefusedTestError."""
    asked = {**DEFAULTS, **params}
    if asked["host"] not in asked["members"]:
        raise RefusedTestError(
            f"{asked['host']} is not among the members {', '.join(asked['members'])}: "
            "list every host of the fabric, this one included."
        )
    if not host.has("ping"):
        raise RefusedTestError("The fabric cannot be tested, ping is missing: install iputils-ping.")
    task = Task(
        **{name: asked[name] for name in _TASK},
        absent=frozenset(asked["absent"]),
        start=patience(asked["start"], asked["members"]),
    )
    pinger = Pinger(host, asked["count"], asked["wait"], time.monotonic() + asked["settle"])
    meter = Meter(host, asked["port"] + 1, asked["seconds"], asked["amount"], asked["streams"])
    try:
        return RailTest(host, task, pinger, meter).run()
    except ValueError as error:
        raise RefusedTestError(f"The connectivity test cannot be planned: {error}.") from error
    except EndedTestError as error:
        raise RefusedTestError(
            f"The connectivity test was stopped, {error}: test the fabric again, from one place at a time."
        ) from error
