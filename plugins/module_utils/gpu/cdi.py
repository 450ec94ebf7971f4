# SPDX-License-Identifier: Apache-2.0
"""A CDI specification as nvidia-ctk writes it: which GPUs and which driver libraries it gives to a container."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

KIND = "nvidia.com/gpu"
DIRECTORIES = ("/etc/cdi", "/var/run/cdi")
"""Where runtimes look. A device that two files of one directory name is a conflict and resolves to nothing; one that
files of both directories name is taken from the second.
"""

ENDINGS = (".json", ".yaml")
_LIBRARY = "libcuda.so."
_KIND_LINE = re.compile(r"""^kind\s*:\s*["']?(?P<kind>[\w.\-]+/[\w.\-]+)["']?\s*$""", re.MULTILINE)
_VERSION = re.compile(r"^\d+(?:\.\d+)+$")


@dataclass(frozen=True)
class Specification:
    """The GPUs by index or UUID, and the versions of the driver's library; a healthy specification has one version."""

    kind: str = ""
    indexes: tuple[str, ...] = ()
    uuids: tuple[str, ...] = ()
    drivers: tuple[str, ...] = ()

    @property
    def count(self) -> int:
        """The number of GPUs it names; each may have a name by index and one by UUID."""
        return max(len(self.indexes), len(self.uuids))


def parse_specification(text: str) -> Specification:
    """Parse a specification. Raises ValueError if the text is not one."""
    try:
        found = json.loads(text)
    except ValueError as error:
        raise ValueError(f"it is not JSON ({error})") from error
    devices = found.get("devices") if isinstance(found, dict) else None
    if not isinstance(devices, list) or not found.get("kind") or not found.get("cdiVersion"):
        raise ValueError("it has no kind, cdiVersion or list of devices")
    names = [str(device.get("name")) for device in devices if isinstance(device, dict)]
    edits = [found, *(device for device in devices if isinstance(device, dict))]
    return Specification(
        kind=str(found["kind"]),
        indexes=tuple(sorted({name for name in names if name.removeprefix("gpu").isdigit()})),
        uuids=tuple(sorted({name for name in names if name.startswith("GPU-")})),
        drivers=tuple(sorted({version for edit in edits for version in _libraries(edit)})),
    )


def _libraries(edit: Mapping[str, Any]) -> Iterable[str]:
    mounts = (edit.get("containerEdits") or {}).get("mounts") or []
    for mount in mounts:
        name = str(mount.get("hostPath") or "").rpartition("/")[2]
        version = name.removeprefix(_LIBRARY)
        if version != name and _VERSION.match(version):
            yield version


def names_kind(text: str, kind: str) -> bool:
    """Whether a file is a specification of this kind; of YAML, only the `kind` line is read."""
    try:
        found = json.loads(text)
    except ValueError:
        line = _KIND_LINE.search(text)
        return line is not None and line["kind"] == kind
    return isinstance(found, dict) and found.get("kind") == kind


def problems(specification: Specification, uuids: Iterable[str], driver: str) -> dict[str, tuple[Any, Any]]:
    """Compare a specification with a host's GPUs and driver: expected and found values, by differing field."""
    wanted = sorted(set(uuids))
    found: dict[str, tuple[Any, Any]] = {}
    if specification.kind != KIND:
        found["kind"] = (KIND, specification.kind)
    if specification.count != len(wanted):
        found["gpus"] = (len(wanted), specification.count)
    elif specification.uuids and list(specification.uuids) != wanted:
        found["gpus"] = (wanted, list(specification.uuids))
    if specification.drivers != (driver,):
        found["driver"] = (driver, ", ".join(specification.drivers) or None)
    return found
