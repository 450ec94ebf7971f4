# SPDX-License-Identifier: Apache-2.0
"""The lookup `desired_state`: the desired state of a host that a role's variables describe."""

from __future__ import annotations

DOCUMENTATION = r"""
name: desired_state
short_description: Turn a role's variables into the desired state of a host
version_added: "0.1.0"
author: The Firstlight authors (!UNKNOWN)
description:
  - Renders every file, package, unit and link that a role stands for, from the variables in its argument specification
    as they are set for this host.
  - The result is what M(firstlight.cluster.observe) reads and
    P(firstlight.cluster.differences#filter) compares.
options:
  _terms:
    description: The role's name.
    type: list
    elements: str
    required: true
  override:
    description: Values that are taken in place of variables of the role.
    type: dict
    default: {}
"""

EXAMPLES = r"""
- name: Show the desired state of host_tuning
  ansible.builtin.debug:
    msg: "{{ lookup('firstlight.cluster.desired_state', 'host_tuning') }}"
  vars:
    host_tuning_swappiness: 1
"""

RETURN = r"""
_raw:
  description: The desired state, in the vocabulary of C(plugins/module_utils/state/vocabulary.py).
  type: list
  elements: dict
  sample: [{"sysctl": {"vm.swappiness": "1"}}]
"""

import functools
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import yaml
from ansible.errors import AnsibleLookupError
from ansible.module_utils.parsing.convert_bool import boolean
from ansible.plugins.lookup import LookupBase
from ansible_collections.firstlight.cluster.plugins.plugin_utils.plan.states import ROLES
from ansible_collections.firstlight.cluster.plugins.plugin_utils.plan.states import desired_state as state_of

_ROLES = Path(__file__).parents[2] / "roles"


class LookupModule(LookupBase):
    """Returns desired states of roles."""

    def run(self, terms: list[str], variables: dict[str, Any] | None = None, **kwargs: Any) -> list[dict[str, Any]]:
        """Return one state per term."""
        self.set_options(var_options=variables, direct=kwargs)
        return [self._state(role, variables or {}, self.get_option("override")) for role in terms]

    def _state(self, role: str, variables: Mapping[str, Any], more: Mapping[str, Any]) -> dict[str, Any]:
        if role not in ROLES:
            raise AnsibleLookupError(f"Role {role!r} has no desired state; known roles are {', '.join(ROLES)}.")
        types = _types(role)
        given = {name: variables[name] for name in types if name in variables and name not in more}
        values = self._templar.template(given) | more  # type: ignore[union-attr]
        try:
            for name in (name for name in values if types.get(name) == "bool"):
                values[name] = boolean(values[name])
            return state_of(role, values)
        except KeyError as error:
            raise AnsibleLookupError(f"Role {role} needs the variable {error}: set it.") from error
        except (ValueError, TypeError) as error:
            raise AnsibleLookupError(f"The variables of role {role} do not make a state: {error}") from error


@functools.cache
def _types(role: str) -> dict[str, str]:
    """Return the types of a role's variables, without secrets: these are not part of a state, and never read."""
    specs = yaml.safe_load((_ROLES / role / "meta" / "argument_specs.yml").read_text(encoding="utf-8"))
    options = specs["argument_specs"]["main"]["options"]
    return {name: option.get("type", "str") for name, option in options.items() if not option.get("no_log")}
