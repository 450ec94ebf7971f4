# SPDX-License-Identifier: Apache-2.0
"""The desired state of a CUDA toolkit: one exact set of packages next to the driver, which it never touches."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from ansible_collections.firstlight.cluster.plugins.module_utils.driver.driver import DRIVERS
from ansible_collections.firstlight.cluster.plugins.module_utils.packages.apt_set import named
from ansible_collections.firstlight.cluster.plugins.module_utils.parsers.dpkg import upstream_version
from ansible_collections.firstlight.cluster.plugins.plugin_utils.packages.source import set_files

_WITH_DRIVER = re.compile(r"^cuda(?:-\d+-\d+)?$")
_RELEASE = re.compile(r"-(?P<major>\d+)-(?P<minor>\d+)$")
_FULL = re.compile(r"^\d+\.\d+(?:\.\d+)?$")


def desired(variables: Mapping[str, Any]) -> dict[str, Any]:
    """Return the set, installed and held, with a compiler of that release; empty if no set is given."""
    version = str(variables["cuda_toolkit_version"] or "")
    pins = _pins(variables["cuda_toolkit_packages"] or {})
    if not pins:
        if version:
            raise ValueError(
                f"cuda_toolkit_version is {version}, but cuda_toolkit_packages is empty: name every package of the "
                "toolkit with its version"
            )
        return {}
    release = _release(pins, version)
    source = variables["cuda_toolkit_source"]
    files = set_files("cuda_toolkit", "cuda", pins, pins, [source] if source else [])
    state = {"packages": pins, "holds": dict.fromkeys(pins, True), "files": dict(sorted(files.items()))}
    return {**state, **_compiler(pins, version, release)}


def _pins(packages: Mapping[str, Any]) -> dict[str, str]:
    drivers = sorted(str(name) for name in packages if _WITH_DRIVER.match(str(name)) or named(str(name), DRIVERS))
    if drivers:
        raise ValueError(
            f"cuda_toolkit_packages contains {', '.join(drivers)}, expected a toolkit without a driver: these install "
            "their own in place of the pinned one. Take cuda-toolkit-* instead of cuda, and leave the driver to "
            "the role nvidia_driver"
        )
    loose = sorted(str(name) for name, version in packages.items() if not version)
    if loose:
        raise ValueError(
            f"cuda_toolkit_packages gives no version for {', '.join(loose)}, expected exact ones: give them "
            f"(`apt-cache policy {loose[0]}` lists the versions)"
        )
    return {str(name): str(packages[name]) for name in sorted(packages, key=str)}


def _release(pins: Mapping[str, str], version: str) -> str:
    """Return the release that all package names agree on, such as 13.0 of cuda-nvcc-13-0."""
    if version and not _FULL.match(version):
        raise ValueError(f"cuda_toolkit_version is {version!r}, expected numbers as in 13.0.3: correct it")
    named_by = {name: f"{found['major']}.{found['minor']}" for name in pins if (found := _RELEASE.search(name))}
    releases = sorted(set(named_by.values()))
    if not releases or len(releases) > 1:
        told = (
            f"of the releases {', '.join(releases)}"
            if releases
            else "whose names give no release, as cuda-toolkit-13-0 does"
        )
        raise ValueError(
            f"cuda_toolkit_packages has packages {told}, expected one release: name the packages of one toolkit"
        )
    if version and version.split(".")[:2] != releases[0].split("."):
        raise ValueError(
            f"cuda_toolkit_version is {version}, but the packages are of release {releases[0]}: make them the same"
        )
    return releases[0]


def _compiler(pins: Mapping[str, str], version: str, release: str) -> dict[str, Any]:
    """Return the versions nvcc must report, if the set includes it: a toolkit for running alone may not."""
    suffix = release.replace(".", "-")
    toolkit, compiler = pins.get(f"cuda-toolkit-{suffix}"), pins.get(f"cuda-nvcc-{suffix}")
    if version.count(".") == 2 and toolkit and upstream_version(toolkit) != version:
        raise ValueError(
            f"cuda_toolkit_version is {version}, but cuda-toolkit-{suffix} is pinned to {toolkit}: make them the same"
        )
    if not (toolkit or compiler or f"cuda-compiler-{suffix}" in pins):
        return {}
    full = upstream_version(toolkit) if toolkit else version if version.count(".") == 2 else None
    return {"cuda": {release: {"version": full, "compiler": upstream_version(compiler) if compiler else None}}}
