# SPDX-License-Identifier: Apache-2.0
"""Runs `firstlight` with the words given, and has every host write down the commands that it is made to run.

What these cost alone, over one SSH connection, is the least that any tool can cost that asks a host the same.
"""

from __future__ import annotations

import sys

import firstlight.inventory  # noqa: F401 - first: it prepares Ansible's own way to import collections
from firstlight import remote_program
from firstlight.cli import main
from tests.e2e.racks.rerun.commands_alone import COMMANDS

RECORD = f"""
import shlex, subprocess
class Recorded(subprocess.Popen):
    def __init__(self, args, *more, **named):
        with open({COMMANDS!r}, "a") as file:
            file.write(shlex.join(args) + " >/dev/null 2>&1\\n")
        super().__init__(args, *more, **named)
subprocess.Popen = Recorded
"""

if __name__ == "__main__":
    remote_program.START = RECORD + remote_program.START
    sys.exit(main())
