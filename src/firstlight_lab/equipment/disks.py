# SPDX-License-Identifier: Apache-2.0
"""Copy the disks of a lab's nodes into a snapshot and back. Runs as root in a short-lived container of the engine.

A node has a writable layer and, in most cases, a disk for its own Docker. Image layers on that disk are immutable once
complete, so they are hard-linked; everything else may be written in place and is copied. Before anything is replaced, a
digest of the linked files is checked to detect whether one of them was changed nevertheless.

The order is passed as JSON: {"action": "take" or "restore", "snapshot": path, "nodes": {name: {"layer": path, "disk":
path or null}}}.
"""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import subprocess
import sys
from collections.abc import Callable, Collection
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

DIGESTS = "digests.json"
LAYERS = "overlay2"
LAYER, DISK = "layer", "disk"
DAMAGED = 3
"""Exit status: an image layer of the snapshot was modified in place, and nothing has been touched."""


def image_layers(disk: Path) -> set[str]:
    """Return the directories in overlay2/ with complete image layers, according to Docker's layer database."""
    return {file.read_text().strip() for file in disk.glob("image/overlay2/layerdb/sha256/*/cache-id")}


def copy_tree(source: Path, target: Path) -> None:
    """Copy a directory with owners, modes, times, extended attributes and device files."""
    target.mkdir(parents=True, exist_ok=True)
    subprocess.run(["cp", "-a", "--reflink=auto", f"{source}/.", str(target)], check=True)


def copy_disk(source: Path, target: Path, present: Collection[str] = ()) -> None:
    """Copy a Docker disk: image layers as hard links, unless already in the target, everything else as copies."""
    linked = image_layers(source)
    target.mkdir(parents=True, exist_ok=True)
    _copy_into(target, "-a", [entry for entry in source.iterdir() if entry.name != LAYERS])
    if (source / LAYERS).is_dir():
        (target / LAYERS).mkdir(exist_ok=True)
        missing = [entry for entry in (source / LAYERS).iterdir() if entry.name not in present]
        _copy_into(target / LAYERS, "-al", [entry for entry in missing if entry.name in linked])
        _copy_into(target / LAYERS, "-a", [entry for entry in missing if entry.name not in linked])
        _copy_attributes(source / LAYERS, target / LAYERS)
    _copy_attributes(source, target)


def _copy_into(target: Path, how: str, sources: list[Path]) -> None:
    if sources:
        subprocess.run(["cp", how, "--reflink=auto", "-t", str(target), *map(str, sources)], check=True)


def _copy_attributes(source: Path, target: Path) -> None:
    """Copy the attributes of the directory itself, after its content: copying into it changes its times."""
    status = source.stat()
    os.chown(target, status.st_uid, status.st_gid)
    shutil.copystat(source, target)


def digests(disk: Path) -> dict[str, str]:
    """Return a digest of each image layer, which changes with any write, truncation, or change of mode or owner.

    It also includes the inode, to distinguish a linked file from an equal copy.
    """
    return {layer: _digest(disk / LAYERS / layer) for layer in image_layers(disk)}


def _digest(layer: Path) -> str:
    found = hashlib.sha256()
    for directory, directories, files in os.walk(layer):
        directories.sort()
        attributes = [(name, os.getxattr(directory, name)) for name in sorted(os.listxattr(directory))]
        lines = [f"{os.path.relpath(directory, layer)} {_seen(os.stat(directory))} {attributes}"]
        for name in sorted(files):
            status = os.lstat(os.path.join(directory, name))
            lines.append(f"{name} {status.st_ino} {status.st_size} {_seen(status)}")
        found.update("\n".join(lines).encode("utf-8", "surrogateescape"))
    return found.hexdigest()


def _seen(status: os.stat_result) -> tuple[int, ...]:
    return status.st_mode, status.st_uid, status.st_gid, status.st_mtime_ns


def empty(directory: Path, kept_layers: Collection[str] = ()) -> None:
    """Remove everything in a directory except these image layers."""
    doomed = list(directory.iterdir())
    if kept_layers:
        doomed.remove(directory / LAYERS)
        doomed += [layer for layer in (directory / LAYERS).iterdir() if layer.name not in kept_layers]
    if doomed:
        subprocess.run(["rm", "-rf", "--", *map(str, doomed)], check=True)


def take(snapshot: Path, nodes: dict[str, Any]) -> int:
    def one(name: str) -> dict[str, str]:
        node = nodes[name]
        copy_tree(Path(node[LAYER]), snapshot / name / LAYER)
        if node[DISK] is None:
            return {}
        copy_disk(Path(node[DISK]), snapshot / name / DISK)
        return digests(snapshot / name / DISK)

    (snapshot / DIGESTS).write_text(json.dumps(_side_by_side(one, nodes)))
    return 0


def restore(snapshot: Path, nodes: dict[str, Any]) -> int:
    def one(name: str) -> None:
        layer, disk = Path(nodes[name][LAYER]), nodes[name][DISK]
        empty(layer)
        copy_tree(snapshot / name / LAYER, layer)
        if disk is not None:
            present = {found for found, value in digests(Path(disk)).items() if taken[name].get(found) == value}
            empty(Path(disk), present)
            copy_disk(snapshot / name / DISK, Path(disk), present)

    taken: dict[str, dict[str, str]] = json.loads((snapshot / DIGESTS).read_text())
    now = _side_by_side(lambda name: digests(snapshot / name / DISK), taken)
    damaged = [name for name in taken if now[name] != taken[name]]
    if damaged:
        print(", ".join(damaged))
        return DAMAGED
    _side_by_side(one, nodes)
    return 0


def _side_by_side(work: Callable[[str], Any], names: dict[str, Any]) -> dict[str, Any]:
    with ThreadPoolExecutor(max_workers=4) as pool:
        return dict(zip(names, pool.map(work, names), strict=True))


def main(order: dict[str, Any]) -> int:
    actions = {"take": take, "restore": restore}
    return actions[order["action"]](Path(order["snapshot"]), order["nodes"])


if __name__ == "__main__":
    sys.exit(main(json.loads(sys.argv[1])))
