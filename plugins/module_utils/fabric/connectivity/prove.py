# SPDX-License-Identifier: Apache-2.0
"""One host's part of a proof of the fabric, from what it is asked to what it saw."""

from __future__ import annotations

import time
from collections.abc import Mapping
from typing import Any

from ...host import Host
from .bandwidth import Meter
from .pings import Pinger
from .ports import MEETING_PORT
from .rail_tests import Proof, Task
from .rendezvous import ProofEndedError
from .rounds import patience


class RefusedProofError(Exception):
    """Why there is no proof, for the operator."""


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


def prove(host: Host, params: Mapping[str, Any]) -> dict[str, Any]:
    """What a host sees of its fabric; `params` are the options of module fabric_proof. Raises RefusedProofError."""
    asked = {**DEFAULTS, **params}
    if asked["host"] not in asked["members"]:
        raise RefusedProofError(
            f"{asked['host']} is not among the members {', '.join(asked['members'])}: "
            "list every host of the fabric, this one included."
        )
    if not host.has("ping"):
        raise RefusedProofError("The fabric cannot be proven, ping is missing: install iputils-ping.")
    task = Task(
        **{name: asked[name] for name in _TASK},
        absent=frozenset(asked["absent"]),
        start=patience(asked["start"], asked["members"]),
    )
    pinger = Pinger(host, asked["count"], asked["wait"], time.monotonic() + asked["settle"])
    meter = Meter(host, asked["port"] + 1, asked["seconds"], asked["amount"], asked["streams"])
    try:
        return Proof(host, task, pinger, meter).run()
    except ValueError as error:
        raise RefusedProofError(f"The proof cannot be planned: {error}.") from error
    except ProofEndedError as error:
        raise RefusedProofError(
            f"The proof was ended, {error}: prove the fabric again, from one place at a time."
        ) from error
