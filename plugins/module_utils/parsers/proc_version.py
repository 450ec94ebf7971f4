# SPDX-License-Identifier: Apache-2.0
"""Parses the loaded kernel module: /proc/driver/nvidia/version, /sys/module/nvidia/version, files below .../gpus."""

from __future__ import annotations

import re
from typing import Any

from .captures import key_value
from .reading import quoted
from .smi_text import VERSION, Gpu, said

_MODULE = re.compile(r"^\s*NVRM version:\s*(?P<rest>.*)$", re.IGNORECASE)
_PLAIN = re.compile(r"^\s*(?:version:\s*)?(?P<version>\d{3,4}(?:\.\d{1,4}){1,2})\s*$", re.IGNORECASE)
_LICENSE = re.compile(r"^\s*license:\s*(?P<license>.*\S)\s*$", re.IGNORECASE)
_ABSENT = re.compile(r"/(?:proc/driver|sys/module)/nvidia\S*: No such file", re.IGNORECASE)
_GPU_KEYS = {"model": "name", "gpu uuid": "uuid", "video bios": "vbios_version", "gpu firmware": "gsp_firmware_version"}


def parse_proc_version(text: str) -> tuple[dict[str, Any], list[str]]:
    """Parse the module's version and flavour (open or proprietary). The date after the version has many forms.

    A module that is not loaded has no such file: `loaded` is then False.
    """
    found = said(text)
    versions: list[str] = []
    flavours: list[str] = []
    gpus: list[Gpu] = []
    absent = False
    for line in found.lines:
        module, plain, license_ = _MODULE.match(line), _PLAIN.match(line), _LICENSE.match(line)
        key, value = key_value(line)
        if module:
            version = VERSION.search(module["rest"])
            if not version or "Kernel Module" not in module["rest"]:
                found.problems.append(
                    f"the module's line is {quoted(line)}, expected a version of three digits and more"
                )
                continue
            versions.append(version[0])
            flavours.append("open" if "Open Kernel Module" in module["rest"] else "proprietary")
        elif plain:
            versions.append(plain["version"])
        elif license_:
            flavours.append("proprietary" if license_["license"].upper() == "NVIDIA" else "open")
        elif _ABSENT.search(line):
            absent = True
        elif key == "model" and value:
            gpus.append(Gpu(found))
            gpus[-1].take("name", value)
        elif gpus and key in _GPU_KEYS:
            gpus[-1].take(_GPU_KEYS[key], value)
        elif gpus and key == "bus location":
            gpus[-1].take("bus", value)
    listed = [gpu.done() for gpu in gpus]
    distinct = set(versions)
    if len(distinct) > 1:
        found.problems.append(f"the module's version is {' and '.join(sorted(distinct))}")
    if not (versions or listed or absent):
        first = next((line for line in found.lines if line.strip()), "")
        return {}, [*found.problems, f"no module version in {quoted(first)}"]
    data: dict[str, Any] = {
        "driver": versions[0] if len(distinct) == 1 else None,
        "flavour": flavours[0] if len(set(flavours)) == 1 else None,
        "loaded": bool(versions or listed) and not (absent and not versions and not listed),
        "trouble": found.trouble,
    }
    return {**data, **({"gpus": listed} if listed else {})}, found.problems
