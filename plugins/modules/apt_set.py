#!/usr/bin/python
# SPDX-License-Identifier: Apache-2.0
"""The module `apt_set`: a set of packages at exact versions, and nothing else."""

from __future__ import annotations

DOCUMENTATION = r"""
module: apt_set
short_description: Install and hold a set of packages at exact versions in one transaction
version_added: "0.1.0"
author: The Firstlight authors (!UNKNOWN)
description:
  - Writes the set's apt files (source, key, preferences), installs every package of the set that is missing or has
    another version, also an older one, and puts the set on hold.
  - Everything is rehearsed first, in a scratch directory that sees the host's packages and sources. The source is
    fetched and its signature checked, the transaction is simulated and checked. Only packages of the set may change
    version, only packages that the set conflicts with or that left it may go, and dependencies may come along only as
    packages that were not there. Every package that comes from a source of the set has to be a file of that source.
    Then all packages are downloaded. A refusal up to here is one message, and nothing has changed.
  - A set that becomes another one does so in the same transaction. Packages that the preferences file on the host pins,
    and those in O(remove), go unless they are in O(packages) or O(holds), and so do their holds.
  - Where a kernel module of the set cannot be built, which DKMS tries while packages are configured, the host is put
    back. Packages, pins and holds are again what they were, as far as the former packages are kept in
    O(package_archive), in apt's cache or still on offer; otherwise dpkg is at least put in order. The message quotes
    the log of the build.
  - Afterwards a full upgrade is simulated, which must leave the set alone.
  - A host that is right is only asked for its versions; apt is not run.
options:
  packages:
    description: Versions by package name; null is any version, installed if missing. Without it those of O(desired).
    type: dict
  install:
    description: Whether packages may be installed. If not, O(files) are written and O(holds) are held, no more.
    type: bool
    default: true
  holds:
    description: Packages to hold. They have to be installed, or be in O(packages). Without it those of O(desired).
    type: list
    elements: str
  files:
    description:
      - The files the set brings along, by path, each with its C(content), as in a desired state. Without it those of
        O(desired) in C(/etc/apt).
      - They belong to root and have mode 0644.
      - Those in C(sources.list.d) are the sources of the set, each with the C(packages) that come from it, by default
        all. Only they are fetched, unless a dependency asks for more; without any, the host's own sources are used.
      - A source that an earlier set of the same name brought and this one does not goes. One of the host's that names
        only repositories of the set, with another keyring, is switched off.
    type: dict
  remove:
    description: Further packages that belong to what the set replaces. Those that are installed go.
    type: list
    elements: str
    default: []
  remove_variable:
    description: Variable in which an operator names packages for O(remove), for the message of a refusal.
    type: str
  release:
    description:
      - Version, without packaging revision, of the release that the set is. What comes along as a dependency and has
        this version has to be in O(packages), as it would neither be pinned nor held.
    type: str
  package_archive:
    description: Directory in which the packages that are installed are kept, named as in apt's cache.
    type: path
  drivers:
    description: Whether an NVIDIA driver, or what depends on one, may come along as a dependency.
    type: bool
    default: true
  desired:
    description: The desired state of a role, in place of its parts.
    type: dict
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
  description: What apt did, or would do. C(old) is null for an added package, C(new) for a removed one.
  returned: success
  type: list
  elements: dict
  sample: [{"name": "nvidia-utils-580", "old": null, "new": "580.126.09-0ubuntu0.24.04.2"}]
held:
  description: Packages that were not on hold before.
  returned: success
  type: list
  elements: str
released:
  description: Packages that are no longer on hold, because they left the set.
  returned: success
  type: list
  elements: str
kept:
  description: Packages that were put into O(package_archive).
  returned: success
  type: list
  elements: str
foreign_pins:
  description: What other files of preferences say of everything, or of packages of the set.
  returned: success
  type: list
  elements: dict
  sample: [{"file": "/etc/apt/preferences.d/cuda-repository-pin-600", "package": "*", "pin": "release l=NVIDIA CUDA",
            "priority": "600"}]
removed:
  description: Sources of an earlier set of this name that were removed.
  returned: success
  type: list
  elements: str
spared:
  description:
    - Packages that came with a metapackage in O(remove) which is no driver, as C(cuda-toolkit-12-8) with C(cuda-12-8).
      They stay, marked as installed by hand, so that C(apt-get autoremove) leaves them alone.
  returned: success
  type: list
  elements: str
superseded:
  description:
    - Sources of the host that named a repository of the set with another keyring, which apt does not bear. They were
      renamed, with C(.disabled) at the end, which apt passes over.
  returned: success
  type: list
  elements: str
written:
  description: Files that were written.
  returned: success
  type: list
  elements: str
"""

import dataclasses
import os
from collections.abc import Mapping
from typing import Any

from ansible.module_utils.basic import AnsibleModule
from ansible_collections.firstlight.cluster.plugins.module_utils.driver.driver import (
    BUILD_TOOLS,
    DRIVERS,
    PINNING,
    builds_module,
    bystanders,
)
from ansible_collections.firstlight.cluster.plugins.module_utils.host import Host, write_file
from ansible_collections.firstlight.cluster.plugins.module_utils.packages.apt import (
    SOURCES,
    Apt,
    AptError,
    Rehearsal,
    addresses,
    refuse_unnamed,
)
from ansible_collections.firstlight.cluster.plugins.module_utils.packages.apt_local import LocalApt
from ansible_collections.firstlight.cluster.plugins.module_utils.packages.apt_moves import pinned_names
from ansible_collections.firstlight.cluster.plugins.module_utils.packages.apt_set import Pins, differing
from ansible_collections.firstlight.cluster.plugins.module_utils.packages.apt_undo import (
    Before,
    put_back,
    remember_before,
)
from ansible_collections.firstlight.cluster.plugins.module_utils.packages.deb_store import Store
from ansible_collections.firstlight.cluster.plugins.module_utils.parsers.apt import Step

MODE = 0o644


def of_state(parameters: Mapping[str, Any]) -> dict[str, Any]:
    """The parameters, with what was not given taken from the desired state."""
    state = parameters["desired"] or {}
    parts: dict[str, Any] = {
        "packages": state.get("packages") or {},
        "holds": list(state.get("holds") or ()),
        "files": {path: file for path, file in (state.get("files") or {}).items() if path.startswith("/etc/apt/")},
    }
    return {**parameters, **{name: part for name, part in parts.items() if parameters[name] is None}}


def converge(parameters: Mapping[str, Any], check_mode: bool, apt: LocalApt) -> dict[str, Any]:
    """Bring the set, its files and its holds about; raises AptError."""
    files = {str(path): str(file["content"]) for path, file in parameters["files"].items()}
    packages = {str(name): None if pin is None else str(pin) for name, pin in parameters["packages"].items()}
    sources = {
        str(path): [str(name) for name in file.get("packages") or packages]
        for path, file in parameters["files"].items()
        if SOURCES in path
    }
    own = bool(sources)
    stale = apt.former_sources(files)
    superseded = apt.superseded_sources(files, sources)
    before = apt.versions(sorted(packages))
    missing = differing(packages, before) if parameters["install"] else []
    unwritten = [path for path, content in files.items() if not _right(apt.host, path, content)]
    unheld = [name for name, held in apt.holds(sorted(parameters["holds"])).items() if not held]
    former = {path: apt.host.read_text(path) or "" for path in [*unwritten, *stale, *superseded]}
    left = _left(apt, parameters, packages, former)
    released = [name for name, held in apt.holds(left).items() if held]
    going = [name for name in left if name not in BUILD_TOOLS] if parameters["install"] else []
    moving = bool(missing or going)
    spared = _spared(apt, parameters, packages, going)
    steps: list[dict[str, Any]] = []
    kept: list[str] = []
    if moving or (own and any(SOURCES in path or "/keyrings/" in path for path in unwritten)):
        with apt.rehearsal(files, sources, [*stale, *superseded]) as stage:
            apt.fetch(stage, own, addresses(files, sources))
            if moving:
                found = _rehearse(apt, stage, parameters, packages, missing, own, going)
                steps = [{"name": step.name, "old": step.old, "new": step.new} for step in found]
                fetched = apt.origins(stage, packages, missing, sources, going)
            if not check_mode:
                if moving:
                    apt.download(stage, packages, missing, going)
                    kept = apt.keep(fetched, parameters["package_archive"]) if parameters["package_archive"] else []
                    undo = _undo(apt, stage, parameters, found, [*unwritten, *stale], superseded)
                _write(files, unwritten, stale, superseded)
                apt.publish(stage)
                if moving:
                    _install(apt, stage, packages, missing, going, undo, parameters["release"])
                    _tidy(apt, going, spared)
    elif not check_mode:
        _write(files, unwritten, stale, superseded)
    changed = bool(steps or moving or unwritten or stale or superseded or unheld or released)
    if not check_mode:
        # Asked again: a package that apt moves in spite of its hold loses it, and so does one that goes.
        loose = [name for name, held in apt.holds(sorted(parameters["holds"])).items() if not held]
        if loose:
            apt.hold(loose)
        stuck = [name for name, held in apt.holds(released).items() if held]
        if stuck:
            apt.unhold(stuck)
        if changed and parameters["install"]:
            pinned = [name for name, pin in packages.items() if pin is not None]
            apt.simulate_upgrade(sorted({*pinned, *parameters["holds"]}))
    return {
        "changed": changed,
        "steps": steps,
        "held": unheld,
        "released": released,
        "written": unwritten,
        "removed": stale,
        "superseded": superseded,
        "kept": kept,
        "spared": spared,
        "foreign_pins": [dataclasses.asdict(one) for one in apt.foreign_pins(packages)],
        "diff": _diff(steps, unheld, released, files, former),
    }


def _left(apt: Apt, parameters: Mapping[str, Any], packages: Pins, former: Mapping[str, str]) -> list[str]:
    """Installed packages that were of this set, or of what it replaces, and are not any more."""
    pinned = [name for path, text in former.items() if "/preferences.d/" in path for name in pinned_names(text)]
    names = sorted({*pinned, *(parameters.get("remove") or ())} - {*packages, *parameters["holds"]})
    return [name for name, version in apt.versions(names).items() if version is not None]


def _rehearse(
    apt: Apt,
    stage: Rehearsal,
    parameters: Mapping[str, Any],
    packages: Pins,
    missing: list[str],
    own: bool,
    going: list[str],
) -> list[Step]:
    never = () if parameters["drivers"] else DRIVERS
    found = apt.rehearse(stage, packages, missing, own, never, going, parameters.get("remove_variable"))
    refuse_unnamed(found, packages, parameters["release"])
    return found


def _undo(
    apt: LocalApt,
    stage: Rehearsal,
    parameters: Mapping[str, Any],
    steps: list[Step],
    paths: list[str],
    renamed: list[str],
) -> Before:
    """What it takes to have the host again as it is; packages are fetched for it only where modules are built."""
    keeps = parameters["package_archive"] and builds_module(step.name for step in steps if step.new)
    store = Store(apt.host, parameters["package_archive"], apt.places.archives) if keeps else None
    files = {path: apt.host.read_text(path) for path in [*paths, *renamed]}
    return remember_before(apt, store, stage, steps, files, renamed)


def _install(
    apt: LocalApt,
    stage: Rehearsal,
    packages: Pins,
    missing: list[str],
    going: list[str],
    undo: Before,
    release: str | None,
) -> None:
    try:
        apt.install(stage, packages, missing, going)
    except AptError as error:
        raise put_back(apt, undo, error, release) from error


def _spared(apt: Apt, parameters: Mapping[str, Any], packages: Pins, going: list[str]) -> list[str]:
    """What came with metapackages that go and are no driver: it stays, and apt must not take it for unused."""
    told = bystanders(name for name in parameters.get("remove") or () if name in going)
    return [name for name in apt.brought(told) if name not in packages and name not in going]


def _tidy(apt: Apt, gone: list[str], spared: list[str]) -> None:
    """What removing packages alone does not do."""
    pinning = [name for name in gone if name.startswith(PINNING)]
    if pinning:
        apt.purge(pinning)
    if spared:
        apt.keep_by_hand(spared)


def _right(host: Host, path: str, content: str) -> bool:
    state = host.file_state(path)
    return host.read_text(path) == content and state["mode"] == format(MODE, "04o") and state["owner"] == "root"


def _write(files: Mapping[str, str], paths: list[str], stale: list[str], superseded: list[str]) -> None:
    for path in paths:
        os.makedirs(os.path.dirname(path), mode=0o755, exist_ok=True)
        write_file(path, files[path], MODE)
    for path in stale:
        os.unlink(path)
    for path in superseded:
        os.replace(path, f"{path}.disabled")


def _diff(
    steps: list[dict[str, Any]],
    unheld: list[str],
    released: list[str],
    files: Mapping[str, str],
    former: Mapping[str, str],
) -> list[dict[str, str]]:
    before = [f"{step['name']} {step['old']}\n" for step in steps if step["old"]]
    after = [f"{step['name']} {step['new']}\n" for step in steps if step["new"]]
    shown = [{"header": "packages", "before": "".join(before), "after": "".join(after)}] if steps else []
    if unheld or released:
        before, after = ([f"{name}\n" for name in names] for names in (released, unheld))
        shown.append({"header": "holds", "before": "".join(before), "after": "".join(after)})
    for path, old in former.items():
        shown.append({"before_header": path, "after_header": path, "before": old, "after": files.get(path, "")})
    return shown


def main() -> None:
    """Read the parameters, converge, report."""
    module = AnsibleModule(
        argument_spec={
            "packages": {"type": "dict"},
            "install": {"type": "bool", "default": True},
            "holds": {"type": "list", "elements": "str"},
            "files": {"type": "dict"},
            "remove": {"type": "list", "elements": "str", "default": []},
            "remove_variable": {"type": "str"},
            "release": {"type": "str"},
            "package_archive": {"type": "path"},
            "drivers": {"type": "bool", "default": True},
            "desired": {"type": "dict"},
            "lock_timeout": {"type": "int", "default": 600},
            "timeout": {"type": "int", "default": 1800},
        },
        required_one_of=[("packages", "desired")],
        supports_check_mode=True,
    )
    apt = LocalApt(Host(), module.params["timeout"], module.params["lock_timeout"])
    try:
        result = converge(of_state(module.params), module.check_mode, apt)
    except AptError as error:
        module.fail_json(msg=str(error))
    except OSError as error:
        module.fail_json(msg=f"The set cannot be installed: {error}; this writes to /etc/apt: run with become")
    else:
        if result["changed"] and result["foreign_pins"]:
            told = "; ".join(
                f"{one['file']}: {one['package']}, {one['pin']}, {one['priority']}" for one in result["foreign_pins"]
            )
            module.warn(f"Other preferences files cover the same packages ({told}). Those of the set take precedence.")
        module.exit_json(**result)


if __name__ == "__main__":
    main()
