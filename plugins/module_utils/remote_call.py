# SPDX-License-Identifier: Apache-2.0
"""The program that `firstlight verify` runs on a host: it calls a function that the modules also use, and prints JSON.

It is the main program of an archive that is read from standard input and never written to the host's disk.
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
    """Return the function's result as `answer`, or its error message as `problem`."""
    module, _, name = function.rpartition(".")
    try:
        found: Callable[..., Any] = getattr(importlib.import_module(f"{PACKAGE}.{module}"), name)
        return {"answer": found(Host(), **arguments)}
    except Exception as error:  # noqa: BLE001 - whatever it is, the controller reports it for this host
        return {"problem": str(error) or type(error).__name__}


def main(question: bytes) -> None:
    """Print the result as one line, the last one: a login shell may print something before it."""
    sys.stdout.write(json.dumps(call(**json.loads(question))) + "\n")
