# SPDX-License-Identifier: Apache-2.0
"""The stand-in behaves like a driver: what is installed counts only after a reboot."""

from __future__ import annotations

import json
import os
import signal
import subprocess
from typing import TYPE_CHECKING

import pytest
import yaml

from firstlight_lab.nvidia.node.kernel import kernel_lines

pytestmark = pytest.mark.slow  # a package is built and installed each

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
    ("profile", "upgrade", "message"),
    [
        ("h100-sxm-8", True, MISMATCHED),
        ("h100-sxm-4", False, NO_SWITCH),
        ("h100-sxm-4-partition", False, NO_SWITCH),
    ],
)
def test_fabric_manager_refuses(node: Node, profile: str, upgrade: bool, message: str) -> None:
    node.describe(profile)
    if upgrade:
        node.install("580.126.09", frozenset({"nvidia-fabricmanager-580"}))
    done = node.run("/usr/bin/nv-fabricmanager")
    assert (done.returncode, done.stderr) == (1, message)


def test_the_fabric_of_a_partition_is_the_host_s(node: Node) -> None:
    ask = ("--query-gpu=fabric.state,fabric.status", "--format=csv,noheader")
    node.describe("h100-sxm-4-partition")
    node.boot()
    assert node.smi(*ask) == "Completed, Success\n" * 4
    assert node.smi("-q", "-x").count("<virtualization_mode>Pass-Through<") == 4
    assert not (node.root / "run/firstlight-lab/proc-driver/nvidia-nvswitch/devices").exists()
    assert not [text for _, _, text in kernel_lines(node.root) if "nvswitch" in text]
    node.describe("h100-sxm-4-partition", "partition_inactive")
    assert node.smi(*ask) == "In Progress, N/A\n" * 4
    # A host that takes no other driver than its own.
    node.describe("h100-sxm-4-partition", "partition_inactive:version=580.126.09")
    assert node.smi(*ask) == "Completed, Success\n" * 4
    node.install("580.126.09")
    node.boot()
    assert node.smi(*ask) == "In Progress, N/A\n" * 4


LOAD = "/usr/lib/firstlight-lab/nvidia-load"


def test_a_broken_release_does_not_load_and_the_other_does(node: Node) -> None:
    node.describe("gb10", "module_unloadable:version=580.126.09")
    node.install("580.126.09")
    (node.root / "run/nvidia-driver-loaded").unlink()
    done = node.run(LOAD)
    assert (done.returncode, done.stderr) == (1, "modprobe: ERROR: could not insert 'nvidia': No such device\n")
    assert node.run("/usr/bin/nvidia-smi").returncode == 9
    node.install("580.95.05")
    assert node.run(LOAD).stdout == "nvidia: loaded: 580.95.05\n"
    assert node.smi("--query-gpu=driver_version", "--format=csv,noheader") == "580.95.05\n"


def test_a_module_is_built_at_once_slowly_or_not_at_all(node: Node) -> None:
    assert node.run(LOAD, "--build").stdout == "nvidia: built: 580.95.05\n"
    node.describe("gb10", {"fault": "module_build_slow", "seconds": 600})
    with pytest.raises(subprocess.TimeoutExpired):
        subprocess.run(
            [str(node.root / LOAD.lstrip("/")), "--build"],
            timeout=1.5,
            check=False,
            env={"FIRSTLIGHT_LAB_ROOT": str(node.root)},
        )
    node.describe("gb10", "module_build_slow:seconds=0", "module_build_failed")
    done = node.run(LOAD, "--build")
    assert done.returncode == 1
    assert done.stderr.startswith("Error! Bad return status for module build on kernel")
    assert node.run(LOAD, "--again").returncode == 2


def test_a_broken_fabric_manager_is_one_release_only(node: Node) -> None:
    node.describe("h100-sxm-8", "fabric_manager_broken:version=580.95.05")
    done = node.run("/usr/bin/nv-fabricmanager")
    assert done.returncode == 1
    assert "NVSwitch device initialization failed" in done.stderr
    node.describe("h100-sxm-8", "fabric_manager_broken:version=580.126.09")
    with pytest.raises(subprocess.TimeoutExpired):
        subprocess.run(
            [str(node.root / "usr/bin/nv-fabricmanager")],
            timeout=1.5,
            check=False,
            env={"FIRSTLIGHT_LAB_ROOT": str(node.root)},
        )


def test_a_description_that_cannot_be_read_is_said(node: Node) -> None:
    node.describe("gb10", "module_unloadable:580.126.09")
    done = node.run(LOAD, "--build")
    assert done.returncode == 1
    assert 'a fault is "name", "name:GPU" or "name:key=value"' in done.stderr


def test_a_dead_fabric_manager_has_done_its_work_before(node: Node) -> None:
    node.describe("h100-sxm-4-nvswitch", "fabric_manager_dead")
    done = node.run("/usr/bin/nv-fabricmanager")
    assert done.returncode == -signal.SIGKILL
    assert node.smi("--query-gpu=fabric.state", "--format=csv,noheader").split() == ["Completed"] * 4


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


def bundle(node: Node, *environment: str) -> str:
    """A container that is about to start, as Docker hands it to the hook."""
    folder = node.root / "run/c2"
    (folder / "rootfs/usr/bin").mkdir(parents=True)
    config = {"process": {"env": ["PATH=/usr/bin", *environment]}, "root": {"path": "rootfs"}}
    (folder / "config.json").write_text(json.dumps(config))
    return json.dumps({"ociVersion": "1.0.2", "id": "c2", "pid": 1, "bundle": "/run/c2"})


def in_container(node: Node, *arguments: str) -> subprocess.CompletedProcess[str]:
    program = node.root / "run/c2/rootfs/usr/bin/nvidia-smi"
    return subprocess.run([program, *arguments], capture_output=True, text=True, check=False, timeout=60)


@pytest.mark.parametrize(("wanted", "count"), [("all", 4), ("0,2", 2), ("3", 1)])
def test_the_hook_puts_a_working_nvidia_smi_into_the_container(node: Node, wanted: str, count: int) -> None:
    node.describe("h100-sxm-4")
    state = bundle(node, f"NVIDIA_VISIBLE_DEVICES={wanted}")
    assert node.run(HOOK, "prestart", stdin=state).returncode == 0
    listed = in_container(node, "-L").stdout.splitlines()
    assert [line.partition(":")[0] for line in listed] == [f"GPU {index}" for index in range(count)]
    if wanted == "3":
        assert listed[0].partition(":")[2] == node.smi("-L").splitlines()[3].partition(":")[2]
    assert "DRIVER version      : 580.95.05" in in_container(node, "--version").stdout
    assert "NVIDIA-SMI 580.95.05" in in_container(node).stdout
    assert in_container(node, "topo", "-m").returncode == 2


@pytest.mark.parametrize(
    "environment",
    [("NVIDIA_VISIBLE_DEVICES=void",), ("NVIDIA_VISIBLE_DEVICES=none",), ("NVIDIA_DRIVER_CAPABILITIES=compute",)],
)
def test_the_hook_leaves_other_containers_alone(node: Node, environment: tuple[str, ...]) -> None:
    node.describe("gb10")
    assert node.run(HOOK, "prestart", stdin=bundle(node, *environment)).returncode == 0
    assert not (node.root / "run/c2/rootfs/usr/bin/nvidia-smi").exists()


def test_the_hook_refuses_a_gpu_that_is_not_there(node: Node) -> None:
    node.describe("gb10")
    done = node.run(HOOK, "prestart", stdin=bundle(node, "NVIDIA_VISIBLE_DEVICES=7"))
    assert (done.returncode, done.stderr) == (1, "nvidia-container-cli: device error: 7: unknown device\n")


def test_nvidia_ctk_describes_the_gpus_for_the_loaded_driver(node: Node) -> None:
    node.describe("h100-sxm-4")
    done = node.run("/usr/bin/nvidia-ctk", "cdi", "generate", "--output=/etc/cdi/nvidia.json")
    assert (done.returncode, done.stdout) == (0, "")
    spec = json.loads((node.root / "etc/cdi/nvidia.json").read_text())
    assert spec["kind"] == "nvidia.com/gpu"
    assert len(spec["devices"]) == 4 + 4 + 1
    assert any(mount["hostPath"].endswith("/libcuda.so.580.95.05") for mount in spec["containerEdits"]["mounts"])
    told = node.run("/usr/bin/nvidia-ctk", "cdi", "generate").stdout
    assert yaml.safe_load(told) == spec
    assert "\nkind: nvidia.com/gpu\n" in told


def test_nvidia_ctk_describes_nothing_while_the_driver_waits(node: Node) -> None:
    node.describe("gb10")
    node.install("580.126.09")
    done = node.run("/usr/bin/nvidia-ctk", "cdi", "generate", "--output=/etc/cdi/nvidia.json")
    assert done.returncode == 1
    assert 'failed to initialize NVML: Driver/library version mismatch"' in done.stderr
    assert not (node.root / "etc/cdi").exists()
