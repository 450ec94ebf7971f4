#!/usr/bin/python
# SPDX-License-Identifier: Apache-2.0
"""The module `services`: files and units of services brought about in one call, and observed."""

from __future__ import annotations

DOCUMENTATION = r"""
module: services
short_description: Write the files of services, start their units, and observe the outcome
version_added: "0.1.0"
author: The Firstlight authors (!UNKNOWN)
description:
  - Compares files, settings in JSON files, units and CDI specifications with O(desired) and changes what differs - one
    call for everything that would be a task for every directory, file, reload and unit.
  - Directories are made first. Then units that shall not run are stopped. Then files are written, with their
    directories, and removed; systemd reads its units again where one of them changed; then units are enabled and
    started, and others reloaded.
  - Settings are merged into a JSON file key by key; what others wrote there stays, and the former file is kept beside
    it with a time stamp. A file that is no JSON object is refused, and nothing has changed.
  - Last, C(nvidia-ctk) describes the GPUs where a CDI specification does not name them, or not the library of the
    loaded driver. What it wrote is checked before it is put in place. Other files for the same GPUs get the ending
    C(.replaced), which no runtime reads. While an installed driver waits for its reboot nothing is written.
  - Other parts of O(desired) are only observed - files without contents, such as secrets, and whatever else a role
    brings about by other means.
options:
  desired:
    description: The desired state of a role, as C(firstlight_plan.desired) has it.
    type: dict
    required: true
  contents:
    description:
      - Files by path, each encoded in base64, of which O(desired) has only the digest.
      - They are long, and so in no log and no result; a diff shows their digests.
    type: dict
    default: {}
  remove:
    description: Files that shall not be there.
    type: list
    elements: path
    default: []
  restart:
    description: Units that are restarted where they run. They read what is new only when they start.
    type: list
    elements: str
    default: []
  stop:
    description:
      - Units that are stopped before a file is written, where they run. Those in O(desired) are started again at the
        end.
      - A run that is cut off in between leaves a unit that the next run sees is down.
    type: list
    elements: str
    default: []
  notify:
    description:
      - What follows when a file in O(desired) is written, by its path. C(restart) are units to restart where they run.
      - C(argv) is a program that has to take note of the file, where it is installed, and C(fix) what to do when it
        fails. Until it has exited with 0 the file has mode 0600, which is a difference that the next run sees.
    type: dict
    default: {}
  reload:
    description:
      - Units that are reloaded where they run and have not read everything, with a file for each that says so. It is
        there from before the first file is written until the unit has read, so that a run which was cut off leaves it
        for the next one. Whoever writes by other means what the unit reads makes it, too.
    type: dict
    default: {}
  validate:
    description:
      - Commands by path, each with C(%s) for a file, that must accept what is to be written there before anything is.
    type: dict
    default: {}
  directories:
    description: Directories that are made where they are missing, each with its mode.
    type: dict
    default: {}
  compile_cache:
    description:
      - The directory in which an engine keeps the kernels it compiles. It is noted beside it that it is the one in use.
        Of the directories that were noted there, those that were used last stay and the others are removed.
    type: dict
    suboptions:
      path:
        description:
          - The directory, right below C(/var/lib/firstlight/compile-cache) or C(/var/cache/firstlight/compile-cache).
        type: path
        required: true
      keep:
        description: How many directories stay, the one in use among them.
        type: int
        default: 2
      owner:
        description:
          - The user whose it is, and who alone can read and write it. Without one only root can reach it by its path,
            and below it everybody can write, so that a container may do so as the user of its image.
        type: str
  no_block:
    description: Start units without waiting until they run. One that is on its way is left alone.
    type: bool
    default: false
  timeout:
    description: Seconds that a unit may take to start or to stop.
    type: int
    default: 300
  answer_timeout:
    description: Seconds that each probe of the observation may take, as with M(firstlight.cluster.observe).
    type: int
    default: 30
attributes:
  check_mode:
    description: Reads everything and changes nothing. A unit whose file is only to be written counts as one to start.
    support: full
  diff_mode:
    description: Shows every file, and every unit on a line, before and after.
    support: full
  idempotent:
    description: What is right is left alone, but for units in O(restart) and O(stop).
    support: full
requirements:
  - python >= 3.10
  - systemd
"""

EXAMPLES = r"""
- name: Run a program
  firstlight.cluster.services:
    desired:
      files:
        /etc/systemd/system/example.service:
          content: "[Service]\nExecStart=/usr/bin/sleep infinity\n[Install]\nWantedBy=multi-user.target\n"
          mode: "0644"
          owner: root
          group: root
      units:
        example.service:
          enabled: true
          active: true

- name: Keep containers running while their daemon restarts
  firstlight.cluster.services:
    desired:
      json_files:
        /etc/docker/daemon.json:
          settings:
            live-restore: true
          mode: "0644"
      units:
        docker.service:
          active: true
    stop: [docker.socket, docker.service]

- name: Remove the program
  firstlight.cluster.services:
    desired:
      units:
        example.service:
          enabled: false
          active: false
          if_present: true
    remove: [/etc/systemd/system/example.service]
"""

RETURN = r"""
differences:
  description: What was not as it should be, one sentence each.
  returned: success
  type: list
  elements: str
  sample: ["file /etc/systemd/system/example.service is missing, expected it to exist"]
observation:
  description: All of O(desired) as it is afterwards, as M(firstlight.cluster.observe) returns it.
  returned: success
  type: dict
  sample: {"units": {"example.service": {"load": "loaded", "enabled": true, "active": true, "sub": "running"}}}
"""

import base64
from dataclasses import fields

from ansible.module_utils.basic import AnsibleModule
from ansible_collections.firstlight.cluster.plugins.module_utils.compile_cache import KEPT
from ansible_collections.firstlight.cluster.plugins.module_utils.compile_cache_files import check_cache
from ansible_collections.firstlight.cluster.plugins.module_utils.gpu.cdi_files import describe_gpus
from ansible_collections.firstlight.cluster.plugins.module_utils.host import Host
from ansible_collections.firstlight.cluster.plugins.module_utils.observe.probes import observe
from ansible_collections.firstlight.cluster.plugins.module_utils.problems import SettingsError
from ansible_collections.firstlight.cluster.plugins.module_utils.services import Around, Services


def main() -> None:
    """Read the parameters, converge, observe, report."""
    module = AnsibleModule(
        argument_spec={
            "desired": {"type": "dict", "required": True},
            "contents": {"type": "dict", "default": {}, "no_log": True},
            "remove": {"type": "list", "elements": "path", "default": []},
            "restart": {"type": "list", "elements": "str", "default": []},
            "stop": {"type": "list", "elements": "str", "default": []},
            "notify": {"type": "dict", "default": {}},
            "reload": {"type": "dict", "default": {}},
            "validate": {"type": "dict", "default": {}},
            "directories": {"type": "dict", "default": {}},
            "compile_cache": {
                "type": "dict",
                "options": {
                    "path": {"type": "path", "required": True},
                    "keep": {"type": "int", "default": KEPT},
                    "owner": {"type": "str"},
                },
            },
            "no_block": {"type": "bool", "default": False},
            "timeout": {"type": "int", "default": 300},
            "answer_timeout": {"type": "int", "default": 30},
        },
        supports_check_mode=True,
    )
    asked, host = module.params, Host()
    desired, cache = asked["desired"], asked["compile_cache"]
    try:
        if cache:
            check_cache(cache["path"], cache["keep"])
        result = Services(host, timeout=asked["timeout"], keep=module.backup_local).converge(
            desired,
            {path: base64.b64decode(content, validate=True) for path, content in asked["contents"].items()},
            asked["remove"],
            asked["restart"],
            asked["no_block"],
            module.check_mode,
            Around(**{one.name: asked[one.name] for one in fields(Around)}),
        )
        for path in desired.get("cdi") or {}:
            described = describe_gpus(host, path, asked["answer_timeout"], module.check_mode)
            result = {name: result[name] + described[name] for name in ("differences", "diff")} | {
                "changed": result["changed"] or described["changed"]
            }
        observation = observe(host, {"services": desired}, timeout=asked["answer_timeout"])
    except (SettingsError, ValueError, TypeError, AttributeError) as error:
        module.fail_json(msg=str(error))
    except OSError as error:
        place = f"{error.filename}: " if error.filename else ""
        module.fail_json(
            msg=f"The files of a service cannot be written ({place}{error.strerror or error}), expected what root can "
            "write: run with become, and run again once it can be"
        )
    else:
        module.exit_json(**result, observation=observation)


if __name__ == "__main__":
    main()
