# SPDX-License-Identifier: Apache-2.0
"""The lab's site catalog: catalog entries for the image, model and packages of this lab.

Digests and revisions depend on the machine that built them, so they are written when the lab starts, just as a site
writes the entries of its own mirror.
"""

from __future__ import annotations

import datetime
import json
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import yaml

from .cache import Cache
from .engine import EngineArtifacts
from .images import USUAL_SYSTEM
from .nvidia import COMPONENT, SUITE
from .nvidia.deb import Package
from .nvidia.packages import load_packages

SOURCE = "lab"
DOCKER = ("docker.io", "docker-cli")
"""Debian 13 has the client in a separate package."""


def _packages(repository: Path, names: tuple[str, ...]) -> dict[str, str]:
    """Return the newest versions of packages in an apt repository of the lab."""
    found: dict[str, str] = {}
    for deb in sorted((repository / "pool").rglob("*.deb")):
        name, version = deb_name_and_version(deb)
        if name in names and (name not in found or _newer(version, found[name])):
            found[name] = version
    return found


def deb_name_and_version(deb: Path) -> tuple[str, str]:
    fields = subprocess.run(
        ["dpkg-deb", "-W", "--showformat=${Package} ${Version}", str(deb)],
        capture_output=True,
        text=True,
        check=True,
    ).stdout.split()
    return fields[0], fields[1]


def _newer(version: str, than: str) -> bool:
    return subprocess.run(["dpkg", "--compare-versions", version, "gt", than], check=False).returncode == 0


def _fingerprint(key: Path) -> str:
    told = subprocess.run(
        ["gpg", "--show-keys", "--with-colons", str(key)], capture_output=True, text=True, check=True
    ).stdout
    return next(line.split(":")[9] for line in told.splitlines() if line.startswith("fpr:"))


def driver_releases(factory: Sequence[str]) -> list[dict[str, Any]]:
    """Return the factory's driver and then the others of its branch, in the format of a stack."""
    packages = {(one.name, one.version): one for one in load_packages()}
    meta = next(name for name in factory if name.startswith("nvidia-driver-"))
    manager = next((name for name in factory if name.startswith("nvidia-fabricmanager")), None)
    versions = sorted((version for name, version in packages if name == meta), key=_numbers, reverse=True)
    return [_release(packages, meta, manager, version) for version in versions]


def _release(
    packages: Mapping[tuple[str, str], Package], meta: str, manager: str | None, version: str
) -> dict[str, Any]:
    """Return a driver release: the metapackage, and its dependencies of the same version."""
    names, found = [meta], set[str]()
    while names:
        name = names.pop()
        if name not in found and (name, version) in packages:
            found.add(name)
            names += [needed.split()[0] for needed in packages[name, version].depends]
    driver = version.rpartition("-")[0]
    revision = next((own for name, own in packages if name == manager and own.startswith(f"{driver}-")), None)
    return {
        "policy": "install",
        "version": driver,
        "branch": driver.partition(".")[0],
        "flavour": "open" if "open" in meta.split("-") else "proprietary",
        "source": SOURCE,
        "packages": dict.fromkeys(sorted(found), version),
        "fabric_manager": {"package": manager, "version": driver, "revision": revision} if manager else None,
    }


def _numbers(version: str) -> list[int]:
    return [int(part) for part in version.rpartition("-")[0].split(".")]


def write_catalog(
    cache: Cache, directory: Path, artifacts: EngineArtifacts, factory: Sequence[str], system: str = USUAL_SYSTEM
) -> None:
    """Write stacks/lab.yml, its successor, their source, and models/tiny.yml. `factory` lists the preinstalled
    packages.
    """
    today = datetime.datetime.now(tz=datetime.UTC).date().isoformat()
    repository, digest = artifacts.image_reference.split("@")
    stack: dict[str, Any] = {
        "name": "lab",
        "source": "built by firstlight lab up on this machine",
        "date": today,
        # Two sources, as on any real machine: Docker from the distribution, the toolkit from the vendor.
        "packages": _packages(cache.archive(system), DOCKER) | _packages(cache.apt, ("nvidia-container-toolkit",)),
        "package_sources": {"nvidia-container-toolkit": SOURCE},
        "image": {"repository": repository, "digest": digest, "size_bytes": artifacts.image_size_bytes},
        "requires": {"vllm": artifacts.vllm_version, "ray": artifacts.ray_version},
        "python": artifacts.python_version,
        "weights_endpoint": "https://hub.lab.example:8443",
    }
    present, following, *_ = driver_releases(factory)
    # The factory's driver stays unless configured otherwise, as on the machines that the lab simulates.
    stack["driver"] = present | {"policy": "verify-and-hold"}
    after = stack | {"name": "lab-next", "driver": following}
    key = cache.apt / "key.asc"
    source: dict[str, Any] = {
        "name": SOURCE,
        "source": "built and signed by firstlight lab up on this machine",
        "date": today,
        "kind": "repository",
        "repositories": [{"uris": ["http://nvidia.lab.example"]}],
        "suites": [SUITE],
        "components": [COMPONENT],
        "fingerprint": _fingerprint(key),
        "key": key.read_text(encoding="ascii"),
    }
    model: dict[str, Any] = {
        "name": "tiny",
        "source": "random weights, made by firstlight lab up on this machine",
        "date": today,
        "repository": artifacts.model_repository,
        "revision": artifacts.model_revision,
        "config": json.loads(
            (cache.hub / artifacts.model_repository / artifacts.model_revision / "config.json").read_text()
        ),
    }
    extras = {"image_without_ray": artifacts.image_without_ray_reference}
    files = {
        "stacks/lab.yml": stack,
        "stacks/lab-next.yml": after,
        f"sources/{SOURCE}.yml": source,
        "models/tiny.yml": model,
        "extras.yml": extras,
    }
    for path, content in files.items():
        target = directory / path
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_text("---\n" + yaml.safe_dump(content, sort_keys=False))
