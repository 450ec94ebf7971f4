#!/usr/bin/python
# SPDX-License-Identifier: Apache-2.0
"""Module drop_caches: give the page cache back before a model takes the memory."""

from __future__ import annotations

DOCUMENTATION = """
module: drop_caches
short_description: Write dirty pages to disk and drop the page cache
version_added: "0.1.0"
author: The Firstlight authors (!UNKNOWN)
description:
  - Runs C(sync) and then drops clean caches, so that a server which is about to start finds the memory free.
  - This is an action for the moment before a launch, not a state, so it never reports C(changed).
    Nothing on the host is different afterwards but the time of the next reads.
options:
  level:
    description: What to drop. 1 is the page cache, 2 is inodes and directory entries, 3 is both.
    type: int
    choices: [1, 2, 3]
    default: 3
attributes:
  check_mode:
    description: Drops nothing in check mode.
    support: full
  diff_mode:
    description: There is no state to compare.
    support: none
"""

EXAMPLES = """
- name: Give the page cache back before the launch
  firstlight.cluster.drop_caches:
"""

RETURN = """
freed_bytes:
  description: How much more memory the kernel reports as free than before; 0 in check mode.
  type: int
  returned: success
  sample: 73014444032
"""

import os

from ansible.module_utils.basic import AnsibleModule
from ansible_collections.firstlight.cluster.plugins.module_utils.core.meminfo import free_bytes

CONTROL = "/proc/sys/vm/drop_caches"
MEMINFO = "/proc/meminfo"


def _free() -> int:
    with open(MEMINFO, encoding="ascii", errors="replace") as stream:
        return free_bytes(stream.read())


def main() -> None:
    """Sync, drop, report."""
    module = AnsibleModule(
        argument_spec={"level": {"type": "int", "choices": [1, 2, 3], "default": 3}}, supports_check_mode=True
    )
    if module.check_mode:
        module.exit_json(changed=False, freed_bytes=0)
    try:
        before = _free()
        os.sync()
        with open(CONTROL, "w", encoding="ascii") as stream:
            stream.write(f"{module.params['level']}\n")
        after = _free()
    except OSError as error:
        module.fail_json(
            msg=f"The page cache cannot be dropped: {error}; this needs root and a writable {CONTROL}: "
            "run with become, on a host whose /proc/sys is writable."
        )
    module.exit_json(changed=False, freed_bytes=max(0, after - before))


if __name__ == "__main__":
    main()
