# SPDX-License-Identifier: Apache-2.0
"""Runs the recorded commands on all hosts at once, over one SSH connection each: KEY KNOWN_HOSTS ADDRESS..."""

from __future__ import annotations

import subprocess
import sys

COMMANDS = "/root/commands"
"""Where `record_commands` has a host write them down."""


def main(key: str, known_hosts: str, *addresses: str) -> int:
    """1 where a host cannot be reached."""
    ssh = ("ssh", "-i", key, "-o", f"UserKnownHostsFile={known_hosts}", "-o", "BatchMode=yes", "-l", "root")
    running = [subprocess.Popen([*ssh, address, f"sh {COMMANDS}; true"]) for address in addresses]
    statuses = [process.wait() for process in running]
    return int(any(statuses))


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
