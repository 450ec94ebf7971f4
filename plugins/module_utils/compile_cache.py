# SPDX-License-Identifier: Apache-2.0
"""Where the kernels that an engine compiles at its start are kept, so that the next start finds them.

A container is removed when it ends, and with it whatever was compiled inside. The caches of its compilers are therefore
in a directory of the host, one for each combination of image, model revision, layout and GPU: what another image has
compiled is never read, because kernels of other versions have given wrong answers without an error
(https://github.com/vllm-project/vllm/issues/41871).

A cache is given as {"path": directory on the host, "variables": {variable: path below it}}; without a path there is
none. The variables are facts of the catalog (catalog/engines/caches.yml).
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Mapping, Sequence
from typing import Any

CONTAINER_ROOT = "/var/lib/firstlight/compile-cache"
"""For containers. Only root may enter it; below, a container may write as whatever user its image has."""
VENV_ROOT = "/var/cache/firstlight/compile-cache"
"""For an engine out of a virtual environment: inside the cache directory of its unit, and its user's own."""
TARGET = "/var/cache/firstlight/compile"
"""Where a container sees its directory: the same path everywhere, because compilers write paths into what they keep."""
INDEX_NAME = ".firstlight-caches.json"
"""Beside the directories: their names, the one that was used last first."""
KEPT = 2
"""Directories that stay: the one in use, and the one before it for the way back."""

_ROOT_MODE, _MODE = "0700", "1777"
_INSTALL = "/usr/bin/install"
_LONGEST = 48
_DIGITS = 12
_UNSAFE = re.compile(r"[^A-Za-z0-9._]+")
_DIGEST = re.compile(r"sha256[-:](?P<digits>[0-9a-f]{12})[0-9a-f]{52}(?P<more>.*)")


def cache_name(model: str, revision: str, layout: str, gpu: str, engine: str) -> str:
    """The directory's name: readable, and another one whenever one of the parts is.

    `engine` is the image's pinned name, or the digest of the lock of a virtual environment.
    """
    digest = _DIGEST.search(engine)
    pinned = f"{digest['digits']}{digest['more']}" if digest else engine[:_LONGEST]
    readable = [_plain(model)[:_LONGEST], _plain(revision)[:_DIGITS], _plain(layout), _plain(gpu), _plain(pinned)]
    whole = repr((model, revision, layout, gpu, engine))
    digits = hashlib.sha256(whole.encode("utf-8", errors="surrogatepass")).hexdigest()[:8]
    return "-".join([*(part for part in readable if part), digits])


def cache_path(runtime: str, name: str) -> str:
    """The directory on the host."""
    return f"{VENV_ROOT if runtime == 'venv' else CONTAINER_ROOT}/{name}"


def is_cache_path(path: str) -> bool:
    """Whether this is a directory that may be emptied: below one of the roots, and no way out of it."""
    below = next((path[len(root) + 1 :] for root in (CONTAINER_ROOT, VENV_ROOT) if path.startswith(f"{root}/")), "")
    steps = below.split("/")
    return all(step and not step.startswith(".") and not _UNSAFE.search(step.replace("-", "")) for step in steps)


def engine_part(number: int) -> str:
    """The part of a cache that is one replica's own."""
    return f"server-{number}"


def expected_instead(cache: Any) -> str | None:
    """What was expected in the place of something that is no cache; nothing where it is one."""
    if not isinstance(cache, Mapping) or not set(cache) <= {"path", "variables"}:
        return "a mapping with path and variables"
    path, variables = cache.get("path") or "", cache.get("variables") or {}
    if not isinstance(path, str) or (path and not is_cache_path(path)):
        return f"as its path a directory below {CONTAINER_ROOT} or {VENV_ROOT}"
    if not isinstance(variables, Mapping) or not all(map(_is_variable, variables.items())):
        return "as its variables names in capitals, each with a place below the directory"
    return None


def checked(cache: Any, variable: str) -> Mapping[str, Any]:
    """The cache that a role was given. Raises ValueError where it is none."""
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
    """The variables that send the compilers to the cache at `place`.

    `own` is a part of it for one of several engines on a host: two that write the same files at the same time have
    left caches that no engine could read (https://github.com/rllm-org/rllm/pull/490).
    """
    if not cache.get("path"):
        return {}
    root = f"{place}/{own}" if own else place
    return {str(name): f"{root}/{below}".rstrip("/") for name, below in (cache.get("variables") or {}).items()}


def container_environment(cache: Mapping[str, Any], own: str = "") -> dict[str, str]:
    """The same inside of a container."""
    return cache_environment(cache, TARGET, own)


def mount_options(cache: Mapping[str, Any]) -> list[str]:
    """What hands the directory to a container, to be written to."""
    path = cache.get("path")
    return [f"--mount=type=bind,source={path},target={TARGET}"] if path else []


def prepare_commands(cache: Mapping[str, Any]) -> list[list[str]]:
    """What makes the directory before a container starts: it is only a cache, and anybody may have removed it.

    Whoever may not enter the root cannot reach the directory, so that it can be open for the user of any image.
    """
    path = cache.get("path")
    if not path:
        return []
    return [
        [_INSTALL, "-d", "-m", _ROOT_MODE, CONTAINER_ROOT],
        [_INSTALL, "-d", "-m", _MODE, str(path)],
    ]


def in_order_of_use(names: Sequence[str], current: str) -> list[str]:
    """The names with the current one first."""
    return [current, *(name for name in names if name != current)]


def _plain(text: str) -> str:
    return _UNSAFE.sub("-", text).strip("-.")
