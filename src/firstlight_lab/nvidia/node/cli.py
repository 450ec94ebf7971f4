# SPDX-License-Identifier: Apache-2.0
"""The command line of the stand-in `nvidia-smi`: the usual calls of people and tools, with the real exit codes."""

from __future__ import annotations

import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

from .kept import Kept
from .links import nvlink_errors, nvlink_status, topology
from .log import text_log, xml_log
from .machine import SHARE, DescriptionError, Driver, Gpu, Machine, load_machine, read_driver, read_json, root
from .query import Format, UsageError, query_compute_apps, query_gpu, query_remapped_rows
from .table import RENAMED_SINCE, instances, major, table

NO_DRIVER = (
    "NVIDIA-SMI has failed because it couldn't communicate with the NVIDIA driver. "
    "Make sure that the latest NVIDIA driver is installed and running.\n"
)
NO_LIBRARY = (
    "NVIDIA-SMI couldn't find libnvidia-ml.so library in your system. "
    "Please make sure that the NVIDIA Display Driver is properly installed and present in your system.\n"
    "Please also try adding directory that contains libnvidia-ml.so to your system PATH.\n"
)
# Exit codes of the real program.
USAGE, NOT_FOUND, NOT_LOADED, LIBRARY_MISSING, LOST, MISMATCH, BAD_OPTION = 2, 6, 9, 12, 15, 18, 255
VALUED = {"-i": "id", "--id": "id", "-d": "display", "--display": "display", "-pm": "persistence"}
SWITCHES = {
    "-L": "list",
    "--list-gpus": "list",
    "-q": "log",
    "--query": "log",
    "-x": "xml",
    "--xml-format": "xml",
    "--version": "version",
    "-h": "help",
    "--help": "help",
}
ASSIGNED = ("--query-gpu", "--query-compute-apps", "--query-remapped-rows", "--format", "--id", "--display")


class ExitError(Exception):
    """Ends the program with a message and an exit code."""

    def __init__(self, message: str, code: int) -> None:
        super().__init__(message)
        self.message, self.code = message, code


@dataclass
class Call:
    """A parsed command line."""

    command: str = ""
    switches: set[str] = field(default_factory=set)
    values: dict[str, str] = field(default_factory=dict)


def main(arguments: Sequence[str], base: Path | None = None, hostname: str | None = None) -> int:
    """Run the program; its output, including errors, goes to standard output, as with the real one."""
    kept = Kept(list(arguments), str(base or root()))
    try:
        lines, code = answer(arguments, base or root(), hostname)
    except ExitError as stop:
        lines, code = [stop.message], stop.code
    except UsageError as error:
        lines, code = [str(error)], USAGE
    except DescriptionError as error:
        print(f"nvidia-smi (lab stand-in): {error}", file=sys.stderr)
        return BAD_OPTION
    text = "".join(f"{line}\n" for line in lines)
    if code == 0 and not kept.timed:
        kept.keep(text)
    sys.stdout.write(text)
    return code


def answer(arguments: Sequence[str], base: Path, hostname: str | None) -> tuple[list[str], int]:
    """Return the lines to print and the exit code."""
    call = parse(arguments)
    if "help" in call.switches:
        return ["NVIDIA System Management Interface -- lab stand-in", "", *_usage()], 0
    machine = load_machine(base, hostname)
    driver = read_driver(base)
    for fault in machine.faults if machine else []:
        if fault.name == "hang":
            time.sleep(float(fault.parameters["seconds"]))
    check_driver(driver)
    if "version" in call.switches:
        return version_lines(driver), 0
    if machine is None or any(fault.name == "no_devices" for fault in machine.faults):
        raise ExitError("No devices were found", NOT_FOUND)
    return _report(call, machine, driver, base)


def parse(arguments: Sequence[str]) -> Call:
    """Parse the options; reject others as the real program does."""
    words = list(arguments)
    call = Call()
    if words and words[0] in ("topo", "nvlink"):
        call.command = words.pop(0)
        switches = {
            "topo": {"-m": "matrix", "--matrix": "matrix"},
            "nvlink": {
                "-s": "status",
                "--status": "status",
                "-e": "errors",
                "--errorcounters": "errors",
            },
        }
        known, values = switches[call.command], {"-i": "id", "--id": "id"}
    else:
        known, values = SWITCHES, VALUED
    while words:
        word = words.pop(0)
        name, assigned, value = word.partition("=")
        if word in known:
            call.switches.add(known[word])
        elif word in values:
            if not words:
                raise ExitError(f"Option {word} is missing its value. Please run 'nvidia-smi -h'.\n", BAD_OPTION)
            call.values[values[word]] = words.pop(0)
        elif assigned and name in ASSIGNED and not call.command:
            call.values[name.lstrip("-")] = value
        elif assigned and name == "--id":
            call.values["id"] = value
        elif call.command:
            raise ExitError(f'Option "{word}" is not recognized.', USAGE)
        else:
            raise ExitError(f"ERROR: Option {word} is not recognized. Please run 'nvidia-smi -h'.\n", BAD_OPTION)
    if "list" in call.switches and "id" in call.values:
        raise ExitError("ERROR: Option -i is not valid for this command. Please run 'nvidia-smi -h' for help.\n", USAGE)
    return call


def check_driver(driver: Driver) -> None:
    """Raise the real program's error if library or module is missing or their versions differ."""
    if driver.library is None:
        raise ExitError(NO_LIBRARY, LIBRARY_MISSING)
    if driver.loaded is None:
        raise ExitError(NO_DRIVER, NOT_LOADED)
    if driver.library != driver.loaded:
        short = ".".join(driver.library.split(".")[:2])
        mismatch = "Failed to initialize NVML: Driver/library version mismatch"
        raise ExitError(f"{mismatch}\nNVML library version: {short}", MISMATCH)


def version_lines(driver: Driver) -> list[str]:
    """Return the output of `--version`; driver 610 renamed two of the lines."""
    version = str(driver.loaded)
    lines = [
        f"NVIDIA-SMI version  : {version}",
        f"NVML version        : {'.'.join(version.split('.')[:2])}",
    ]
    if major(version) >= RENAMED_SINCE:
        return [
            *lines,
            'DRIVER version      : Deprecated, see "KMD version" instead',
            f"KMD version         : {version}",
            'CUDA Version        : Deprecated, see "CUDA UMD version" instead',
            f"CUDA UMD version    : {driver.cuda}",
        ]
    return [*lines, f"DRIVER version      : {version}", f"CUDA Version        : {driver.cuda}"]


def _select(machine: Machine, wanted: str | None) -> list[Gpu]:
    """Return the GPUs that `-i` selects by index, bus id or UUID."""
    if wanted is None:
        return machine.gpus
    names = [name.strip().lower() for name in wanted.split(",")]
    chosen = [gpu for gpu in machine.gpus if _names(gpu) & set(names)]
    if not chosen:
        raise ExitError("No devices were found", NOT_FOUND)
    return chosen


def _names(gpu: Gpu) -> set[str]:
    """Return all identifiers of a GPU that are valid on the command line."""
    bus = gpu.bus.lower()
    return {str(gpu.index), bus, bus[4:], bus[9:], gpu.values["uuid"].lower(), gpu.values["serial"].lower()}


def _report(call: Call, machine: Machine, driver: Driver, base: Path) -> tuple[list[str], int]:
    chosen = _select(machine, call.values.get("id"))
    broken = [gpu for gpu in chosen if gpu.trouble]
    lines = [
        f"Unable to determine the device handle for GPU{gpu.index}: {gpu.bus[4:]}: {gpu.trouble}" for gpu in broken
    ]
    code = LOST if any(gpu.lost for gpu in broken) else 0
    machine.gpus = [gpu for gpu in machine.gpus if not gpu.trouble]
    gpus = [gpu for gpu in chosen if not gpu.trouble]
    if not gpus:
        return [*lines, "No devices were found"], code or NOT_FOUND
    data = base / SHARE / "nvidia-smi"
    style = Format(call.values.get("format", "csv"))
    if call.command == "topo":
        body = topology(machine) if "matrix" in call.switches else _usage()
    elif call.command == "nvlink":
        body = _nvlink(call, machine, gpus)
    elif "list" in call.switches:
        body = [line for gpu in gpus for line in (gpu.title, *_instance_titles(gpu))]
    elif "query-gpu" in call.values:
        fields = read_json(data / "fields.json")
        body = query_gpu(machine, driver, gpus, call.values["query-gpu"], style, fields)
    elif "query-remapped-rows" in call.values:
        names = call.values["query-remapped-rows"]
        body = query_remapped_rows(gpus, names, style, read_json(data / "fields.json"))
    elif "query-compute-apps" in call.values:
        body = query_compute_apps(gpus, call.values["query-compute-apps"], style)
    elif "persistence" in call.values:
        body = _persistence(gpus, call.values["persistence"])
    elif "log" in call.switches:
        body = _log(call, machine, driver, gpus, data)
    else:
        body = table(driver, gpus)
    return lines + body, code


def _nvlink(call: Call, machine: Machine, gpus: Sequence[Gpu]) -> list[str]:
    if "errors" in call.switches:
        return nvlink_errors(machine, gpus)
    return nvlink_status(machine, gpus) if "status" in call.switches else _usage()


def _instance_titles(gpu: Gpu) -> list[str]:
    """Return the MIG instances of a GPU as listed by `-L`."""
    return [f"  MIG {one.name:<11} Device {number:>2}: (UUID: {one.uuid})" for number, one in enumerate(instances(gpu))]


def _log(call: Call, machine: Machine, driver: Driver, gpus: Sequence[Gpu], data: Path) -> list[str]:
    layout = read_json(data / "layout.json")
    if "xml" in call.switches:
        return xml_log(driver, gpus, layout, len(machine.gpus))
    sections = [name for name in call.values.get("display", "").upper().split(",") if name]
    unknown = [name for name in sections if name not in layout["sections"]]
    if unknown:
        raise UsageError(f"Invalid combination of input arguments. Display type {unknown[0]} is not recognized.\n")
    wanted = {tag for name in sections for tag in layout["sections"][name]}
    return text_log(driver, gpus, layout, len(machine.gpus), wanted)


def _persistence(gpus: Sequence[Gpu], wanted: str) -> list[str]:
    state = "Enabled" if wanted in ("1", "ENABLED") else "Disabled"
    lines = []
    for gpu in gpus:
        same = gpu.values["persistence_mode"] == state
        word = f"Persistence mode is already {state}" if same else f"{state} persistence mode"
        lines.append(f"{word} for GPU {gpu.bus}.")
    return [*lines, "All done."]


def _usage() -> list[str]:
    return [
        "nvidia-smi [-L | -q [-x] [-d SECTION] | --version] [-i ID]",
        "nvidia-smi --query-gpu=FIELDS --format=csv[,noheader][,nounits] [-i ID]",
        "nvidia-smi topo -m | nvidia-smi nvlink -s|-e [-i ID]",
    ]
