# SPDX-License-Identifier: Apache-2.0
"""Output of `nvidia-smi nvlink` (status and error counters) and `nvidia-smi topo -m`."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from .machine import Gpu, Machine

UNDERLINE, PLAIN = "\x1b[4m", "\x1b[0m"
INACTIVE = "NVML: Unable to retrieve NVLink information as all links are inactive"
UNSUPPORTED = "Device does not have or support Nvlink"
LEGEND = """
Legend:

  X    = Self
  SYS  = Connection traversing PCIe as well as the SMP interconnect between NUMA nodes (e.g., QPI/UPI)
  NODE = Connection traversing PCIe as well as the interconnect between PCIe Host Bridges within a NUMA node
  PHB  = Connection traversing PCIe as well as a PCIe Host Bridge (typically the CPU)
  PXB  = Connection traversing multiple PCIe bridges (without traversing the PCIe Host Bridge)
  PIX  = Connection traversing at most a single PCIe bridge
  NV#  = Connection traversing a bonded set of # NVLinks"""


COUNTERS = {"replay": "Replay", "recovery": "Recovery", "crc": "CRC"}


def nvlink_status(machine: Machine, gpus: Sequence[Gpu]) -> list[str]:
    """Return every link of every GPU with its speed."""

    def status(gpu: Gpu) -> list[str]:
        return [f"\t Link {number}: {speed or '<inactive>'}" for number, speed in enumerate(gpu.links)]

    return _by_gpu(machine, gpus, status)


def nvlink_errors(machine: Machine, gpus: Sequence[Gpu]) -> list[str]:
    """Return the error counters of all active links since the driver was loaded."""

    def errors(gpu: Gpu) -> list[str]:
        lines: list[str] = []
        for number in (number for number, speed in enumerate(gpu.links) if speed is not None):
            counted = gpu.link_errors.get(number, {})
            lines += [f"\t Link {number}: {word} Errors: {counted.get(key, 0)}" for key, word in COUNTERS.items()]
            lines.append("")
        return lines

    return _by_gpu(machine, gpus, errors)


def _by_gpu(machine: Machine, gpus: Sequence[Gpu], tell: Callable[[Gpu], list[str]]) -> list[str]:
    """Collect lines for each GPU. As in reality, a GPU that was passed through alone prints nothing."""
    absent = machine.profile["nvlink"].get("absent")
    lines: list[str] = []
    for gpu in gpus:
        if absent == "silent":
            continue
        lines.append(gpu.title)
        if absent == "unsupported":
            lines.append(UNSUPPORTED)
        elif not any(gpu.links):
            lines.append(INACTIVE)
        else:
            lines += tell(gpu)
    return lines


def topology(machine: Machine) -> list[str]:
    """Return the matrix of GPUs and network cards, with the escape sequences that are printed even into a pipe."""
    shape = machine.profile["topology"]
    nics: list[str] = shape["nics"]
    names = [f"GPU{gpu.index}" for gpu in machine.gpus] + [f"NIC{number}" for number in range(len(nics))]
    heading = "\t".join([*names, "CPU Affinity", "NUMA Affinity", "GPU NUMA ID"])
    lines = [f"\t{UNDERLINE}{heading}{PLAIN}"]
    for gpu in machine.gpus:
        cells = [" X " if gpu is peer else connection(machine, gpu, peer) for peer in machine.gpus]
        cells += shape["gpu_nic"][gpu.position].split()
        lines.append("\t".join([f"GPU{gpu.index}", *cells, gpu.cpus, str(gpu.numa), "", "N/A"]))
    for number, row in enumerate(shape["nic_nic"]):
        cells = [shape["gpu_nic"][gpu.position].split()[number] for gpu in machine.gpus]
        cells += [" X " if cell == "X" else cell for cell in row.split()]
        lines.append("\t".join([f"NIC{number}", *cells, "", "", "", ""]))
    lines += LEGEND.split("\n")
    if nics:
        lines += ["", "NIC Legend:", "", *(f"  NIC{number}: {nic}" for number, nic in enumerate(nics)), ""]
    return lines


def connection(machine: Machine, one: Gpu, other: Gpu) -> str:
    """Return how two GPUs are connected: the number of active NVLinks, or the path over the bus."""
    wiring = machine.profile["nvlink"].get("wiring")
    active = 0
    if wiring == "switch":
        active = min(sum(link is not None for link in gpu.links) for gpu in (one, other))
    elif wiring == "mesh":
        active = min(_towards(machine, one, other), _towards(machine, other, one))
    if active:
        return f"NV{active}"
    return str(machine.profile["topology"].get("gpu_gpu") or ("NODE" if one.numa == other.numa else "SYS"))


def _towards(machine: Machine, one: Gpu, other: Gpu) -> int:
    """Return the active links from one GPU of a mesh to another; links are assigned evenly, lowest peer first."""
    peers = [position for position in range(len(machine.profile["gpus"])) if position != one.position]
    share = len(one.links) // len(peers)
    first = peers.index(other.position) * share
    return sum(link is not None for link in one.links[first : first + share])
