# SPDX-License-Identifier: Apache-2.0
"""Tool output of a described machine, without a node: every kind of text, for a machine in any state of health.

The output of NVIDIA's tools comes from the stand-ins that nodes run; that of other tools is written here.
"""

from __future__ import annotations

import contextlib
import functools
import io
import json
import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from .bus_texts import dcgm_diag, lspci, modules
from .nvidia import machine_document
from .nvidia.node.cli import main as nvidia_smi
from .nvidia.node.fabric import CONFIGURED, NOTHING_TO_DO
from .nvidia.node.kernel import kernel_lines
from .nvidia.node.machine import (
    FABRIC_CONFIGURED,
    LIBRARY,
    LOADED,
    MACHINE,
    MODULE,
    PROC_GPUS,
    PROC_VERSION,
    SHARE,
    Machine,
    load_machine,
    load_module,
)

DRIVER = "580.126.09"
FIELDS = (
    "index,name,uuid,pci.bus_id,driver_version,vbios_version,inforom.img,compute_cap,memory.total,memory.used,"
    "persistence_mode,compute_mode,mig.mode.current,mig.mode.pending,ecc.mode.current,ecc.mode.pending,"
    "ecc.errors.uncorrected.volatile.total,ecc.errors.uncorrected.aggregate.total,remapped_rows.pending,"
    "remapped_rows.failure,remapped_rows.uncorrectable,power.draw,power.limit,temperature.gpu,"
    "clocks_event_reasons.active,pcie.link.gen.current,pcie.link.gen.max,pcie.link.width.current,"
    "pcie.link.width.max,fabric.state,fabric.status,gpu_recovery_action"
)
UNIT = "nvidia-fabricmanager.service"
PROGRAM = "/usr/bin/nv-fabricmanager -c /usr/share/nvidia/nvswitch/fabricmanager.cfg"
SPARK_DEVICES = (
    ("rocep1s0f0", "enp1s0f0np0", False),
    ("rocep1s0f1", "enp1s0f1np1", True),
    ("roceP2p1s0f0", "enP2p1s0f0np0", False),
    ("roceP2p1s0f1", "enP2p1s0f1np1", True),
)
"""RDMA device, network port, and whether a cable is plugged in."""


@dataclass(frozen=True)
class Text:
    """The output of one tool, with its kind."""

    kind: str
    text: str


@functools.lru_cache(maxsize=64)
def captures(profile: str, faults: tuple[str, ...] = (), driver: str = DRIVER) -> dict[str, Text]:
    """Return all texts of this machine by name, which is the kind unless there are several of that kind."""
    with tempfile.TemporaryDirectory(prefix="firstlight-machine-") as folder:
        base = Path(folder)
        machine = _build(base, profile, faults, driver)
        return {
            **{name: Text(kind, _smi(base, arguments)) for name, kind, arguments in _SMI},
            "proc-version": Text("proc-version", (base / PROC_VERSION).read_text(encoding="utf-8")),
            "kernel-log": Text("kernel-log", _kernel_log(base)),
            "proc-gpus": Text("proc-version", _proc_gpus(base)),
            "lspci": Text("lspci", lspci(profile)),
            "modules": Text("modules", modules()),
            "dcgm-diag": Text("dcgm-diag", dcgm_diag(len(machine.gpus), driver)),
            **_fabric_manager(machine, driver),
            **_ports(profile),
            "ray-status": Text("ray-status", ray_status(2, len(machine.gpus))),
            "vllm-metrics": Text("vllm-metrics", vllm_metrics()),
        }


_SMI: tuple[tuple[str, str, Sequence[str]], ...] = (
    ("topo", "topo", ("topo", "-m")),
    ("nvlink", "nvlink", ("nvlink", "-s")),
    ("nvlink-errors", "nvlink", ("nvlink", "-e")),
    ("query-gpu", "query-gpu", (f"--query-gpu={FIELDS}", "--format=csv")),
    ("smi-q", "smi-q", ("-q",)),
    ("smi-xml", "smi-xml", ("-q", "-x")),
    ("smi-table", "smi-table", ()),
    ("smi-list", "smi-list", ("-L",)),
    ("smi-version", "smi-version", ("--version",)),
)


def _build(base: Path, profile: str, faults: Sequence[str], driver: str) -> Machine:
    """Create the files that packages, a boot and a successful fabric manager leave on a node."""
    data = Path(__file__).resolve().parent / "nvidia" / "data"
    (base / SHARE / "nvidia").mkdir(parents=True)
    for name in ("profiles", "nvidia-smi"):
        (base / SHARE / name).symlink_to(data / name, target_is_directory=True)
    (base / LIBRARY).write_text(json.dumps({"version": driver, "cuda": "13.0"}), encoding="utf-8")
    (base / MODULE).write_text(json.dumps({"version": driver, "flavour": "open"}), encoding="utf-8")
    (base / MACHINE).parent.mkdir(parents=True)
    (base / MACHINE).write_text(machine_document(profile, faults, hostname="gpu0"), encoding="utf-8")
    (base / LOADED).parent.mkdir(parents=True)
    load_module(base)
    (base / FABRIC_CONFIGURED).parent.mkdir(parents=True, exist_ok=True)
    (base / FABRIC_CONFIGURED).touch()
    machine = load_machine(base)
    if machine is None:
        raise ValueError(f"{profile} describes no machine")
    return machine


def _smi(base: Path, arguments: Sequence[str]) -> str:
    with contextlib.redirect_stdout(io.StringIO()) as out:
        nvidia_smi(arguments, base)
    return out.getvalue()


def _kernel_log(base: Path) -> str:
    lines = kernel_lines(base)
    start = lines[0][0] - 4.25
    first = "[    0.000000] Linux version 6.8.0-58-generic (buildd@bos03) #60-Ubuntu SMP"
    return "".join(f"{line}\n" for line in (first, *(f"[{when - start:12.6f}] {text}" for when, _, text in lines)))


def _proc_gpus(base: Path) -> str:
    return "".join(path.read_text(encoding="utf-8") for path in sorted((base / PROC_GPUS).glob("*/information")))


# The lines from github.com/data-infra/cube-studio/issues/29 (2025-09-18), whose driver found no NVSwitch either.
_IN_A_GUEST = f"""\
\u00d7 {UNIT} - NVIDIA fabric manager service
     Loaded: loaded (/usr/lib/systemd/system/{UNIT}; enabled; preset: enabled)
     Active: failed (Result: exit-code) since Thu 2026-11-12 09:14:02 UTC; 3 days ago
    Process: 2209 ExecStart=/usr/bin/nvidia-fabricmanager-start.sh --mode start (code=exited, status=1/FAILURE)

Nov 12 09:14:02 gpu0 systemd[1]: Starting NVIDIA fabric manager service...
Nov 12 09:14:02 gpu0 nvidia-fabricmanager-start.sh[2209]: Detected Pre-NVL5 system
Nov 12 09:14:02 gpu0 nvidia-fabricmanager-start.sh[2211]: {NOTHING_TO_DO}
Nov 12 09:14:02 gpu0 nvidia-fabricmanager-start.sh[2209]: "{PROGRAM}" failed! Exit code: 1
Nov 12 09:14:02 gpu0 systemd[1]: {UNIT}: Control process exited, code=exited, status=1/FAILURE
Nov 12 09:14:02 gpu0 systemd[1]: {UNIT}: Failed with result 'exit-code'.
Nov 12 09:14:02 gpu0 systemd[1]: Failed to start NVIDIA fabric manager service.
"""


def _fabric_manager(machine: Machine, driver: str) -> dict[str, Text]:
    """Return the service's state from systemd, and the program's version unless the machine has no NVSwitch."""
    if machine.is_partition:
        return {
            "fabricmanager": Text("fabricmanager", _IN_A_GUEST),
            "fabricmanager-version": Text("fabricmanager", f"Fabric Manager version is : {driver}\n"),
        }
    if not machine.has_nvswitch:
        return {"fabricmanager": Text("fabricmanager", f"Unit {UNIT} could not be found.\n")}
    names = {fault.name for fault in machine.faults}
    journal = [
        "Nov 12 09:14:02 gpu0 systemd[1]: Starting NVIDIA fabric manager service...",
        "Nov 12 09:14:07 gpu0 nv-fabricmanager[2211]: Connected to 1 node.",
        f"Nov 12 09:14:07 gpu0 nv-fabricmanager[2211]: {CONFIGURED}",
        "Nov 12 09:14:07 gpu0 systemd[1]: Started NVIDIA fabric manager service.",
    ]
    if "fabric_manager_dead" in names:
        mark, state = "\u00d7", "failed (Result: signal) since Thu 2026-11-12 11:40:53 UTC; 3 days ago"
        process = ["   Main PID: 2211 (code=killed, signal=KILL)"]
        journal += [
            f"Nov 12 11:40:53 gpu0 systemd[1]: {UNIT}: Main process exited, code=killed, status=9/KILL",
            f"Nov 12 11:40:53 gpu0 systemd[1]: {UNIT}: Failed with result 'signal'.",
        ]
    else:
        mark, state = "●", "active (running) since Thu 2026-11-12 09:14:07 UTC; 3 days ago"
        process = [
            "   Main PID: 2211 (nv-fabricmanage)",
            "      Tasks: 18 (limit: 629145)",
            "     Memory: 23.4M (peak: 30.9M)",
            f"     CGroup: /system.slice/{UNIT}",
            f"             └─2211 {PROGRAM}",
        ]
    status = [
        f"{mark} {UNIT} - NVIDIA fabric manager service",
        f"     Loaded: loaded (/usr/lib/systemd/system/{UNIT}; enabled; preset: enabled)",
        f"     Active: {state}",
        f"    Process: 2211 ExecStart={PROGRAM} (code=exited, status=0/SUCCESS)",
        *process,
        "",
        *journal,
    ]
    return {
        "fabricmanager": Text("fabricmanager", "\n".join(status) + "\n"),
        "fabricmanager-version": Text("fabricmanager", f"Fabric Manager version is : {driver}\n"),
    }


def _ports(profile: str) -> dict[str, Text]:
    """Return the output of network card tools, for the cards of a Spark; other profiles have no cards."""
    if profile != "gb10":
        return {}
    netdevs: list[str] = []
    links: list[str] = []
    cards: list[str] = []
    settings: list[str] = []
    for number, (device, port, cabled) in enumerate(SPARK_DEVICES):
        state, physical = ("ACTIVE", "LINK_UP") if cabled else ("DOWN", "DISABLED")
        netdevs.append(f"{device} port 1 ==> {port} ({'Up' if cabled else 'Down'})")
        links.append(f"link {device}/1 state {state} physical_state {physical} netdev {port}")
        cards += _card(device, number, cabled)
        settings += _settings(port) if cabled else []
    texts = {"ibdev2netdev": netdevs, "rdma-link": links, "ibstat": cards, "ethtool": settings}
    return {kind: Text(kind, "\n".join(lines) + "\n") for kind, lines in texts.items()}


def _card(device: str, number: int, cabled: bool) -> Iterator[str]:
    """Yield the lines of one card in `ibstat`."""
    guid = f"0x4cbb47030{number:07x}"
    yield f"CA '{device}'"
    yield from (
        f"\t{line}"
        for line in (
            "CA type: MT4129",
            "Number of ports: 1",
            "Firmware version: 28.45.4028",
            "Hardware version: 0",
            f"Node GUID: {guid}",
            f"System image GUID: {guid}",
            "Port 1:",
            f"\tState: {'Active' if cabled else 'Down'}",
            f"\tPhysical state: {'LinkUp' if cabled else 'Disabled'}",
            f"\tRate: {200 if cabled else 40}",
            "\tBase lid: 0",
            "\tLMC: 0",
            "\tSM lid: 0",
            "\tCapability mask: 0x00010000",
            f"\tPort GUID: {guid}",
            "\tLink layer: Ethernet",
        )
    )


def _settings(port: str) -> Iterator[str]:
    """Yield the lines of one port in `ethtool`."""
    yield f"Settings for {port}:"
    yield from (
        f"\t{line}"
        for line in (
            "Supported ports: [ Backplane ]",
            "Supported pause frame use: Symmetric",
            "Supports auto-negotiation: Yes",
            "Speed: 200000Mb/s",
            "Duplex: Full",
            "Auto-negotiation: on",
            "Port: Direct Attach Copper",
            "PHYAD: 0",
            "Transceiver: internal",
            "Supports Wake-on: d",
            "Wake-on: d",
            "Link detected: yes",
        )
    )


def ray_status(nodes: int, gpus: int, *, failures: Sequence[str] = (), demands: Sequence[str] = ()) -> str:
    """`ray status` of a cluster of hosts with this many GPUs each, all in use."""
    names = [f" 1 node_{number:056x}" for number in range(1, nodes + 1)]
    total = float(nodes * gpus)
    lines = [
        "======== Autoscaler status: 2026-11-15 09:25:37.694016 ========",
        "Node status",
        "-" * 63,
        "Active:",
        *names,
        "Pending:",
        " (no pending nodes)",
        "Recent failures:",
        *(failures or [" (no failures)"]),
        "",
        "Resources",
        "-" * 63,
        "Total Usage:",
        f" 0.0/{nodes * 20}.0 CPU",
        f" {total}/{total} GPU",
        f" 0B/{nodes * 100}.00GiB memory",
        f" 0B/{nodes}.00GiB object_store_memory",
        "",
        "From request_resources:",
        " (none)",
        "Pending Demands:",
        *(demands or [" (no resource demands)"]),
    ]
    return "\n".join(lines) + "\n"


def vllm_metrics(*, waiting: int = 0, kv_cache: float = 0.31, preemptions: int = 0) -> str:
    """The metrics page of a server."""
    labels = 'engine="0",model_name="tiny"'
    gauges = {"num_requests_running": 2.0, "num_requests_waiting": float(waiting), "kv_cache_usage_perc": kv_cache}
    counters = {"num_preemptions": preemptions, "prompt_tokens": 51200, "generation_tokens": 20480}
    lines = []
    for name, value in gauges.items():
        lines += [
            f"# HELP vllm:{name} {name.replace('_', ' ')}",
            f"# TYPE vllm:{name} gauge",
            f"vllm:{name}{{{labels}}} {value}",
        ]
    for name, counted in counters.items():
        lines += [
            f"# HELP vllm:{name}_total {name.replace('_', ' ')}",
            f"# TYPE vllm:{name}_total counter",
            f"vllm:{name}_total{{{labels}}} {float(counted)}",
        ]
    lines += [
        "# HELP vllm:request_success_total Count of successfully processed requests.",
        "# TYPE vllm:request_success_total counter",
    ]
    for reason, count in {"stop": 96, "length": 4, "abort": 0, "error": 0}.items():
        lines.append(f'vllm:request_success_total{{{labels},finished_reason="{reason}"}} {float(count)}')
    return "\n".join(lines) + "\n"
