# SPDX-License-Identifier: Apache-2.0
"""One description of the GPUs, written anew when the driver is another one, never a wrong one."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from ansible_collections.firstlight.cluster.plugins.module_utils.gpu.cdi_files import describe_gpus
from ansible_collections.firstlight.cluster.plugins.module_utils.gpu.cdi_probe import read_cdi
from ansible_collections.firstlight.cluster.plugins.module_utils.host import Result
from ansible_collections.firstlight.cluster.plugins.module_utils.problems import SettingsError

from tests.unit.fake_host import Call, FakeHost

SPEC = "/etc/cdi/nvidia.json"
NVRM = "NVRM version: NVIDIA UNIX Open Kernel Module for aarch64  {}  Release Build  (root@x)\n"


class Machine(FakeHost):
    """Two GPUs, a driver, and a toolkit that describes them."""

    def __init__(self) -> None:
        super().__init__({"nvidia-smi": self._list, "nvidia-ctk": self._describe})
        self.loaded = self.described = "580.95.05"
        self.further: dict[str, str] = {}

    @property
    def generated(self) -> int:
        """How often the toolkit ran."""
        return sum(argv[0] == "nvidia-ctk" for argv in self.ran)

    def _list(self, _: Call) -> str:
        return "".join(f"{index}, NVIDIA GB10, [N/A], {self.loaded}, GPU-{index}\n" for index in range(2))

    def _describe(self, call: Call) -> Result:
        output = Path(next(word for word in call.argv if word.startswith("--output=")).partition("=")[2])
        output.write_text(specification(self.described))
        for name, text in self.further.items():
            (output.parent / name).write_text(text)
        return Result((), 0, "", 'level=info msg="Generated CDI spec"')


def specification(driver: str) -> str:
    names = ("0", "1", "GPU-0", "GPU-1", "all")
    mounts = [{"hostPath": f"/usr/lib/libcuda.so.{driver}", "containerPath": f"/usr/lib/libcuda.so.{driver}"}]
    return json.dumps(
        {
            "cdiVersion": "0.5.0",
            "kind": "nvidia.com/gpu",
            "devices": [{"name": name, "containerEdits": {}} for name in names],
            "containerEdits": {"mounts": mounts},
        }
    )


def write(root: Path, path: str, text: str) -> Path:
    place = root / path.lstrip("/")
    place.parent.mkdir(parents=True, exist_ok=True)
    place.write_text(text)
    return place


def run(root: Path, machine: Machine, check: bool = False) -> dict[str, Any]:
    return describe_gpus(machine, SPEC, 5, check, str(root))


def test_describe_the_gpus_and_leave_it_then(tmp_path: Path) -> None:
    machine = Machine()
    assert run(tmp_path, machine, check=True)["changed"]
    assert machine.generated == 0
    assert run(tmp_path, machine)["changed"]
    written = tmp_path / "etc/cdi/nvidia.json"
    assert written.stat().st_mode & 0o777 == 0o644
    assert not run(tmp_path, machine)["changed"]
    assert machine.generated == 1
    assert read_cdi(machine, SPEC, 5, str(tmp_path)) == {
        "exists": True,
        "waiting": None,
        "reboot_required": False,
        "wrong": {},
    }


def test_another_driver_is_described_anew(tmp_path: Path) -> None:
    machine = Machine()
    run(tmp_path, machine)
    machine.loaded = machine.described = "580.126.09"
    assert read_cdi(machine, SPEC, 5, str(tmp_path))["wrong"] == {"driver": ["580.126.09", "580.95.05"]}
    result = run(tmp_path, machine)
    assert result["changed"]
    assert "driver: 580.95.05, expected 580.126.09" in result["diff"][0]["before"]
    assert "580.126.09" in (tmp_path / "etc/cdi/nvidia.json").read_text()


def test_further_files_of_coherent_gpus_come_along(tmp_path: Path) -> None:
    machine = Machine()
    machine.further = {"nvidia.coherent.json": '{"kind": "nvidia.com/gpu.coherent"}'}
    run(tmp_path, machine)
    assert (tmp_path / "etc/cdi/nvidia.coherent.json").is_file()
    assert not run(tmp_path, machine)["changed"]


def test_other_descriptions_of_the_same_gpus_go_out_of_the_way(tmp_path: Path) -> None:
    machine = Machine()
    run(tmp_path, machine)
    hidden = write(tmp_path, "/var/run/cdi/nvidia.yaml", "---\ncdiVersion: 0.5.0\nkind: nvidia.com/gpu\n")
    conflict = write(tmp_path, "/etc/cdi/nvidia.yaml", "kind: nvidia.com/gpu\n")
    foreign = write(tmp_path, "/etc/cdi/other.yaml", "kind: example.com/nic\n")
    both = ["/etc/cdi/nvidia.yaml", "/var/run/cdi/nvidia.yaml"]
    assert read_cdi(machine, SPEC, 5, str(tmp_path))["wrong"]["others"][1] == both
    assert run(tmp_path, machine)["differences"] == [
        f"CDI specification {other} has the GPUs of {SPEC}, expected none" for other in both
    ]
    assert not hidden.exists()
    assert conflict.with_name("nvidia.yaml.replaced").exists()
    assert foreign.exists()
    assert machine.generated == 1
    assert not run(tmp_path, machine)["changed"]


@pytest.mark.parametrize(
    ("loaded", "said"),
    [
        ("580.95.05", "Failed to initialize NVML: Driver/library version mismatch\nNVML library version: 580.126\n"),
        (None, "NVIDIA-SMI has failed because it couldn't communicate with the NVIDIA driver.\n"),
    ],
)
def test_a_driver_that_waits_for_its_reboot_is_waited_for(tmp_path: Path, loaded: str | None, said: str) -> None:
    machine = Machine()
    machine.commands["nvidia-smi"] = Result((), 18, said)
    if loaded:
        write(tmp_path, "/proc/driver/nvidia/version", NVRM.format(loaded))
    result = run(tmp_path, machine)
    assert (result["changed"], machine.generated) == (False, 0)
    seen = read_cdi(machine, SPEC, 5, str(tmp_path))
    assert said.splitlines()[0] in seen["waiting"]
    assert seen["reboot_required"]


@pytest.mark.parametrize(
    ("result", "words"),
    [
        (
            Result(("nvidia-smi",), 127, problem="nvidia-smi is not installed"),
            "nvidia-smi is not installed.*role nvidia",
        ),
        (Result(("nvidia-smi",), 124, problem="nvidia-smi gave no answer within 5 s"), "no answer within 5 s"),
        (Result(("nvidia-smi",), 0, ""), "lists no GPU"),
        (Result(("nvidia-smi",), 0, "Unable to determine the device handle for GPU1\n"), "Unable to determine"),
    ],
)
def test_a_driver_that_is_not_there_or_ill_is_an_error(tmp_path: Path, result: Result, words: str) -> None:
    machine = Machine()
    machine.commands["nvidia-smi"] = result
    with pytest.raises(SettingsError, match=words):
        run(tmp_path, machine)
    assert run(tmp_path, machine, check=True)["changed"]


@pytest.mark.parametrize(
    ("failure", "described", "words"),
    [
        (
            Result(("nvidia-ctk",), 1, "", 'level=info msg="x"\nlevel=error msg="failed to generate CDI spec: y"\n'),
            "580.95.05",
            "could not describe the GPUs: failed to generate CDI spec: y. Nothing was changed. Try `nvidia-ctk cdi",
        ),
        (Result(("nvidia-ctk",), 2, "", "boom\n"), "580.95.05", "nvidia-ctk returned 2: boom"),
        (None, "1.2", "does not fit this host: driver 1.2, expected 580.95.05. Nothing was changed"),
        (Result(("nvidia-ctk",), 0), "580.95.05", "does not fit this host: format it is not JSON"),
    ],
)
def test_what_cannot_be_used_is_not_put_in_place(
    tmp_path: Path, failure: Result | None, described: str, words: str
) -> None:
    machine = Machine()
    machine.described = described
    if failure:
        machine.commands["nvidia-ctk"] = failure
    old = write(tmp_path, SPEC, "old")
    with pytest.raises(SettingsError, match=words):
        run(tmp_path, machine)
    assert old.read_text() == "old"
