# SPDX-License-Identifier: Apache-2.0
"""The stand-in container tools: Docker's prestart hook, nvidia-container-cli and parts of nvidia-ctk."""

from __future__ import annotations

import dataclasses
import json
import os
import shlex
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from .cdi import rendered, specification, write_specification
from .cli import LIBRARY_MISSING, MISMATCH, NOT_LOADED, ExitError, check_driver, version_lines
from .machine import SHARE, DescriptionError, Driver, Gpu, Machine, load_machine, read_driver, read_json, root
from .table import table

TOOLKIT = f"{SHARE}/nvidia/toolkit.json"
PREFIX = "nvidia-container-cli: initialization error: "
ERRORS = {
    LIBRARY_MISSING: "load library failed: libnvidia-ml.so.1: cannot open shared object file",
    NOT_LOADED: "nvml error: driver not loaded",
    MISMATCH: "nvml error: driver/library version mismatch",
}
CDI_ERRORS = {
    LIBRARY_MISSING: "ERROR_LIBRARY_NOT_FOUND",
    NOT_LOADED: "Driver Not Loaded",
    MISMATCH: "Driver/library version mismatch",
}
CDI_PREFIX = (
    "failed to generate CDI spec: failed to create device CDI specs: failed to construct device spec generators: "
    "failed to initialize NVML: "
)


def initialise(base: Path) -> Machine:
    """Open the driver as nvidia-container-cli does, or raise its error."""
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
    """`nvidia-container-runtime-hook prestart`: called by Docker for `--gpus`, with the container state on stdin."""
    if list(arguments)[-1:] != ["prestart"]:
        return 0
    state = "" if sys.stdin.isatty() else sys.stdin.read()
    return _guard(lambda: _prestart(base or root(), state))


def _prestart(base: Path, state: str) -> list[str]:
    """Add the driver's tools to a container that requests GPUs, as the real hook does."""
    config = base / str(json.loads(state or "{}").get("bundle", "")).lstrip("/") / "config.json"
    document = read_json(config) if config.is_file() else {}
    environment = dict(word.partition("=")[::2] for word in document.get("process", {}).get("env", []))
    wanted = environment.get("NVIDIA_VISIBLE_DEVICES", "all")
    if wanted in ("", "void"):
        return []
    machine = initialise(base)
    capabilities = environment.get("NVIDIA_DRIVER_CAPABILITIES") or "utility,compute"
    if document and wanted != "none" and {"utility", "all"} & set(capabilities.split(",")):
        rootfs = config.parent / str(document["root"]["path"])
        _add_smi(rootfs, _visible(machine, wanted), read_driver(base))
    return []


def _visible(machine: Machine, wanted: str) -> list[Gpu]:
    """Return the GPUs of a container, selected by index or UUID and renumbered from zero."""
    names = wanted.split(",")
    known = {name: gpu for gpu in machine.gpus for name in (str(gpu.index), gpu.values["uuid"])}
    unknown = [name for name in names if name not in known and wanted != "all"]
    if unknown:
        raise ExitError(f"nvidia-container-cli: device error: {unknown[0]}: unknown device", 1)
    chosen = (
        machine.gpus if wanted == "all" else [gpu for gpu in machine.gpus if gpu in [known[name] for name in names]]
    )
    return [dataclasses.replace(gpu, index=index) for index, gpu in enumerate(chosen)]


def _add_smi(rootfs: Path, gpus: Sequence[Gpu], driver: Driver) -> None:
    """Write an nvidia-smi with canned output to the container; a shell script, as not every image has Python."""
    folder = (rootfs / "usr/bin").resolve()
    if not folder.is_relative_to(rootfs.resolve()):
        raise ExitError(f"nvidia-container-cli: mount error: {folder} is outside of the container", 1)
    folder.mkdir(parents=True, exist_ok=True)
    answers = {
        '""': table(driver, gpus),
        "-L | --list-gpus": [gpu.title for gpu in gpus],
        "--version": version_lines(driver),
    }
    cases = "".join(
        f"{words}) printf '%s\\n' {' '.join(map(shlex.quote, lines))} ;;\n" for words, lines in answers.items()
    )
    rest = "*) echo 'nvidia-smi (lab stand-in): a container can ask for -L and --version only' >&2; exit 2 ;;\n"
    program = folder / "nvidia-smi"
    program.unlink(missing_ok=True)
    program.write_text(f'#!/bin/sh\ncase "$*" in\n{cases}{rest}esac\n', encoding="utf-8")
    program.chmod(0o755)


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
    """`nvidia-ctk --version`, `nvidia-ctk cdi generate` and `nvidia-ctk runtime configure --runtime=docker`."""
    base = base or root()
    if "--version" in arguments or "-v" in arguments:
        print(f"NVIDIA Container Toolkit CLI version {read_json(base / TOOLKIT)['version']}")
        return 0
    if list(arguments[:2]) == ["cdi", "generate"]:
        return _generate(base, arguments[2:])
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


def _generate(base: Path, words: Sequence[str]) -> int:
    """Write the CDI specification to a file or, without one, to standard output."""
    options = dict(word.lstrip("-").partition("=")[::2] for word in words)
    output = options.get("output") or os.environ.get("NVIDIA_CTK_CDI_OUTPUT_FILE_PATH", "")
    form = options.get("format") or ("json" if output.endswith(".json") else "yaml")
    try:
        check_driver(read_driver(base))
        machine = initialise(base)
    except ExitError as stop:
        reason = CDI_PREFIX + CDI_ERRORS[stop.code] if stop.code in CDI_ERRORS else stop.message
        print(f'level=error msg="{reason}"', file=sys.stderr)
        return 1
    document = specification(machine, str(read_driver(base).loaded))
    if output:
        write_specification(document, base / output.lstrip("/"), form)
    else:
        print(rendered(document, form))
    print('level=info msg="Generated CDI spec with version 0.5.0"', file=sys.stderr)
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
