#!/usr/bin/python
# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

DOCUMENTATION = r"""
module: hub_access
short_description: Find out whether a hub will hand out a model
version_added: "0.1.0"
author: The Firstlight authors (!UNKNOWN)
description:
  - Asks the hub for the head of a model's C(config.json) at one revision, as M(firstlight.cluster.model_snapshot) will
    ask for its files, and fails where it is refused (401, 403) or unknown (404). Nothing is fetched or changed.
  - Where the hub does not answer, a warning says so. Hosts may be prepared before they have a way to the hub.
options:
  endpoint:
    description: The hub.
    type: str
    default: https://huggingface.co
  repository:
    description: The model as C(organisation/name).
    type: str
    required: true
  revision:
    description: The commit, 40 hexadecimal digits.
    type: str
    required: true
  token_path:
    description: A file on this host with an access token. It is sent to the hub only, over https.
    type: path
  token:
    description: The access token itself, in place of O(token_path).
    type: str
attributes:
  check_mode:
    description: Changes nothing in any mode.
    support: full
  diff_mode:
    description: There is nothing to show.
    support: none
"""

EXAMPLES = r"""
- name: Ask the hub for the model
  firstlight.cluster.hub_access:
    repository: example/tiny
    revision: 0123456789abcdef0123456789abcdef01234567
    token_path: /etc/firstlight/hub-token
"""

RETURN = r"""
access:
  description: Whether the hub hands out the model, false where it does not answer; the module fails where it refuses.
  type: bool
  returned: success
  sample: true
"""

from ansible.module_utils.basic import AnsibleModule
from ansible_collections.firstlight.cluster.plugins.module_utils.core.hub import check_request
from ansible_collections.firstlight.cluster.plugins.module_utils.hub_client import HubClient
from ansible_collections.firstlight.cluster.plugins.module_utils.hub_token import hub_token
from ansible_collections.firstlight.cluster.plugins.module_utils.snapshot_store import HubError


def main() -> None:
    module = AnsibleModule(
        argument_spec={
            "endpoint": {"type": "str", "default": "https://huggingface.co"},
            "repository": {"type": "str", "required": True},
            "revision": {"type": "str", "required": True},
            "token_path": {"type": "path", "no_log": False},
            "token": {"type": "str", "no_log": True},
        },
        mutually_exclusive=[("token", "token_path")],
        supports_check_mode=True,
    )
    wanted = module.params
    try:
        # A hub over http is judged by the plan, which knows whether the bytes are pinned.
        check_request(wanted["endpoint"], wanted["repository"], wanted["revision"], True)
        token = hub_token(wanted["token"], wanted["token_path"], wanted["endpoint"])
        access = HubClient(wanted["endpoint"], wanted["repository"], wanted["revision"], token=token).check_access()
    except (HubError, ValueError) as error:
        module.fail_json(msg=f"{error}. Nothing was changed on this host")
    if not access:
        module.warn(
            f"{wanted['endpoint']} does not answer, expected it to hand out {wanted['repository']}: the weights cannot "
            "be fetched until it does"
        )
    module.exit_json(changed=False, access=access)


if __name__ == "__main__":
    main()
