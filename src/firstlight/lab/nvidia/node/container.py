# SPDX-License-Identifier: Apache-2.0
"""The stand-in container tools: Docker's prestart hook, nvidia-container-cli and a little of nvidia-ctk."""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from .cli import LIBRARY_MISSING, MISMATCH, NOT_LOADED, ExitError, check_driver
from .machine import SHARE, DescriptionError, Machine, load_machine, read_driver, read_json, root

TOOLKIT = f"{SHARE}/nvidia/toolkit.json"
PREFIX = "nvidia-container-cli: initialization error: "
ERRORS = {
    LIBRARY_MISSING: "load library failed: libnvidia-ml.so.1: cannot open shared object file",
    NOT_LOADED: "nvml error: driver not loaded",
    MISMATCH: "nvml error: driver/library version mismatch",
}


def initialise(base: Path) -> Machine:
    """Open the driver as nvidia-container-cli does, or stop with its message."""
    try:
        check_driver(read_driver(base))
        machine = load_machine(base)
    except ExitError as stop:
        raise ExitError(PREFIX + ERRORS[stop.code], 1) from stop
    except DescriptionError as error:
        raise ExitError(f"nvidia-container-cli (lab stand-in): {error}", 1) from error
    if machine is None or not machine.gpus or any(fault.name == "no_devices" for fault in machine.faults):
        raise ExitError("nvidia-container-cli: device error: no devices found", 1)
    lost = [gpu for gpu in machine.gpus if gpu.trouble]
    if lost:
        raise ExitError(f"nvidia-container-cli: detection error: nvml error: {lost[0].trouble}", 1)
    return machine


def hook(arguments: Sequence[str], base: Path | None = None) -> int:
    """`nvidia-container-runtime-hook prestart`: Docker calls it for `--gpus`, container state on stdin."""
    if list(arguments)[-1:] != ["prestart"]:
        return 0
    if not sys.stdin.isatty():
        sys.stdin.read()
    return _guard(lambda: initialise(base or root()) and [])


def cli(arguments: Sequence[str], base: Path | None = None) -> int:
    """`nvidia-container-cli info|list|--version`."""
    base = base or root()
    words = [word for word in arguments if not word.startswith("-")]
    if "--version" in arguments or "-V" in arguments:
        print(f"cli-version: {read_json(base / TOOLKIT)['version']}")
        print(f"lib-version: {read_json(base / TOOLKIT)['version']}")
        return 0
    if words[:1] == ["info"]:
        return _guard(lambda: _info(base))
    if words[:1] == ["list"]:
        return _guard(lambda: _devices(initialise(base)))
    return _guard(lambda: initialise(base) and [])


def ctk(arguments: Sequence[str], base: Path | None = None) -> int:
    """`nvidia-ctk --version` and `nvidia-ctk runtime configure --runtime=docker`."""
    base = base or root()
    if "--version" in arguments or "-v" in arguments:
        print(f"NVIDIA Container Toolkit CLI version {read_json(base / TOOLKIT)['version']}")
        return 0
    if list(arguments[:2]) != ["runtime", "configure"]:
        print(f"nvidia-ctk (lab stand-in): cannot do {' '.join(arguments)}", file=sys.stderr)
        return 1
    options = dict(word.lstrip("-").partition("=")[::2] for word in arguments[2:])
    if options.get("runtime", "docker") != "docker":
        print(
            f"nvidia-ctk (lab stand-in): runtime {options['runtime']} is not simulated, use docker",
            file=sys.stderr,
        )
        return 1
    path = base / options.get("config", "/etc/docker/daemon.json").lstrip("/")
    configured: dict[str, Any] = read_json(path) if path.exists() else {}
    configured.setdefault("runtimes", {})["nvidia"] = {"args": [], "path": "nvidia-container-runtime"}
    if "set-as-default" in options:
        configured["default-runtime"] = "nvidia"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(configured, indent=4) + "\n", encoding="utf-8")
    print(f'level=info msg="Wrote updated config to {path}"', file=sys.stderr)
    print('level=info msg="It is recommended that docker daemon be restarted."', file=sys.stderr)
    return 0


def _info(base: Path) -> list[str]:
    machine, driver = initialise(base), read_driver(base)
    lines = [f"NVRM version:   {driver.loaded}", f"CUDA version:   {driver.cuda}"]
    for gpu in machine.gpus:
        lines += [
            "",
            f"Device Index:   {gpu.index}",
            f"Device Minor:   {gpu.values['minor_number']}",
            f"Model:          {gpu.name}",
            "Brand:          Nvidia",
            f"GPU UUID:       {gpu.values['uuid']}",
            f"Bus Location:   {gpu.bus}",
            f"Architecture:   {gpu.values['compute_cap']}",
        ]
    return lines


def _devices(machine: Machine) -> list[str]:
    nodes = ["/dev/nvidiactl", "/dev/nvidia-uvm", "/dev/nvidia-uvm-tools"]
    return nodes + [f"/dev/nvidia{gpu.values['minor_number']}" for gpu in machine.gpus]


def _guard(work: Any) -> int:
    try:
        for line in work():
            print(line)
    except ExitError as stop:
        print(stop.message, file=sys.stderr)
        return stop.code
    return 0
