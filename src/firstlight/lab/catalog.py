# SPDX-License-Identifier: Apache-2.0
"""The lab's site catalog: what this lab's image, model and packages really are, as catalog entries.

Digests and revisions depend on the machine that built them, so they are written down when the lab starts, the way a
site writes down the entries of its own mirror.
"""

from __future__ import annotations

import datetime
import json
import subprocess
from pathlib import Path
from typing import Any

import yaml

from .cache import Cache
from .engine import EngineArtifacts


def _packages(cache: Cache, names: tuple[str, ...]) -> dict[str, str]:
    """Newest versions of packages in the lab's apt repository."""
    found: dict[str, str] = {}
    for deb in sorted((cache.apt / "pool").rglob("*.deb")):
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


def write_catalog(cache: Cache, directory: Path, artifacts: EngineArtifacts) -> None:
    """stacks/lab.yml and models/tiny.yml."""
    today = datetime.datetime.now(tz=datetime.UTC).date().isoformat()
    repository, digest = artifacts.image_reference.split("@")
    stack: dict[str, Any] = {
        "name": "lab",
        "source": "built by firstlight lab up on this machine",
        "date": today,
        "packages": _packages(cache, ("docker.io", "nvidia-container-toolkit")),
        "image": {"repository": repository, "digest": digest, "size_bytes": artifacts.image_size_bytes},
        "requires": {"vllm": artifacts.vllm_version, "ray": artifacts.ray_version},
        "weights_endpoint": "https://hub.lab.example:8443",
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
    for path, content in (("stacks/lab.yml", stack), ("models/tiny.yml", model), ("extras.yml", extras)):
        target = directory / path
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_text("---\n" + yaml.safe_dump(content, sort_keys=False))
