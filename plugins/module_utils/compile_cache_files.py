# SPDX-License-Identifier: Apache-2.0
"""Create the compile cache of an engine, and remove the oldest ones.

Directories that the index does not list are left alone.
"""

from __future__ import annotations

import json
import os
import shutil

from .compile_cache import CONTAINER_ROOT, INDEX_NAME, VENV_ROOT, in_order_of_use, is_cache_path
from .host import write_file
from .problems import SettingsError

OPEN = 0o1777
OWN = 0o700
ROOT_ONLY = 0o700
PUBLIC = 0o755


def noted(root: str) -> list[str]:
    """Return the directory names in the index, most recently used first; invalid entries are dropped."""
    try:
        with open(os.path.join(root, INDEX_NAME), encoding="utf-8") as stream:
            document = json.load(stream)
    except (OSError, ValueError):
        return []
    names = document if isinstance(document, list) else []
    return [name for name in names if isinstance(name, str) and is_cache_path(f"{CONTAINER_ROOT}/{name}")]


def is_real_directory(path: str) -> bool:
    """Whether this is a directory and not a link: the target of a link belongs to somebody else and is not touched."""
    return os.path.isdir(path) and not os.path.islink(path)


def give(path: str, owner: str | None) -> None:
    """Change the owner of `path`, so that the owner can recreate what is deleted below it."""
    if owner:
        shutil.chown(path, owner, owner)


def check_cache(path: str, keep: int) -> None:
    """Raise SettingsError unless `path` is a direct child of a cache root and `keep` is at least 1."""
    if not is_cache_path(path) or os.path.dirname(path) not in (CONTAINER_ROOT, VENV_ROOT) or keep < 1:
        raise SettingsError(
            f"compile_cache has path {path} and keep {keep}, expected a directory right below {CONTAINER_ROOT} or "
            f"{VENV_ROOT}, and 1 or more: others of that root are removed, so that nothing else may be there"
        )


def keep_cache(path: str, keep: int, owner: str | None, check_mode: bool) -> list[str]:
    """Create the directory, record it as in use and remove the oldest ones; return one sentence per difference.

    Raises SettingsError if that fails.
    """
    try:
        return _keep(path, keep, owner, check_mode)
    except (OSError, LookupError) as error:
        place = getattr(error, "filename", None) or path
        raise SettingsError(
            f"{place} cannot be kept as a compile cache ({getattr(error, 'strerror', None) or error}), expected a "
            "writable directory without links and a user that exists: remove what is in the way, and run again"
        ) from error


def _keep(path: str, keep: int, owner: str | None, check_mode: bool) -> list[str]:
    root, name = os.path.split(path)
    before = noted(root)
    wanted = in_order_of_use(before, name)
    going = [old for old in wanted[keep:] if is_real_directory(os.path.join(root, old))]
    changed = wanted[:keep] != before or bool(going) or not is_real_directory(path)
    if changed and not check_mode:
        if not os.path.isdir(root):
            os.makedirs(root)
            os.chmod(root, PUBLIC if owner else ROOT_ONLY)
            give(root, owner)
        if not is_real_directory(path):
            os.mkdir(path)
            os.chmod(path, OWN if owner else OPEN)
            give(path, owner)
        for old in going:
            shutil.rmtree(os.path.join(root, old))
        write_file(os.path.join(root, INDEX_NAME), json.dumps(wanted[:keep]) + "\n", 0o644)
    found = [f"compile cache {path} was not the one in use, expected it to be"] if changed else []
    return [*found, *(f"compile cache {old} is there, expected at most {keep}" for old in going)]
