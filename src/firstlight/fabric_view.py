# SPDX-License-Identifier: Apache-2.0
"""Terminal output of `firstlight fabric read`: one row per port, and one line per finding."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from ansible_collections.firstlight.cluster.plugins.module_utils.fabric.read_checks import WRONG, is_up
from rich.console import Console
from rich.text import Text

from .console import open_console, safe

UNTOLD = "-"


def row_cells(row: Mapping[str, Any]) -> dict[str, str]:
    """Return a port's cells by column heading; a dash marks a value missing from the capture."""
    rdma = row["active_mtu"]
    return {
        "host": row["host"] or UNTOLD,
        "device": row["device"] or UNTOLD,
        "port": row["netdev"] or (str(row["port"]) if row["port"] is not None else UNTOLD),
        "cage": str(row["cage"]) if row["cage"] is not None else UNTOLD,
        "state": _state_word(row),
        "rate Gb/s": f"{row['rate_gbit']:g}" if row["rate_gbit"] is not None else UNTOLD,
        "speed Mb/s": str(row["speed_mbit"]) if row["speed_mbit"] is not None else UNTOLD,
        "link layer": row["link_layer"] or UNTOLD,
        "MTU": str(row["mtu"]) if row["mtu"] is not None else UNTOLD,
        "RDMA MTU": str(rdma) if rdma is not None else UNTOLD,
        "firmware": row["firmware"] or UNTOLD,
    }


def _state_word(row: Mapping[str, Any]) -> str:
    """Return logical and physical state; for an active port, the redundant LINK_UP is omitted."""
    words = [word for word in (row["state"], row["phys_state"]) if word and (word != "LINK_UP" or not row["state"])]
    if words:
        return "/".join(words)
    return UNTOLD if row["link"] is None else ("link" if row["link"] else "no link")


def show(document: Mapping[str, Any]) -> None:
    """Print ports, findings and summary. Columns without any value are omitted."""
    console = open_console()
    _print_ports(console, document["ports"])
    for finding in document["findings"]:
        wrong = finding["level"] == WRONG
        line = Text.assemble(("wrong: ", "bold red") if wrong else ("note: ", "bold"), safe(sentence(finding)))
        console.print(line)
    console.print(Text(summary(document)))


def _print_ports(console: Console, ports: Sequence[Mapping[str, Any]]) -> None:
    rows = [row_cells(row) for row in ports]
    headings = [name for name in rows[0] if any(cells[name] != UNTOLD for cells in rows)]
    if len({row["host"] for row in ports}) < 2:
        headings = [name for name in headings if name != "host"]
    listed = [headings, *([safe(cells[name]) for name in headings] for cells in rows)]
    styles = ["bold", *("dim" if is_up(row) is False else "" for row in ports)]
    widths = [max(len(line[column]) for line in listed) for column in range(len(headings))]
    if console.soft_wrap or sum(widths) + 2 * len(widths) <= console.width:
        for line, style in zip(listed, styles, strict=True):
            text = "  ".join(cell.ljust(wide) for cell, wide in zip(line, widths, strict=True))
            console.print(Text(text.rstrip(), style))
        return
    # Too narrow for columns: list each port with its values, so that no name is cut.
    for line, style in zip(listed[1:], styles[1:], strict=True):
        told = [f"{name} {cell}" for name, cell in zip(headings, line, strict=True) if cell != UNTOLD]
        console.print(Text(", ".join(told), style))


def sentence(finding: Mapping[str, Any]) -> str:
    """Return the finding followed by its remedy."""
    remedy = str(finding["remedy"])
    return f"{finding['found']}. {remedy[0].upper()}{remedy[1:]}." if remedy else f"{finding['found']}."


def summary(document: Mapping[str, Any]) -> str:
    """The last line: the profile used, and the verdict."""
    wrong = sum(1 for one in document["findings"] if one["level"] == WRONG)
    ports = len(document["ports"])
    against = (
        f"evaluated as {document['profile']}" if document["profile"] else "no profile named, so no speed is expected"
    )
    told = f"{ports} port{'' if ports == 1 else 's'} from {', '.join(document['tools'])}; {against}: "
    return told + (f"{wrong} thing{'' if wrong == 1 else 's'} wrong." if wrong else "nothing is wrong.")
