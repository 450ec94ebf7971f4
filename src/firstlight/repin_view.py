# SPDX-License-Identifier: Apache-2.0
"""Terminal output of a planned re-pin: the changes on each host, their order, and what a rollback would undo."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping
from typing import Any

from ansible_collections.firstlight.cluster.plugins.plugin_utils.repin.paper import on_paper
from rich.markup import escape

from .console import safe
from .plan_view import print_errors
from .plan_view.screen import open_screen, print_labelled

__all__ = ["on_paper", "show"]


def show(document: Mapping[str, Any]) -> None:
    """Print the document; hosts with the same changes are grouped."""
    console = open_screen()
    print_errors(console, "Errors: the move is refused, no host was touched", "red", document["errors"])
    if not document["errors"]:
        title = f"{document['previous_stack']} -> {document['stack']}"
        console.print(f"[bold]{escape(safe(title))}[/]\n")
        for names, host in _alike(document["hosts"]):
            console.print(f"[bold]{escape(safe(', '.join(names)))}[/]")
            print_labelled(console, list(_rows(host)))
            console.print()
        order = ", then ".join(" + ".join(batch) for batch in document["batches"])
        print_labelled(console, [("order", order)], indent=0)
        print_labelled(console, [(f"{number}.", step) for number, step in enumerate(document["steps"], 1)], indent=0)
        console.print()
    print_errors(console, "Required before apply", "yellow", document["missing_inputs"])
    sys.stdout.flush()


def _alike(hosts: Mapping[str, Mapping[str, Any]]) -> list[tuple[list[str], Mapping[str, Any]]]:
    groups: list[tuple[list[str], Mapping[str, Any]]] = []
    for name, host in hosts.items():
        for names, other in groups:
            if other == host:
                names.append(name)
                break
        else:
            groups.append(([name], host))
    return groups


def _rows(host: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    driver, image = host["driver"], host["image"]
    if host["left_as_it_is"]:
        yield "driver", "verified and held unchanged; set nvidia_driver_policy to install to change it"
    elif driver["from"] != driver["to"]:
        yield "driver", f"{driver['from'] or 'as installed'} -> {driver['to']}, with a reboot"
    else:
        yield "driver", f"{driver['to'] or 'as installed'}, unchanged"
    for change in host["packages"]:
        yield "package", f"{change['name']} {change['from'] or 'none'} -> {change['to'] or 'none'}"
    if not host["packages"]:
        yield "packages", "unchanged"
    for one in host["on_host"]:
        for change in one["packages"]:
            moves = f"{change['name']} {change['from'] or 'none'} -> {change['to'] or 'none'}"
            moves = moves if change["from"] or change["to"] else str(change["name"])
            yield "package", f"{moves}, {one['when']}: decided on the host"
    if image["from"] != image["to"]:
        yield "image", f"{image['from']} -> {image['to']}"
    else:
        yield "image", "unchanged"
