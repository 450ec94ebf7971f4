# SPDX-License-Identifier: Apache-2.0
"""The cache directories for the kernels that an engine compiles at startup, so that the next start can reuse them.

A container is removed when it ends, and everything compiled inside it is lost. The compilers' caches are therefore kept
in a directory of the host, one for each combination of image, model revision, layout and GPU. A cache is never shared
between images, because kernels of other versions have given wrong answers without an error
(https://github.com/vllm-project/vllm/issues/41871).

A cache is described as {"path": directory on the host, "variables": {variable: path below it}}; without a path there is
no cache. The variables are facts of the catalog (catalog/engines/caches.yml).
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Mapping, Sequence
from typing import Any

CONTAINER_ROOT = "/var/lib/firstlight/compile-cache"
"""For containers. Only root may enter it; below it, a container may write as whatever user its image runs as."""
VENV_ROOT = "/var/cache/firstlight/compile-cache"
"""For an engine in a virtual environment: inside the cache directory of its unit, and owned by its user."""
TARGET = "/var/cache/firstlight/compile"
"""The path of the cache inside a container: the same on every host, because compilers write paths into their caches."""
INDEX_NAME = ".firstlight-caches.json"
"""The index beside the directories: their names, most recently used first."""
KEPT = 2
"""How many directories to keep: the current one, and the previous one for a rollback."""

_ROOT_MODE, _MODE = "0700", "1777"
_INSTALL = "/usr/bin/install"
_LONGEST = 48
_DIGITS = 12
_UNSAFE = re.compile(r"[^A-Za-z0-9._]+")
_DIGEST = re.compile(r"sha256[-:](?P<digits>[0-9a-f]{12})[0-9a-f]{52}(?P<more>.*)")


def cache_name(model: str, revision: str, layout: str, gpu: str, engine: str) -> str:
    """Return the directory's name: readable, and unique to the combination of all parts.

    `engine` is the image's pinned name, or the digest of the lock file of a virtual environment.
    """
    digest = _DIGEST.search(engine)
    pinned = f"{digest['digits']}{digest['more']}" if digest else engine[:_LONGEST]
    readable = [_plain(model)[:_LONGEST], _plain(revision)[:_DIGITS], _plain(layout), _plain(gpu), _plain(pinned)]
    whole = repr((model, revision, layout, gpu, engine))
    digits = hashlib.sha256(whole.encode("utf-8", errors="surrogatepass")).hexdigest()[:8]
    return "-".join([*(part for part in readable if part), digits])


def cache_path(runtime: str, name: str) -> str:
    """Return the cache directory on the host."""
    return f"{VENV_ROOT if runtime == 'venv' else CONTAINER_ROOT}/{name}"


def is_cache_path(path: str) -> bool:
    """Whether this directory may be emptied: it is below one of the roots and its path cannot escape them."""
    below = next((path[len(root) + 1 :] for root in (CONTAINER_ROOT, VENV_ROOT) if path.startswith(f"{root}/")), "")
    steps = below.split("/")
    return all(step and not step.startswith(".") and not _UNSAFE.search(step.replace("-", "")) for step in steps)


def engine_part(number: int) -> str:
    """Return the subdirectory of a cache that belongs to one replica."""
    return f"server-{number}"


def expected_instead(cache: Any) -> str | None:
    """Describe what was expected instead of an invalid cache; None if it is valid."""
    if not isinstance(cache, Mapping) or not set(cache) <= {"path", "variables"}:
        return "a mapping with path and variables"
    path, variables = cache.get("path") or "", cache.get("variables") or {}
    if not isinstance(path, str) or (path and not is_cache_path(path)):
        return f"as its path a directory below {CONTAINER_ROOT} or {VENV_ROOT}"
    if not isinstance(variables, Mapping) or not all(map(_is_variable, variables.items())):
        return "as its variables names in capitals, each with a place below the directory"
    return None


def checked(cache: Any, variable: str) -> Mapping[str, Any]:
    """Return the cache that a role was given. Raises ValueError if it is invalid."""
    expected = expected_instead(cache)
    if expected:
        raise ValueError(f"{variable} is {cache!r}, expected {expected}: correct it, or leave it out")
    found: Mapping[str, Any] = cache
    return found


def _is_variable(item: tuple[Any, Any]) -> bool:
    name, below = item
    named = isinstance(name, str) and name.isascii() and name.isupper() and name.replace("_", "A").isalnum()
    inside = isinstance(below, str) and not below.startswith("/") and ".." not in below.split("/")
    return named and inside and bool(below) and not _UNSAFE.search(below.replace("/", ""))


def cache_environment(cache: Mapping[str, Any], place: str, own: str = "") -> dict[str, str]:
    """Return the environment variables that point the compilers at the cache at `place`.

    `own` is a subdirectory for one of several engines on a host: two engines that write the same files at the same time
    have left caches that no engine could read (https://github.com/rllm-org/rllm/pull/490).
    """
    if not cache.get("path"):
        return {}
    root = f"{place}/{own}" if own else place
    return {str(name): f"{root}/{below}".rstrip("/") for name, below in (cache.get("variables") or {}).items()}


def container_environment(cache: Mapping[str, Any], own: str = "") -> dict[str, str]:
    """Return the same variables for use inside a container."""
    return cache_environment(cache, TARGET, own)


def mount_options(cache: Mapping[str, Any]) -> list[str]:
    """Return the Docker options that mount the cache directory into a container, writable."""
    path = cache.get("path")
    return [f"--mount=type=bind,source={path},target={TARGET}"] if path else []


def prepare_commands(cache: Mapping[str, Any]) -> list[list[str]]:
    """Return the commands that create the directory before a container starts, as the cache may have been deleted.

    The root can be entered by root only, so that the directory below it can be world-writable for the user of any
    image.
    """
    path = cache.get("path")
    if not path:
        return []
    return [
        [_INSTALL, "-d", "-m", _ROOT_MODE, CONTAINER_ROOT],
        [_INSTALL, "-d", "-m", _MODE, str(path)],
    ]


def in_order_of_use(names: Sequence[str], current: str) -> list[str]:
    """Return the names with the current one moved to the front."""
    return [current, *(name for name in names if name != current)]


def _plain(text: str) -> str:
    return _UNSAFE.sub("-", text).strip("-.")
