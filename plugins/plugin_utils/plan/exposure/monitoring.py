# SPDX-License-Identifier: Apache-2.0
"""The desired state of monitoring on a node: one program with one port, and two exporters behind it.

The exporters of the node and of the GPUs listen on loopback only. The program passes on an allowed subset of their
metrics, to the named hosts and to nobody else (docs/monitoring.md).
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any
from urllib.parse import urlsplit

from ansible_collections.firstlight.cluster.plugins.module_utils.connection_slots import LOOPBACK
from ansible_collections.firstlight.cluster.plugins.module_utils.engine_container import (
    DOCKER,
    UNIT_DIRECTORY,
    docker_rm,
    docker_stop,
)
from ansible_collections.firstlight.cluster.plugins.module_utils.image.image import local_name
from ansible_collections.firstlight.cluster.plugins.module_utils.state.vocabulary import (
    root_digest,
    root_file,
)
from ansible_collections.firstlight.cluster.plugins.plugin_utils.exposed_roles import METRICS_UNIT as UNIT
from ansible_collections.firstlight.cluster.plugins.plugin_utils.programs import METRICS_PATH, program_digest
from ansible_collections.firstlight.cluster.plugins.plugin_utils.templates import render
from ansible_collections.firstlight.cluster.roles.monitoring.program.settings import (
    CONFIG_PATH,
    VERSION,
    absolute,
    address,
    firewall_table,
    page_url,
    parse_settings,
    port,
    targets,
)

UNIT_PATH = f"{UNIT_DIRECTORY}/{UNIT}"
NODE_PACKAGE = "prometheus-node-exporter"
NODE_UNIT = "prometheus-node-exporter.service"
NODE_DROP_IN_PATH = f"{UNIT_DIRECTORY}/{NODE_UNIT}.d/firstlight.conf"
DCGM_CONTAINER = "firstlight-dcgm-exporter"
DCGM_UNIT = f"{DCGM_CONTAINER}.service"
DCGM_UNIT_PATH = f"{UNIT_DIRECTORY}/{DCGM_UNIT}"
PYTHON = "/usr/bin/python3"

ENGINE_NAMES = ("vllm:", "sglang:", "trtllm_")
RAY_NAMES = ("ray_node_", "ray_resources", "ray_object_store_", "ray_actors", "ray_tasks", "ray_cluster_")
NODE_NAMES = ("node_",)
DCGM_NAMES = ("DCGM_",)

DEFAULTS: dict[str, Any] = {
    "monitoring_listen": LOOPBACK,
    "monitoring_port": 9410,
    "monitoring_hosts": [],
    "monitoring_node_port": 9100,
    "monitoring_engine_urls": [],
    "monitoring_ray_url": "",
    "monitoring_pins": {},
    "monitoring_certificates": [],
    "monitoring_firewall_tables": [],
    "monitoring_gpus": 0,
    "monitoring_supervisor": True,
    "monitoring_targets": {},
    "monitoring_dcgm_url": "",
    "monitoring_dcgm_image": "",
    "monitoring_dcgm_archive": "",
    "monitoring_dcgm_port": 9400,
}
"""The role's defaults, for a plan that leaves them out."""


def desired(variables: Mapping[str, Any]) -> dict[str, Any]:
    """Return the program, its configuration, the exporters behind it, and their units running."""
    settings = {**DEFAULTS, **variables}
    document = config(settings)
    running = {"enabled": True, "active": True}
    argv = [PYTHON, "-I", METRICS_PATH, "--config", CONFIG_PATH]
    state: dict[str, Any] = {
        "packages": {NODE_PACKAGE: None},
        "files": {
            METRICS_PATH: root_digest(program_digest("monitoring")),
            CONFIG_PATH: root_file(json.dumps(document, indent=2) + "\n"),
            UNIT_PATH: root_file(metrics_unit(argv, firewall=bool(document["firewall_tables"]))),
            NODE_DROP_IN_PATH: root_file(node_drop_in(port(settings["monitoring_node_port"], "monitoring_node_port"))),
        },
        "units": {UNIT: dict(running), NODE_UNIT: dict(running)},
    }
    image = str(settings["monitoring_dcgm_image"])
    if image:
        own = port(settings["monitoring_dcgm_port"], "monitoring_dcgm_port")
        state["files"][DCGM_UNIT_PATH] = root_file(dcgm_unit(image, own))
        state["units"][DCGM_UNIT] = dict(running)
        state["images"] = {local_name(image): {"reference": image, "requires": {}, "same_as": None}}
    return state


def config(settings: Mapping[str, Any]) -> dict[str, Any]:
    """Return the configuration of this node's program. Without a monitoring host it always listens on loopback."""
    hosts = [address(one, "monitoring_hosts") for one in _listed(settings, "monitoring_hosts")]
    listen = address(settings["monitoring_listen"], "monitoring_listen")
    document = {
        "version": VERSION,
        "node": str(settings["monitoring_node"]),
        "listen": listen if hosts else LOOPBACK,
        "port": port(settings["monitoring_port"], "monitoring_port"),
        "hosts": hosts,
        "sources": _sources(settings),
        "pins": {str(name): str(version) for name, version in sorted(_pins(settings).items())},
        "certificates": [
            absolute(one, "monitoring_certificates") for one in _listed(settings, "monitoring_certificates")
        ],
        "firewall_tables": [
            firewall_table(one, "monitoring_firewall_tables") for one in _listed(settings, "monitoring_firewall_tables")
        ],
        "gpus": _count(settings),
        "supervisor": bool(settings["monitoring_supervisor"]),
        **({"targets": wanted} if (wanted := targets(settings["monitoring_targets"], "monitoring_targets")) else {}),
    }
    _check_ports(settings)
    # The program would refuse it too, but only on the host and after everything else.
    parse_settings(document)
    return document


def _sources(settings: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Return the upstream metrics pages, each with the metric prefixes that are passed on."""

    def local(name: str, variable: str) -> str:
        return page_url(f"http://{LOOPBACK}:{port(settings[name], name)}/metrics", variable)

    sources = [_source("node", local("monitoring_node_port", "monitoring_node_port"), NODE_NAMES)]
    engines = [page_url(one, "monitoring_engine_urls") for one in _listed(settings, "monitoring_engine_urls")]
    for url in engines:
        # Replicas of one model expose the same names and labels; the port distinguishes them.
        own = str(urlsplit(url).port)
        name = "engine" if len(engines) == 1 else f"engine-{own}"
        sources.append(_source(name, url, ENGINE_NAMES, {"server": own}))
    if settings["monitoring_ray_url"]:
        sources.append(_source("ray", page_url(settings["monitoring_ray_url"], "monitoring_ray_url"), RAY_NAMES))
    if settings["monitoring_dcgm_image"] and settings["monitoring_dcgm_url"]:
        raise ValueError(
            "monitoring_dcgm_image and monitoring_dcgm_url are set, expected one exporter of the GPUs: leave one out"
        )
    if settings["monitoring_dcgm_image"]:
        sources.append(_source("dcgm", local("monitoring_dcgm_port", "monitoring_dcgm_port"), DCGM_NAMES))
    elif settings["monitoring_dcgm_url"]:
        sources.append(_source("dcgm", page_url(settings["monitoring_dcgm_url"], "monitoring_dcgm_url"), DCGM_NAMES))
    names = [one["name"] for one in sources]
    if len(names) != len(set(names)):
        raise ValueError("monitoring_engine_urls has two with the same port, expected one per server: correct it")
    return sources


def _source(name: str, url: str, allowed: Sequence[str], labels: Mapping[str, str] | None = None) -> dict[str, Any]:
    return {"name": name, "url": url, "allowed": list(allowed), "labels": dict(labels or {})}


def _listed(settings: Mapping[str, Any], name: str) -> list[Any]:
    value = settings[name]
    if not isinstance(value, (list, tuple)):
        raise ValueError(f"{name} is {value!r}, expected a list: write it as [{value}]")
    return list(value)


def _pins(settings: Mapping[str, Any]) -> Mapping[str, Any]:
    pins = settings["monitoring_pins"]
    if not isinstance(pins, Mapping) or not all(isinstance(one, str) and one for one in pins.values()):
        raise ValueError(f"monitoring_pins is {pins!r}, expected versions by package, in quotes: correct it")
    return pins


def _count(settings: Mapping[str, Any]) -> int:
    text = str(settings["monitoring_gpus"])
    if not text.isdecimal():
        raise ValueError(f"monitoring_gpus is {text!r}, expected the number of GPUs of this node: correct it")
    return int(text)


def _check_ports(settings: Mapping[str, Any]) -> None:
    names = ["monitoring_port", "monitoring_node_port"]
    names += ["monitoring_dcgm_port"] if settings["monitoring_dcgm_image"] else []
    taken: dict[int, str] = {}
    for name in names:
        own = port(settings[name], name)
        if own in taken:
            raise ValueError(f"{name} is {own}, and so is {taken[own]}: expected ports of their own, change one")
        taken[own] = name


def metrics_unit(argv: Sequence[str], *, firewall: bool) -> str:
    """Render the systemd unit of the metrics program."""
    return render(
        "monitoring",
        "metrics.service",
        argv=argv,
        identifier=UNIT.removesuffix(".service"),
        rights="CAP_NET_ADMIN CAP_SYSLOG" if firewall else "CAP_SYSLOG",
    )


def node_drop_in(own_port: int) -> str:
    """Render the drop-in for the unit of the distribution's node exporter."""
    argv = [
        "/usr/bin/prometheus-node-exporter",
        f"--web.listen-address={LOOPBACK}:{own_port}",
        "--web.disable-exporter-metrics",
    ]
    return render("monitoring", "node_exporter.conf", argv=argv)


def dcgm_unit(image: str, own_port: int) -> str:
    """Render the unit of NVIDIA's DCGM exporter, which runs the given image on loopback."""
    if "@sha256:" not in image:
        raise ValueError(
            f"monitoring_dcgm_image is {image!r}, expected REPOSITORY@sha256:DIGEST: a tag may move to another image"
        )
    argv = [
        DOCKER,
        "run",
        "--rm",
        "--pull=never",  # a start never downloads
        f"--name={DCGM_CONTAINER}",
        f"--publish={LOOPBACK}:{own_port}:9400",
        "--gpus=all",
        "--cap-drop=ALL",
        # Otherwise its entry point tries to give itself a capability that it lacks, and exits. Only profiling needs it.
        "--env=NO_SETCAP=1",
        "--security-opt=no-new-privileges",
        "--log-driver=local",
        # The local name: an image loaded from an archive has no registry digest on the node.
        local_name(image),
    ]
    remove, stop = docker_rm(DCGM_CONTAINER), docker_stop(DCGM_CONTAINER, 10)
    return render("monitoring", "dcgm_exporter.service", argv=argv, remove=remove, stop=stop)
