# SPDX-License-Identifier: Apache-2.0
"""The one layer that puts Ray onto an image that comes without it."""

from __future__ import annotations

import re
import shlex
from collections.abc import Mapping

WHEELS = "wheels"
"""Directory of the build context with wheels, for sites without a package index."""

_IN_IMAGE = f"/opt/firstlight-{WHEELS}"
_SECONDS = re.compile(r"^\d+\.\d+ ")
"""Before every line that a command said, with BuildKit."""
_SOLVE = "ERROR: failed to "
"""BuildKit's word for a command that failed."""

SERVE_MARK = "_serve"
"""Stands between a version of Ray and the pins of what Ray Serve's LLM support needs beside it."""

METRICS_MARK = "_metrics"
"""Ends the version of a Ray that is added with what its agent of metrics needs; Ray Serve's needs include it."""


def with_serve(ray: str, pins: Mapping[str, str]) -> str:
    """A Ray with Ray Serve, as one word that can be part of an image's tag: other pins make another image."""
    return "_".join([f"{ray}{SERVE_MARK}", *(part for name in sorted(pins) for part in (name, pins[name]))])


def has_more(ray: str) -> bool:
    """Whether more than Ray alone is asked for."""
    return ray.endswith(METRICS_MARK) or SERVE_MARK in ray


def requirements(ray: str) -> list[str]:
    """What is installed: Ray alone, with its agent of metrics, or with Ray Serve and what its LLM support imports.

    Not Ray's own extra for it, `llm`: that one brings another vLLM than the image has.
    """
    if ray.endswith(METRICS_MARK):
        # All of it or nothing: a Ray that finds some of what its agent imports does not start.
        return [f"ray[default]=={ray.removesuffix(METRICS_MARK)}"]
    version, mark, rest = ray.partition(SERVE_MARK)
    if not mark:
        return [f"ray=={version}"]
    words = rest.split("_")[1:]
    if not words or len(words) % 2 or not all(words):
        raise ValueError(
            f"the version of Ray is {ray!r}, expected one like 2.60.0{SERVE_MARK}_NAME_VERSION: pin what Ray Serve "
            "needs in the stack (ray.serve)"
        )
    pins = [f"{name}=={pin}" for name, pin in zip(words[::2], words[1::2], strict=True)]
    return [f"ray[serve]=={version}", *pins]


def dockerfile(base: str, ray: str, user: str = "", wheels: bool = False, index: str = "") -> str:
    """How the image is built: uv where the image has it, else its pip, else a pip from among the wheels.

    What is installed is for the python3 that the image runs, be it the system's or one of an environment. `user` is
    whom the image runs as; installing is root's.
    """
    if "@" in index:
        raise ValueError(
            "inference_image_ray_index has a user or password in it, which would stay in the image: take them out, and "
            "give the wheels in a directory of the head (inference_image_ray_wheels)"
        )
    online = [f"--index-url={index}"] if index else []
    options = ["--no-index", f"--find-links={_IN_IMAGE}"] if wheels else online
    wanted = shlex.join([*options, *requirements(ray)])
    uv = f'uv pip install --python "$(command -v python3)" --break-system-packages --no-cache {wanted}'
    pip = f"PIP_BREAK_SYSTEM_PACKAGES=1 python3 -m pip install --no-cache-dir {wanted}"
    own = f'"$(echo {_IN_IMAGE}/pip-*.whl)/pip"'  # Python runs it out of the archive
    carried = f"PIP_BREAK_SYSTEM_PACKAGES=1 python3 {own} install --no-cache-dir {wanted}"
    lines = [
        f"FROM {base}",
        *(["USER root"] if user else []),
        *([f"COPY {WHEELS}/ {_IN_IMAGE}/"] if wheels else []),
        "RUN if command -v uv >/dev/null 2>&1; then \\",
        f"      {uv}; \\",
        "    elif python3 -m pip --version >/dev/null 2>&1; then \\",
        f"      {pip}; \\",
        "    else \\",
        f"      {carried}; \\",
        "    fi",
        f"LABEL io.firstlight.ray={ray}",
        *([f"USER {user}"] if user else []),
    ]
    return "\n".join(lines) + "\n"


def build_words(output: str) -> str:
    """What the installer complained of last, and not that Docker's command failed, which quotes the whole command."""
    plain = [line.replace("\x1b[91m", "").replace("\x1b[0m", "").strip() for line in output.splitlines()]
    lines = [_SECONDS.sub("", line) for line in plain]
    told = [line for line in lines if line and not line.startswith(("The command ", _SOLVE))]
    errors = [line for line in told if "error" in line.lower()]
    return (errors or told or lines or ["docker said nothing"])[-1][:400]


def build_failure(base: str, ray: str, said: str, wheels: str) -> str:
    """One message for a build that failed."""
    remedy = (
        f"check that {wheels} holds the wheels of {', '.join(requirements(ray))} and of all it needs for the image's "
        "Python and architecture, and pip's own wheel where the image has neither uv nor pip"
        if wheels
        else "check that the head reaches a package index (inference_image_ray_index), give the wheels in a directory "
        "of the head (inference_image_ray_wheels), or choose a stack without Ray for profile vllm-multinode"
    )
    return f"ray {ray} cannot be added to image {base}: {said}; {remedy}"
