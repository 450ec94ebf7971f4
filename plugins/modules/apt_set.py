#!/usr/bin/python
# SPDX-License-Identifier: Apache-2.0
"""The module `apt_set`: a set of packages at exact versions, and nothing else."""

from __future__ import annotations

DOCUMENTATION = r"""
module: apt_set
short_description: Install a set of packages at exact versions in one transaction, and hold them
version_added: "0.1.0"
author: Firstlight contributors
description:
  - Writes the set's apt files (source, key, preferences), installs every package of the set that is missing or has
    another version, also an older one, and puts the set on hold.
  - Everything is rehearsed first, in a scratch directory that sees the host's packages and sources. The source is
    fetched and its signature checked, the transaction is simulated and judged. Only packages of the set may change
    version, only packages that the set conflicts with may go, and dependencies may come along only as packages that
    were not there. Then all packages are downloaded. A refusal up to here is one message, and nothing has changed.
  - A host that is right is only asked for its versions; apt is not run.
options:
  packages:
    description: Versions by package name; null is any version, installed if missing.
    type: dict
    required: true
  install:
    description: Whether packages may be installed. If not, O(files) are written and O(holds) are held, no more.
    type: bool
    default: true
  holds:
    description: Packages to hold. They have to be installed, or be in O(packages).
    type: list
    elements: str
    default: []
  files:
    description:
      - The files the set brings along, by path, each with its C(content), as in a desired state.
      - They belong to root and have mode 0644.
    type: dict
    default: {}
  source:
    description:
      - Which of O(files) is the source of the set. Only that one is fetched, unless a dependency asks for more.
      - Without it the host's own sources are used.
    type: path
  lock_timeout:
    description: Seconds to wait for another run of apt; a first boot may still be at its own updates.
    type: int
    default: 600
  timeout:
    description: Seconds each call of apt may take.
    type: int
    default: 1800
attributes:
  check_mode:
    description: Rehearses all of it, with the source fetched, and refuses what could not be installed.
    support: full
  diff_mode:
    description: Shows versions, holds and files before and after.
    support: full
requirements:
  - python >= 3.10
"""

EXAMPLES = r"""
- name: Install a driver and its fabric manager in one transaction
  firstlight.cluster.apt_set:
    packages:
      nvidia-driver-580-server: 580.126.09-0ubuntu0.24.04.2
      nvidia-fabricmanager-580: 580.126.09-0ubuntu0.24.04.1
    holds:
      - nvidia-driver-580-server
      - nvidia-fabricmanager-580
"""

RETURN = r"""
steps:
  description: What apt did, or would do. C(old) is null for a package that came, C(new) for one that went.
  returned: success
  type: list
  elements: dict
  sample: [{"name": "nvidia-utils-580", "old": null, "new": "580.126.09-0ubuntu0.24.04.2"}]
held:
  description: Packages that were not on hold before.
  returned: success
  type: list
  elements: str
written:
  description: Files that were written.
  returned: success
  type: list
  elements: str
"""

import os
from collections.abc import Mapping
from typing import Any

from ansible.module_utils.basic import AnsibleModule
from ansible_collections.firstlight.cluster.plugins.module_utils.apt import Apt, AptError
from ansible_collections.firstlight.cluster.plugins.module_utils.core.apt_set import differing
from ansible_collections.firstlight.cluster.plugins.module_utils.host import Host, write_file

MODE = 0o644


def converge(parameters: Mapping[str, Any], check_mode: bool, apt: Apt) -> dict[str, Any]:
    """Bring the set, its files and its holds about; raises AptError."""
    files = {str(path): str(file["content"]) for path, file in parameters["files"].items()}
    packages = {str(name): None if pin is None else str(pin) for name, pin in parameters["packages"].items()}
    source = parameters["source"]
    before = apt.versions(sorted(packages))
    missing = differing(packages, before) if parameters["install"] else []
    unwritten = [path for path, content in files.items() if not _right(apt.host, path, content)]
    unheld = [name for name, held in apt.holds(sorted(parameters["holds"])).items() if not held]
    former = {path: apt.host.read_text(path) or "" for path in unwritten}
    steps: list[dict[str, Any]] = []
    if missing or (source and any("/sources.list.d/" in path or "/keyrings/" in path for path in unwritten)):
        with apt.rehearsal(files, source) as stage:
            apt.fetch(stage, source, _words(files, source))
            if missing:
                found = apt.rehearse(stage, packages, missing, source)
                steps = [{"name": step.name, "old": step.old, "new": step.new} for step in found]
            if not check_mode:
                if missing:
                    apt.download(stage, packages, missing)
                _write(files, unwritten)
                apt.publish(stage)
                if missing:
                    apt.install(stage, packages, missing)
    elif not check_mode:
        _write(files, unwritten)
    if not check_mode:
        # Asked again: a package that apt moves in spite of its hold loses it.
        loose = [name for name, held in apt.holds(sorted(parameters["holds"])).items() if not held]
        if loose:
            apt.hold(loose)
    return {
        "changed": bool(steps or missing or unwritten or unheld),
        "steps": steps,
        "held": unheld,
        "written": unwritten,
        "diff": _diff(steps, unheld, files, former),
    }


def _right(host: Host, path: str, content: str) -> bool:
    state = host.file_state(path)
    return host.read_text(path) == content and state["mode"] == format(MODE, "04o") and state["owner"] == "root"


def _write(files: Mapping[str, str], paths: list[str]) -> None:
    for path in paths:
        os.makedirs(os.path.dirname(path), mode=0o755, exist_ok=True)
        write_file(path, files[path], MODE)


def _words(files: Mapping[str, str], source: str | None) -> str:
    """The source by its addresses, for a message."""
    rows = [line for line in files.get(source or "", "").splitlines() if line.startswith(("URIs: ", "Suites: "))]
    return " ".join(row.partition(": ")[2] for row in rows) or "of the host"


def _diff(
    steps: list[dict[str, Any]], unheld: list[str], files: Mapping[str, str], former: Mapping[str, str]
) -> list[dict[str, str]]:
    before = [f"{step['name']} {step['old']}\n" for step in steps if step["old"]]
    after = [f"{step['name']} {step['new']}\n" for step in steps if step["new"]]
    shown = [{"header": "packages", "before": "".join(before), "after": "".join(after)}] if steps else []
    if unheld:
        shown.append({"header": "holds", "before": "", "after": "".join(f"{name}\n" for name in unheld)})
    for path, old in former.items():
        shown.append({"before_header": path, "after_header": path, "before": old, "after": files[path]})
    return shown


def main() -> None:
    """Read the parameters, converge, report."""
    module = AnsibleModule(
        argument_spec={
            "packages": {"type": "dict", "required": True},
            "install": {"type": "bool", "default": True},
            "holds": {"type": "list", "elements": "str", "default": []},
            "files": {"type": "dict", "default": {}},
            "source": {"type": "path"},
            "lock_timeout": {"type": "int", "default": 600},
            "timeout": {"type": "int", "default": 1800},
        },
        supports_check_mode=True,
    )
    apt = Apt(Host(), module.params["timeout"], module.params["lock_timeout"])
    try:
        result = converge(module.params, module.check_mode, apt)
    except AptError as error:
        module.fail_json(msg=str(error))
    except OSError as error:
        module.fail_json(msg=f"The set cannot be installed: {error}; this writes to /etc/apt: run with become")
    else:
        module.exit_json(**result)


if __name__ == "__main__":
    main()
