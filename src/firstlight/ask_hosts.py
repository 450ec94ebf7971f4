# SPDX-License-Identifier: Apache-2.0
"""Query every host of an inventory by running a playbook that writes its findings to a file."""

from __future__ import annotations

import argparse
import json
import subprocess
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from .configuration import environment
from .errors import OPEN, FirstlightError
from .playbooks import playbook_words, program

CONNECT_SECONDS = 5
"""Connection timeout after which a host counts as unreachable: kept short because somebody is waiting for the output.
"""
SLOWEST_SECONDS = 120


class AskError(FirstlightError):
    """The hosts could not be queried; the message says why."""

    status = OPEN


def ask(
    playbook: str,
    document: str,
    arguments: argparse.Namespace,
    own: Mapping[str, Any] | None = None,
) -> dict[str, Any]:
    """Run the playbook and return the document it wrote to the path in its variable `document`. Raises AskError."""
    with tempfile.TemporaryDirectory(prefix="firstlight-") as scratch:
        file = Path(scratch) / "document.json"
        words = playbook_words(playbook, arguments, {**(own or {}), document: str(file)})
        settings = {"ANSIBLE_TIMEOUT": str(CONNECT_SECONDS), "ANSIBLE_NOCOLOR": "1"}
        try:
            done = subprocess.run(
                [program(), *words],
                env={**environment(), **settings},
                capture_output=True,
                text=True,
                check=False,
                timeout=SLOWEST_SECONDS,
            )
        except subprocess.TimeoutExpired as error:
            raise AskError(f"the hosts did not answer within {SLOWEST_SECONDS} s: check the network") from error
        if not file.is_file():
            raise AskError(f"the hosts could not be queried: {reason(done.stdout, done.stderr)}")
        found: dict[str, Any] = json.loads(file.read_text(encoding="utf-8"))
    return found


def reason(out: str, complaints: str) -> str:
    """Return why Ansible failed, in a line or two."""
    lines = [line.strip() for text in (complaints, out) for line in text.splitlines() if line.strip()]
    telling = [line for line in lines if line.startswith(("ERROR", "[ERROR]", "FAILED"))] or lines
    return " ".join(telling[:2])[:400] or "ansible-playbook printed nothing"
