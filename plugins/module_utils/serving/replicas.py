# SPDX-License-Identifier: Apache-2.0
"""The number of replicas that answer behind one address, as logged to the journal by the program that deploys them."""

from __future__ import annotations

import re

from ..engine_container import SERVER_UNIT

ANSWER = "replicas answer"
"""What the program logs each time the number changes (launch/ray_serve_program.py)."""
LAST_COUNT = (
    "journalctl",
    f"--unit={SERVER_UNIT}",
    "--boot",
    "--output=cat",
    "--no-pager",
    "--reverse",
    "--lines=1",
    f"--grep={ANSWER}",
)
_SAID = re.compile(rf"firstlight: (\d{{1,6}}) of (\d{{1,6}}) {ANSWER}")


def parse_replicas(output: str) -> dict[str, int] | None:
    """Parse {"answer", "planned"}; None if the program has not logged it yet."""
    found = _SAID.search(output)
    return {"answer": int(found[1]), "planned": int(found[2])} if found else None
