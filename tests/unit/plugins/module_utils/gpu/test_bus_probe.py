# SPDX-License-Identifier: Apache-2.0
"""What the kernel's files tell of GPUs, as tools would print it."""

from __future__ import annotations

from pathlib import Path

from ansible_collections.firstlight.cluster.plugins.module_utils.gpu.bus_probe import (
    driver_gpus,
    loaded_modules,
    pci_listing,
)
from ansible_collections.firstlight.cluster.plugins.module_utils.parsers.lspci import parse_lspci
from ansible_collections.firstlight.cluster.plugins.module_utils.parsers.proc_version import parse_proc_version

from firstlight_lab.nvidia import pci_files


def test_the_bus_is_listed_as_lspci_does(tmp_path: Path) -> None:
    for path, content in {**pci_files("h100-sxm-8"), "0000:00:00.0/vendor": "0x8086\n"}.items():
        place = tmp_path / "sys/bus/pci/devices" / path
        place.parent.mkdir(parents=True, exist_ok=True)
        place.write_text(content)
    command, rc, text, problem = pci_listing(str(tmp_path))
    assert (command, rc, problem) == ("lspci -D -n -d 10de:", 0, "")
    assert "0000:1b:00.0 0302: 10de:2330\n" in text
    assert text.endswith("# 13 PCI devices in all, 12 of NVIDIA's\n")
    data, problems = parse_lspci(text)
    assert (len(data["gpus"]), len(data["nvswitches"]), problems) == (8, 4, [])


def test_the_drivers_own_list_and_the_modules(tmp_path: Path) -> None:
    for address in ("0000:1b:00.0", "0000:43:00.0"):
        place = tmp_path / "proc/driver/nvidia/gpus" / address
        place.mkdir(parents=True)
        (place / "information").write_text(f"Model: \t\t NVIDIA H200\nBus Location: \t {address}\n")
    (tmp_path / "proc/modules").write_text("nvidia_uvm 1830912 - - Live 0xffffffffc080c000 (O)\n")
    data, _ = parse_proc_version(driver_gpus(str(tmp_path))[2])
    assert [gpu["bus"] for gpu in data["gpus"]] == ["00000000:1B:00.0", "00000000:43:00.0"]
    text = loaded_modules(str(tmp_path))[2]
    assert text.startswith("Linux ")
    assert text.endswith("\nnvidia_uvm 1830912 - - Live\n")


def test_what_is_not_there_is_said(tmp_path: Path) -> None:
    for ask in (pci_listing, driver_gpus, loaded_modules):
        _, rc, text, problem = ask(str(tmp_path))
        assert (rc, text) == (1, "")
        assert "cannot be read: No such file" in problem
    (tmp_path / "proc/driver/nvidia/gpus").mkdir(parents=True)
    assert driver_gpus(str(tmp_path))[3] == "/proc/driver/nvidia/gpus is empty"
