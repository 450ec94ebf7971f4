# SPDX-License-Identifier: Apache-2.0
"""Terminal output of `firstlight fit`: a bar of a GPU's memory, and an explanation."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from rich.console import Console
from rich.text import Text

from .console import open_console, print_rows, safe
from .memory_view import gib, print_memory


def sentences(
    document: Mapping[str, Any], *, model: str, hardware: str, gpus: int, variants: Sequence[str]
) -> list[str]:
    """Describe whether the model fits, by how much, and what would make it fit."""
    memory = document["memory"]
    where = f"{gpus} GPU{'' if gpus == 1 else 's'} of {hardware}"
    cut = f"tensor parallel {document['tensor_parallel']}"
    if document["pipeline_parallel"] > 1:
        cut += f", pipeline parallel {document['pipeline_parallel']}"
    if document["fits"]:
        holds = f"the cache of a GPU holds {document['kv_tokens']:,} tokens"
        at_once = f"{document['max_concurrency']:.1f} requests of {document['context']:,} tokens at once"
        lines = [f"{model} fits {where} at {cut}: {holds}, which is {at_once}."]
        if document["replicas"] > 1:
            lines.append(f"That is one of {document['replicas']} replicas that these GPUs hold.")
        return lines
    if not memory["short_bytes"]:
        lines = [f"{model} has enough memory on {where} at {cut}, but cannot be served this way."]
        return [*lines, f"Variants of the same model that can: {', '.join(variants)}."] if variants else lines
    lines = [f"{model} does not fit {where} at {cut}: {gib(memory['short_bytes'])} per GPU are missing."]
    if document["longest_context"]:
        lines.append(f"It fits with a context of {document['longest_context']:,} tokens or less.")
    if variants:
        lines.append(f"Variants of the same model that fit: {', '.join(variants)}.")
    return lines


def show(document: Mapping[str, Any], *, model: str, hardware: str, gpus: int, variants: Sequence[str]) -> None:
    """Print the result; on anything but a terminal, without colours and without wrapping."""
    console = open_console()
    model, hardware = safe(model), safe(hardware)
    memory = document["memory"]
    if memory["total_bytes"] and not any(one["id"] == "tp.size" for one in document["errors"]):
        console.print(Text(f"{model} on {hardware}, one GPU of {gib(memory['total_bytes'])}", "bold"))
        print_memory(console, memory)
        for line in sentences(document, model=model, hardware=hardware, gpus=gpus, variants=variants):
            console.print(Text(line))
        legal = ", ".join(map(str, document["legal_tp"])) or "none"
        console.print(
            Text(
                f"A token takes {document['kv_bytes_per_token_per_gpu'] / 1024:.1f} KiB of a GPU's cache. "
                f"Legal tensor parallel sizes up to {gpus}: {legal}."
            )
        )
    show_findings(console, document)


def show_findings(console: Console, document: Mapping[str, Any]) -> None:
    """Print the notes and the errors."""
    for note in document["notes"]:
        console.print(Text(f"note: {safe(note)}"))
    for error in document["errors"]:
        console.print(Text(f"\n{safe(error['found'])} [{error['id']}]"))
        print_rows(console, [("   rule:", error["rule"])])
        print_rows(console, [("   fix:", error["remedy"])])
