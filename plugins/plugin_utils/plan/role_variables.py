# SPDX-License-Identifier: Apache-2.0
"""The variables that the plan sets for each role, under the role's own names; the operator's own settings win."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from ansible_collections.firstlight.cluster.plugins.module_utils.state.vocabulary import content_digest
from ansible_collections.firstlight.cluster.plugins.plugin_utils.catalog.names import suggest
from ansible_collections.firstlight.cluster.plugins.plugin_utils.findings import PlanErrors
from ansible_collections.firstlight.cluster.plugins.plugin_utils.inventory.inventory_hosts import (
    SECRET_ENDINGS,
    HostIntent,
)
from ansible_collections.firstlight.cluster.plugins.plugin_utils.plan.exposure.variables import facing_variables
from ansible_collections.firstlight.cluster.plugins.plugin_utils.plan.fabric.variables import (
    check_pins,
    paper_devices,
    paper_ports,
    preflight_rails,
    rdma_of,
)
from ansible_collections.firstlight.cluster.plugins.plugin_utils.plan.hosts.gpu_verify import evaluated_profile
from ansible_collections.firstlight.cluster.plugins.plugin_utils.plan.image.variables import image_name, image_variables
from ansible_collections.firstlight.cluster.plugins.plugin_utils.plan.resolved_intent import ResolvedIntent
from ansible_collections.firstlight.cluster.plugins.plugin_utils.plan.serving.compile_cache import compile_cache
from ansible_collections.firstlight.cluster.plugins.plugin_utils.plan.serving.startup import Startup
from ansible_collections.firstlight.cluster.plugins.plugin_utils.plan.serving.supervisor_variables import (
    supervisor_variables,
)
from ansible_collections.firstlight.cluster.plugins.plugin_utils.plan.serving.variables import (
    ray_variables,
    server_variables,
)
from ansible_collections.firstlight.cluster.plugins.plugin_utils.plan.stack.variables import stack_variables
from ansible_collections.firstlight.cluster.plugins.plugin_utils.plan.weights.variables import weights_variables
from ansible_collections.firstlight.cluster.plugins.plugin_utils.roles import RoleInterface

_CLUSTER_WIDE = (
    "inference_image_reference",
    "inference_image_requires",
    "model_weights_repository",
    "model_weights_revision",
    "model_weights_directory",
    "model_weights_files",
    "model_weights_contents",
    "ray_cluster_port",
    "supervisor_port",
)
"""Role variables that must not differ between the hosts of a cluster."""

_EVALUATED = {
    "inference_server_flags": "firstlight_serving and its flags",
    "inference_server_tensor_parallel": "firstlight_serving.tensor_parallel",
    "inference_server_pipeline_parallel": "firstlight_serving.pipeline_parallel",
    "inference_server_profile": "firstlight_serving.profile",
    "inference_server_replicas": "firstlight_serving.replicas",
    "inference_server_settings": "firstlight_serving",
    "inference_server_version": "firstlight_stack",
    "inference_server_nodes": "the hosts of the inventory",
    "inference_server_rank": "the order of hosts in the inventory",
    "inference_server_interface": "firstlight_fabric",
    "inference_server_rdma": "firstlight_fabric.rdma",
    "inference_server_compile_cache": "firstlight_serving.compile_cache",
    "inference_server_image": "firstlight_image",
    "ray_cluster_image": "firstlight_image",
    "inference_image_recipe": "firstlight_image_build",
    "inference_image_ray": "firstlight_stack and its ray",
    "inference_image_ray_lock": "firstlight_stack and its ray",
    "inference_image_archive": "firstlight_image_archive",
    "inference_image_archive_location": "firstlight_image_archive",
    "inference_image_is_head": "the group head of the inventory",
    "inference_image_head_host": "the group head of the inventory",
    "model_weights_same_as": "the group head of the inventory",
    "ray_cluster_gpus": "firstlight_hardware",
    "ray_cluster_rdma": "firstlight_fabric.rdma",
    "ray_cluster_compile_cache": "firstlight_serving.compile_cache",
    "ray_cluster_node_address": "firstlight_fabric",
    "ray_cluster_head_address": "firstlight_fabric",
    "ray_cluster_interface": "firstlight_fabric",
    "inference_server_ray_port": "ray_cluster_port",
    "firewall_fabric": "firstlight_fabric",
    "firewall_openings": "firstlight_firewall.open",
    "firewall_ssh_from": "firstlight_firewall.ssh_from",
    "supervisor_node": "the hosts of the inventory",
    "supervisor_address": "firstlight_fabric",
    "supervisor_head_host": "the group head of the inventory",
    "supervisor_head_address": "firstlight_fabric",
    "supervisor_addresses": "firstlight_fabric",
    "supervisor_groups": "firstlight_serving.profile",
    "supervisor_image": "firstlight_image",
    "supervisor_weights": "firstlight_model",
    "supervisor_memory_kind": "firstlight_hardware",
    "supervisor_weights_bytes": "firstlight_model",
    "supervisor_compile_cache": "firstlight_serving.compile_cache",
}
"""Role variables that a plan checks as a whole: set directly, they would bypass every check."""

_SHARED_SECRETS = ("ray_cluster_token",)
"""Secrets that must not differ between the hosts of a cluster."""

ERRORS = {
    "role.unknown-variable": "A misspelt role variable would silently do nothing.",
    "role.differs": "Every host of a cluster runs the same image and the same weights; differences cause a hang later.",
    "role.evaluated": "What decides whether a model fits and starts is set once, where the plan can evaluate it.",
    "ray.token": "All Ray nodes of a cluster share one token; a node with another one cannot join.",
}


def check_role_variables(hosts: Sequence[HostIntent], roles: Mapping[str, RoleInterface], errors: PlanErrors) -> None:
    """Refuse variables that no role knows, and variables that must not differ between hosts but do."""
    for role, interface in roles.items():
        known = {*interface.variables, *interface.defaults}
        if not known:
            continue
        names = {name for host in hosts for name in host.variables if name.startswith(f"{role}_")}
        for name in sorted(names - known - {*_SHARED_SECRETS}):
            errors.add(
                "role.unknown-variable",
                f"variable {name} is set",
                f"role {role} has no such variable, so it would silently do nothing",
                suggest(name, sorted(known)),
            )
    check_pins(hosts, errors)
    for name in sorted({name for host in hosts for name in host.variables} & _EVALUATED.keys()):
        errors.add(
            "role.evaluated",
            f"variable {name} is set",
            f"in a cluster it follows from {_EVALUATED[name]}, which is checked; set by itself it would not be",
            f"take {name} out of the inventory and set {_EVALUATED[name]}",
        )
    for name in _SHARED_SECRETS:
        if len({str(host.variables.get(name)) for host in hosts}) > 1:
            errors.add(
                "ray.token",
                f"{name} is not the same on every host",
                "all Ray nodes of a cluster share one token",
                f"set {name} once, in a vaulted group_vars/all file, or leave it out: the head generates one",
            )
    for name in _CLUSTER_WIDE:
        values = [host.variables.get(name) for host in hosts]
        if any(value != values[0] for value in values):
            errors.add(
                "role.differs",
                f"{name} is not the same on every host",
                "every host of a cluster runs the same image and the same weights",
                f"set {name} once, in group_vars/all.yml",
            )


def node_of(resolved: ResolvedIntent, index: int) -> dict[str, Any]:
    """Return how other ranks reach the host at `index`: over the first rail, or by loopback without a fabric."""
    ports = paper_ports(resolved.fabric, index)
    return {
        "address": _bare(ports[0]["address"]) if ports else "127.0.0.1",
        "interface": ports[0]["port"] if ports else None,
        "environment": paper_devices(resolved),
    }


@dataclass(frozen=True)
class EngineFacts:
    """What the catalog knows about the engine besides its flags."""

    caches: Mapping[str, str]
    """Where it keeps what it compiles."""
    container: Mapping[str, Any]
    """What its container may do, and where it writes."""


@dataclass(frozen=True)
class SharedFacts:
    """The data on all hosts that each host's variables contain: built once, as it grows with the cluster."""

    nodes: Sequence[dict[str, Any]]
    """How ranks reach each host, in the inventory's order."""
    addresses: dict[str, str]
    """Their addresses by name."""
    peers: Sequence[dict[str, Any]]
    """Every address of the fabric, with its host."""
    evaluated: dict[str, Any]
    """The profile that the GPUs of all hosts are evaluated against."""


def shared_facts(resolved: ResolvedIntent, nodes: Sequence[dict[str, Any]]) -> SharedFacts:
    """Build the shared facts of these hosts; `nodes` holds their places on the fabric, in order."""
    addresses = {host.name: str(node["address"]) for host, node in zip(resolved.hosts, nodes, strict=True)}
    return SharedFacts(
        nodes=nodes,
        addresses=addresses,
        peers=[
            {"host": host.name, "port": entry["port"], "address": _bare(entry["address"]), "mtu": entry["mtu"]}
            for index, host in enumerate(resolved.hosts)
            for entry in paper_ports(resolved.fabric, index)
        ],
        evaluated=evaluated_profile(resolved.hardware),
    )


def role_variables(
    resolved: ResolvedIntent,
    interfaces: Mapping[str, RoleInterface],
    number: int,
    limits: Startup,
    engine: EngineFacts,
    shared: SharedFacts,
) -> dict[str, dict[str, Any] | None]:
    """Return every role's complete variables on a host: defaults, overridden by the plan's, then by the operator's.

    `limits` is how long a start may take, `engine` what is known about the engine.
    """
    host = resolved.hosts[number]

    def merged(role: str, planned: Mapping[str, Any]) -> dict[str, Any]:
        interface = interfaces.get(role, RoleInterface())
        variables = {**interface.defaults, **planned}
        known = {*variables, *interface.variables}
        variables |= {
            name: interface.read(name, host.variables[name]) for name in sorted(known) if name in host.variables
        }
        return {name: value for name, value in variables.items() if not name.endswith(SECRET_ENDINGS)}

    model, stack, serving = resolved.model, resolved.stack, resolved.serving
    ports = paper_ports(resolved.fabric, number)
    nodes, addresses = shared.nodes, shared.addresses
    image = merged("inference_image", image_variables(resolved, host, addresses))
    stacked = {
        role: None if planned is None else merged(role, planned)
        for role, planned in stack_variables(resolved, host.variables).items()
    }
    weights = merged("model_weights", weights_variables(resolved, host, addresses))
    reference, directory = image_name(image), weights["model_weights_directory"]
    size_bytes = model.get("size_bytes")
    venv = _of_venv(stacked.get("engine_venv"))
    runs = str(venv.get("inference_server_venv_lock") or "") if serving.runtime == "venv" else reference
    cache = compile_cache(resolved, engine.caches, runs)
    more = {
        "inference_server_start_timeout": limits.limit_s,
        "inference_server_container": {} if serving.runtime == "venv" else dict(engine.container),
        "inference_server_compile_cache": cache,
        **venv,
    }
    kept = {"ray_cluster_container": dict(engine.container), "ray_cluster_compile_cache": dict(cache)}
    ray = ray_variables(resolved, host, nodes, reference, directory, kept)
    server = server_variables(resolved, host, nodes, reference, directory, more)
    serves: dict[str, dict[str, Any] | None] = {}
    for role, planned in (("ray_cluster", ray), ("inference_server", server)):
        # The operator's own variables for the ranks are merged with those of the fabric instead of replacing them.
        environment = f"{role}_environment"
        serves[role] = planned and merged(role, planned) | {environment: planned[environment]}
    if serves["ray_cluster"] and serves["inference_server"]:
        serves["inference_server"] |= {"inference_server_ray_port": serves["ray_cluster"]["ray_cluster_port"]}
    return {
        "preflight": merged(
            "preflight",
            {
                "preflight_gpus": {"count": resolved.hardware["gpus"], "name": resolved.hardware["gpu_name"]},
                "preflight_rails": preflight_rails(resolved.fabric),
                "preflight_disk": {directory: size_bytes} if size_bytes else {},
                **_if_set("preflight_distributions", stack.get("distributions")),
            },
        ),
        **stacked,
        "host_tuning": merged("host_tuning", _tuning(resolved.hardware, host)),
        "gpu_verify": merged(
            "gpu_verify",
            {
                "gpu_verify_profile": resolved.hardware["name"],
                "gpu_verify_hardware": shared.evaluated,
                "gpu_verify_driver": str((stacked.get("nvidia_driver") or {}).get("nvidia_driver_version") or ""),
                **_burn_in(resolved, reference, stacked.get("engine_venv")),
            },
        ),
        "fabric_network": merged(
            "fabric_network",
            {
                "fabric_network_ports": ports,
                "fabric_network_rdma": rdma_of(resolved, number),
                "fabric_network_minimum_bandwidth": dict(resolved.fabric.minimum_bandwidth),
                "fabric_network_qos": dict(resolved.fabric.qos),
                "fabric_network_members": list(addresses),
                "fabric_network_bandwidth": True,
                "fabric_network_peers": [peer for peer in shared.peers if peer["host"] != host.name],
            },
        ),
        "inference_image": None if serving.runtime == "venv" else image,
        "model_weights": weights,
        **serves,
        "supervisor": merged(
            "supervisor", supervisor_variables(resolved, host, nodes, {"model_weights": weights, **serves}, limits)
        ),
        **facing_variables(resolved, host, nodes[number], {**stacked, **serves}, merged),
    }


def _burn_in(resolved: ResolvedIntent, image: str, venv: Mapping[str, Any] | None) -> dict[str, Any]:
    """Return what the burn-in tests the GPUs with, which is what will serve on them, and the power budget."""
    runs_in_venv = resolved.serving.runtime == "venv"
    engine = _of_venv(venv)
    return {
        "gpu_verify_image": "" if runs_in_venv else image,
        "gpu_verify_python": f"{engine['inference_server_venv']}/bin/python" if engine and runs_in_venv else "",
        "gpu_verify_engine": str(engine.get("inference_server_venv_lock") or "") if runs_in_venv else "",
        "gpu_verify_power": dict(resolved.power),
    }


def _tuning(hardware: Mapping[str, Any], host: HostIntent) -> dict[str, Any]:
    """Return the tuning that follows from the hardware and from the login account.

    Memory that the GPU shares needs a guard, as the kernel's own does not see the GPU's part, and keeps its swap: that
    is where the small processes go while a model loads, and the guard acts before it is full. Where GPUs have memory of
    their own the host has far more than it needs, and a rank that is swapped out once stalls all others.
    """
    unified = bool(hardware.get("unified"))
    return {
        "host_tuning_headless": bool(hardware.get("headless")),
        "host_tuning_oom_guard": unified,
        "host_tuning_swap": "keep" if unified else "off",
        "host_tuning_linger_users": [host.user] if host.user and host.user != "root" else [],
    }


def _of_venv(venv: Mapping[str, Any] | None) -> dict[str, Any]:
    """Return how the server runs from a virtual environment; a changed lock digest restarts the server."""
    if venv is None:
        return {}
    text = str(venv.get("engine_venv_lock_text") or "")
    return {
        "inference_server_runtime": "venv",
        "inference_server_venv": venv["engine_venv_directory"],
        "inference_server_venv_lock": content_digest(text) if text else "",
    }


def _if_set(name: str, value: Any) -> dict[str, Any]:
    """Set a variable only where there is a value for it; otherwise the role's default stays."""
    return {} if value is None else {name: value}


def _bare(address: str) -> str:
    return address.partition("/")[0]
