# SPDX-License-Identifier: Apache-2.0
"""Check what an image contains before anything is launched from it."""

from __future__ import annotations

from collections.abc import Mapping

RAY_LEFT_OUT = "vLLM images from 0.18 on ship without it"
RAY_SERVE = "ray-serve"
"""Required for Ray Serve's LLM support: reports Ray's version if all of its dependencies are there."""

INSPECT_SCRIPT = r"""
import ast, ctypes, importlib.metadata, importlib.util, json, os, platform, sys

def distribution(name):
    try:
        return importlib.metadata.version(name)
    except importlib.metadata.PackageNotFoundError:
        return None

def torch_directory():
    spec = importlib.util.find_spec("torch")
    return os.path.dirname(spec.origin) if spec and spec.origin else None

def torch_cuda():
    try:
        with open(os.path.join(torch_directory(), "version.py")) as stream:
            lines = ast.parse(stream.read()).body
    except (OSError, TypeError):
        return None
    for line in lines:
        names = line.targets if isinstance(line, ast.Assign) else [getattr(line, "target", None)]
        if any(getattr(name, "id", "") == "cuda" for name in names):
            return getattr(line.value, "value", None)
    return None

def cuda():
    engine, base = torch_cuda(), os.environ.get("CUDA_VERSION")
    return base if base and (base + ".").startswith((engine or base) + ".") else engine

def nccl():
    beside = os.path.join(os.path.dirname(torch_directory() or "/nowhere/torch"), "nvidia", "nccl", "lib")
    for library in (os.environ.get("VLLM_NCCL_SO_PATH"), os.path.join(beside, "libnccl.so.2"), "libnccl.so.2"):
        try:
            number = ctypes.c_int()
            if library and ctypes.CDLL(library).ncclGetVersion(ctypes.byref(number)) == 0:
                return "%d.%d.%d" % (number.value // 10000, number.value // 100 % 100, number.value % 100)
        except (OSError, AttributeError):
            pass
    return distribution("nvidia-nccl-cu13") or distribution("nvidia-nccl-cu12")

def ray_serve():
    version, spec = distribution("ray"), importlib.util.find_spec("ray")
    if version is None or spec is None:
        return None
    needs = ["fastapi", "starlette", "uvicorn", "pyarrow", "httpx"]
    missing = [name for name in needs if importlib.util.find_spec(name) is None]
    if not os.path.isdir(os.path.join(os.path.dirname(spec.origin), "serve", "llm")):
        missing.append("ray.serve.llm")
    return version + (" without " + ", ".join(missing) if missing else "")

own = {"python": platform.python_version, "cuda": cuda, "nccl": nccl, "ray-serve": ray_serve}
print(json.dumps({name: own[name]() if name in own else distribution(name) for name in sys.argv[1:]}))
"""
"""Run inside the image with names: python, cuda, nccl, ray-serve, a distribution. Needs no GPU, no heavy imports.

CUDA is the release that the engine's torch was built for, at patch level if the image declares a matching one. NCCL is
queried from the library itself, searched in the order that vLLM uses.
"""

_WORDS = {"python": "Python", "cuda": "CUDA", "nccl": "NCCL", RAY_SERVE: "Ray Serve"}
_BY_RELEASE = frozenset({"python", "cuda"})
"""Pinned by release: 3.12 means any 3.12, and an image that only reports 13.0 does not contradict 13.0.3."""


def same_version(name: str, found: str, expected: str) -> bool:
    """Compare versions, ignoring a local build label (0.32.0+cu130) and parts that only one of the two has."""
    if found == expected or ("+" not in expected and found.partition("+")[0] == expected):
        return True
    if name not in _BY_RELEASE:
        return False
    have, want = found.split("."), expected.split(".")
    least = min(len(have), len(want))
    return least >= 2 and have[:least] == want[:least]


def content_problems(reference: str, found: Mapping[str, str | None], requires: Mapping[str, str]) -> list[str]:
    """Return one sentence for each version that is missing or differs."""
    problems = []
    for name in sorted(requires):
        expected, have, word = str(requires[name]), found.get(name), _WORDS.get(name, name)
        if name == RAY_SERVE and have is not None and " without " in have:
            problems.append(
                f"image {reference} has Ray {have}; expected all that Ray Serve's LLM support imports; have Ray added "
                "on the head (docs/image.md), or use an image with ray[serve], pyarrow and httpx and pin that one"
            )
        elif have is None and name == RAY_SERVE and found.get("ray") is None:
            continue  # without Ray, the message about Ray is enough
        elif have is None and name == "ray":
            problems.append(
                f"image {reference} has no ray ({RAY_LEFT_OUT}); expected ray {expected}; "
                f"have it added on the head (in the stack, ray: {{version: {expected}, in_image: false, added: true}}; "
                "docs/image.md), or use an image with Ray added and pin that one"
            )
        elif have is None:
            problems.append(
                f"image {reference} has no {word}; expected {word} {expected}; choose the image the stack was made for"
            )
        elif not same_version(name, have, expected):
            problems.append(
                f"image {reference} has {word} {have}; expected {word} {expected}; "
                "correct the pin in the stack or choose the image it was made for"
            )
    return problems
