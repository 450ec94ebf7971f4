# SPDX-License-Identifier: Apache-2.0
"""The program: `metrics.pyz --config /etc/firstlight/metrics.json`, run by systemd on every node."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence

from .pages import Pages
from .reading import Readings, read_settings_document
from .server import Server
from .settings import CONFIG_PATH, Settings, parse_settings

CANNOT_LISTEN, WRONG_CONFIG = 1, 2


def run(arguments: Sequence[str] | None = None) -> int:
    """Run the program; return 0 when stopped, 1 if it cannot listen, 2 if the configuration is invalid."""
    parser = argparse.ArgumentParser(
        prog="metrics.pyz", description="Serves the metrics of this node to monitoring hosts."
    )
    parser.add_argument("--config", default=CONFIG_PATH, metavar="PATH", help="the configuration (%(default)s)")
    parser.add_argument("--once", action="store_true", help="print the page once and exit, without listening")
    chosen = parser.parse_args(arguments)
    try:
        settings = parse_settings(read_settings_document(chosen.config))
    except ValueError as error:
        return _failed(str(error), WRONG_CONFIG)
    pages = Pages(Readings(settings).parts(), _say)
    if chosen.once:
        sys.stdout.write(pages.page() or "")
        return 0
    return _serve(settings, pages)


def _serve(settings: Settings, pages: Pages) -> int:
    try:
        server = Server(settings, pages.page, _say)
    except OSError as error:
        return _failed(
            f"cannot listen on {settings.listen} port {settings.port} ({error.strerror}), expected an address of this "
            "node and a free port: see `ip address` and `ss -tlnp`",
            CANNOT_LISTEN,
        )
    try:
        server.serve_forever(poll_interval=0.5)
    except KeyboardInterrupt:
        return 0
    finally:
        server.server_close()
    return 0


def _say(text: str) -> None:
    print(text, file=sys.stderr, flush=True)


def _failed(text: str, status: int) -> int:
    _say(text)
    return status


def main() -> None:
    """Exit with the status of `run`."""
    sys.exit(run())
