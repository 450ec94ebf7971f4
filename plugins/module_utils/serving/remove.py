# SPDX-License-Identifier: Apache-2.0
"""Remove what serves from a host: stop it first, and touch only what has one of our names."""

from __future__ import annotations

import contextlib
import glob
import os
import shutil
from collections.abc import Iterable, Sequence

from ..durable import remove_durable
from ..engine_container import BALANCER_UNIT, SUPERVISOR_UNIT, UNIT_DIRECTORY
from ..host import RC_NOT_FOUND, Host
from ..weights.snapshot import LOCK_NAME, RECORD_NAME
from . import removal
from .files import REPIN_PATH
from .left import LIST_CONTAINERS, UNIT_PROPERTIES, parse_containers, parse_units

_DEPTH = 3
"""How many directories below the model root are searched for models: ORGANISATION--NAME/REVISION, and one to spare."""


class RemoveError(Exception):
    """What could not be removed, and what to do."""


def find(host: Host, model_root: str, references: Iterable[str] = (), directories: Iterable[str] = ()) -> removal.Found:
    """Find everything on this host that belongs to serving.

    Raises RemoveError during a re-pin, which needs all of it for its rollback.
    """
    if host.read_text(REPIN_PATH) is not None:
        raise RemoveError(
            f"This host is in the middle of a re-pin ({REPIN_PATH} is there), expected none: finish it with "
            "playbooks/repin.yml, and run again"
        )
    shown = host.run(["systemctl", "show", f"--property={UNIT_PROPERTIES}", *removal.UNITS], timeout=15)
    units = parse_units(shown.stdout)
    containers = parse_containers(_docker(host, LIST_CONTAINERS))
    listed = _docker(host, ["docker", "images", "--digests", "--format={{.Repository}}\t{{.Tag}}\t{{.Digest}}"])
    return removal.Found(
        units=tuple(unit for unit in removal.UNITS if unit in units),
        containers=tuple(sorted(containers)),
        secrets=tuple(path for one in removal.SECRETS for path in sorted(glob.glob(one))),
        files=tuple(path for path in removal.FILES if os.path.lexists(path)),
        scratch=tuple((path, host.disk_used(path)) for path in removal.SCRATCH if os.path.isdir(path)),
        caches=tuple((path, host.disk_used(path)) for path in removal.CACHES if os.path.isdir(path)),
        weights=tuple((path, host.disk_used(path)) for path in _models(model_root, directories)),
        images=removal.own_images(listed, references),
        records=tuple(
            os.path.join(removal.IMAGE_RECORDS, name)
            for name in host.names(removal.IMAGE_RECORDS)
            if name.startswith("sha256-") and name.endswith(".json")
        ),
        nginx_masked=BALANCER_UNIT in units and _is_masked("nginx.service"),
    )


def _is_masked(unit: str) -> bool:
    """Whether a unit is masked, most likely by the role that installed the package."""
    return os.path.realpath(os.path.join(UNIT_DIRECTORY, unit)) == os.devnull


def _docker(host: Host, argv: Sequence[str]) -> str:
    result = host.run(argv, timeout=60)
    if result.ok:
        return result.stdout
    if result.rc == RC_NOT_FOUND:
        return ""
    raise RemoveError(
        f"Docker does not answer ({result.summary}), expected it to list its containers and images: start it "
        "with `systemctl start docker`, and run again"
    )


def _models(root: str, directories: Iterable[str]) -> list[str]:
    """Return directories with the record of verified weights or the lock of a copy in progress; no others are ours."""
    ours = (RECORD_NAME, LOCK_NAME)
    found = [path for path in directories if any(os.path.isfile(os.path.join(path, name)) for name in ours)]
    for directory, names, files in os.walk(root):
        if any(name in files for name in ours):
            found.append(directory)
            names.clear()
        elif directory.removeprefix(root).count("/") >= _DEPTH:
            names.clear()
    return sorted(set(found))


def remove(host: Host, going: removal.Found, model_root: str) -> None:
    """Remove everything in order: first the units that start others, then the running ones, then their files."""
    for unit in going.units:
        argv = ["systemctl", "disable", "--now", unit] if unit == SUPERVISOR_UNIT else ["systemctl", "stop", unit]
        result = host.run(argv, timeout=300)
        if not result.ok:
            raise RemoveError(
                f"{unit} cannot be stopped ({result.summary}): see `systemctl status {unit}`, and run again"
            )
        # Also removes the links of an enabled unit; a unit without an [Install] section has none.
        host.run(["systemctl", "disable", unit], timeout=30)
    for name in going.containers:
        result = host.run(["docker", "rm", "--force", "--volumes", name], timeout=120)
        if not result.ok:
            raise RemoveError(f"container {name} cannot be removed ({result.summary}): see `docker inspect {name}`")
    for path in (*going.secrets, *going.files):
        remove_durable(path)
    for path, _ in (*going.scratch, *going.caches):
        shutil.rmtree(path)
    host.run(["systemctl", "daemon-reload"], timeout=60)
    if going.units:
        host.run(["systemctl", "reset-failed", *going.units], timeout=30)
    for path, _ in going.weights:
        shutil.rmtree(path)
        with contextlib.suppress(OSError):
            if os.path.dirname(path) != model_root.rstrip("/"):
                os.rmdir(os.path.dirname(path))
    _remove_images(host, going.images)
    for path in going.records:
        remove_durable(path)
    for directory in removal.EMPTY_DIRECTORIES:
        with contextlib.suppress(OSError):
            os.rmdir(directory)


def _remove_images(host: Host, images: Sequence[str]) -> None:
    """Remove the images by all of their names."""
    for image in images:
        result = host.run(["docker", "rmi", image], timeout=300)
        # Removing the last name of an image removes its other names too.
        if not result.ok and "No such image" not in result.stderr:
            raise RemoveError(
                f"image {image} cannot be removed ({result.summary}): see `docker ps --all`, and run again"
            )
