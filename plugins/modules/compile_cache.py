#!/usr/bin/python
# SPDX-License-Identifier: Apache-2.0
"""Module compile_cache: the directory for what an engine compiles, and no more of them than needed."""

from __future__ import annotations

DOCUMENTATION = r"""
module: compile_cache
short_description: Keep the directory of an engine's compile caches, and remove old ones
version_added: "0.1.0"
author: The Firstlight authors (!UNKNOWN)
description:
  - Makes the directory in which an engine keeps the kernels it compiles, and notes beside it that it is the one in use.
  - Of the directories that were noted there, those that were used last stay and the others are removed. What was never
    noted is left alone.
  - With an owner only that user can read and write it. Without one only root can reach it by its path, and below it
    everybody can write, so that a container may do so as the user of its image.
options:
  path:
    description: The directory, below C(/var/lib/firstlight/compile-cache) or C(/var/cache/firstlight/compile-cache).
    type: path
    required: true
  keep:
    description: How many directories stay, the one in use among them.
    type: int
    default: 2
  owner:
    description: The user whose it is.
    type: str
attributes:
  check_mode:
    description: Says what would be made and removed.
    support: full
  diff_mode:
    description: What is removed is in the result.
    support: none
"""

EXAMPLES = r"""
- name: Keep what the engine compiles
  firstlight.cluster.compile_cache:
    path: /var/lib/firstlight/compile-cache/tiny-0123456789ab-tp1-pp1-sm90-fedcba987654-a1b2c3d4
"""

RETURN = r"""
removed:
  description: Directories that were, or would be, removed.
  type: list
  elements: str
  returned: success
  sample: ["tiny-0123456789ab-tp1-pp1-sm90-000000000000-a1b2c3d4"]
"""

import json
import os
import shutil
from typing import Any

from ansible.module_utils.basic import AnsibleModule
from ansible_collections.firstlight.cluster.plugins.module_utils.core.compile_cache import (
    CONTAINER_ROOT,
    INDEX_NAME,
    KEPT,
    VENV_ROOT,
    in_order_of_use,
    is_cache_path,
)
from ansible_collections.firstlight.cluster.plugins.module_utils.host import write_file

OPEN = 0o1777
OWN = 0o700
ROOT_ONLY = 0o700
PUBLIC = 0o755


def noted(root: str) -> list[str]:
    """The directories that were used, the last one first; what makes no sense was not noted."""
    try:
        with open(os.path.join(root, INDEX_NAME), encoding="utf-8") as stream:
            document = json.load(stream)
    except (OSError, ValueError):
        return []
    names = document if isinstance(document, list) else []
    return [name for name in names if isinstance(name, str) and is_cache_path(f"{CONTAINER_ROOT}/{name}")]


def is_real_directory(path: str) -> bool:
    """A link is somebody else's: nothing behind it is touched."""
    return os.path.isdir(path) and not os.path.islink(path)


def give(path: str, owner: str | None) -> None:
    """Make it the owner's, who can then make it again where somebody has removed it."""
    if owner:
        shutil.chown(path, owner, owner)


def keep_cache(path: str, keep: int, owner: str | None, check_mode: bool) -> dict[str, Any]:
    """Make the directory, note that it is in use, remove the oldest ones; what that changed."""
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
    return {"changed": changed, "removed": going}


def main() -> None:
    """Judge the path, keep it."""
    module = AnsibleModule(
        argument_spec={
            "path": {"type": "path", "required": True},
            "keep": {"type": "int", "default": KEPT},
            "owner": {"type": "str"},
        },
        supports_check_mode=True,
    )
    path, keep = module.params["path"], module.params["keep"]
    if not is_cache_path(path) or os.path.dirname(path) not in (CONTAINER_ROOT, VENV_ROOT) or keep < 1:
        module.fail_json(
            msg=f"path is {path} and keep is {keep}, expected a directory right below {CONTAINER_ROOT} or {VENV_ROOT}, "
            "and 1 or more: others of that root are removed, so that nothing else may be there"
        )
    try:
        result = keep_cache(path, keep, module.params["owner"], module.check_mode)
    except (OSError, LookupError) as error:
        place = getattr(error, "filename", None) or path
        module.fail_json(
            msg=f"{place} cannot be kept as a compile cache ({getattr(error, 'strerror', None) or error}), expected a "
            "writable directory without links and a user that exists: remove what is in the way, and run again"
        )
    module.exit_json(**result)


if __name__ == "__main__":
    main()
