# SPDX-License-Identifier: Apache-2.0
"""`firstlight discover`: find the machines on the management network and identify them."""

from __future__ import annotations

import argparse
import ipaddress
import json
import os
import sys
from pathlib import Path
from typing import Any

from firstlight.errors import UsageError
from firstlight.options import add_json_option
from firstlight.ssh.arguments import add_ssh_options


def add_parser(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    parser = commands.add_parser(
        "discover",
        description="Searches the named network, and no other, with ARP, multicast DNS, LLDP, the neighbour table and "
        "SSH. Logs in only where the host key is trusted, and only reads. Exits 0, or 1 when something is "
        "wrong.",
    )
    parser.set_defaults(run=run)
    parser.add_argument("range", nargs="*", help="addresses: 10.0.0.5, 10.0.0.10-20 or 10.0.0.0/24")
    parser.add_argument(
        "--interface", help="this machine's interface on the management network; without addresses: its whole network"
    )
    add_ssh_options(parser, inventory=False)
    parser.add_argument(
        "--prefix", help="with --output: prefix for the names of new nodes, in the order of their addresses"
    )
    parser.add_argument(
        "-o",
        "--output",
        metavar="FILE",
        help="write the list of nodes for `firstlight bootstrap --nodes`; nodes of an existing list keep their names",
    )
    add_json_option(parser)


def run(arguments: argparse.Namespace) -> int:
    """Find and inspect machines and print them; the exit status says whether any has a fault."""
    import yaml
    from ansible_collections.firstlight.cluster.plugins.plugin_utils.catalog.load import BUILT_IN, load_catalog

    from firstlight.console import open_console
    from firstlight.discover.find import as_document, find, look, own_port
    from firstlight.discover.hardware import cages, profile_of
    from firstlight.discover.listing import nodes_document
    from firstlight.discover.view import show
    from firstlight.ssh.node_list import read_nodes
    from firstlight.ssh.options import credentials, trust
    from firstlight.ssh.targets import expand
    from firstlight.ssh.trust import Trust

    if not arguments.range and not arguments.interface:
        raise UsageError("no network was named; expected a range of addresses, --interface, or both.")
    if arguments.inventory is None and (arguments.accept or arguments.fingerprints):
        raise UsageError("a trusted key is pinned; expected --inventory DIR to keep it in.")
    known = read_nodes(Path(arguments.output)) if arguments.output and Path(arguments.output).exists() else []
    port = own_port(arguments.interface) if arguments.interface else None
    words = arguments.range or [str(port.network) if port else ""]
    addresses = expand(words)
    single = expand([word for word in words if "/" not in word and "-" not in word])
    trusted = trust(arguments) if arguments.inventory else Trust(Path(os.devnull))
    who = credentials(arguments) if arguments.inventory else None
    found, missing = find(port, addresses, single)
    # Machines that answer ARP are on the network, whether or not they run sshd; without ARP every address is tried.
    asked = port is not None and not any(text.startswith("ARP") for text in missing)
    others = [one for one in addresses if not (asked and port and ipaddress.IPv4Address(one) in port.network)]
    profiles = load_catalog([BUILT_IN])["hardware"]
    documents: list[dict[str, Any]] = []
    for one in look(found, others, arguments.port, trusted, who):
        name = profile_of(one.machine, profiles) if one.machine else None
        cabled = cages(one.machine, profiles.get(name or "")) if one.machine else {}
        documents.append(as_document(one, name, cabled))
    if arguments.json:
        sys.stdout.write(json.dumps({"candidates": documents, "not_asked": missing}, indent=2) + "\n")
    else:
        show(open_console(), documents, missing)
    if arguments.output:
        text = yaml.safe_dump(nodes_document(documents, arguments.prefix, known), sort_keys=False)
        Path(arguments.output).write_text(f"---\n{text}", encoding="utf-8")
    return 1 if any(one["faults"] for one in documents) else 0
