# SPDX-License-Identifier: Apache-2.0
"""Snapshots of a lab: the disks of all its nodes and the lab's own records, for a later restore.

Taking a snapshot pauses the nodes during the copy. To a node, a restore is a power cycle that leaves it with its former
disk: processes, /run and /tmp start anew. The switch and the services node also keep their settings on a disk and are
treated like any other node.

The disks are kept in a volume of the engine, next to the nodes' own, so that files that never change can be
hard-linked. They belong to root: a short-lived container of the engine copies them (`equipment/disks.py`), whoever the
user is.
"""

from __future__ import annotations

import contextlib
import datetime
import fcntl
import json
import os
import re
import secrets
import shutil
from collections.abc import Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from .cluster import SNAPSHOTS, Lab
from .containers import LABEL
from .host import Engine
from .images import equipment
from .shell import LabError, run
from .spec import container_name

NAME = re.compile(r"^[a-z0-9][a-z0-9.-]{0,39}$")
DAMAGED = 3  # the same as in disks.py
DOCKER_DISK = "/var/lib/docker"
NEEDED_DRIVER = "overlay2"


@dataclass(frozen=True)
class Power:
    """Whether a node is on, and its restart policy after a reboot."""

    running: bool
    restart: str


@dataclass(frozen=True)
class Machine:
    """A container of the lab, as the engine describes it."""

    container: str
    power: Power
    paused: bool
    layer: str
    """Path of the writable layer, on the machine that runs the engine."""
    disk: str | None
    """Path of the volume for the node's own Docker; None if that disk is in memory or does not exist."""
    image: str


@dataclass(frozen=True)
class Snapshot:
    """A complete snapshot: the content of `snapshots/NAME.json`."""

    name: str
    taken: str
    token: str
    """Part of the names of the volume with the disks and the directory with the lab's own files."""
    power: dict[str, Power]


def take(lab: Lab, name: str) -> None:
    """Take a snapshot. An existing one of the same name is replaced once the new one is complete."""
    if not NAME.match(name):
        raise LabError(
            f"The snapshot's name is {name!r}; expected a lower-case letter or digit, then at most 39 letters, digits, "
            "dots or dashes."
        )
    with _locked(lab):
        engine = lab.engine()
        machines = _machines(lab, engine)
        token = secrets.token_hex(8)
        volume = _volume(lab, token)
        try:
            engine.docker("volume", "create", "--label", f"{LABEL}={lab.name}", volume)
            with _paused(engine, machines.values()):
                _copy_disks(lab, engine, "take", volume, machines)
                _copy_files(lab.directory, _files(lab, token))
            taken = datetime.datetime.now(tz=datetime.UTC).isoformat(timespec="seconds")
            power = {node: machine.power for node, machine in machines.items()}
            _write(lab, Snapshot(name, taken, token, power))
        finally:
            _remove_incomplete(lab, engine)
    lab.say(f"The snapshot {name} of the lab {lab.name} is complete")


def restore(lab: Lab, name: str) -> None:
    """Power the nodes off, restore their disks, power them on and wait until they accept logins."""
    with _locked(lab):
        engine = lab.engine()
        snapshot = _find(lab, name)
        machines = _machines(lab, engine)
        _power_off(engine, machines.values())
        try:
            _copy_disks(lab, engine, "restore", _volume(lab, snapshot.token), machines)
        except _DamagedError as error:
            _power_on(lab, engine, {node: machine.power for node, machine in machines.items()})
            raise LabError(
                f"The snapshot {name} cannot be restored: files of image layers below {DOCKER_DISK}/overlay2 were "
                f"changed in place since it was taken (on {error}), and the snapshot shares them. The nodes are on "
                "again with their own disks. Take a new snapshot; to break an image, replace its files or remove them."
            ) from None
        except (LabError, KeyboardInterrupt):
            lab.say(
                f"The restore is incomplete and the nodes are off. Run it again: firstlight lab restore {name} "
                f"--name {lab.name}"
            )
            raise
        _restore_files(_files(lab, snapshot.token), lab.directory)
        _power_on(lab, engine, snapshot.power)
    lab.say(f"The lab {lab.name} is back at the snapshot {name}")


def names(lab: Lab) -> list[str]:
    """Return the names of a lab's complete snapshots, oldest first."""
    return [snapshot.name for snapshot in listing(lab)]


def listing(lab: Lab) -> list[Snapshot]:
    """Return the complete snapshots of a lab, oldest first."""
    lab.record()  # rejects a lab that is not up
    found = [_read(path) for path in (lab.directory / SNAPSHOTS).glob("*.json")]
    return sorted(found, key=lambda snapshot: (snapshot.taken, snapshot.name))


def remove(lab: Lab, name: str) -> None:
    """Delete a snapshot and free its space."""
    with _locked(lab):
        engine = lab.engine()
        _find(lab, name)
        _pointer(lab, name).unlink()
        _remove_incomplete(lab, engine)
    lab.say(f"The snapshot {name} of the lab {lab.name} is removed")


# -- storage -------------------------------------------------------------------------------------------------------


def _pointer(lab: Lab, name: str) -> Path:
    return lab.directory / SNAPSHOTS / f"{name}.json"


def _files(lab: Lab, token: str) -> Path:
    """Return the directory for a snapshot's copy of the lab's own files: record, keys, known hosts, catalog."""
    return lab.directory / SNAPSHOTS / token


def _volume(lab: Lab, token: str) -> str:
    return f"firstlight-{lab.name}-snapshot-{token}"


def _read(path: Path) -> Snapshot:
    document = json.loads(path.read_text())
    power = {node: Power(**entry) for node, entry in document.pop("power").items()}
    return Snapshot(**document, power=power)


def _write(lab: Lab, snapshot: Snapshot) -> None:
    """Write the snapshot's pointer file, which makes it visible and replaces one of the same name."""
    new = _files(lab, snapshot.token) / "snapshot.new"
    new.write_text(json.dumps(asdict(snapshot), indent=2) + "\n")
    new.rename(_pointer(lab, snapshot.name))


def _find(lab: Lab, name: str) -> Snapshot:
    if NAME.match(name) and _pointer(lab, name).exists():
        return _read(_pointer(lab, name))
    known = names(lab)
    raise LabError(
        f"The lab {lab.name} has no snapshot {name!r}. "
        + (f"Its snapshots are {', '.join(known)}." if known else "It has none yet; take one with: ")
        + ("" if known else f"firstlight lab snapshot {name} --name {lab.name}")
    )


@contextlib.contextmanager
def _locked(lab: Lab) -> Iterator[None]:
    """Hold a lock, so that one snapshot or restore of a lab runs at a time; other labs are not blocked."""
    lab.record()  # rejects a lab that is not up
    (lab.directory / SNAPSHOTS).mkdir(exist_ok=True)
    with (lab.directory / SNAPSHOTS / "lock").open("w") as handle:
        fcntl.flock(handle, fcntl.LOCK_EX)
        yield


def _remove_incomplete(lab: Lab, engine: Engine) -> None:
    """Remove what no complete snapshot refers to: interrupted, replaced and deleted snapshots."""
    directory = lab.directory / SNAPSHOTS
    if not directory.exists():  # the lab was taken down in the meantime, and its snapshots with it
        return
    engine.docker("rm", "-f", _helper(lab), check=False)  # left by a command that was killed
    kept = {snapshot.token for snapshot in map(_read, directory.glob("*.json"))}
    for entry in directory.iterdir():
        if entry.is_dir() and entry.name not in kept:
            shutil.rmtree(entry)
    volumes = engine.docker("volume", "ls", "-q", "--filter", f"label={LABEL}={lab.name}").split()
    stale = [volume for volume in volumes if volume not in {_volume(lab, token) for token in kept}]
    if stale:
        engine.docker("volume", "rm", *stale)


def _copy_files(source: Path, target: Path) -> None:
    """Copy the lab's own files, without the snapshots and the sockets of persistent SSH connections."""

    def left_out(directory: str, entries: list[str]) -> list[str]:
        paths = [Path(directory, entry) for entry in entries]
        return [path.name for path in paths if path == source / SNAPSHOTS or path.is_socket()]

    shutil.copytree(source, target, symlinks=True, ignore=left_out)


def _restore_files(source: Path, target: Path) -> None:
    """Replace the lab's own files by those of the snapshot; its record exists throughout.

    Sockets of SSH connections are removed, because their nodes are off.
    """
    for entry in target.iterdir():
        if entry.name == SNAPSHOTS or (source / entry.name).is_file():
            continue
        if entry.is_dir():
            shutil.rmtree(entry)
        else:
            entry.unlink()
    for entry in source.iterdir():
        if entry.is_dir():
            shutil.copytree(entry, target / entry.name, symlinks=True)
        else:
            new = target / f"{entry.name}.new"
            shutil.copy2(entry, new, follow_symlinks=False)
            os.replace(new, target / entry.name)


# -- nodes ---------------------------------------------------------------------------------------------------------


def _machines(lab: Lab, engine: Engine) -> dict[str, Machine]:
    """Return all containers of the lab by node name, including switch and services."""
    nodes = [entry["name"] for entry in lab.record()["nodes"]] + ["services", "switch"]
    containers = [container_name(lab.name, node) for node in nodes]
    return dict(zip(nodes, described(json.loads(engine.docker("inspect", *containers))), strict=True))


def described(documents: Sequence[Mapping[str, Any]]) -> list[Machine]:
    """Parse the output of `docker inspect`. Raises LabError for a container whose disks cannot be located."""
    machines = []
    for document in documents:
        name = str(document["Name"]).removeprefix("/")
        driver = document.get("GraphDriver") or {}
        layer = (driver.get("Data") or {}).get("UpperDir")
        if driver.get("Name") != NEEDED_DRIVER or not layer:
            raise LabError(
                f"The Docker engine keeps {name} with the storage driver {driver.get('Name') or 'of containerd'!r}; "
                f"snapshots need {NEEDED_DRIVER}. Set it in the engine's daemon.json and start the lab again, or stop "
                "that engine and run the lab as root: it then has an engine of its own."
            )
        volumes = [mount for mount in document["Mounts"] if mount["Type"] == "volume"]
        disks = [mount["Source"] for mount in volumes if mount["Destination"] == DOCKER_DISK]
        state = document["State"]
        machines.append(
            Machine(
                container=name,
                power=Power(bool(state["Running"]), str(document["HostConfig"]["RestartPolicy"]["Name"]) or "no"),
                paused=bool(state["Paused"]),
                layer=str(layer),
                disk=str(disks[0]) if disks else None,
                image=str(document["Image"]),
            )
        )
    return machines


@contextlib.contextmanager
def _paused(engine: Engine, machines: Iterable[Machine]) -> Iterator[None]:
    """Pause the nodes while they are copied. Everything they have written is in the files, flushed or not."""
    running = [machine for machine in machines if machine.power.running]
    awake = [
        machine.container for machine in running if not machine.paused
    ]  # the others were paused by a snapshot that was killed
    try:
        if awake:
            engine.docker("pause", *awake)
        yield
    finally:
        engine.docker("unpause", *(machine.container for machine in running), check=False)  # some may not be paused


def _power_off(engine: Engine, machines: Iterable[Machine]) -> None:
    """Power off all nodes, including those about to boot.

    They stay off even if the engine restarts, as their disks may be incomplete until `_power_on`.
    """
    containers = [machine.container for machine in machines]
    paused = [machine.container for machine in machines if machine.paused]
    if paused:  # by a snapshot that was killed
        engine.docker("unpause", *paused)
    engine.docker("update", "--restart=no", *containers)
    engine.docker("kill", *containers, check=False)  # fails for those that are off
    engine.docker("stop", "-t", "0", *containers)


def _power_on(lab: Lab, engine: Engine, power: Mapping[str, Power]) -> None:
    """Power on every node that was on, and wait for them."""

    def start(node: str) -> None:
        container = container_name(lab.name, node)
        engine.docker("update", f"--restart={power[node].restart}", container)
        if power[node].running:
            engine.docker("start", container)
            lab.wait_for(node)

    with ThreadPoolExecutor(max_workers=6) as pool:
        list(pool.map(start, ["services", "switch", *(node for node in power if node not in ("services", "switch"))]))


class _DamagedError(Exception):
    """Image layers of the snapshot were modified in place; the message names the nodes."""


def _helper(lab: Lab) -> str:
    return f"firstlight-{lab.name}-disks"


def _copy_disks(lab: Lab, engine: Engine, action: str, volume: str, machines: Mapping[str, Machine]) -> None:
    """Copy the disks in a container that sees all volumes as one file system, as hard links cannot cross mounts."""
    snapshot = Path(engine.docker("volume", "inspect", "--format", "{{.Mountpoint}}", volume).strip())
    volumes = snapshot.parents[1]
    order = {
        "action": action,
        "snapshot": str(_inside(volumes, snapshot)),
        "nodes": {
            node: {"layer": f"/layers/{node}", "disk": machine.disk and str(_inside(volumes, Path(machine.disk)))}
            for node, machine in machines.items()
        },
    }
    layers = [part for node, machine in machines.items() for part in ("-v", f"{machine.layer}:/layers/{node}")]
    argv = [
        *("docker", "run", "--rm", "--name", _helper(lab), "--label", f"{LABEL}={lab.name}", "--network=none"),
        *("--userns=host", "--cap-add=SYS_ADMIN"),  # extended attributes of overlay layers are trusted.*
        *("--security-opt=seccomp=unconfined", "--security-opt=apparmor=unconfined"),
        *("-v", f"{volumes}:/volumes", *layers, machines["services"].image),
        *("python3", "-c", equipment("disks.py"), json.dumps(order)),
    ]
    engine.docker("rm", "-f", _helper(lab), check=False)  # left by a command that was killed
    try:
        done = run(argv, env=engine.env, check=False, timeout=1800)
    finally:
        engine.docker("rm", "-f", _helper(lab), check=False)  # still there if the command was interrupted
    if done.returncode == DAMAGED:
        raise _DamagedError(done.stdout.strip())
    if done.returncode != 0:
        said = (done.stderr.strip() or done.stdout.strip())[-2000:]
        raise LabError(f"The disks of the lab {lab.name} could not be copied (status {done.returncode}):\n{said}")


def _inside(volumes: Path, path: Path) -> Path:
    if not path.is_relative_to(volumes):
        raise LabError(
            f"The engine's volumes are in {volumes}, and one of a node is at {path}; snapshots need them side by side. "
            "Use an engine whose volumes are of the driver `local`."
        )
    return Path("/volumes") / path.relative_to(volumes)
