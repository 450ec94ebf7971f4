# SPDX-License-Identifier: Apache-2.0
"""`firstlight collect`: write the output of a cluster's GPU tools to a directory that is safe to share."""

from __future__ import annotations

import argparse
import datetime
import json
import os
import sys
from pathlib import Path
from typing import Any

from ansible_collections.firstlight.cluster.plugins.plugin_utils.support_bundle import (
    SupportBundleError,
    check_directory,
)

from firstlight.captures import MANIFEST
from firstlight.errors import DONE, OPEN, UsageError
from firstlight.options import add_host_options, add_json_option, add_limit_option
from firstlight.playbooks import playbook_words, run_playbook


def add_parser(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    parser = commands.add_parser(
        "collect",
        description="Queries every host of an inventory at once and writes the output of its tools to a directory, for "
        "`firstlight diagnose` or a ticket: the same as `ansible-playbook playbooks/collect.yml -e "
        "collect_directory=DIR`. Secrets are removed, and serial numbers, UUIDs, GUIDs, MAC and public addresses "
        "replaced by pseudonyms, on each host before anything leaves it. Nothing is changed on any host. "
        "Exits 3 when a host did not answer.",
    )
    parser.set_defaults(run=run)
    add_host_options(parser)
    add_limit_option(parser)
    add_json_option(parser, "print JSON: the directory, and what could not be read on which host")
    parser.add_argument(
        "-o",
        "--output",
        metavar="DIR",
        help="a directory that is empty or does not exist (default: firstlight-DATE-TIME)",
    )
    parser.add_argument(
        "--anonymous", action="store_true", help="also replace names of hosts and users, and private addresses"
    )
    parser.add_argument(
        "--timeout", type=_seconds, default=30, metavar="SECONDS", help="timeout of each command (default: 30)"
    )


def run(arguments: argparse.Namespace) -> int:
    """Run the playbook, after rejecting an unusable output directory up front."""
    directory = Path(os.path.abspath(arguments.output or _new_name()))
    try:
        check_directory(str(directory))
    except SupportBundleError as error:
        raise UsageError(str(error)) from error
    words = playbook_words("collect.yml", arguments, settings(arguments, directory))
    status = run_playbook(words, stdout=sys.stderr if arguments.json else None)
    if status != DONE:
        return status
    hosts = json.loads((directory / MANIFEST).read_text(encoding="utf-8"))["hosts"]
    silent = {name: about["error"] for name, about in hosts.items() if about.get("error")}
    if arguments.json:
        document = {"directory": str(directory), "hosts": list(hosts), "silent": silent}
        sys.stdout.write(json.dumps(document, indent=2) + "\n")
    return OPEN if silent else DONE


def settings(arguments: argparse.Namespace, directory: Path) -> dict[str, Any]:
    """The extra variables of the playbook."""
    return {
        "collect_directory": str(directory),
        "collect_anonymous": arguments.anonymous,
        "collect_timeout": arguments.timeout,
    }


def _new_name() -> str:
    return f"firstlight-{datetime.datetime.now().astimezone():%Y%m%d-%H%M%S}"


def _seconds(text: str) -> int:
    if not text.isdecimal() or not 1 <= int(text) <= 3600:
        raise argparse.ArgumentTypeError(f"{text!r} is not a number of seconds from 1 to 3600")
    return int(text)
