# SPDX-License-Identifier: Apache-2.0
"""Run playbooks of the collection with the ansible-playbook of the same environment."""

from __future__ import annotations

import argparse
import json
import signal
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import IO, Any

from ansible_collections.firstlight.cluster.plugins.plugin_utils.catalog.load import BUILT_IN

from .configuration import environment
from .errors import DONE, FAILED, INTERRUPTED, REFUSED, FirstlightError, UsageError

PLAYBOOKS = BUILT_IN.parent / "playbooks"
STATUS = {0: DONE, 5: REFUSED, 99: INTERRUPTED, -signal.SIGINT: INTERRUPTED, -signal.SIGTERM: INTERRUPTED}
"""Exit statuses of ansible-playbook other than failure: success, rejected options, interruption."""


def program() -> str:
    """Return the path of the ansible-playbook beside this interpreter. Raises FirstlightError."""
    found = Path(sys.executable).with_name("ansible-playbook")
    if not found.exists():
        raise FirstlightError(f"{found} is missing: run `make setup`, or call your own ansible-playbook")
    return str(found)


def playbook_words(
    playbook: str, arguments: argparse.Namespace, own: Mapping[str, Any] | None = None, more: Sequence[str] = ()
) -> list[str]:
    """Return the arguments of `ansible-playbook`, from the options of `options.py` and the command's own variables.

    Raises UsageError for a missing inventory: Ansible would treat it as empty and succeed.
    """
    missing = [source for source in arguments.inventory if "," not in source and not Path(source).exists()]
    if missing:
        raise UsageError(f"the inventory {', '.join(missing)} does not exist, expected a file or directory: correct -i")
    words = [str(PLAYBOOKS / playbook)]
    for option, values in (
        ("-i", arguments.inventory),
        ("--limit", [arguments.limit] if getattr(arguments, "limit", None) else []),
        ("-e", [*arguments.extra_vars, *([json.dumps(dict(own))] if own else [])]),
        ("--vault-password-file", arguments.vault_password_file),
        ("--become-password-file", arguments.become_password_file),
    ):
        words += [word for value in values for word in (option, value)]
    return [*words, *more]


def run_playbook(words: Sequence[str], *, stdout: IO[str] | None = None, own: Mapping[str, str] | None = None) -> int:
    """Run the playbook in the operator's terminal, with extra environment variables `own`, and translate its status."""
    sys.stdout.flush()
    with subprocess.Popen([program(), *words], env=environment() | dict(own or {}), stdout=stdout) as process:
        # The terminal sends Ctrl-C to both processes, so wait while Ansible cleans up. SIGTERM reaches only this
        # process and is forwarded.
        signal.signal(signal.SIGINT, signal.SIG_IGN)
        signal.signal(signal.SIGTERM, lambda *_: process.terminate())
        try:
            return STATUS.get(process.wait(), FAILED)
        finally:
            signal.signal(signal.SIGINT, signal.default_int_handler)
            signal.signal(signal.SIGTERM, signal.default_int_handler)
