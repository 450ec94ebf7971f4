# SPDX-License-Identifier: Apache-2.0
"""`firstlight fabric read`: find faults of fabric ports in captured tool output."""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Sequence
from typing import Any

from ansible_collections.firstlight.cluster.plugins.module_utils.fabric.read import (
    expected_of,
    is_right,
    looks_like_twins,
    read,
)
from ansible_collections.firstlight.cluster.plugins.module_utils.fabric.read_checks import Expected
from ansible_collections.firstlight.cluster.plugins.plugin_utils.catalog import load as catalogs
from ansible_collections.firstlight.cluster.plugins.plugin_utils.catalog.names import suggest

from firstlight.errors import DONE, FAILED, UsageError
from firstlight.fabric_view import show
from firstlight.options import add_json_option

LARGEST = 8 << 20
"""Maximum size of a capture in bytes; a larger file is a log or an image, and is not read into memory."""
TOOLS = "ethtool, ibstat, ibstatus, ibv_devinfo, `rdma link`, ibdev2netdev, `ip addr`, files of /sys/class/infiniband"
TWINS_PROFILE = "gb10"


class UnreadableError(UsageError):
    """The capture cannot be used."""


def add_parser(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    parser = commands.add_parser("fabric")
    verbs = parser.add_subparsers(dest="verb", required=True)
    reader = verbs.add_parser(
        "read",
        help="read captured output of RDMA and network tools",
        description="Reads the output of a host's tools, in any mix, and reports what is wrong. Nothing is contacted. "
        f"It knows {TOOLS}. Exits 0 when nothing is wrong, 1 when something is, and 2 when nothing could be read. "
        "Example: ssh spark0 'rdma link; ibv_devinfo; ethtool enp1s0f1np1' | firstlight fabric read --hardware gb10",
    )
    reader.set_defaults(run=run)
    reader.add_argument("files", nargs="*", metavar="FILE", help="captures; - or none: standard input")
    reader.add_argument(
        "--hardware",
        metavar="PROFILE",
        help="hardware in the catalog, such as gb10 (default: recognised by the ports' names)",
    )
    reader.add_argument(
        "--catalog", action="append", default=[], metavar="DIRECTORY", help="a site's catalog, searched first"
    )
    add_json_option(reader)


def run(arguments: argparse.Namespace) -> int:
    """Read and evaluate the captures and print the result; the exit status says whether there is a fault."""
    texts = [_text(name) for name in arguments.files or ["-"]]
    document = read(texts, _expected(arguments, texts))
    if not document["tools"]:
        raise UnreadableError(
            f"{_where(arguments.files)} no output of a known tool, expected one of {TOOLS}: "
            "capture it with the command that printed it"
        )
    if not document["ports"]:
        raise UnreadableError(
            f"{_where(arguments.files)} the output of {', '.join(document['tools'])}, but no fabric port in it: "
            "capture `rdma link` or `ibdev2netdev` of the host as well"
        )
    if arguments.json:
        sys.stdout.write(json.dumps(document, indent=2) + "\n")
    else:
        show(document)
    return DONE if is_right(document) else FAILED


def _where(files: Sequence[str]) -> str:
    return f"{', '.join(files)} {'has' if len(files) == 1 else 'have'}" if files else "standard input has"


def _text(name: str) -> str:
    """Decode a capture in any encoding; bytes that cannot be decoded are not part of a tool's output."""
    try:
        if name == "-":
            data = sys.stdin.buffer.read(LARGEST + 1)
        else:
            with open(name, "rb") as stream:
                data = stream.read(LARGEST + 1)
    except OSError as error:
        raise UnreadableError(f"{name} cannot be read ({error.strerror}), expected a file with a capture") from error
    if len(data) > LARGEST:
        raise UnreadableError(
            f"{name} is larger than {LARGEST >> 20} MiB, expected the output of a tool: cut out the relevant part"
        )
    encoding = "utf-16" if data[:2] in (b"\xff\xfe", b"\xfe\xff") else "utf-8"
    return data.decode(encoding, errors="replace")


def _expected(arguments: argparse.Namespace, texts: Sequence[str]) -> Expected:
    """Return the expectations of the named profile; without --hardware, a GB10 system is recognised by its ports."""
    profile = arguments.hardware or (TWINS_PROFILE if looks_like_twins(texts) else None)
    if profile is None:
        return Expected()
    try:
        hardware: dict[str, Any] = catalogs.load_catalog([*arguments.catalog, catalogs.BUILT_IN])["hardware"]
    except catalogs.CatalogError as error:
        raise UnreadableError(f"the catalog cannot be used:\n{error}") from error
    if profile not in hardware:
        raise UnreadableError(
            f"the profile is {profile[:80]!r}, expected one of the catalog: " + suggest(profile[:80], sorted(hardware))
        )
    return expected_of(profile, hardware[profile].get("fabric") or {})
