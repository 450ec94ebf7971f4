# SPDX-License-Identifier: Apache-2.0
"""Terminal output of discovery, as a table."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from rich.console import Console
from rich.table import Table
from rich.text import Text

from firstlight.console import print_rows, safe

HEADS = ("address", "name", "MAC", "found by", "host key", "product", "serial", "GPUs", "cages", "system")
NOTHING = "-"


def row(one: Mapping[str, Any]) -> tuple[str, ...]:
    """Return the cells of one candidate for the columns in `HEADS`."""
    machine = one["machine"] or {}
    key = one["host_key"]
    names = sorted(set(machine.get("gpu_names") or []))
    count = machine.get("gpu_count")
    gpus = NOTHING if not machine else f"{count} {', '.join(names) or '(no driver)'}" if count else "none"
    cages = ", ".join(f"{cage} {state}" for cage, state in one["cages"].items())
    cells = (
        one["address"],
        one["name"],
        " + ".join(one["macs"]) or machine.get("mac"),
        ", ".join(one["found_by"]),
        f"{key['fingerprint']} ({one['host_key_state']})" if key else one["host_key_state"],
        machine.get("product"),
        machine.get("serial"),
        gpus,
        cages,
        machine.get("os"),
    )
    return tuple(safe(str(cell)) if cell else NOTHING for cell in cells)


def show(console: Console, found: Sequence[Mapping[str, Any]], missing: Sequence[str]) -> None:
    """Print the table, the faults, and what to do about unknown host keys."""
    rows = [row(one) for one in found]
    if console.soft_wrap:
        widths = [max(len(line[column]) for line in [HEADS, *rows]) for column in range(len(HEADS))]
        for line in [HEADS, *rows]:
            text = "  ".join(cell.ljust(width) for cell, width in zip(line, widths, strict=True))
            console.print(Text(text.rstrip()))
    else:
        table = Table(*HEADS, box=None, pad_edge=False)
        for line in rows:
            table.add_row(*(Text(cell, overflow="fold") for cell in line))
        console.print(table)
    if missing:
        console.print(Text(f"Not queried: {'; '.join(missing)}"))
    wrong = [(one["address"], fault) for one in found for fault in one["faults"]]
    print_rows(
        console,
        [(address, f"{fault['found']}; expected {fault['expected']}. {fault['remedy']}") for address, fault in wrong],
        style="bold red",
    )
    unknown = [one["address"] for one in found if one["host_key_state"] == "unknown"]
    if unknown:
        console.print(
            Text(
                f"No login at {', '.join(unknown)}: compare the keys on their consoles (ssh-keygen -lf "
                "/etc/ssh/ssh_host_ed25519_key.pub), then use --accept ADDRESS or --fingerprints FILE."
            )
        )
