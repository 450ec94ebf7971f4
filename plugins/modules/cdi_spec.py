#!/usr/bin/python
# SPDX-License-Identifier: Apache-2.0
"""The module `cdi_spec`: the one CDI specification of a host's GPUs, for the driver that is loaded."""

from __future__ import annotations

DOCUMENTATION = r"""
module: cdi_spec
short_description: Keep the one CDI specification of a host's GPUs up to date with its driver
version_added: "0.1.0"
author: The Firstlight authors (!UNKNOWN)
description:
  - Has C(nvidia-ctk) write a new specification where the one that is there does not name the host's GPUs or not the
    library of its loaded driver, checks it, and only then puts it in place.
  - Other files in C(/etc/cdi) and C(/var/run/cdi) that name the same GPUs get the ending C(.replaced), which no runtime
    reads. Two files of one directory would be a conflict, and a file in the second would hide ours.
  - While an installed driver waits for its reboot nothing is written, as C(nvidia-ctk) could not; see RV(waiting).
options:
  path:
    description: The specification, a JSON file in C(/etc/cdi).
    type: path
    default: /etc/cdi/nvidia.json
  timeout:
    description: Seconds each call of C(nvidia-smi) and C(nvidia-ctk) may take.
    type: int
    default: 60
attributes:
  check_mode:
    description: Says whether a specification would be written.
    support: full
  diff_mode:
    description: Shows what is wrong with the former specification.
    support: full
requirements:
  - python >= 3.10
"""

EXAMPLES = r"""
- name: Describe the GPUs for container runtimes
  firstlight.cluster.cdi_spec:
    path: /etc/cdi/nvidia.json
"""

RETURN = r"""
waiting:
  description: Why nothing could be written until the next reboot, else null.
  returned: success
  type: str
replaced:
  description: Other specifications that were moved out of the way.
  returned: success
  type: list
  elements: str
"""

import os
import shutil
import tempfile
from collections.abc import Mapping
from typing import Any

from ansible.module_utils.basic import AnsibleModule
from ansible_collections.firstlight.cluster.plugins.module_utils.cdi_probe import (
    other_specifications,
    read_cdi,
    read_gpus,
)
from ansible_collections.firstlight.cluster.plugins.module_utils.core.cdi import parse_specification, problems
from ansible_collections.firstlight.cluster.plugins.module_utils.host import Host, write_file

ENDING = ".replaced"
NOTHING = "Nothing was changed."


class CdiError(Exception):
    """Why there is no specification, in one message."""


def converge(parameters: Mapping[str, Any], check_mode: bool, host: Host, root: str = "/") -> dict[str, Any]:
    """Write the specification where that is due; raises CdiError."""
    path, timeout = str(parameters["path"]), float(parameters["timeout"])
    state = read_cdi(host, path, timeout, root)
    if state["waiting"]:
        if state["reboot_required"] or check_mode:
            # In check mode the driver may be what an earlier task would install.
            return {"changed": check_mode, "waiting": state["waiting"], "replaced": []}
        raise CdiError(
            f"The GPUs cannot be described for containers: {state['waiting']}; expected a driver that answers. "
            f"{NOTHING} Install it with the role nvidia_driver, or set container_runtime_gpus to false on a host "
            "without GPUs"
        )
    outdated = not state["exists"] or any(field != "others" for field in state["wrong"])
    others = other_specifications(host, path, root)
    result: dict[str, Any] = {
        "changed": bool(outdated or others),
        "waiting": None,
        "replaced": others,
        "diff": {"before": _shown(state), "after": "as the host's GPUs and its loaded driver\n"} if outdated else {},
    }
    if not check_mode:
        if outdated:
            _generate(host, path, timeout, root)
        for other in others:
            there = os.path.join(root, other.lstrip("/"))
            os.replace(there, there + ENDING)
    return result


def _shown(state: Mapping[str, Any]) -> str:
    if not state["exists"]:
        return "no specification\n"
    return "".join(f"{field}: {pair[1]}, expected {pair[0]}\n" for field, pair in state["wrong"].items())


def _generate(host: Host, path: str, timeout: float, root: str) -> None:
    """Write in a scratch directory, look at it, put it in place; some GPUs get further files with longer names."""
    place = os.path.join(root, os.path.dirname(path).lstrip("/"))
    os.makedirs(place, mode=0o755, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix="firstlight-cdi-") as scratch:
        name = os.path.basename(path)
        argv = ["nvidia-ctk", "cdi", "generate", f"--output={os.path.join(scratch, name)}"]
        result = host.run(argv, timeout)
        if not result.ok:
            raise CdiError(
                f"nvidia-ctk could not describe the GPUs: {_complaint(result.stderr) or result.summary}. {NOTHING} "
                f"Try `{' '.join(argv[:3])}` on the host"
            )
        written = {file: host.read_text(os.path.join(scratch, file)) or "" for file in sorted(os.listdir(scratch))}
    gpus = read_gpus(host, timeout, root)
    try:
        wrong = problems(parse_specification(written.get(name, "")), gpus.uuids, gpus.driver)
    except ValueError as error:
        wrong = {"format": ("a CDI specification", str(error))}
    if wrong:
        told = "; ".join(f"{field} {pair[1]}, expected {pair[0]}" for field, pair in wrong.items())
        raise CdiError(
            f"What nvidia-ctk wrote does not fit this host: {told}. {NOTHING} Compare `nvidia-smi -L` with "
            "`nvidia-ctk cdi generate` on the host"
        )
    for file, text in written.items():
        write_file(os.path.join(place, file), text, 0o644)


def _complaint(stderr: str) -> str:
    """The message of the last line that is an error; the lines before it tell of the search for libraries."""
    errors = [line for line in stderr.splitlines() if "level=error" in line or line.startswith("ERROR")]
    return errors[-1].partition("msg=")[2].strip('"') or errors[-1] if errors else ""


def main() -> None:
    """Read the parameters, converge, report."""
    module = AnsibleModule(
        argument_spec={
            "path": {"type": "path", "default": "/etc/cdi/nvidia.json"},
            "timeout": {"type": "int", "default": 60},
        },
        supports_check_mode=True,
    )
    if shutil.which("nvidia-ctk") is None and not module.check_mode:
        module.fail_json(
            msg="nvidia-ctk is not installed, expected it to describe the GPUs for containers: install "
            "nvidia-container-toolkit-base, or set container_runtime_gpus to false"
        )
    try:
        result = converge(module.params, module.check_mode, Host())
    except CdiError as error:
        module.fail_json(msg=str(error))
    except OSError as error:
        module.fail_json(
            msg=f"The CDI specification cannot be written: {error}; expected to write to /etc/cdi: run with become"
        )
    else:
        module.exit_json(**result)


if __name__ == "__main__":
    main()
