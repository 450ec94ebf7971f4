# SPDX-License-Identifier: Apache-2.0
"""The desired state of each role, as a pure function of the role's own variables.

There is one module per role, each with `desired(variables)`; they are looked up by name here, so that filters, the
planner and the tests use a single entry point. Modules on the target receive the finished state.
"""

from __future__ import annotations

import importlib
from collections.abc import Mapping
from typing import Any

_PACKAGES = {
    "preflight": "hosts",
    "nvidia_driver": "stack",
    "cuda_toolkit": "stack",
    "container_runtime": "stack",
    "host_tuning": "hosts",
    "gpu_verify": "hosts",
    "fabric_network": "fabric",
    "firewall": "exposure",
    "engine_venv": "stack",
    "inference_image": "image",
    "model_weights": "weights",
    "ray_cluster": "serving",
    "inference_server": "serving",
    "supervisor": "serving",
    "endpoint": "exposure",
    "monitoring": "exposure",
}
"""The part of the plan that has the module of each role."""
ROLES = tuple(_PACKAGES)
"""Every role with a desired state, in the order a bring-up runs them."""


def desired_state(role: str, variables: Mapping[str, Any]) -> dict[str, Any]:
    """Return the state that `role` converges a host to, given its full variables."""
    state: dict[str, Any] = _module(role).desired(variables)
    return state


def observation_request(role: str, variables: Mapping[str, Any], state: Mapping[str, Any]) -> dict[str, Any]:
    """Return everything that a single observation has to read for the role, before the host's specifics are known.

    `state` is the desired state of any host with these variables.
    """
    module = _module(role)
    request = dict(state)
    for host in getattr(module, "HOST_VARIANTS", ()):
        for kind, items in module.desired({**variables, module.HOST_VARIABLE: host}).items():
            request[kind] = {**request.get(kind, {}), **items} if isinstance(items, Mapping) else items
    return request


def host_state(role: str, variables: Mapping[str, Any], observation: Mapping[str, Any]) -> dict[str, Any]:
    """Return the desired state of the observed host, including what depends on its NVSwitches or its kernel."""
    module = _module(role)
    host = module.read_host(observation) if hasattr(module, "read_host") else None
    return desired_state(role, variables if host is None else {**variables, module.HOST_VARIABLE: host})


def is_host_specific(role: str) -> bool:
    """Whether the role's state depends on what only an observation knows."""
    return hasattr(_module(role), "read_host")


def load_all() -> None:
    """Import the module of every role, for a process whose children all need them."""
    for role in ROLES:
        _module(role)


def _module(role: str) -> Any:
    if role not in ROLES:
        raise ValueError(f"role {role!r} has no desired state; known roles are {', '.join(ROLES)}")
    return importlib.import_module(f".{_PACKAGES[role]}.{role}", __package__)
