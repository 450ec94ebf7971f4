#!/usr/bin/python
# SPDX-License-Identifier: Apache-2.0
"""The module `engine_venv`: a virtual environment that is exactly its lock."""

from __future__ import annotations

DOCUMENTATION = r"""
module: engine_venv
short_description: Build a virtual environment from a lock with hashes, beside the one in use, and switch to it
version_added: "0.2.0"
author: The Firstlight authors (!UNKNOWN)
description:
  - Installs exactly what the lock says, every wheel compared with its hash, into a new directory. When all of it is
    there, the link O(directory) is switched to it in one step.
  - C(uv) does it, which is installed once from its own lock, with pip, into an environment beside the others. Nothing
    else uses it, and a C(uv) of the host's own is left alone.
  - The environment that was in use before is kept, older ones are removed. A lock that is still there is switched to
    without a download.
  - An environment that somebody changed by hand is built anew beside it.
  - A run that was cut off leaves the link as it was. The next one starts that environment anew, with the wheels that
    were fetched, unless the host was restarted since.
  - Nothing of the environment is imported or run.
options:
  directory:
    description: The link, for example C(/opt/venvs/vllm). The environments are in C(.firstlight) beside it.
    type: path
    required: true
  lock:
    description:
      - The lock's text. Every package with C(==) and at least one C(--hash=sha256:), no options, no addresses.
      - Comments C(# python:), C(# architecture:) and C(# wheels-bytes:) are compared with the host before anything is
        fetched.
    type: str
    required: true
  uv_lock:
    description: The text of a lock of C(uv) alone, for the architecture of the host among others.
    type: str
    required: true
  python:
    description: The Python the environment is made with, a name or a path.
    type: str
    default: python3.12
  index:
    description:
      - The address of a simple index. Without it pip's own configuration on the host decides.
      - User and password are refused here; they are read from C(~/.netrc) or pip's configuration.
    type: str
    default: ""
  wheels:
    description: A directory of wheels on the host, that of C(uv) among them. With it no index is asked.
    type: str
    default: ""
  requires:
    description: Versions by package that the lock must pin, usually the engine.
    type: dict
    default: {}
  compute_capability:
    description: The least compute capability that every GPU of the host must have; empty for no check.
    type: str
    default: ""
  timeout:
    description: Seconds each call of C(uv) or pip may take.
    type: int
    default: 3600
attributes:
  check_mode:
    description: Makes every check that needs no download, and says what would be installed.
    support: full
  diff_mode:
    description: Shows the packages and versions before and after.
    support: full
requirements:
  - python >= 3.10
"""

EXAMPLES = r"""
- name: Install the engine
  firstlight.cluster.engine_venv:
    directory: /opt/venvs/vllm
    lock: "{{ lookup('ansible.builtin.file', 'vllm-0.32.0-x86_64-py312.txt') }}"
    uv_lock: "{{ lookup('ansible.builtin.file', 'uv.txt') }}"
    python: python3.12
    requires:
      vllm: 0.32.0
    compute_capability: "9.0"
"""

RETURN = r"""
environment:
  description: Where the link points, or would.
  returned: success
  type: str
  sample: /opt/venvs/.firstlight/vllm-0123456789abcdef
previous:
  description: The environment that is kept to go back to; empty when there is none.
  returned: success
  type: str
  sample: /opt/venvs/.firstlight/vllm-fedcba9876543210
built:
  description: Whether an environment was built, or would be; if not, one that was there is used.
  returned: success
  type: bool
switched:
  description: Whether the link was switched, or would be.
  returned: success
  type: bool
removed:
  description: Environments, leftovers and older releases of C(uv) that were removed.
  returned: success
  type: list
  elements: str
"""

import os
from collections.abc import Mapping
from typing import Any

from ansible.module_utils.basic import AnsibleModule
from ansible_collections.firstlight.cluster.plugins.module_utils.engine_venv.build import (
    Request,
    VenvError,
    Venvs,
    read_environment,
    version_lines,
)
from ansible_collections.firstlight.cluster.plugins.module_utils.engine_venv.lock import (
    check_requires,
    normal_name,
    parse_lock,
)
from ansible_collections.firstlight.cluster.plugins.module_utils.engine_venv.uv import Source, parse_tool
from ansible_collections.firstlight.cluster.plugins.module_utils.engine_venv.venv import (
    capability,
    check_directory,
    check_index,
)
from ansible_collections.firstlight.cluster.plugins.module_utils.host import Host


def converge(parameters: Mapping[str, Any], check_mode: bool, host: Host) -> dict[str, Any]:
    """Bring the environment about; raises VenvError or, for what no host is needed to refuse, ValueError."""
    directory = check_directory(parameters["directory"])
    python = str(parameters["python"])
    requires = {str(name): str(version) for name, version in parameters["requires"].items()}
    lock = parse_lock(parameters["lock"])
    check_requires(lock, requires)
    tool = parse_tool(parameters["uv_lock"])
    source = Source(check_index(parameters["index"]), parameters["wheels"])
    least = capability(parameters["compute_capability"]) if parameters["compute_capability"] else None

    venvs = Venvs(host, directory, parameters["timeout"])
    current = venvs.current()
    before = read_environment(host, current)["packages"] if current else {}
    places = venvs.places(lock, python)
    finished = [place for place in places if venvs.right(place, lock, python)]
    # The one in use, else one that is there to go back to, else one to build, never where the link points.
    place = current if current in finished else (finished or [one for one in places if one != current])[0]
    build, switch = place not in finished, place != current
    if switch and least:
        venvs.check_capability(least)
    watched = [normal_name(name) for name in requires]
    request = Request(parameters["lock"], lock, python, tool, source, watched)
    if build:
        _check_wheels(source)
        path = venvs.check_python(python, lock, only_named=check_mode)
        venvs.check_compiler(python, only_named=check_mode)
        venvs.check_room(place, request)
    # Where the same environment is only built anew, the former one stays, and so does what a server may still run from.
    previous = current if switch and current not in places else venvs.previous()
    kept = [*places, previous, venvs.tool_place(tool)]
    stale = [entry for entry in venvs.stale(kept) if not entry.startswith(f"{place}.")]
    if not check_mode and (build or switch or stale):
        with venvs.locked():
            if build:
                venvs.build(place, request, path)
            if switch:
                venvs.switch(place, previous)
            venvs.prune(stale)
    return {
        "changed": bool(build or switch or stale),
        "environment": place,
        "previous": previous or "",
        "built": build,
        "switched": switch,
        "removed": stale,
        "diff": _diff(directory, before, lock.packages) if switch else [],
    }


def _check_wheels(source: Source) -> None:
    if source.wheels and not (source.wheels.startswith("/") and os.path.isdir(source.wheels)):
        raise VenvError(
            f"engine_venv_wheels is {source.wheels!r}, which is not a directory on the host, expected one with the "
            "wheels of the lock: copy them there, or leave it out to use an index. Nothing was changed."
        )


def _diff(directory: str, before: Mapping[str, str], after: Mapping[str, str]) -> list[dict[str, str]]:
    return [
        {
            "before_header": directory,
            "after_header": directory,
            "before": version_lines(before),
            "after": version_lines(after),
        }
    ]


def main() -> None:
    """Read the parameters, converge, report."""
    module = AnsibleModule(
        argument_spec={
            "directory": {"type": "path", "required": True},
            "lock": {"type": "str", "required": True},
            "uv_lock": {"type": "str", "required": True},
            "python": {"type": "str", "default": "python3.12"},
            "index": {"type": "str", "default": ""},
            "wheels": {"type": "str", "default": ""},
            "requires": {"type": "dict", "default": {}},
            "compute_capability": {"type": "str", "default": ""},
            "timeout": {"type": "int", "default": 3600},
        },
        supports_check_mode=True,
    )
    # The server runs as a user of its own and has to read what is installed here.
    os.umask(0o022)
    # Whatever somebody has set for a uv of their own is not meant for this one.
    for name in [name for name in os.environ if name.startswith("UV_")]:
        del os.environ[name]
    try:
        result = converge(module.params, module.check_mode, Host())
    except (VenvError, ValueError) as error:
        module.fail_json(msg=f"{module.params['directory']}: {error}")
    except OSError as error:
        module.fail_json(
            msg=f"{error.filename or module.params['directory']}: {error.strerror}; expected to be able to write "
            "there: check the disk and whether the play uses become"
        )
    else:
        module.exit_json(**result)


if __name__ == "__main__":
    main()
