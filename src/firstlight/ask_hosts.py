# SPDX-License-Identifier: Apache-2.0
"""Asks every host of an inventory through a playbook that writes what it heard into a file."""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from ansible_collections.firstlight.cluster.plugins.plugin_utils.catalog.load import BUILT_IN

from firstlight.errors import FirstlightError

PLAYBOOKS = BUILT_IN.parent / "playbooks"
CONNECT_SECONDS = 5
"""Until a host counts as one that does not answer: whoever looks wants to know now."""
SLOWEST_SECONDS = 120


class AskError(FirstlightError):
    """Nobody could be asked, and why."""


def add_host_options(parser: argparse.ArgumentParser) -> None:
    """The options of every command that asks hosts."""
    parser.add_argument("-i", "--inventory", action="append", required=True, help="as for ansible-playbook")
    parser.add_argument("-e", "--extra-vars", action="append", default=[], help="as for ansible-playbook")
    parser.add_argument("--vault-password-file", action="append", default=[], help="as for ansible-playbook")


def playbook_words(
    playbook: str, arguments: argparse.Namespace, own: Mapping[str, Any], limit: Sequence[str] = ()
) -> list[str]:
    """The words after `ansible-playbook`."""
    words = [str(PLAYBOOKS / playbook)]
    for option, values in (
        ("-i", arguments.inventory),
        ("--limit", [",".join(limit)] if limit else []),
        ("-e", [*arguments.extra_vars, json.dumps(dict(own))]),
        ("--vault-password-file", arguments.vault_password_file),
    ):
        words += [word for value in values for word in (option, value)]
    return words


def ask(
    playbook: str,
    document: str,
    arguments: argparse.Namespace,
    own: Mapping[str, Any] | None = None,
    limit: Sequence[str] = (),
) -> dict[str, Any]:
    """Run the playbook and read what it wrote into the file that its variable `document` names. Raises AskError."""
    program = Path(sys.executable).with_name("ansible-playbook")
    if not program.exists():
        raise FirstlightError(f"{program} is missing: run `make setup`, or call your own ansible-playbook")
    with tempfile.TemporaryDirectory(prefix="firstlight-") as scratch:
        file = Path(scratch) / "document.json"
        words = playbook_words(playbook, arguments, {**(own or {}), document: str(file)}, limit)
        environment = {**os.environ, "ANSIBLE_TIMEOUT": str(CONNECT_SECONDS), "ANSIBLE_NOCOLOR": "1"}
        # The checkout's own settings hold wherever the command is called from, unless there are others.
        configuration = BUILT_IN.parent / "ansible.cfg"
        if configuration.is_file() and not Path("ansible.cfg").exists():
            environment.setdefault("ANSIBLE_CONFIG", str(configuration))
        try:
            done = subprocess.run(
                [str(program), *words],
                env=environment,
                capture_output=True,
                text=True,
                check=False,
                timeout=SLOWEST_SECONDS,
            )
        except subprocess.TimeoutExpired as error:
            raise AskError(f"the hosts did not answer within {SLOWEST_SECONDS} s: look at the network") from error
        if not file.is_file():
            raise AskError(f"the hosts could not be asked: {reason(done.stdout, done.stderr)}")
        found: dict[str, Any] = json.loads(file.read_text(encoding="utf-8"))
    return found


def reason(out: str, complaints: str) -> str:
    """Why Ansible ended, in a line or two."""
    lines = [line.strip() for text in (complaints, out) for line in text.splitlines() if line.strip()]
    telling = [line for line in lines if line.startswith(("ERROR", "[ERROR]", "FAILED"))] or lines
    return " ".join(telling[:2])[:400] or "ansible-playbook said nothing"
