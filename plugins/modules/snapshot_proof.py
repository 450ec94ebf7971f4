#!/usr/bin/python
# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

DOCUMENTATION = r"""
module: snapshot_proof
short_description: Read every byte of a model again and compare it with what was proven
version_added: "0.1.0"
author: The Firstlight authors (!UNKNOWN)
description:
  - A run compares size and time of the files with their record, which takes a moment. This reads them all, which finds
    what changed without a trace, as a disk that forgets does. It changes nothing.
  - Its action plugin shows how far it is, with rate and time left.
options:
  directory:
    description: A directory with a record, as M(firstlight.cluster.model_snapshot) leaves it.
    type: path
    required: true
  workers:
    description: Files read at the same time.
    type: int
    default: 4
  wait:
    description:
      - Seconds to wait for the result. The work then goes on, and the module returns C(unfinished) and C(progress).
        With V(0) it waits to the end. The action plugin sets it.
    type: float
    default: 0
  attach:
    description: Whether to wait for work that an earlier call began. The action plugin sets it.
    type: bool
    default: false
attributes:
  check_mode:
    description: Reads in check mode too.
    support: full
  diff_mode:
    description: Nothing is changed.
    support: none
"""

EXAMPLES = r"""
- name: Read the model again
  firstlight.cluster.snapshot_proof:
    directory: /srv/models/tiny
  register: proof
"""

RETURN = r"""
files:
  description: How many files were read.
  type: int
  returned: success
bytes:
  description: Their size together.
  type: int
  returned: success
problems:
  description: One line for each file that is not as it was proven. None when all are.
  type: list
  elements: str
  returned: success
  sample: ["model-2.safetensors has sha256:39fdbcddd0cf78a74..., expected sha256:5c50b988966f2cbdc... as it was proven"]
"""

import os
from collections.abc import Mapping
from typing import Any

from ansible.module_utils.basic import AnsibleModule
from ansible_collections.firstlight.cluster.plugins.module_utils.core.hub import RemoteFile, check_path, total
from ansible_collections.firstlight.cluster.plugins.module_utils.core.snapshot import RECORD_NAME, parse_record
from ansible_collections.firstlight.cluster.plugins.module_utils.fetch_job import Job, run_watched
from ansible_collections.firstlight.cluster.plugins.module_utils.host import Host
from ansible_collections.firstlight.cluster.plugins.module_utils.snapshot_store import Meter, wrong_files


def prove(host: Host, parameters: Mapping[str, Any], meter: Meter) -> dict[str, Any]:
    """Read all files that the record names."""
    directory = parameters["directory"]
    text = host.read_text(os.path.join(directory, RECORD_NAME))
    try:
        files = recorded_files(text)
    except (ValueError, KeyError, TypeError) as error:
        told = f"{directory} has a record that cannot be used ({error}): bring the model again, which makes a new one"
        return {"changed": False, "files": 0, "bytes": 0, "problems": [told]}
    if not files:
        return {"changed": False, "files": 0, "bytes": 0, "problems": [f"{directory} has no record of proven files"]}
    wrong = wrong_files(directory, files, max(1, parameters["workers"]), meter)
    problems = [
        f"{item.path} has {_short(found)}, expected {_short(item.digest)} as it was proven"
        if found
        else f"{item.path} is missing"
        for item, found in wrong
    ]
    return {"changed": False, "files": len(files), "bytes": total(files), "problems": problems}


def recorded_files(text: str | None) -> list[RemoteFile]:
    """What a record says was proven; nothing without one."""
    record = parse_record(text) if text is not None else {"files": {}}
    return [
        RemoteFile(check_path(path), int(entry["size"]), str(entry["digest"]), str(entry.get("sha256") or ""))
        for path, entry in sorted(record["files"].items())
    ]


def _short(digest: str) -> str:
    """Enough of a digest to tell two apart: a line may name several files."""
    return f"{digest[:24]}..."


def main() -> None:
    module = AnsibleModule(
        argument_spec={
            "directory": {"type": "path", "required": True},
            "workers": {"type": "int", "default": 4},
            "wait": {"type": "float", "default": 0},
            "attach": {"type": "bool", "default": False},
        },
        supports_check_mode=True,
    )
    parameters = module.params
    subject = f"the proof of {parameters['directory']}"
    run_watched(module, Job(subject), lambda meter: prove(Host(), parameters, meter))


if __name__ == "__main__":
    main()
