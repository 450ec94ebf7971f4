# SPDX-License-Identifier: Apache-2.0
"""The launch description: one vocabulary for every engine and every profile (docs/launch.md)."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from ansible_collections.firstlight.cluster.plugins.module_utils.engine_container import (
    SERVER_ENVIRONMENT_PATH,
    SHARED_MEMORY,
)

Command = dict[str, Any]
"""One process of a host: name, argv, env, engine_argv, env_file, files, container (docs/launch.md)."""

ENGINE_PORT = 290
"""Only root can listen below 1024: while the engine is down, nobody else can receive its key and its prompts. This
port and the 16 after it, for replicas, are unassigned, and below those that RPC and NFS choose at random (decision
0023)."""

DISTRIBUTED_TIMEOUT = 600
"""Seconds a rank waits for the others at least: a missing one ends the start before the engine's own half an hour."""


@dataclass(frozen=True)
class Profile:
    """One way to launch an engine."""

    engine: str
    runtimes: tuple[str, ...] = ("docker",)
    one_host: bool = True
    several_hosts: bool = True
    """Whether it can be launched on one host, and on several."""
    ranked: bool = False
    """Whether every host runs its rank of the server, so that the head must be rank 0. It alone answers clients."""
    on_ray: bool = False
    """Whether every host is a node of a Ray cluster; the server runs on the head, next to its Ray node."""
    replicated: bool = False
    """Whether several servers of a host are behind one address."""
    spread: bool = False
    """Whether several servers are behind one address that Ray Serve spreads over all hosts."""
    by_mpi: bool = False
    """Whether the head's MPI starts the ranks on several hosts, in containers that must be running before it."""

    @property
    def several_servers(self) -> bool:
        """Whether more than one server can be behind one address."""
        return self.replicated or self.spread

    def answers(self, rank: int) -> bool:
        """Whether the host of this rank answers clients."""
        return not self.ranked or rank == 0


PROFILES: dict[str, Profile] = {
    "vllm-ray": Profile("vllm", one_host=False, on_ray=True),
    "vllm-multinode": Profile("vllm", one_host=False, ranked=True),
    "vllm-single": Profile("vllm", runtimes=("docker", "venv"), several_hosts=False),
    "vllm-replicas": Profile("vllm", runtimes=("docker", "venv"), several_hosts=False, replicated=True),
    "ray-serve": Profile("vllm", one_host=False, on_ray=True, spread=True),
    "sglang": Profile("sglang", ranked=True),
    "tensorrt-llm": Profile("tensorrt-llm", ranked=True, by_mpi=True),
}


@dataclass(frozen=True)
class LaunchHost:
    """A host as the others reach it."""

    name: str
    rank: int = 0
    address: str = "127.0.0.1"
    interface: str | None = None
    environment: Mapping[str, Any] = field(default_factory=dict)
    """The environment of this host's ranks: its RDMA devices. With Ray its node gets it, without Ray its server."""


@dataclass(frozen=True)
class LaunchDescription:
    """Everything a launch depends on; the same for all hosts."""

    profile: str
    model_directory: str
    served_name: str
    hosts: tuple[LaunchHost, ...]
    head: str
    version: str | None = None
    """The engine's version; None is treated as a current one."""
    runtime: str = "docker"
    image: str | None = None
    venv: str = "/opt/venvs/vllm"
    tensor_parallel: int = 1
    pipeline_parallel: int = 1
    gpus_per_host: int = 1
    replicas: int = 1
    """Identical servers behind one address, each on GPUs of its own: on one host, or with ray-serve on all hosts."""
    listen: str = "127.0.0.1"
    port: int = ENGINE_PORT
    # The operator's settings; None leaves each to the engine.
    max_model_len: int | None = None
    gpu_memory_utilization: float | None = None
    kv_cache_dtype: str | None = None
    max_num_seqs: int | None = None
    max_num_batched_tokens: int | None = None
    prefix_caching: bool | None = None
    expert_parallel: bool | None = None
    tool_call_parser: str | None = None
    reasoning_parser: str | None = None
    speculative: Mapping[str, Any] | None = None
    """{method: mtp, tokens: N}; other methods are written as the engine's own flags."""
    flags: tuple[str, ...] = ()
    """Further arguments in the engine's own syntax."""
    engine_settings: Mapping[str, Any] = field(default_factory=dict)
    """Further keys of the engine's settings file, under its own names; only TensorRT-LLM has such a file."""
    environment: Mapping[str, Any] = field(default_factory=dict)
    """The environment of the server process."""
    rdma: bool = False
    distributed_timeout: int = DISTRIBUTED_TIMEOUT
    join_timeout: int = 180
    """Seconds within which every node must be in the Ray cluster with its GPUs."""
    start_timeout: int | None = None
    """Seconds the engine may take to be ready; None keeps the engine's own limit."""
    shared_memory: str = SHARED_MEMORY
    """Size limit of /dev/shm in a container."""
    container: Mapping[str, Any] = field(default_factory=dict)
    """Capabilities of a container beyond the common ones, and the only places it may write to (engine_container.py)."""
    compile_cache: Mapping[str, Any] = field(default_factory=dict)
    """Where the engine's compile results are kept on each host (compile_cache.py); empty: inside the container."""
    master_port: int = 29501
    env_file: str = SERVER_ENVIRONMENT_PATH
    """Root-only file that holds the API key."""
    ray_port: int = 6379
    ray_cpus: int = 1
    ray_object_store_bytes: int = 1073741824
    ray_worker_ports: str = "20000-24999"
    mpi_port: int = 2233

    @property
    def engine(self) -> str:
        """The engine of the profile."""
        return PROFILES[self.profile].engine

    @property
    def world(self) -> int:
        """Ranks of one replica."""
        return self.tensor_parallel * self.pipeline_parallel

    @property
    def ordered(self) -> list[LaunchHost]:
        """The hosts by rank."""
        return sorted(self.hosts, key=lambda host: host.rank)

    @property
    def head_host(self) -> LaunchHost:
        """The host that answers clients."""
        return self.host(self.head)

    def host(self, name: str) -> LaunchHost:
        """Return a host by its name."""
        for host in self.hosts:
            if host.name == name:
                return host
        known = ", ".join(host.name for host in self.hosts)
        raise ValueError(f"host {name!r} is not part of the launch: its hosts are {known}")

    def document(self) -> dict[str, Any]:
        """Return the description as plain data, including the engine's name."""
        return {"engine": self.engine, **dataclasses.asdict(self)}


SETTINGS = (
    "max_model_len",
    "gpu_memory_utilization",
    "kv_cache_dtype",
    "max_num_seqs",
    "max_num_batched_tokens",
    "prefix_caching",
    "expert_parallel",
    "reasoning_parser",
    "tool_call_parser",
    "speculative",
)
"""The operator's settings that are translated for the engine, in the order in which they are written."""


def ranked_hosts(hosts: Sequence[Mapping[str, Any]], head: str) -> tuple[LaunchHost, ...]:
    """Return the hosts in the inventory's order with ranks: the head is 0, as every engine's rendezvous requires."""
    first = [host for host in hosts if host.get("name") == head]
    ordered = [*first, *(host for host in hosts if host.get("name") != head)]
    ranks = {str(host.get("name")): rank for rank, host in enumerate(ordered)}
    return tuple(LaunchHost(**{**host, "rank": ranks[str(host.get("name"))]}) for host in hosts)


def endpoint(address: str, port: int) -> str:
    """Return address and port as one word, with brackets around an IPv6 address."""
    return f"[{address}]:{port}" if ":" in address else f"{address}:{port}"
