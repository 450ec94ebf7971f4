#!/usr/bin/python
# SPDX-License-Identifier: Apache-2.0
"""The module `json_settings`: our settings in a JSON file that others write to as well."""

from __future__ import annotations

DOCUMENTATION = r"""
module: json_settings
short_description: Give settings in a JSON file their values, and leave all others as they are
version_added: "0.1.0"
author: The Firstlight authors (!UNKNOWN)
description:
  - Merges O(settings) into the file, key by key. Other keys stay. The file is made if it is not there.
  - A file that is no JSON object is refused, and nothing has changed.
  - The file belongs to root. A former file is kept beside it with a time stamp.
options:
  path:
    description: The file.
    type: path
    required: true
  settings:
    description: The settings that the file must have.
    type: dict
    required: true
  whole:
    description: Keys of O(settings) that are replaced as a whole, as their parts only make sense together.
    type: list
    elements: str
    default: []
  mode:
    description: The file's mode, in octal digits.
    type: str
    default: "0644"
attributes:
  check_mode:
    description: Says whether the file would change.
    support: full
  diff_mode:
    description: Shows the given settings before and after, and nothing else of the file.
    support: full
requirements:
  - python >= 3.10
"""

EXAMPLES = r"""
- name: Let containers outlive the daemon
  firstlight.cluster.json_settings:
    path: /etc/docker/daemon.json
    settings:
      live-restore: true
"""

RETURN = r"""
backup_file:
  description: Where the former file is.
  returned: when a file was replaced
  type: str
"""

import os
from collections.abc import Callable, Mapping
from typing import Any

from ansible.module_utils.basic import AnsibleModule
from ansible_collections.firstlight.cluster.plugins.module_utils.core.json_settings import (
    at_keys,
    lacking,
    merged,
    parse_settings,
    rendered,
)
from ansible_collections.firstlight.cluster.plugins.module_utils.core.state import file_mode
from ansible_collections.firstlight.cluster.plugins.module_utils.host import Host, write_file


def converge(
    parameters: Mapping[str, Any], check_mode: bool, host: Host, keep: Callable[[str], str | None]
) -> dict[str, Any]:
    """Merge the settings in; raises ValueError for a file that cannot be merged with."""
    path, settings, whole = parameters["path"], parameters["settings"], parameters["whole"]
    mode = file_mode(parameters["mode"])
    state = host.file_state(path)
    try:
        current = parse_settings(host.read_text(path))
    except ValueError as error:
        raise ValueError(
            f"{path} cannot be merged with: {error}, expected a JSON object. Nothing was changed. Correct the file, or "
            "move it away to have a new one written"
        ) from error
    wanted = merged(current, settings, whole)
    right = state["exists"] and not lacking(current, settings, whole)
    changed = not right or state["mode"] != mode or state["owner"] != "root" or state["group"] != "root"
    result: dict[str, Any] = {
        "changed": changed,
        "diff": {
            "before_header": path,
            "after_header": path,
            "before": rendered(at_keys(current, settings, whole)) if state["exists"] else "",
            "after": rendered(settings),
        },
    }
    if changed and not check_mode:
        if state["exists"]:
            result["backup_file"] = keep(path)
        os.makedirs(os.path.dirname(path), mode=0o755, exist_ok=True)
        write_file(path, rendered(wanted), int(mode, 8))
    return result


def main() -> None:
    """Read the parameters, converge, report."""
    module = AnsibleModule(
        argument_spec={
            "path": {"type": "path", "required": True},
            "settings": {"type": "dict", "required": True},
            "whole": {"type": "list", "elements": "str", "default": []},
            "mode": {"type": "str", "default": "0644"},
        },
        supports_check_mode=True,
    )
    try:
        result = converge(module.params, module.check_mode, Host(), module.backup_local)
    except ValueError as error:
        module.fail_json(msg=str(error))
    except OSError as error:
        module.fail_json(
            msg=f"{module.params['path']} cannot be kept ({error.strerror}), expected a directory root can write to: "
            "run with become"
        )
    else:
        module.exit_json(**result)


if __name__ == "__main__":
    main()
