# SPDX-License-Identifier: Apache-2.0
"""`firstlight verify`: compare every host with its plan, in the time of a single connection."""

from __future__ import annotations

import argparse
import gc
import json
import sys
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Any

from firstlight.configuration import use_own_settings
from firstlight.errors import DONE, FAILED, UsageError
from firstlight.options import add_host_options, add_json_option, add_limit_option

if TYPE_CHECKING:
    from firstlight.looking import Cluster

PLAYBOOK = "verify.yml"
FABRIC = "fabric_network"
OF_THE_PLAYBOOK = ("verify_bandwidth", "verify_weights", "verify_compute")
PICTURES = "verify_pictures"
"""Variables that require the playbook: booleans in OF_THE_PLAYBOOK when true, and a directory here when set."""


def add_parser(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    parser = commands.add_parser(
        "verify",
        description="Compares every host with its plan and changes nothing. All hosts are queried at once, over one "
        "connection each; the result is that of `ansible-playbook playbooks/verify.yml`, which is run if a variable "
        "asks for more checks, such as -e verify_bandwidth=true. Exits 0 when every check on every host passes, 1 "
        "when one does not, and 2 when the plan is refused.",
    )
    parser.set_defaults(run=run)
    add_host_options(parser)
    add_limit_option(parser)
    parser.add_argument(
        "--role",
        action="append",
        default=[],
        metavar="NAME",
        help=f"check only this role; may be repeated; {FABRIC} also tests the paths (default: all)",
    )
    add_json_option(parser, "print every check of every host as JSON, as -e verify_report=FILE writes it")


def run(arguments: argparse.Namespace) -> int:
    """Check the hosts and print the findings; the exit status says whether everything matches."""
    use_own_settings()
    gc.disable()  # as for a plan: it creates almost no garbage
    import firstlight.inventory  # noqa: F401 - first: it sets up Ansible's collection import hook
    from firstlight.looking import read, show
    from firstlight.verifying import verify

    cluster = read(arguments)
    unknown = [role for role in arguments.role if role not in cluster.roles]
    if unknown:
        raise UsageError(f"there is no role {', '.join(unknown)}, expected some of {', '.join(cluster.roles)}")
    if any(map(cluster.is_true, OF_THE_PLAYBOOK)) or cluster.is_set(PICTURES):
        return _by_playbook(arguments, cluster)
    paths = not arguments.role or FABRIC in arguments.role
    found = verify(cluster.plan.hosts, cluster.head, cluster.connections, roles=arguments.role, paths=paths)
    text = json.dumps(found.all_records, indent=2) + "\n"
    report = cluster.value("verify_report")
    if report:
        Path(str(report)).write_text(text, encoding="utf-8")
    if arguments.json:
        sys.stdout.write(text)
    else:
        show(found)
    return DONE if found.is_right else FAILED


def _by_playbook(arguments: argparse.Namespace, cluster: Cluster) -> int:
    """Run the playbook, which supports more checks, and print its records with --json."""
    from firstlight.playbooks import playbook_words, run_playbook

    told: dict[str, Any] = {"verify_roles": arguments.role} if arguments.role else {}
    if not arguments.json:
        return run_playbook(playbook_words(PLAYBOOK, arguments, told))
    with tempfile.TemporaryDirectory(prefix="firstlight-") as scratch:
        file = Path(scratch) / "records.json"
        words = playbook_words(PLAYBOOK, arguments, told | {"verify_report": str(file)})
        status = run_playbook(words, stdout=sys.stderr)
        # If the file is missing, the playbook ended before the checks and has printed why.
        text = file.read_text(encoding="utf-8") if file.is_file() else ""
    report = cluster.value("verify_report")
    if text and report:
        Path(str(report)).write_text(text, encoding="utf-8")
    sys.stdout.write(text)
    return status
