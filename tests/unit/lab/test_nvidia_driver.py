# SPDX-License-Identifier: Apache-2.0
"""The stand-in behaves like a driver: what is installed counts only after a reboot."""

from __future__ import annotations

import json
import os
import subprocess
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from tests.unit.lab.conftest import Node

MISMATCH = "Failed to initialize NVML: Driver/library version mismatch\nNVML library version: 580.126\n"
HOOK = "/usr/bin/nvidia-container-runtime-hook"
STATE = json.dumps({"ociVersion": "1.0.2", "id": "c1", "pid": 1, "bundle": "/run/c1"})


def test_a_first_install_is_unloaded_until_the_boot(bare_node: Node) -> None:
    bare_node.describe("gb10")
    bare_node.install("580.95.05")
    done = bare_node.run("/usr/bin/nvidia-smi")
    assert done.returncode == 9
    assert done.stdout.startswith("NVIDIA-SMI has failed because it couldn't communicate with the NVIDIA driver.")
    assert done.stdout.endswith("installed and running.\n\n")
    bare_node.boot()
    assert "580.95.05" in bare_node.smi("--query-gpu=driver_version", "--format=csv,noheader")


def test_an_upgrade_mismatches_until_the_reboot(node: Node) -> None:
    node.describe("gb10")
    node.install("580.126.09")
    done = node.run("/usr/bin/nvidia-smi")
    assert (done.returncode, done.stdout) == (18, MISMATCH)
    again = node.run("/usr/lib/firstlight-lab/nvidia-load")
    assert again.stdout == "nvidia: already loaded: 580.95.05\n"
    node.boot()
    assert node.smi("--query-gpu=driver_version", "--format=csv,noheader") == "580.126.09\n"


def test_a_library_upgrade_without_the_module_survives_no_reboot(node: Node) -> None:
    node.describe("gb10")
    node.install("580.126.09", frozenset({"libnvidia-compute-580"}))
    node.boot()
    done = node.run("/usr/bin/nvidia-smi")
    assert (done.returncode, done.stdout) == (18, MISMATCH)


def test_without_the_library(node: Node) -> None:
    (node.root / "usr/share/firstlight-lab/nvidia/library.json").unlink()
    done = node.run("/usr/bin/nvidia-smi")
    assert done.returncode == 12
    assert "couldn't find libnvidia-ml.so library" in done.stdout


def test_the_hook_lets_containers_start_when_the_driver_works(node: Node) -> None:
    node.describe("gb10")
    done = node.run(HOOK, "prestart", stdin=STATE)
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")


@pytest.mark.parametrize(
    ("breakage", "message"),
    [
        ("unloaded", "nvidia-container-cli: initialization error: nvml error: driver not loaded\n"),
        (
            "mismatch",
            "nvidia-container-cli: initialization error: nvml error: driver/library version mismatch\n",
        ),
        ("lost", "nvidia-container-cli: detection error: nvml error: Unknown Error\n"),
    ],
)
def test_the_hook_stops_containers_when_it_does_not(node: Node, breakage: str, message: str) -> None:
    node.describe("gb10", *(["device_handle_error"] if breakage == "lost" else []))
    if breakage == "unloaded":
        (node.root / "run/nvidia-driver-loaded").unlink()
    elif breakage == "mismatch":
        node.install("580.126.09")
    done = node.run(HOOK, "prestart", stdin=STATE)
    assert (done.returncode, done.stderr) == (1, message)
    assert node.run("/usr/bin/nvidia-container-cli", "info").returncode == 1


def test_container_cli_lists_the_gpus(node: Node) -> None:
    node.describe("h100-sxm-4")
    assert node.run("/usr/bin/nvidia-container-cli", "info").stdout.count("NVIDIA H100 80GB HBM3") == 4
    assert "/dev/nvidia3" in node.run("/usr/bin/nvidia-container-cli", "list").stdout


def test_nvidia_ctk_adds_the_runtime_and_keeps_the_rest(node: Node) -> None:
    daemon = node.root / "etc/docker/daemon.json"
    daemon.parent.mkdir(parents=True)
    daemon.write_text('{"log-driver": "local"}')
    assert node.run("/usr/bin/nvidia-ctk", "runtime", "configure", "--runtime=docker").returncode == 0
    written = json.loads(daemon.read_text())
    assert written["log-driver"] == "local"
    assert written["runtimes"]["nvidia"]["path"] == "nvidia-container-runtime"
    assert node.run("/usr/bin/nvidia-ctk", "--version").stdout.endswith("version 1.18.2\n")


def test_fabric_manager_runs_with_its_own_driver_and_configures_the_fabric(node: Node) -> None:
    node.describe("h100-sxm-8")
    ask = ("--query-gpu=fabric.state,fabric.status", "--format=csv,noheader", "-i", "0")
    assert node.smi(*ask) == "In Progress, N/A\n"
    environment = {**os.environ, "FIRSTLIGHT_LAB_ROOT": str(node.root)}
    command = [str(node.root / "usr/bin/nv-fabricmanager"), "-c", "fabricmanager.cfg"]
    with subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, text=True) as manager:
        assert manager.stdout
        assert manager.stdout.readline() == "Connected to 1 node.\n"
        assert manager.stdout.readline().startswith("Successfully configured all the available NVSwitches")
        assert node.smi(*ask) == "Completed, Success\n"
        manager.kill()
    # The driver goes on saying so after its fabric manager has died, as in reality.
    assert node.smi(*ask) == "Completed, Success\n"
    node.boot()
    assert node.smi(*ask) == "In Progress, N/A\n"


FM_VERSION = "fabric manager NVIDIA GPU driver interface version"
MISMATCHED = f"{FM_VERSION} 580.126.09 doesn't match with driver version 580.95.05\n"
NO_SWITCH = (
    "request to query NVSwitch device information from NVSwitch driver failed with error:"
    "WARNING Nothing to do [NV_WARN_NOTHING_TO_DO]\n"
)


@pytest.mark.parametrize(
    ("profile", "upgrade", "message"), [("h100-sxm-8", True, MISMATCHED), ("h100-sxm-4", False, NO_SWITCH)]
)
def test_fabric_manager_refuses(node: Node, profile: str, upgrade: bool, message: str) -> None:
    node.describe(profile)
    if upgrade:
        node.install("580.126.09", frozenset({"nvidia-fabricmanager-580"}))
    done = node.run("/usr/bin/nv-fabricmanager")
    assert (done.returncode, done.stderr) == (1, message)


def test_fabric_manager_says_its_version(node: Node) -> None:
    assert node.run("/usr/bin/nv-fabricmanager", "--version").stdout == "Fabric Manager version is : 580.95.05\n"


def test_nothing_is_compiled_beside_the_programs(node: Node) -> None:
    node.describe("gb10")
    node.smi()
    assert not list(node.root.rglob("*.pyc"))


def test_a_loaded_driver_lists_the_nvswitches(bare_node: Node) -> None:
    for address, kind in (("0000:05:00.0", "0x068000"), ("0000:1b:00.0", "0x030200")):
        device = bare_node.root / "etc/firstlight-lab/pci" / address
        device.mkdir(parents=True)
        (device / "class").write_text(f"{kind}\n")
    bare_node.describe("h100-sxm-8")
    bare_node.install("580.95.05")
    bare_node.boot()
    devices = bare_node.root / "run/firstlight-lab/proc-driver/nvidia-nvswitch/devices"
    assert [path.name for path in devices.iterdir()] == ["0000:05:00.0"]
