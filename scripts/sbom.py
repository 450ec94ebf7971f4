# SPDX-License-Identifier: Apache-2.0
"""Write software bills of materials in CycloneDX JSON: sbom.py [DIRECTORY].

One each for the wheel, the collection and every stack, which lists what is installed on a node. The output is
reproducible: it contains neither a time nor a serial number. Each document is validated against the schema of its
version.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterable, Mapping, Sequence
from importlib import metadata
from pathlib import Path
from typing import Any

import yaml
from ansible_collections.firstlight.cluster.plugins.module_utils.engine_venv.lock import parse_lock
from ansible_collections.firstlight.cluster.plugins.plugin_utils.catalog.load import load_catalog
from ansible_collections.firstlight.cluster.plugins.plugin_utils.plan.exposure import endpoint, monitoring
from ansible_collections.firstlight.cluster.plugins.plugin_utils.programs import PATHS, program_digest
from cyclonedx.schema import SchemaVersion
from cyclonedx.validation.json import JsonStrictValidator
from packageurl import PackageURL
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

ROOT = Path(__file__).resolve().parent.parent
CATALOG = ROOT / "catalog"
PACKAGE = "firstlight"
USED_BY_PLUGINS = ("ansible-core", "PyYAML")
"""The collection's requirements on a controller; all others belong to the command."""

Component = dict[str, Any]


def component(kind: str, name: str, version: object, purl: PackageURL | None, sha256: str = "") -> Component:
    """Return a component. One without a version is used as the distribution or the factory provides it."""
    found: Component = {"type": kind, "bom-ref": purl.to_string() if purl else f"{kind}:{name}", "name": name}
    found |= {"version": str(version)} if version else {}
    found |= {"purl": purl.to_string()} if purl else {}
    return found | ({"hashes": [{"alg": "SHA-256", "content": sha256}]} if sha256 else {})


def from_index(name: str, version: object, hashes: Sequence[str] = ()) -> Component:
    """Return a Python package, with its hash if it has a single file."""
    purl = PackageURL("pypi", None, canonicalize_name(name), str(version) if version else None)
    return component("library", name, version, purl, hashes[0].removeprefix("sha256:") if len(hashes) == 1 else "")


def from_apt(name: str, version: object, distribution: Mapping[str, Any]) -> Component:
    """Return a package of a distribution, or of a repository for it."""
    release = f"{distribution['distribution']}-{distribution['version']}"
    purl = PackageURL("deb", distribution["distribution"], name, str(version) if version else None, {"distro": release})
    return component("library", name, version, purl)


def from_registry(repository: str, digest: str | None) -> Component:
    """Return a container image, identified by its digest."""
    purl = PackageURL("oci", None, repository.rpartition("/")[2], digest, {"repository_url": repository})
    return component("container", repository, digest, purl, (digest or "").removeprefix("sha256:"))


def generic(kind: str, owner: str, name: str, version: object) -> Component:
    """Return a component that is in no package index."""
    return component(kind, name, version, PackageURL("generic", owner, name, str(version)))


def needed(names: Iterable[str]) -> list[Component]:
    """Return the named packages with their dependencies as installed in .venv, which follows requirements.lock."""
    found: dict[str, Component] = {}
    waiting = [Requirement(name) for name in names]
    while waiting:
        requirement = waiting.pop()
        name = canonicalize_name(requirement.name)
        if name in found or (requirement.marker and not requirement.marker.evaluate({"extra": ""})):
            continue
        found[name] = from_index(name, metadata.version(name))
        waiting += map(Requirement, metadata.requires(name) or ())
    return list(found.values())


def put_on_a_node(stack: Mapping[str, Any], recipes: Mapping[str, Mapping[str, Any]]) -> list[Component]:
    """Return the packages that a stack pins, and what Firstlight itself installs on a node."""
    distribution = stack["distributions"][0]
    driver, image, venv = stack["driver"], stack.get("image") or {}, stack.get("venv") or {}
    fabric_manager = driver.get("fabric_manager") or {}
    packages = {
        **stack["packages"],
        **driver["packages"],
        **({fabric_manager["package"]: fabric_manager["revision"]} if fabric_manager else {}),
        **dict.fromkeys([*endpoint.DEFAULTS["endpoint_packages"], monitoring.NODE_PACKAGE]),
    }
    found = [from_apt(name, version, distribution) for name, version in packages.items()]
    found += [component("application", path, None, None, program_digest(role)) for role, path in PATHS.items()]
    recipe = recipes.get(image.get("build") or "")
    if image:
        found.append(from_registry(image["repository"], image["digest"]))
    if recipe:
        found.append(from_registry(recipe["base"]["repository"], recipe["base"]["digest"]))
    locks = [CATALOG / "locks" / one["lock"] for one in (venv, recipe or {}) if one.get("lock")]
    if venv:
        locks.append(ROOT / "roles" / "engine_venv" / "files" / "uv.txt")
    for lock in (parse_lock(path.read_text(encoding="utf-8")) for path in locks):
        found += [from_index(name, version, lock.hashes[name]) for name, version in lock.packages.items()]
    ray = stack["ray"]
    layer = {"ray": ray["version"], **(ray.get("serve") or {})} if ray.get("version") else {}
    inside = {stack["engine"]["name"]: stack["engine"]["version"], **layer}
    found += [from_index(name, version) for name, version in inside.items()]
    nvidia = {"nccl": stack.get("nccl"), "cuda": stack["cuda"].get("in_image")}
    return found + [generic("library", "nvidia", name, version) for name, version in nvidia.items() if version]


def document(root: Component, components: Iterable[Component]) -> dict[str, Any]:
    """Build a bill of materials: the root component, its unique parts, and its dependency on them."""
    parts: dict[str, Component] = {}
    for one in components:
        parts.setdefault(one["bom-ref"], one)  # the first has its hash
    ordered = [parts[name] for name in sorted(parts)]
    return {
        "$schema": "http://cyclonedx.org/schema/bom-1.6.schema.json",
        "bomFormat": "CycloneDX",
        "specVersion": "1.6",
        "version": 1,
        "metadata": {"component": {**root, "licenses": [{"license": {"id": "Apache-2.0"}}]}},
        "components": ordered,
        "dependencies": [{"ref": root["bom-ref"], "dependsOn": sorted(parts)}],
    }


def documents() -> dict[str, dict[str, Any]]:
    """Return all bills of materials by file name."""
    version = yaml.safe_load((ROOT / "galaxy.yml").read_text(encoding="utf-8"))["version"]
    catalog = load_catalog([CATALOG])
    collection = generic("library", "ansible", "firstlight.cluster", version)
    made = {
        "wheel": document(from_index(PACKAGE, version), needed(metadata.requires(PACKAGE) or ())),
        "collection": document(collection, needed(USED_BY_PLUGINS)),
    }
    for name, stack in catalog["stacks"].items():
        root = generic("platform", PACKAGE, name, version)
        made[f"stack-{name}"] = document(root, put_on_a_node(stack, catalog["recipes"]))
    return made


def problem(text: str) -> str:
    """Return a validation error of a bill of materials, or an empty string."""
    found = JsonStrictValidator(SchemaVersion.V1_6).validate_str(text)
    return str(found) if found else ""


def main(directory: Path) -> int:
    """Write and validate all bills of materials, and return the exit status."""
    directory.mkdir(parents=True, exist_ok=True)
    for name, made in documents().items():
        text = json.dumps(made, indent=2) + "\n"
        if wrong := problem(text):
            print(f"{name} is not a valid CycloneDX document: {wrong}", file=sys.stderr)
            return 1
        path = directory / f"{name}.cdx.json"
        path.write_text(text, encoding="utf-8")
        print(f"    {path}: {len(made['components'])} components")
    return 0


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1]) if len(sys.argv) > 1 else ROOT / "build" / "sbom"))
