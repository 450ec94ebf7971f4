# SPDX-License-Identifier: Apache-2.0
"""The table that plain `nvidia-smi` prints."""

from __future__ import annotations

import hashlib
import time
from collections.abc import Sequence
from dataclasses import dataclass

from .machine import NO_READING, Driver, Gpu

WIDE = "+" + "-" * 89 + "+"
COLUMNS = "+" + "-" * 41 + "+" + "-" * 24 + "+" + "-" * 22 + "+"
# Driver branch from which the table has closed corners and a wide PID column.
CLOSED_TABLE_SINCE = 565
# Driver branch from which the versions in the heading have other names.
RENAMED_SINCE = 610
# Eighths of the memory that an instance with this many slices gets.
MEMORY_SHARE = {1: 1, 2: 2, 3: 4, 4: 4, 7: 8}


@dataclass(frozen=True)
class Instance:
    """A MIG instance of a GPU."""

    name: str
    uuid: str
    slices: int
    mib: int


def major(version: str) -> int:
    """Return the branch of a driver's version."""
    return int(version.split(".", maxsplit=1)[0])


def instances(gpu: Gpu) -> list[Instance]:
    """Return the MIG instances of a GPU."""
    made = []
    for number, slices in enumerate(gpu.instances):
        mib = int(gpu.values["fb_memory_usage/total"].split()[0]) * MEMORY_SHARE[slices] // 8
        digest = hashlib.sha256(f"{gpu.values['uuid']}/{number}".encode()).hexdigest()
        uuid = f"MIG-{digest[:8]}-{digest[8:12]}-{digest[12:16]}-{digest[16:20]}-{digest[20:32]}"
        made.append(Instance(f"{slices}g.{round(mib / 1024)}gb", uuid, slices, mib))
    return made


def table(driver: Driver, gpus: Sequence[Gpu]) -> list[str]:
    """Render the whole page: versions, a block of three lines per GPU, processes."""
    version = str(driver.loaded)
    new = major(version) >= CLOSED_TABLE_SINCE
    versions = f"| NVIDIA-SMI {version:<22} Driver Version: {version:<14} CUDA Version: {driver.cuda:<8} |"
    if major(version) >= RENAMED_SINCE:
        versions = f"| NVIDIA-SMI {version:<22} KMD Version: {version:<13} CUDA UMD Version: {driver.cuda:<8} |"
    lines = [
        time.ctime() + " " * 7,
        WIDE,
        versions,
        COLUMNS if new else "|" + COLUMNS[1:],
        "| GPU  Name                 Persistence-M | Bus-Id          Disp.A | Volatile Uncorr. ECC |",
        "| Fan  Temp   Perf          Pwr:Usage/Cap |           Memory-Usage | GPU-Util  Compute M. |",
        "|                                         |                        |               MIG M. |",
        "|" + "=" * 41 + "+" + "=" * 24 + "+" + "=" * 22 + "|",
    ]
    for gpu in gpus:
        lines += [*_block(gpu), COLUMNS]
    return [*lines, "", *_instances(gpus), *_processes(gpus, new)]


def _number(value: str, unit: str) -> str:
    """Format `124.39 W` as `124W`; a reading that the GPU refused becomes an error."""
    text = value.split(maxsplit=1)[0]
    if value == NO_READING:
        return "ERR!"
    return text if text == "N/A" else f"{round(float(text))}{unit}"


def _block(gpu: Gpu) -> list[str]:
    values = gpu.values
    persistence = "On" if values["persistence_mode"] == "Enabled" else "Off"
    mig = values["mig_mode/current_mig"]
    uncorrected = [values[f"ecc_errors/volatile/{name}"] for name in _UNCORRECTED]
    if mig == "Enabled":
        ecc = "On"
    elif values["ecc_mode/current_ecc"] == "Disabled":
        ecc = "Off"
    elif NO_READING in uncorrected:
        ecc = "ERR!"
    else:
        ecc = "N/A" if "N/A" in uncorrected else str(sum(int(count) for count in uncorrected))
    limit = _number(values["gpu_power_readings/current_power_limit"], "W")
    limit = f"{limit:>4} " if limit == "N/A" else f"{limit:>5}"
    used, total = (_number(values[f"fb_memory_usage/{name}"], "MiB") for name in ("used", "total"))
    memory = f"{' Not Supported':<23}" if total == "N/A" else f"{used:>11} / {total:>9}"
    load = "N/A" if mig == "Enabled" else _number(values["utilization/gpu_util"], "%")
    temperature = _number(values["temperature/gpu_temp"], "C")
    power = _number(values["gpu_power_readings/average_power_draw"], "W")
    first = f"| {gpu.index:>3}  {gpu.name[:30]:<31}{persistence:<4}| {gpu.bus:>18} Off | {ecc:>20} |"
    state = f"{values['fan_speed']:>4}{temperature:>6}{values['performance_state']:>6}{power:>16} / {limit} "
    second = f"|{state}|{memory} |{load:>8}{values['compute_mode']:>13} |"
    return [first, second, f"|{'':41}|{'':24}|{mig:>21} |"]


_UNCORRECTED = ("sram_uncorrectable_parity", "sram_uncorrectable_secded", "dram_uncorrectable")


def _instances(gpus: Sequence[Gpu]) -> list[str]:
    """Render the table of MIG devices; empty if no GPU is partitioned."""
    rule = "+" + "-" * 18 + "+" + "-" * 34 + "+" + "-" * 11 + "+" + "-" * 23 + "+"
    rows: list[str] = []
    for gpu in gpus:
        for number, one in enumerate(instances(gpu)):
            bar = one.mib * 5 // 8
            rows += [
                f"|{gpu.index:>3}  {number + 7:>3}   0 {number:>3}  |{0:>16}MiB / {one.mib}MiB".ljust(54)
                + f"|{one.slices * 16:>3}      0 |{one.slices:>3}   0 {one.slices:>4}    0 {one.slices:>4} |",
                f"|{'':18}|{0:>16}MiB / {bar}MiB".ljust(54) + f"|{'':11}|{'':23}|",
                rule,
            ]
    if not rows:
        return []
    return [
        WIDE,
        f"| {'MIG devices:':<88}|",
        rule,
        "| GPU  GI  CI  MIG |              Shared Memory-Usage |        Vol|        Shared         |",
        "|      ID  ID  Dev |                Shared BAR1-Usage | SM     Unc| CE ENC  DEC  OFA  JPG |",
        "|                  |                                  |        ECC|                       |",
        "|" + "=" * 18 + "+" + "=" * 34 + "+" + "=" * 11 + "+" + "=" * 23 + "|",
        *rows,
        "",
    ]


def _processes(gpus: Sequence[Gpu], new: bool) -> list[str]:
    pid, name = (16, 36) if new else (10, 42)
    lines = [
        WIDE,
        f"| {'Processes:':<88}|",
        f"|{'  GPU   GI   CI':<16}{'PID':>{pid}}   Type   {'Process name':<{name}}GPU Memory |",
        f"|{'        ID   ID':<78}Usage      |",
        "|" + "=" * 89 + "|",
    ]
    rows = [
        f"|{gpu.index:>5}   N/A  N/A{process['pid']:>{pid}}      C   "
        f"{str(process['process'])[: name - 1]:<{name}}{str(process['mib']) + 'MiB':>10} |"
        for gpu in gpus
        for process in gpu.processes
    ]
    return [*lines, *(rows or [f"|  {'No running processes found':<87}|"]), WIDE]
