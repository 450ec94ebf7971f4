# SPDX-License-Identifier: Apache-2.0
"""The main program `supervisor.pyz --config /etc/firstlight/supervisor.json`, which systemd runs on every node."""

from __future__ import annotations

import argparse
import asyncio
import os
import sys
from collections.abc import Sequence

from ansible_collections.firstlight.cluster.plugins.module_utils.host import Host
from ansible_collections.firstlight.cluster.plugins.module_utils.supervisor.config import (
    CONFIG_PATH,
    Config,
    ConfigError,
    read_config,
)

from .node import INTERVAL
from .notify import ERROR, Systemd
from .state_files import RUN_DIRECTORY, STATE_DIRECTORY, StateFiles
from .supervisor import Supervisor

SECOND, WRONG_CONFIG = 1, 2


def parse_arguments(arguments: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="supervisor.pyz", description="Keeps a serving group up as a whole.")
    parser.add_argument("--config", default=CONFIG_PATH, metavar="PATH", help="the configuration (%(default)s)")
    parser.add_argument("--check", action="store_true", help="validate the configuration and exit")
    parser.add_argument("--run-directory", default=RUN_DIRECTORY, metavar="PATH", help="%(default)s")
    parser.add_argument("--state-directory", default=STATE_DIRECTORY, metavar="PATH", help="%(default)s")
    parser.add_argument("--interval", default=INTERVAL, type=float, metavar="SECONDS", help="interval of inspections")
    return parser.parse_args(arguments)


def run(arguments: Sequence[str] | None = None) -> int:
    """Return the exit status: 0 stopped, 1 another supervisor runs here, 2 invalid configuration, 3 given up."""
    chosen = parse_arguments(arguments)
    files = StateFiles(chosen.run_directory, chosen.state_directory)
    systemd = Systemd()
    try:
        config = read_config(chosen.config)
    except ConfigError as error:
        systemd.status(str(error))
        return _failed(str(error), WRONG_CONFIG)
    if chosen.check:
        return 0
    return _keep(config, files, systemd, chosen.interval)


def _keep(config: Config, files: StateFiles, systemd: Systemd, interval: float) -> int:
    if not files.lock():
        return _failed(
            f"another supervisor runs on this node and holds {files.lock_path}, expected only one: see `fuser -v "
            f"{files.lock_path}`, end that process, and leave supervisors to systemd",
            SECOND,
        )
    if "NOTIFY_SOCKET" in os.environ:
        # A journal that does not accept our lines must not block us.
        os.set_blocking(1, False)
        # Our child processes must not talk to systemd in our name.
        for name in ("NOTIFY_SOCKET", "WATCHDOG_USEC", "WATCHDOG_PID"):
            os.environ.pop(name, None)
    return asyncio.run(Supervisor(config, Host(), files, systemd, interval=interval).run())


def _failed(words: str, status: int) -> int:
    prefix = f"<{ERROR}>" if "NOTIFY_SOCKET" in os.environ else ""
    sys.stderr.write(f"{prefix}{words}\n")
    return status


def main() -> None:
    """End the process at once, even if threads hang in the kernel."""
    status = run()
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(status)
