# SPDX-License-Identifier: Apache-2.0
"""The CDI specification that the stand-in nvidia-ctk writes, with the fields and names of the real one."""

from __future__ import annotations

import json
import platform
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from .machine import Gpu, Machine

LIBRARIES = ("libcuda.so", "libnvidia-ml.so", "libnvidia-ptxjitcompiler.so")
MOUNT_OPTIONS = ["ro", "nosuid", "nodev", "rbind", "rprivate"]
HOOK = "/usr/bin/nvidia-cdi-hook"


def specification(machine: Machine, driver: str) -> dict[str, Any]:
    """Return the specification: every GPU by index and by UUID, all of them together, and the driver's files."""
    folder = f"/usr/lib/{platform.machine()}-linux-gnu"
    files = [f"{folder}/{name}.{driver}" for name in LIBRARIES] + ["/usr/bin/nvidia-smi"]
    names = [*(str(gpu.index) for gpu in machine.gpus), *(gpu.values["uuid"] for gpu in machine.gpus)]
    devices = [
        {"name": name, "containerEdits": {"deviceNodes": _nodes([gpu])}}
        for name, gpu in zip(names, [*machine.gpus, *machine.gpus], strict=True)
    ]
    return {
        "cdiVersion": "0.5.0",
        "kind": "nvidia.com/gpu",
        "devices": [*devices, {"name": "all", "containerEdits": {"deviceNodes": _nodes(machine.gpus)}}],
        "containerEdits": {
            "env": [f"NVIDIA_CTK_LIBCUDA_DIR={folder}", "NVIDIA_VISIBLE_DEVICES=void"],
            "deviceNodes": [{"path": f"/dev/{name}"} for name in ("nvidia-uvm", "nvidia-uvm-tools", "nvidiactl")],
            "hooks": [
                _hook("create-symlinks", "--link", f"libcuda.so.1::{folder}/libcuda.so"),
                _hook("enable-cuda-compat", f"--host-driver-version={driver}"),
                _hook("update-ldcache", "--folder", folder),
            ],
            "mounts": [{"hostPath": path, "containerPath": path, "options": MOUNT_OPTIONS} for path in files],
        },
    }


def write_specification(document: Mapping[str, Any], path: Path, form: str) -> None:
    """Write the specification as JSON or YAML."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(rendered(document, form), encoding="utf-8")
    path.chmod(0o644)


def rendered(document: Mapping[str, Any], form: str) -> str:
    """Render a specification as JSON or YAML."""
    return json.dumps(document) if form == "json" else "---\n" + "\n".join(_yaml(document, "")) + "\n"


def _yaml(value: Any, indent: str) -> list[str]:
    if isinstance(value, Mapping):
        lines = []
        for key, inner in value.items():
            nested = isinstance(inner, Mapping | list)
            lines += [f"{indent}{key}:" + ("" if nested else f" {_scalar(inner)}")]
            lines += _yaml(inner, indent + "    ") if nested else []
        return lines
    lines = []
    for inner in value:
        listed = _yaml(inner, indent + "  ") if isinstance(inner, Mapping) else [f"{indent}  {_scalar(inner)}"]
        lines += [f"{indent}- {listed[0].lstrip()}", *listed[1:]]
    return lines


def _scalar(value: Any) -> str:
    text = str(value)
    return json.dumps(text) if text.isdigit() or text.startswith("-") else text


def _nodes(gpus: Sequence[Gpu]) -> list[dict[str, str]]:
    return [{"path": f"/dev/nvidia{gpu.values['minor_number']}"} for gpu in gpus]


def _hook(*words: str) -> dict[str, Any]:
    arguments = ["nvidia-cdi-hook", *words]
    return {"hookName": "createContainer", "path": HOOK, "args": arguments, "env": ["NVIDIA_CTK_DEBUG=false"]}
