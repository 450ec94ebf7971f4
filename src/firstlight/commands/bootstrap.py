# SPDX-License-Identifier: Apache-2.0
"""`firstlight bootstrap`: the first login to nodes that have only a password account."""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path

from firstlight.bootstrap.script import SUDO, Wanted, check_wanted
from firstlight.errors import UsageError
from firstlight.options import add_json_option
from firstlight.ssh.arguments import add_ssh_options
from firstlight.ssh.targets import Target, chosen, named


def add_parser(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    parser = commands.add_parser(
        "bootstrap",
        description="Installs the operator's key, pins the host key, sets up sudo, Python and the host name on nodes "
        "that have only a password account. Running it again is safe and finishes what was left. Exits 0 when "
        "every node is ready, and 1 when one is not.",
    )
    parser.set_defaults(run=run)
    parser.add_argument(
        "node", nargs="*", help="NAME=ADDRESS, an address or a range; with --nodes, names from that list"
    )
    parser.add_argument(
        "--interface", help="this machine's port on the management network: detects two machines with one address"
    )
    parser.add_argument("--nodes", metavar="FILE", help="the list that `firstlight discover --output` wrote")
    add_ssh_options(parser, inventory=True)
    parser.add_argument(
        "--sudo", choices=SUDO, default="nopasswd", help="how that account becomes root afterwards (default: nopasswd)"
    )
    parser.add_argument("--no-password-login", action="store_true", help="disable password login once the key works")
    parser.add_argument("--keep-hostname", action="store_true", help="do not set the host names of the nodes")
    parser.add_argument(
        "--replaces",
        action="append",
        default=[],
        metavar="NAME",
        help="this node is another machine now: its new key is pinned instead of the old one if the machine has the "
        "serial number that --nodes lists for it",
    )
    parser.add_argument("--check", action="store_true", help="show what would change, change nothing")
    parser.add_argument(
        "--wait",
        type=float,
        default=180,
        metavar="SECONDS",
        help="how long to wait for a node that reboots (default: 180)",
    )
    add_json_option(parser)


def run(arguments: argparse.Namespace) -> int:
    """Bootstrap all nodes; the exit status says whether every node is ready."""
    from ansible_collections.firstlight.cluster.plugins.plugin_utils.catalog.load import BUILT_IN, load_catalog

    from firstlight.bootstrap.touch import FirstTouch
    from firstlight.bootstrap.view import progress, show
    from firstlight.console import open_console
    from firstlight.ssh.host_keys import HostKey
    from firstlight.ssh.options import confirm, credentials, public_key, refuse_missing_private, shown_key, trust
    from firstlight.ssh.together import together

    targets = _targets(arguments)
    wanted = Wanted(
        user=arguments.user,
        public_key=public_key(arguments),
        sudo=arguments.sudo,
        password_login=not arguments.no_password_login,
        hostnames=not arguments.keep_hostname,
        check=arguments.check,
    )
    check_wanted(wanted)
    trusted = trust(arguments, keep=not arguments.check)
    who = credentials(arguments)
    refuse_missing_private(who, wanted.public_key)
    shown = together(lambda target: shown_key(target, arguments.port, trusted), targets)
    confirm(trusted, {target: key for target, key in shown if isinstance(key, HostKey)}, arguments.port)
    touch = FirstTouch(
        trusted,
        who,
        wanted,
        load_catalog([BUILT_IN])["hardware"],
        port=arguments.port,
        wait_seconds=arguments.wait,
        answered=_answered(arguments, targets),
    )
    with progress(len(targets)) as tell:
        outcomes = touch.run(targets, tell)
    if arguments.json:
        keys = {name: key.fingerprint for name, key in trusted.new.items()}
        document = {"nodes": [outcome.as_document() for outcome in outcomes], "new_host_keys": keys}
        sys.stdout.write(json.dumps(document, indent=2) + "\n")
    else:
        show(
            open_console(),
            outcomes,
            [(name, key.fingerprint) for name, key in trusted.new.items()],
            check=arguments.check,
        )
    return 1 if any(outcome.fault for outcome in outcomes) else 0


def _answered(arguments: argparse.Namespace, targets: list[Target]) -> dict[str, list[str]]:
    """Return the MAC addresses that answer ARP for each node's address; empty without --interface."""
    if not arguments.interface:
        return {}
    from firstlight.discover.arp import sweep
    from firstlight.discover.find import own_port

    try:
        return sweep(own_port(arguments.interface), [target.address for target in targets])
    except PermissionError:
        raise UsageError("--interface needs root here; expected root. Leave it out, or use sudo.") from None


def _targets(arguments: argparse.Namespace) -> list[Target]:
    """Return the nodes selected on the command line. Raises UsageError."""
    from firstlight.ssh.node_list import read_nodes

    names = arguments.node
    targets = chosen(read_nodes(Path(arguments.nodes)), names) if arguments.nodes else named(names)
    missing = sorted(set(arguments.replaces) - {target.name for target in targets if target.serial})
    if missing:
        raise UsageError(
            f"--replaces names {', '.join(missing)}, of which no serial number is known; expected a node of "
            "--nodes FILE with the serial of the new machine: nothing else distinguishes it from the old one. Add "
            "it to the file."
        )
    if not targets:
        raise UsageError("no node was named; expected NAME=ADDRESS, an address or a range, or --nodes FILE.")
    twice = sorted({one.name for one in targets if [two.name for two in targets].count(one.name) > 1})
    if twice:
        raise UsageError(f"the name {', '.join(twice)} is listed more than once; expected each once. Correct the list.")
    return targets
