# SPDX-License-Identifier: Apache-2.0
"""The filter `role_facts`: derive further facts from a role's variables, beside its desired state."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from ansible.errors import AnsibleFilterError
from ansible_collections.firstlight.cluster.plugins.module_utils.driver import driver
from ansible_collections.firstlight.cluster.plugins.module_utils.endpoint.endpoint import certificate_names
from ansible_collections.firstlight.cluster.plugins.module_utils.engine_container import (
    RAY_UNIT,
    SERVING_UNITS,
    SUPERVISOR_UNIT,
)
from ansible_collections.firstlight.cluster.plugins.module_utils.fabric.qos import UNIT as QOS_UNIT
from ansible_collections.firstlight.cluster.plugins.module_utils.serving.completion import reachable
from ansible_collections.firstlight.cluster.plugins.plugin_utils.comparison import preflight
from ansible_collections.firstlight.cluster.plugins.plugin_utils.launch.description import PROFILES
from ansible_collections.firstlight.cluster.plugins.plugin_utils.plan.stack.nvidia_driver import read_host

DOCUMENTATION = r"""
name: role_facts
short_description: Derive facts from a role's variables
version_added: "0.1.0"
author: The Firstlight authors (!UNKNOWN)
description:
  - Beside the state that P(firstlight.cluster.desired_state#lookup) gives, a role asks what its variables mean for the
    host that it runs on.
positional: role
options:
  _input:
    description: The variables of the role.
    type: dict
    required: true
  role:
    description: Its name.
    type: str
    choices: [endpoint, fabric_network, inference_server, nvidia_driver, preflight, ray_cluster]
    required: true
  observation:
    description: The value C(observation) that M(firstlight.cluster.observe) returned.
    type: dict
    default: {}
  desired:
    description: The desired state of the role.
    type: dict
    default: {}
  pending:
    description: Where the host differs from that, as P(firstlight.cluster.differences#filter) gives it.
    type: list
    elements: dict
    default: []
"""

EXAMPLES = r"""
- name: Show the problems
  ansible.builtin.debug:
    msg: "{{ (variables | firstlight.cluster.role_facts('preflight', observation=seen, desired=wanted)).problems }}"
"""

RETURN = r"""
_value:
  description:
    - For C(endpoint) the C(names) that its certificate needs and the C(url) at which the host itself reaches it.
    - For C(fabric_network) C(class_left), whether the host may have a lossless class of RoCE from an earlier run, which
      only an observation of its units can deny.
    - For C(inference_server) the fields of its profile, as C(engine), C(ranked), C(on_ray), C(by_mpi) and
      C(replicated). There and for C(ray_cluster) C(others), the units of other profiles that may still run on the
      host, in the order in which they are stopped; the supervisor is none of them.
    - For C(preflight) C(problems), sentences with what was found, what was expected and what to do.
    - For C(nvidia_driver) C(in_use), a sentence where its packages would move while something serves with it, C(host),
      what the observation says of the host as far as the set depends on it, null where it could not be read,
      C(answered), whether driver and packages were read and no C(nvidia-smi) was given up for its time limit, and with
      O(desired) C(problems) for which the driver must not be touched, and C(remove), the packages that go with the
      driver that is there, for O(firstlight.cluster.apt_set#module:remove).
  type: dict
"""

Given = Mapping[str, Any]
QOS_INSTANCES = QOS_UNIT.partition("@")[0] + "@"


def _endpoint(variables: Given, *_: Any) -> dict[str, Any]:
    url = reachable(f"https://{variables['endpoint_listen']}:{variables['endpoint_port']}")
    return {"names": certificate_names(variables), "url": url}


def _fabric_network(_: Given, observation: Given, *__: Any) -> dict[str, Any]:
    units = observation.get("units") or {}
    asked = [unit for name, unit in units.items() if name.startswith(QOS_INSTANCES)]
    # systemd reports any instance as loaded while the template unit's file exists, whichever port it is for.
    return {"class_left": not asked or any((unit or {}).get("load") != "not-found" for unit in asked)}


def _inference_server(variables: Given, _: Given, desired: Given, *__: Any) -> dict[str, Any]:
    name = str(variables["inference_server_profile"])
    if name not in PROFILES:
        raise ValueError(f"{name!r} is not a profile, expected one of {', '.join(PROFILES)}")
    profile = PROFILES[name]
    own = [*(desired.get("units") or ()), *([RAY_UNIT] if profile.on_ray else [])]
    return {**dataclasses.asdict(profile), "others": _others(own)}


def _ray_cluster(variables: Given, *_: Any) -> dict[str, Any]:
    # The server runs on the head only; no worker may have one.
    return {"others": _others([RAY_UNIT, *(["firstlight-server.service"] if variables["ray_cluster_is_head"] else [])])}


def _others(own: Iterable[str]) -> list[str]:
    mine = {*own, SUPERVISOR_UNIT}
    return [name for name in SERVING_UNITS if name not in mine]


def _preflight(_: Given, observation: Given, desired: Given, __: Any) -> dict[str, Any]:
    return {"problems": preflight.problems(observation, desired)}


def _nvidia_driver(variables: Given, observation: Given, desired: Given, pending: Iterable[Any]) -> dict[str, Any]:
    observed, wanted = observation.get("driver") or {}, desired.get("driver") or {}
    policy = str(variables["nvidia_driver_policy"])
    mig_ok, signing_ok = (bool(variables.get(f"nvidia_driver_{name}_ok")) for name in ("mig", "signing"))
    signing_ok = signing_ok or policy != "install"
    errors = observation.get("errors") or {}
    found: dict[str, Any] = {
        "in_use": preflight.driver_in_use(pending, observation, policy),
        "host": read_host(observation),
        "answered": bool(observed) and not observed.get("silent") and "packages" not in errors,
    }
    if desired:
        found["problems"] = driver.problems(observed, desired.get("packages") or {}, mig_ok, signing_ok, wanted)
        found["remove"] = driver.leaving(observed, wanted)
    return found


ROLES: dict[str, Callable[[Given, Given, Given, Iterable[Any]], dict[str, Any]]] = {
    "endpoint": _endpoint,
    "fabric_network": _fabric_network,
    "inference_server": _inference_server,
    "nvidia_driver": _nvidia_driver,
    "preflight": _preflight,
    "ray_cluster": _ray_cluster,
}


def role_facts(
    variables: object, role: str, observation: object = None, desired: object = None, pending: object = ()
) -> dict[str, Any]:
    """Return the derived facts of one role."""
    parts = (variables, observation or {}, desired or {})
    given = [one for one in parts if isinstance(one, Mapping)]
    if role not in ROLES or len(given) < len(parts) or not isinstance(pending, (list, tuple)):
        found = ", ".join(type(one).__name__ for one in (*parts, pending))
        raise AnsibleFilterError(
            "role_facts takes the variables of a role, an observation, a desired state and differences, and the name "
            f"of one of {', '.join(ROLES)}, found {found} and {role!r}: see the example in its documentation"
        )
    try:
        return ROLES[role](given[0], given[1], given[2], pending)
    except (ValueError, TypeError, KeyError, AttributeError) as error:
        raise AnsibleFilterError(f"role_facts cannot describe {role}: {error}") from error


class FilterModule:
    """Filters of this file, as Ansible asks for them."""

    def filters(self) -> dict[str, Callable[..., Any]]:
        """Return the filters by name."""
        return {"role_facts": role_facts}
