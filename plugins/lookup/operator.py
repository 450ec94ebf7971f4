# SPDX-License-Identifier: Apache-2.0
"""The lookup `operator`: who runs Ansible."""

from __future__ import annotations

DOCUMENTATION = r"""
name: operator
short_description: Return who runs Ansible, and where
version_added: "0.1.0"
author: The Firstlight authors (!UNKNOWN)
description:
  - Returns the login name of whoever runs Ansible and the name of the machine it runs on, for a note that others read.
  - Of somebody who became root with sudo the own name is told. A variable such as E(USER) is believed only where the
    system has no name for the user, as in a container.
options:
  _terms:
    description: Nothing.
    type: list
    elements: str
    default: []
"""

EXAMPLES = r"""
- name: Take the host out of service
  firstlight.cluster.serving_state:
    state: drained
    by: "{{ lookup('firstlight.cluster.operator') }}"
"""

RETURN = r"""
_raw:
  description: The name, as the only entry, such as V(alice at control).
  type: list
  elements: str
"""

import os
import socket
from typing import Any

from ansible.plugins.lookup import LookupBase
from ansible_collections.firstlight.cluster.plugins.plugin_utils.operator import login_name


class LookupModule(LookupBase):
    """Returns the operator and the controller's host name."""

    def run(self, terms: list[str], variables: dict[str, Any] | None = None, **kwargs: Any) -> list[str]:
        """Return a list with one name."""
        del terms, variables, kwargs
        return [f"{login_name(os.getuid(), os.environ)} at {socket.gethostname()}"]
