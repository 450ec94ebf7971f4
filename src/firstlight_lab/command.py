# SPDX-License-Identifier: Apache-2.0
"""`firstlight lab` and `firstlight demo`: a rack in a box, and site.yml on it."""

from __future__ import annotations

import argparse
import json
import os
import sys
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from rich.table import Table

from firstlight.console import open_console
from firstlight.options import add_json_option

from . import demo, snapshots
from .cache import Cache, default_root
from .cluster import Lab, labs_up
from .fabric import change_fabric
from .images import SYSTEMS, USUAL_SYSTEM
from .incidents import POWER, REPOSITORY, play, power, set_disk, set_faults, set_repository
from .shell import LabError, Narrator
from .spec import PROFILES, make_spec, rack_nodes

DEFAULT_LAB = os.environ.get("FIRSTLIGHT_LAB") or "demo"


def add_parser(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    lab = commands.add_parser("lab")
    lab.set_defaults(run=run)
    actions = lab.add_subparsers(dest="action", required=True)

    up = actions.add_parser("up", help="build what is missing and start the lab")
    _lab_options(up)
    status = actions.add_parser("status", help="show the nodes of a lab")
    _name(status)
    add_json_option(status)
    ssh = actions.add_parser("ssh", help="log in to a node, or run a command on it")
    _name(ssh)
    ssh.add_argument("node")
    ssh.add_argument("remote", nargs=argparse.REMAINDER, metavar="command")
    fabric = actions.add_parser("fabric", help="change the fabric switch of a running lab")
    _name(fabric)
    fabric.add_argument("--node", help="only the ports of this node")
    fabric.add_argument("--port", help="only the ports of this name")
    fabric.add_argument("--mtu", type=int, help="MTU of the switch's ports")
    link = fabric.add_mutually_exclusive_group()
    link.add_argument("--down", action="store_true", default=None, help="switch the ports off")
    link.add_argument("--up", action="store_false", dest="down", default=None, help="switch them on again")
    fabric.add_argument("--rate", help="bandwidth limit from a port to its node, such as 200mbit; none: no limit")
    fabric.add_argument("--cage", type=int, choices=(0, 1), help="move the node's cable into this cage")
    _incidents(actions)
    _snapshots(actions)
    down = actions.add_parser("down", help="remove a lab completely")
    _name(down)
    down.add_argument("--all", action="store_true", help="every lab that is up")

    show = commands.add_parser("demo")
    _lab_options(show)
    show.set_defaults(run=run)


def _incidents(actions: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Add the actions that simulate incidents in a running lab."""
    button = actions.add_parser("power", help="cut or restore the power of a node")
    _name(button)
    button.add_argument("node", help="a node, or `services` for apt repository, registry and model hub")
    button.add_argument("state", choices=list(POWER), help="; ".join(f"{key}: {text}" for key, text in POWER.items()))
    fault = actions.add_parser("fault", help="set or clear the faults of a running node")
    _name(fault)
    fault.add_argument("node")
    fault.add_argument("fault", nargs="*", metavar="FAULT", help="as for `up --fault`; none: healthy again")
    other = actions.add_parser("play", help="turn a running node into another machine: swap hardware, boot")
    _name(other)
    other.add_argument("node")
    other.add_argument("profile", choices=list(PROFILES), metavar="PROFILE", help=", ".join(PROFILES))
    other.add_argument(
        "--fault", action="append", default=[], metavar="FAULT", help="a fault of the new machine; can be repeated"
    )
    disk = actions.add_parser("disk", help="slow down the disk reads of a running node")
    _name(disk)
    disk.add_argument("node")
    disk.add_argument("rate", metavar="RATE", help="bytes per second, such as 20mb; none: no limit")
    swap = actions.add_parser("replace", help="replace a node by another machine of the same kind")
    _name(swap)
    swap.add_argument("node")
    repository = actions.add_parser("repository", help="take the apt repository offline, or back online")
    _name(repository)
    repository.add_argument("state", choices=list(REPOSITORY))
    repository.add_argument("--at", default="", metavar="TEXT", help="go offline at the first request that names this")


def _snapshots(actions: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Add the actions that take and restore snapshots of a lab."""
    take = actions.add_parser("snapshot", help="save the current state of all nodes, to restore it later")
    _name(take)
    take.add_argument("snapshot", metavar="SNAPSHOT", help="its name; one of the same name is replaced")
    restore = actions.add_parser("restore", help="power-cycle all nodes, with their disks restored from a snapshot")
    _name(restore)
    restore.add_argument("snapshot", metavar="SNAPSHOT")
    show = actions.add_parser("snapshots", help="list the snapshots of a lab, or remove one")
    _name(show)
    show.add_argument("--remove", metavar="SNAPSHOT", help="remove this one")


def _name(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--name", default=DEFAULT_LAB, help="the lab's name (default: %(default)s)")


def _lab_options(parser: argparse.ArgumentParser) -> None:
    _name(parser)
    parser.add_argument("--nodes", type=int, default=4)
    parser.add_argument(
        "--profile", default="gb10", choices=list(PROFILES), help="the hardware that the nodes simulate"
    )
    parser.add_argument(
        "--os",
        default=os.environ.get("FIRSTLIGHT_LAB_OS") or USUAL_SYSTEM,
        choices=list(SYSTEMS),
        help="the nodes' operating system (default: %(default)s, or FIRSTLIGHT_LAB_OS)",
    )
    parser.add_argument("--fabric-mtu", type=int, default=9000, help="MTU of the fabric switch")
    parser.add_argument("--bare", type=int, default=0, help="further nodes without Docker and driver")
    parser.add_argument(
        "--rack",
        action="append",
        default=[],
        metavar="NAME=COUNT",
        help="instead of --nodes, a rack of nodes, called spark-NAME1 and so on; can be repeated",
    )
    parser.add_argument(
        "--play", action="append", default=[], metavar="NODE=PROFILE", help="other hardware for one of the nodes"
    )
    parser.add_argument(
        "--fault", action="append", default=[], metavar="NODE=FAULT", help="a hardware fault to simulate"
    )
    parser.add_argument(
        "--docker-disk", action="append", default=[], metavar="NODE=SIZE", help="a small disk for Docker"
    )
    parser.add_argument(
        "--as-delivered", action="store_true", help="nodes as delivered: an account with a password, no key of the lab"
    )


def _up(lab: Lab, arguments: argparse.Namespace) -> None:
    spec = make_spec(
        arguments.name,
        nodes=rack_nodes(arguments.profile, arguments.rack) or arguments.nodes,
        profile=arguments.profile,
        fabric_mtu=arguments.fabric_mtu,
        bare=arguments.bare,
        faults=arguments.fault,
        docker_disks=arguments.docker_disk,
        plays=arguments.play,
    )
    lab.up(replace(spec, as_delivered=arguments.as_delivered, system=arguments.os))


def _print_status(lab: Lab, *, as_json: bool) -> None:
    if as_json:
        sys.stdout.write(json.dumps({"nodes": lab.status()}, indent=2) + "\n")
        return
    table = Table("node", "management", "state", "fabric ports", box=None)
    for row in lab.status():
        table.add_row(row["name"], row["address"], row["state"], ", ".join(row["ports"]) or "none")
    open_console().print(table)


def _run_incidents(lab: Lab, arguments: argparse.Namespace) -> None:
    match arguments.action:
        case "power":
            power(lab, arguments.node, arguments.state)
        case "fault":
            set_faults(lab, arguments.node, arguments.fault)
        case "play":
            play(lab, arguments.node, arguments.profile, arguments.fault)
        case "disk":
            set_disk(lab, arguments.node, arguments.rate)
        case "replace":
            lab.exchange(arguments.node)
        case _:
            set_repository(lab, arguments.state, arguments.at)


def _run_snapshots(lab: Lab, arguments: argparse.Namespace) -> None:
    match arguments.action:
        case "snapshot":
            snapshots.take(lab, arguments.snapshot)
        case "restore":
            snapshots.restore(lab, arguments.snapshot)
        case _ if arguments.remove is not None:
            snapshots.remove(lab, arguments.remove)
        case _:
            _print_snapshots(lab)


def _print_snapshots(lab: Lab) -> None:
    table = Table("snapshot", "taken", "nodes", box=None)
    for snapshot in snapshots.listing(lab):
        nodes = [node for node in snapshot.power if node not in ("services", "switch")]
        table.add_row(snapshot.name, snapshot.taken, ", ".join(nodes))
    open_console().print(table)


def _ssh(lab: Lab, node: str, remote: Sequence[str]) -> int:
    names = [entry["name"] for entry in lab.record()["nodes"]]
    if node not in names:
        raise LabError(f"There is no node {node!r} in the lab {lab.name}; its nodes are {', '.join(names)}.")
    config: Path = lab.directory / "ssh_config"
    sys.stdout.flush()
    os.execvp("ssh", ["ssh", "-F", str(config), node, *remote])


def run(arguments: argparse.Namespace) -> int:
    """Run the action and return the exit status."""
    cache = Cache(default_root())
    lab = Lab(cache, arguments.name, Narrator())
    if arguments.command == "demo":
        _up(lab, arguments)
        return demo.converge(lab)
    match arguments.action:
        case "up":
            _up(lab, arguments)
        case "status":
            _print_status(lab, as_json=arguments.json)
        case "ssh":
            return _ssh(lab, arguments.node, arguments.remote)
        case "fabric":
            change_fabric(
                lab,
                node=arguments.node,
                port=arguments.port,
                mtu=arguments.mtu,
                down=arguments.down,
                rate=arguments.rate,
                cage=arguments.cage,
            )
        case "power" | "fault" | "play" | "disk" | "replace" | "repository":
            _run_incidents(lab, arguments)
        case "snapshot" | "restore" | "snapshots":
            _run_snapshots(lab, arguments)
        case "down":
            names = list(labs_up(cache)) if arguments.all else [arguments.name]
            for name in names or [arguments.name]:
                Lab(cache, name, lab.say).down()
    return 0
