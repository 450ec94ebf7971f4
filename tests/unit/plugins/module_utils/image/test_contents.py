# SPDX-License-Identifier: Apache-2.0
"""What an image must contain, and what its own Python says of it."""

from __future__ import annotations

import json
import os
import platform
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from ansible_collections.firstlight.cluster.plugins.module_utils.image.contents import (
    INSPECT_SCRIPT,
    content_problems,
    same_version,
)

REFERENCE = "registry.example/vllm@sha256:" + "0f" * 32


@pytest.mark.parametrize(
    ("name", "found", "expected", "same"),
    [
        ("vllm", "0.32.0", "0.32.0", True),
        ("vllm", "0.32.0+cu130", "0.32.0", True),
        ("vllm", "0.32.0", "0.32.0+cu130", False),
        ("vllm", "0.32.1", "0.32.0", False),
        ("vllm", "0.32", "0.32.0", False),
        ("nccl", "2.30.4", "2.30.7", False),
        ("python", "3.12.11", "3.12", True),
        ("python", "3.1.2", "3.12", False),
        ("python", "3", "3.12", False),
        ("cuda", "13.0", "13.0.3", True),
        ("cuda", "13.0.2", "13.0.3", False),
        ("cuda", "12.9", "13.0.3", False),
    ],
)
def test_same_version(name: str, found: str, expected: str, same: bool) -> None:
    assert same_version(name, found, expected) is same


def test_an_image_without_ray_is_explained() -> None:
    problems = content_problems(REFERENCE, {"vllm": "0.32.0", "ray": None}, {"vllm": "0.32.0", "ray": "2.60.0"})
    assert len(problems) == 1
    assert problems[0].startswith(
        f"image {REFERENCE} has no ray (vLLM images from 0.18 on ship without it); expected ray 2.60.0; "
    )
    assert "use an image with Ray added" in problems[0]


def test_every_mismatch_is_a_sentence() -> None:
    wanted = {"vllm": "0.32.0", "nccl": "2.30.7", "cuda": "13.0.3", "python": "3.12", "ray": "2.60.0"}
    found = {"vllm": "0.31.0", "nccl": None, "cuda": "12.9", "python": "3.11.2", "ray": "2.60.0"}
    problems = content_problems(REFERENCE, found, wanted)
    assert [one.removeprefix(f"image {REFERENCE} ").partition(";")[0] for one in problems] == [
        "has CUDA 12.9",
        "has no NCCL",
        "has Python 3.11.2",
        "has vllm 0.31.0",
    ]
    assert "expected NCCL 2.30.7" in problems[1]


def asked(tmp_path: Path, *names: str, **environment: str) -> dict[str, str | None]:
    """What the script says with these packages in front of all others."""
    kept = {name: value for name, value in os.environ.items() if name not in ("CUDA_VERSION", "VLLM_NCCL_SO_PATH")}
    ran = subprocess.run(
        [sys.executable, "-c", INSPECT_SCRIPT, *names],
        env={**kept, "PYTHONPATH": str(tmp_path), **environment},
        capture_output=True,
        text=True,
        check=True,
    )
    found: dict[str, str | None] = json.loads(ran.stdout)
    return found


def torch(tmp_path: Path, version: str) -> None:
    (tmp_path / "torch").mkdir()
    (tmp_path / "torch" / "__init__.py").write_text("raise RuntimeError('too heavy to be imported')\n")
    (tmp_path / "torch" / "version.py").write_text(version)


def test_the_script_asks_python_itself(tmp_path: Path) -> None:
    assert asked(tmp_path, "pytest", "no-such-distribution", "python") == {
        "pytest": pytest.__version__,
        "no-such-distribution": None,
        "python": platform.python_version(),
    }


def ray(tmp_path: Path, *modules: str) -> None:
    """A Ray with these beside it; its own packages are never imported."""
    for name in ("ray", "ray/serve", "ray/serve/llm", *modules):
        (tmp_path / name).mkdir()
        (tmp_path / name / "__init__.py").write_text("raise RuntimeError('too heavy to be imported')\n")
    (tmp_path / "ray-2.60.0.dist-info").mkdir()
    (tmp_path / "ray-2.60.0.dist-info" / "METADATA").write_text("Metadata-Version: 2.1\nName: ray\nVersion: 2.60.0\n")


def test_ray_serve_is_there_with_all_it_imports(tmp_path: Path) -> None:
    assert asked(tmp_path, "ray-serve") == {"ray-serve": None}
    ray(tmp_path, "fastapi", "starlette", "uvicorn", "pyarrow")
    found = asked(tmp_path, "ray-serve", "ray")
    assert found == {"ray-serve": "2.60.0 without httpx", "ray": "2.60.0"}
    (problem,) = content_problems(REFERENCE, found, {"ray": "2.60.0", "ray-serve": "2.60.0"})
    assert "has Ray 2.60.0 without httpx; expected all that Ray Serve's LLM support imports" in problem
    (tmp_path / "httpx").mkdir()
    (tmp_path / "httpx" / "__init__.py").touch()
    found = asked(tmp_path, "ray-serve", "ray")
    assert content_problems(REFERENCE, found, {"ray": "2.60.0", "ray-serve": "2.60.0"}) == []
    shutil.rmtree(tmp_path / "ray" / "serve" / "llm")
    assert asked(tmp_path, "ray-serve") == {"ray-serve": "2.60.0 without ray.serve.llm"}


def test_an_image_without_ray_is_told_once() -> None:
    found = {"ray": None, "ray-serve": None}
    (problem,) = content_problems(REFERENCE, found, {"ray": "2.60.0", "ray-serve": "2.60.0"})
    assert "has no ray" in problem


@pytest.mark.parametrize(
    ("version", "base", "cuda"),
    [
        ("from typing import Optional\ncuda: Optional[str] = '13.0'\n", "13.0.3", "13.0.3"),
        ("cuda = '12.9'\n", "13.0.3", "12.9"),
        ("cuda = '13.0'\n", "", "13.0"),
        ("cuda = '1'\n", "13.0.3", "1"),
        ("__version__ = '2.13.0+cpu'\ncuda = None\n", "", None),
    ],
)
def test_cuda_is_what_the_engine_was_built_for(tmp_path: Path, version: str, base: str, cuda: str | None) -> None:
    torch(tmp_path, version)
    assert asked(tmp_path, "cuda", CUDA_VERSION=base) == {"cuda": cuda}


def test_nccl_by_its_wheel_where_the_library_does_not_load(tmp_path: Path) -> None:
    torch(tmp_path, "cuda = '13.0'\n")
    assert asked(tmp_path, "nccl", VLLM_NCCL_SO_PATH="/nowhere/libnccl.so.2") == {"nccl": None}
    wheel = tmp_path / "nvidia_nccl_cu13-2.30.7.dist-info"
    wheel.mkdir()
    (wheel / "METADATA").write_text("Metadata-Version: 2.1\nName: nvidia-nccl-cu13\nVersion: 2.30.7\n")
    assert asked(tmp_path, "nccl") == {"nccl": "2.30.7"}
