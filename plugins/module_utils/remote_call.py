# SPDX-License-Identifier: Apache-2.0
"""What `firstlight verify` runs on a host: a function that the collection's modules call, too, and its answer as JSON.

It is the main program of an archive that comes through standard input and is never written to a disk of the host.
"""

from __future__ import annotations

import importlib
import json
import sys
from collections.abc import Callable
from typing import Any

from .host import Host

PACKAGE = __name__.rpartition(".")[0]


def call(function: str, arguments: dict[str, Any]) -> dict[str, Any]:
    """What the function says of this host as `answer`, or why it says nothing as `problem`."""
    module, _, name = function.rpartition(".")
    try:
        found: Callable[..., Any] = getattr(importlib.import_module(f"{PACKAGE}.{module}"), name)
        return {"answer": found(Host(), **arguments)}
    except Exception as error:  # noqa: BLE001 - whatever it is, the controller says it of this host
        return {"problem": str(error) or type(error).__name__}


def main(question: bytes) -> None:
    """Answer in one line, the last one: what a login shell prints comes before it."""
    sys.stdout.write(json.dumps(call(**json.loads(question))) + "\n")
