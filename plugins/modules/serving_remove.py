#!/usr/bin/python
# SPDX-License-Identifier: Apache-2.0
"""The module `serving_remove`: take everything that serves off a host."""

from __future__ import annotations

DOCUMENTATION = r"""
module: serving_remove
short_description: Take everything that serves off a host
version_added: "0.1.0"
author: The Firstlight authors (!UNKNOWN)
description:
  - Stops and removes the units of Ray, servers, balancer and keeper, their containers, the files of the keeper, and the
    cluster's token and the server's key. Weights and images go only where that is asked for.
  - Looks again afterwards, and fails where anything is left.
  - Driver, container runtime, tuning and fabric stay as they are.
options:
  weights:
    description: Whether model weights go, too. Only directories with the record of a proven snapshot in them do.
    type: bool
    default: false
  images:
    description: Whether the engine's images go, too.
    type: bool
    default: false
  model_root:
    description: The directory under which weights are kept.
    type: path
    default: /var/lib/firstlight/models
  model_directories:
    description: Directories of weights elsewhere.
    type: list
    elements: str
    default: []
  references:
    description: Pinned image references beside the engine's local names, which are known.
    type: list
    elements: str
    default: []
attributes:
  check_mode:
    description: Tells what would go, and takes nothing away.
    support: full
  diff_mode:
    description: What goes is in the result.
    support: none
  idempotent:
    description: On a host without anything of serving nothing is done.
    support: full
"""

EXAMPLES = r"""
- name: Take everything that serves off the host
  firstlight.cluster.serving_remove:
    weights: true
"""

RETURN = r"""
lines:
  description: What goes, or would.
  returned: always
  type: list
  elements: str
  sample: ["unit firstlight-ray.service: stopped and removed", "secret /etc/firstlight/cluster.token"]
kept:
  description: What of Firstlight's stays, and how it would go.
  returned: always
  type: list
  elements: str
  sample: ["stays: 1 models, 406.0 GB; -e teardown_weights=true removes them"]
left:
  description: What is left although it should be gone.
  returned: always
  type: list
  elements: str
  sample: []
"""

from typing import Any

from ansible.module_utils.basic import AnsibleModule
from ansible_collections.firstlight.cluster.plugins.module_utils.core.serving import removal
from ansible_collections.firstlight.cluster.plugins.module_utils.host import Host
from ansible_collections.firstlight.cluster.plugins.module_utils.serving.remove import RemoveError, find, remove


def main() -> None:
    """Find, take away, look again."""
    module = AnsibleModule(
        argument_spec={
            "weights": {"type": "bool", "default": False},
            "images": {"type": "bool", "default": False},
            "model_root": {"type": "path", "default": "/var/lib/firstlight/models"},
            "model_directories": {"type": "list", "elements": "str", "default": []},
            "references": {"type": "list", "elements": "str", "default": []},
        },
        supports_check_mode=True,
    )
    host = Host()
    parameters = module.params
    asked = {"weights": parameters["weights"], "images": parameters["images"]}
    places = (parameters["model_root"], parameters["references"], parameters["model_directories"])
    told: dict[str, Any] = {"lines": [], "kept": [], "left": []}
    try:
        found = find(host, *places)
        going = removal.wanted(found, **asked)
        told |= {"lines": removal.lines(going), "kept": removal.kept(found, going)}
        if not module.check_mode and not going.nothing:
            remove(host, going, parameters["model_root"])
            left = removal.wanted(find(host, *places), **asked)
            told["left"] = removal.lines(left)
    except RemoveError as error:
        module.fail_json(msg=str(error), **told)
    except OSError as error:
        module.fail_json(
            msg=f"{error.filename} cannot be removed ({error.strerror}), expected to be allowed to: run with become",
            **told,
        )
    if told["left"]:
        module.fail_json(
            msg=f"Something is left: {'; '.join(told['left'])}. Expected nothing: look at the host, and run again",
            **told,
        )
    module.exit_json(changed=not going.nothing, **told)


if __name__ == "__main__":
    main()
