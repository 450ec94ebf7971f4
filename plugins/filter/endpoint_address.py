# SPDX-License-Identifier: Apache-2.0
"""Filter endpoint_address: what the endpoint is called, and where its own host asks it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from ansible.errors import AnsibleFilterError
from ansible_collections.firstlight.cluster.plugins.module_utils.core.completion import reachable
from ansible_collections.firstlight.cluster.plugins.module_utils.core.endpoint import certificate_names

DOCUMENTATION = """
name: endpoint_address
short_description: What the endpoint is called, and where its own host asks it
version_added: "0.1.0"
description:
  - Every name and address that stands in the endpoint's certificate, and the URL at which the host itself reaches it.
positional: _input
options:
  _input:
    description: The variables of role endpoint.
    type: dict
    required: true
author: The Firstlight authors (!UNKNOWN)
"""

EXAMPLES = """
- name: Show the names of the certificate
  ansible.builtin.debug:
    msg: "{{ (variables | firstlight.cluster.endpoint_address).names }}"
  vars:
    variables: {endpoint_listen: 192.0.2.1, endpoint_port: 443, endpoint_names: []}
"""

RETURN = """
_value:
  description: C(names), a list, and C(url).
  type: dict
"""


def endpoint_address(variables: object) -> dict[str, Any]:
    """Names and URL."""
    if not isinstance(variables, Mapping):
        raise AnsibleFilterError(
            f"endpoint_address takes the variables of role endpoint, found {type(variables).__name__}: "
            "give it a mapping"
        )
    try:
        names = certificate_names(variables)
        url = reachable(f"https://{variables['endpoint_listen']}:{variables['endpoint_port']}")
    except KeyError as error:
        raise AnsibleFilterError(f"endpoint_address needs the variable {error}: set it") from error
    except ValueError as error:
        raise AnsibleFilterError(str(error)) from error
    return {"names": names, "url": url}


class FilterModule:
    """Filters of this file, as Ansible asks for them."""

    def filters(self) -> dict[str, Callable[..., Any]]:
        """Names and functions."""
        return {"endpoint_address": endpoint_address}
