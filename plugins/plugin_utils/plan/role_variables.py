# SPDX-License-Identifier: Apache-2.0
"""What the plan sets for each role, under the role's own variable names; the operator's own settings win."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from ansible_collections.firstlight.cluster.plugins.module_utils.core.state import content_digest
from ansible_collections.firstlight.cluster.plugins.plugin_utils.engines.launch import engine_flags
from ansible_collections.firstlight.cluster.plugins.plugin_utils.intent.addressing import host_address
from ansible_collections.firstlight.cluster.plugins.plugin_utils.intent.choices import Settled
from ansible_collections.firstlight.cluster.plugins.plugin_utils.intent.fabric import Fabric
from ansible_collections.firstlight.cluster.plugins.plugin_utils.intent.hosts import SECRET_ENDINGS, HostIntent
from ansible_collections.firstlight.cluster.plugins.plugin_utils.plan.refusals import Refusals, suggest
from ansible_collections.firstlight.cluster.plugins.plugin_utils.plan.roles import RoleInterface
from ansible_collections.firstlight.cluster.plugins.plugin_utils.plan.stack_variables import stack_variables

MODEL_ROOT = "/var/lib/firstlight/models"
WEIGHTS_ENDPOINT = "https://huggingface.co"

_CLUSTER_WIDE = (
    "inference_image_reference",
    "model_weights_repository",
    "model_weights_revision",
    "model_weights_directory",
    "ray_cluster_port",
)
"""Role variables that must not differ between the hosts of a cluster."""

_JUDGED = {
    "inference_server_flags": "firstlight_serving and its flags",
    "inference_server_tensor_parallel": "firstlight_serving.tensor_parallel",
    "inference_server_pipeline_parallel": "firstlight_serving.pipeline_parallel",
    "inference_server_ray": "firstlight_serving.profile",
    "inference_server_image": "firstlight_image",
    "ray_cluster_image": "firstlight_image",
    "ray_cluster_gpus": "firstlight_hardware",
    "ray_cluster_rdma": "firstlight_fabric.rdma",
    "ray_cluster_node_address": "firstlight_fabric",
    "ray_cluster_head_address": "firstlight_fabric",
    "ray_cluster_interface": "firstlight_fabric",
    "inference_server_ray_port": "ray_cluster_port",
}
"""Role variables that a plan judges as a whole: set beside it, they would pass by every check."""

_SHARED_SECRETS = ("ray_cluster_token",)
"""Secrets that must not differ between the hosts of a cluster."""

REFUSALS = {
    "role.unknown-variable": "A misspelt role variable would silently do nothing.",
    "role.differs": "Every host of a cluster runs the same image and the same weights; a difference is a hang later.",
    "role.judged": "What decides whether a model fits and starts is said once, where the plan can judge it.",
    "ray.token": "All Ray nodes of a cluster share one token; a node with another one cannot join.",
}


def check_role_variables(hosts: Sequence[HostIntent], roles: Mapping[str, RoleInterface], refusals: Refusals) -> None:
    """Refuse what no role knows, and what may not differ between hosts but does."""
    for role, interface in roles.items():
        known = {*interface.variables, *interface.defaults}
        if not known:
            continue
        names = {name for host in hosts for name in host.variables if name.startswith(f"{role}_")}
        for name in sorted(names - known - {*_SHARED_SECRETS}):
            refusals.add(
                "role.unknown-variable",
                f"variable {name} is set",
                f"role {role} has no such variable, so it would silently do nothing",
                suggest(name, sorted(known)),
            )
    for name in sorted({name for host in hosts for name in host.variables} & _JUDGED.keys()):
        refusals.add(
            "role.judged",
            f"variable {name} is set",
            f"in a cluster it follows from {_JUDGED[name]}, which is checked; set by itself it would not be",
            f"take {name} out of the inventory and set {_JUDGED[name]}",
        )
    for name in _SHARED_SECRETS:
        if len({str(host.variables.get(name)) for host in hosts}) > 1:
            refusals.add(
                "ray.token",
                f"{name} is not the same on every host",
                "all Ray nodes of a cluster share one token",
                f"set {name} once, in a vaulted group_vars/all file, or leave it out: the head generates one",
            )
    for name in _CLUSTER_WIDE:
        values = [host.variables.get(name) for host in hosts]
        if any(value != values[0] for value in values):
            refusals.add(
                "role.differs",
                f"{name} is not the same on every host",
                "every host of a cluster runs the same image and the same weights",
                f"set {name} once, in group_vars/all.yml",
            )


def fabric_of(fabric: Fabric, index: int) -> list[dict[str, Any]]:
    """Port, address and MTU of every rail, on the host at `index` of the inventory."""
    return [
        {"port": rail.port, "address": host_address(rail.subnet, fabric.numbers[index]), "mtu": fabric.mtu}
        for rail in fabric.rails
    ]


def node_of(choices: Settled, index: int) -> dict[str, Any]:
    """How the other ranks reach the host at `index`: over the first rail, or not at all where there is one host."""
    fabric = fabric_of(choices.fabric, index)
    return {
        "address": _bare(fabric[0]["address"]) if fabric else "127.0.0.1",
        "interface": fabric[0]["port"] if fabric else None,
        "environment": _environment(choices),
    }


def role_variables(
    choices: Settled,
    interfaces: Mapping[str, RoleInterface],
    host: HostIntent,
    fabric: Sequence[Mapping[str, Any]],
) -> dict[str, dict[str, Any] | None]:
    """Every role's complete variables: its defaults, over them the plan's, over them the operator's."""

    def merged(role: str, planned: Mapping[str, Any]) -> dict[str, Any]:
        interface = interfaces.get(role, RoleInterface())
        variables = {**interface.defaults, **planned}
        known = {*variables, *interface.variables}
        variables |= {
            name: interface.read(name, host.variables[name]) for name in sorted(known) if name in host.variables
        }
        return {name: value for name, value in variables.items() if not name.endswith(SECRET_ENDINGS)}

    model, stack, serving = choices.model, choices.stack, choices.serving
    with_ray = serving.profile == "vllm-ray"
    head_address = node_of(choices, choices.hosts.index(choices.head))["address"]
    node = node_of(choices, choices.hosts.index(host))
    image = merged(
        "inference_image",
        {
            "inference_image_reference": choices.image,
            "inference_image_requires": {
                name: str(version)
                for name, version in stack["requires"].items()
                if name == "vllm" or (name == "ray" and with_ray)
            },
            "inference_image_size_bytes": (stack.get("image") or {}).get("size_bytes", 0),
        },
    )
    stacked = {
        role: None if planned is None else merged(role, planned)
        for role, planned in stack_variables(choices, host.variables).items()
    }
    root = str(choices.intent.get("firstlight_model_root") or MODEL_ROOT).rstrip("/")
    weights = merged(
        "model_weights",
        {
            "model_weights_endpoint": choices.intent.get("firstlight_weights_endpoint")
            or stack.get("weights_endpoint", WEIGHTS_ENDPOINT),
            "model_weights_repository": model["repository"],
            "model_weights_revision": choices.revision,
            "model_weights_directory": f"{root}/{model['repository'].replace('/', '--')}/{choices.revision}",
        },
    )
    reference, directory = image["inference_image_reference"], weights["model_weights_directory"]
    size_bytes = model.get("size_bytes")
    ray = merged(
        "ray_cluster",
        {
            "ray_cluster_image": reference,
            "ray_cluster_node_address": node["address"],
            "ray_cluster_head_address": head_address,
            "ray_cluster_is_head": host.is_head,
            "ray_cluster_head_host": choices.head.name,
            "ray_cluster_size": len(choices.hosts),
            "ray_cluster_port": 6379,
            "ray_cluster_gpus": choices.hardware["gpus"],
            "ray_cluster_interface": node["interface"] or "lo",
            "ray_cluster_environment": node["environment"],
            "ray_cluster_model_directory": directory,
            "ray_cluster_rdma": choices.fabric.rdma,
        },
    )
    return {
        "preflight": merged(
            "preflight",
            {
                "preflight_gpus": {"count": choices.hardware["gpus"], "name": choices.hardware["gpu_name"]},
                "preflight_ports": [entry["port"] for entry in fabric],
                "preflight_disk": {directory: size_bytes} if size_bytes else {},
                **_if_set("preflight_distributions", stack.get("distributions")),
            },
        ),
        **stacked,
        "host_tuning": merged("host_tuning", {"host_tuning_headless": bool(choices.hardware.get("headless"))}),
        "fabric_network": merged(
            "fabric_network",
            {
                "fabric_network_ports": [dict(entry) for entry in fabric],
                "fabric_network_peers": [
                    {
                        "host": other.name,
                        "port": entry["port"],
                        "address": _bare(entry["address"]),
                        "mtu": entry["mtu"],
                    }
                    for index, other in enumerate(choices.hosts)
                    if other is not host
                    for entry in fabric_of(choices.fabric, index)
                ],
            },
        ),
        "inference_image": None if serving.runtime == "venv" else image,
        "model_weights": weights,
        "ray_cluster": ray if with_ray else None,
        "inference_server": merged(
            "inference_server",
            {
                "inference_server_image": reference,
                "inference_server_model_directory": directory,
                "inference_server_served_name": serving.served_name,
                "inference_server_tensor_parallel": serving.tensor_parallel,
                "inference_server_pipeline_parallel": serving.pipeline_parallel,
                "inference_server_flags": engine_flags(choices),
                "inference_server_listen": serving.listen,
                "inference_server_port": serving.port,
                "inference_server_node_address": head_address,
                "inference_server_ray": with_ray,
                "inference_server_ray_port": ray["ray_cluster_port"],
                **_of_venv(stacked.get("engine_venv")),
                **_if_set("inference_server_start_timeout", serving.start_timeout),
            },
        ),
    }


def _of_venv(venv: Mapping[str, Any] | None) -> dict[str, Any]:
    """How the server runs out of an environment; its lock is named, so that another one starts the server anew."""
    if venv is None:
        return {}
    text = str(venv.get("engine_venv_lock_text") or "")
    return {
        "inference_server_runtime": "venv",
        "inference_server_venv": venv["engine_venv_directory"],
        "inference_server_venv_lock": content_digest(text) if text else "",
    }


def _if_set(name: str, value: Any) -> dict[str, Any]:
    """A variable only where there is a value for it; else the role's default stays."""
    return {} if value is None else {name: value}


def _environment(choices: Settled) -> dict[str, str]:
    """What every rank needs in its environment beyond the role's own: the RDMA devices behind the rails.

    Without the list NCCL also tries the ports that have no cable. With NCCL_NET a fabric without working
    RDMA is an error instead of a silent fall back to TCP, several times slower.
    """
    if not choices.fabric.rdma:
        return {}
    known = {entry["port"]: entry.get("rdma_device") for entry in choices.hardware["fabric"]["ports"]}
    devices = [known.get(rail.port) for rail in choices.fabric.rails]
    if not all(devices):
        return {"NCCL_NET": "IB"}
    return {"NCCL_IB_HCA": f"={','.join(str(device) for device in devices)}", "NCCL_NET": "IB"}


def _bare(address: str) -> str:
    return address.partition("/")[0]
