# SPDX-License-Identifier: Apache-2.0
"""The one layer that adds Ray to an image that comes without it."""

from __future__ import annotations

import hashlib
import re
import shlex

from ..engine_venv.lock import Lock, parse_lock, same_version

WHEELS = "wheels"
"""Directory of the build context with wheels, for sites without a package index."""
RAY_LOCK = "ray.lock"
"""File of the build context that lists every wheel of the layer with its hash."""

_IN_IMAGE = f"/opt/firstlight-{WHEELS}"
_LOCK_IN_IMAGE = f"/opt/{RAY_LOCK}"
_SECONDS = re.compile(r"^\d+\.\d+ ")
"""BuildKit's prefix of every line that a command printed."""
_SOLVE = "ERROR: failed to "
"""BuildKit's prefix for a failed command."""

ALONE, METRICS, SERVE = "alone", "metrics", "serve"
"""Ray itself, Ray with the dependencies of its metrics agent, and Ray with those of Ray Serve's LLM support."""


def layer_word(version: str, kind: str, lock: str) -> str:
    """Return the layer as a word for an image's tag; a different lock gives a different image."""
    parts = [version, *([kind] if kind != ALONE else []), *([_short(lock)] if lock else [])]
    return "_".join(parts)


def _short(lock: str) -> str:
    return hashlib.sha256(lock.encode()).hexdigest()[:12]


def has_more(ray: str) -> bool:
    """Whether more than Ray itself is requested."""
    return bool({METRICS, SERVE} & set(ray.split("_")))


def read_ray_lock(ray: str, text: str) -> Lock:
    """Parse the lock of a layer. Raises ValueError if there is none, or if it is for another Ray."""
    if not text:
        raise ValueError(
            f"ray {ray} is to be added, and no lock lists its wheels: give one (inference_image_ray_lock), or use an "
            "image that has Ray"
        )
    lock, version = parse_lock(text, "the lock of Ray"), ray.partition("_")[0]
    have = lock.packages.get("ray")
    if have is None or not same_version(version, have):
        raise ValueError(
            f"the lock of Ray pins ray {have or 'not at all'}, expected {version}: use the lock of that version"
        )
    return lock


def dockerfile(base: str, ray: str, user: str = "", wheels: bool = False, index: str = "") -> str:
    """Render the Dockerfile: install with the image's uv, else its pip, else a pip from the wheels.

    Packages are installed for the image's python3, be it the system's or that of an environment: every wheel of the
    lock, checked against its hash, and nothing else. `user` is the image's user; the installation runs as root.
    """
    if "@" in index:
        raise ValueError(
            "inference_image_ray_index has a user or password in it, which would stay in the image: remove them, and "
            "provide the wheels in a directory of the head (inference_image_ray_wheels)"
        )
    online = [f"--index-url={index}"] if index else []
    options = ["--no-index", f"--find-links={_IN_IMAGE}"] if wheels else online
    rules = ["--require-hashes", "--no-deps", "--only-binary=:all:"]
    wanted = shlex.join([*rules, *options, "--requirement", _LOCK_IN_IMAGE])
    uv = f'uv pip install --python "$(command -v python3)" --break-system-packages --no-cache {wanted}'
    pip = f"PIP_BREAK_SYSTEM_PACKAGES=1 python3 -m pip install --no-cache-dir {wanted}"
    own = f'"$(echo {_IN_IMAGE}/pip-*.whl)/pip"'  # Python runs it from inside the wheel
    carried = f"PIP_BREAK_SYSTEM_PACKAGES=1 python3 {own} install --no-cache-dir {wanted}"
    lines = [
        f"FROM {base}",
        *(["USER root"] if user else []),
        f"COPY {RAY_LOCK} {_LOCK_IN_IMAGE}",
        *([f"COPY {WHEELS}/ {_IN_IMAGE}/"] if wheels else []),
        "RUN if command -v uv >/dev/null 2>&1; then \\",
        f"      {uv}; \\",
        "    elif python3 -m pip --version >/dev/null 2>&1; then \\",
        f"      {pip}; \\",
        "    else \\",
        f"      {carried}; \\",
        # The lock omits what an engine's image already has; an image that lacks any of it fails here.
        "    fi && python3 -c 'import ray'",
        f"LABEL io.firstlight.ray={ray}",
        *([f"USER {user}"] if user else []),
    ]
    return "\n".join(lines) + "\n"


def build_words(output: str) -> str:
    """Return the installer's last error, not Docker's own message, which quotes the whole command."""
    plain = [line.replace("\x1b[91m", "").replace("\x1b[0m", "").strip() for line in output.splitlines()]
    lines = [_SECONDS.sub("", line) for line in plain]
    told = [line for line in lines if line and not line.startswith(("The command ", _SOLVE))]
    errors = [line for line in told if "error" in line.lower()]
    return (errors or told or lines or ["docker printed nothing"])[-1][:400]


def build_failure(base: str, ray: str, said: str, wheels: str) -> str:
    """Return the message for a failed build."""
    remedy = (
        f"check that {wheels} holds the wheels of the layer's lock, intact, and that the lock also has pip where "
        "the image has neither uv nor pip"
        if wheels
        else "check that the head reaches a package index (inference_image_ray_index), provide the wheels in a "
        "directory of the head (inference_image_ray_wheels), or choose a stack without Ray for profile vllm-multinode"
    )
    return f"ray {ray} cannot be added to image {base}: {said}; {remedy}"
