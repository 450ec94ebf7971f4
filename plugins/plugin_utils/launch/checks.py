# SPDX-License-Identifier: Apache-2.0
"""Check a launch description as a whole, and report all problems at once."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ansible_collections.firstlight.cluster.plugins.module_utils.engine_container import is_pinned

from .description import PROFILES, SETTINGS, LaunchDescription
from .flags import flag_name
from .ray import worker_ports
from .ray_serve import ray_serve_problems
from .translations import KEY_FROM_FILE, OWN_FLAGS, SECRET_ENDINGS, SECRET_FLAGS, form_of, version_of, word_of
from .values import Problem, Problems, is_loopback, value_problems, wrong


def problems(description: LaunchDescription) -> list[Problem]:
    """Return all problems; the checks of the whole are skipped if single values are invalid."""
    found = [*value_problems(description)]
    if found:
        return found
    for check in _CHECKS:
        found += check(description)
    return found


def _hosts(description: LaunchDescription) -> Problems:
    names = [host.name for host in description.hosts]
    if description.head not in names:
        yield wrong("head", description.head, f"one of the hosts {', '.join(names)}")
    for what, values in (("name", names), ("address", [host.address for host in description.hosts])):
        for value in sorted({value for value in values if values.count(value) > 1}):
            yield Problem(
                "launch.hosts",
                f"{values.count(value)} hosts of the launch have the {what} {value}",
                "every host has its own",
                "correct the inventory",
            )
    profile = PROFILES[description.profile]
    if len(names) > 1 and not profile.several_hosts:
        yield Problem(
            "launch.hosts",
            f"profile {description.profile} has {len(names)} hosts",
            "it launches one host",
            "use one host, or profile vllm-multinode",
        )
    if not profile.ranked:
        return
    ranks = sorted(host.rank for host in description.hosts)
    if ranks != list(range(len(names))):
        yield Problem(
            "launch.ranks",
            f"the ranks of the hosts are {', '.join(map(str, ranks))}",
            "ranks are 0, 1, 2 ... without a gap, each once",
            f"give the {len(names)} hosts the ranks 0 to {len(names) - 1}",
        )
    elif description.head in names and description.head_host.rank != 0:
        yield Problem(
            "launch.ranks",
            f"the head {description.head} has rank {description.head_host.rank}",
            "ranks and clients connect to the head, which is rank 0 in every engine",
            f"give {description.head} rank 0",
        )


def _world(description: LaunchDescription) -> Problems:
    hosts, each, world = len(description.hosts), description.gpus_per_host, description.world
    if PROFILES[description.profile].replicated:
        yield from _replicas(description)
        return
    if PROFILES[description.profile].spread:
        yield from ray_serve_problems(description)
        return
    if description.replicas > 1:
        yield Problem(
            "launch.replicas",
            f"{description.replicas} replicas with profile {description.profile}",
            "only the profiles vllm-replicas and ray-serve put several servers behind one address",
            "leave replicas out, or use profile vllm-replicas or ray-serve",
        )
    if world > hosts * each or (hosts > 1 and world != hosts * each):
        yield Problem(
            "launch.world",
            f"tensor parallel {description.tensor_parallel} x pipeline parallel {description.pipeline_parallel} "
            f"makes {world} ranks on {hosts} x {each} GPUs",
            "each rank has a GPU of its own, and a launch uses all GPUs of every host",
            f"make the product {hosts * each}",
        )


def _replicas(description: LaunchDescription) -> Problems:
    number, world, each = description.replicas, description.world, description.gpus_per_host
    if number * world > each:
        fitting = max(1, each // world)
        yield Problem(
            "launch.world",
            f"{number} replicas of {world} ranks make {number * world} ranks on {each} GPUs",
            "each rank has a GPU of its own",
            f"use {fitting} replicas, or fewer ranks per replica",
        )
    if description.port + number > 65535:
        yield Problem(
            "launch.replicas",
            f"port is {description.port} with {number} replicas",
            "replicas listen on the ports after it, and 65535 is the last port",
            f"set port to {65535 - number} or less",
        )


def _runtime(description: LaunchDescription) -> Problems:
    runtimes = PROFILES[description.profile].runtimes
    if description.runtime not in runtimes:
        yield Problem(
            "launch.runtime",
            f"runtime {description.runtime} with profile {description.profile}",
            f"this profile runs in {' or '.join(runtimes)}",
            f"use {runtimes[0]}, or profile vllm-single",
        )
    if description.runtime == "docker" and not is_pinned(description.image or ""):
        yield Problem(
            "launch.image",
            f"image {description.image!r} is not pinned",
            "every node runs the same bytes",
            "write REPOSITORY@sha256:DIGEST",
        )
    for name in ("model_directory", "venv", "env_file"):
        path = getattr(description, name)
        if "," in path or not path.startswith("/"):
            yield Problem(
                "launch.path",
                f"{name} is {path!r}, which cannot be mounted" if name != "venv" else f"venv is {path!r}",
                "a path is absolute and has no comma",
                f"correct {name} (cannot mount {path!r})",
            )


def _ray(description: LaunchDescription) -> Problems:
    if not PROFILES[description.profile].on_ray:
        return
    try:
        worker_ports(description.ray_worker_ports)
    except ValueError as error:
        yield Problem("launch.value", str(error), "Ray's workers listen in a fixed range", "correct ray_worker_ports")


def _settings(description: LaunchDescription) -> Problems:
    for name in SETTINGS:
        value = getattr(description, name)
        if value is None:
            continue
        form = form_of(description.engine, name, description.version)
        if form.refuse and value is not False:
            yield Problem(
                "launch.setting",
                f"{name} is set for {description.engine} {description.version}",
                form.refuse,
                f"remove {name}, or choose a stack with a newer engine",
            )
        elif form.only is not None and word_of(form, value) not in form.only:
            yield Problem(
                "launch.setting",
                f"{name} is {value!r}",
                f"{description.engine} accepts {', '.join(sorted(form.only))}",
                f"choose one of them for {name}",
            )
    numbers = version_of(description.version)
    if description.profile == "vllm-multinode" and numbers is not None and numbers < (0, 11, 1):
        yield Problem(
            "launch.version",
            f"profile vllm-multinode with vLLM {description.version}",
            "vLLM has --nnodes and --node-rank since 0.11.1",
            "choose a stack with a newer vLLM, or profile vllm-ray",
        )


def _flags(description: LaunchDescription) -> Problems:
    own = OWN_FLAGS[description.engine]
    written = {
        name: setting
        for setting in SETTINGS
        if getattr(description, setting) is not None
        for name in _names(form_of(description.engine, setting, description.version), getattr(description, setting))
    }
    for name in sorted({name for word in description.flags if (name := flag_name(word))}):
        if name in SECRET_FLAGS:
            yield Problem(
                "launch.secret",
                f"flags has {name}",
                "a command line is readable by every user of the host",
                f"remove it; the API key is read from {description.env_file}",
            )
        elif name in own:
            yield Problem("launch.flags", f"flags has {name}", "the launch writes it from its description", "remove it")
        elif name in written:
            yield Problem(
                "launch.flags",
                f"flags has {name}",
                f"{written[name]} writes it too, and the engine would use only the last",
                f"keep only one of {name} and {written[name]}",
            )


def _names(form: Any, value: Any) -> list[str]:
    words = form.arguments(word_of(form, value)) if form.arguments else []
    return [name for word in words if (name := flag_name(word))]


def _secrets(description: LaunchDescription) -> Problems:
    for values in (description.environment, *(host.environment for host in description.hosts)):
        for name in sorted(values):
            if name.upper().endswith(SECRET_ENDINGS):
                yield Problem(
                    "launch.secret",
                    f"the environment has {name}",
                    "it would be in a unit file that every user of the host can read",
                    "remove it; weights are fetched before the launch, keys and tokens are kept in root-only files",
                )


def _engine(description: LaunchDescription) -> Problems:
    """Check what only some engines require."""
    if description.engine not in KEY_FROM_FILE and not is_loopback(description.listen):
        yield Problem(
            "launch.listen",
            f"{description.engine} would listen on {description.listen}",
            "it reads no API key from a file, so anyone who reaches the port could use it",
            "set listen to 127.0.0.1 and open the endpoint with a proxy that requires the key",
        )
    name = description.served_name
    if description.engine == "tensorrt-llm" and ("/" in name or "," in name or name.startswith(".")):
        yield Problem(
            "launch.setting",
            f"served_name is {name!r}",
            "TensorRT-LLM names a model after the last part of its directory",
            f"set served_name to {name.rpartition('/')[2].replace(',', '-').strip('.') or 'a plain name'}",
        )
    if description.engine == "tensorrt-llm" and len(description.hosts) > 1:
        first = description.hosts[0]
        for host in description.hosts[1:]:
            if (host.interface, dict(host.environment)) == (first.interface, dict(first.environment)):
                continue
            yield Problem(
                "launch.hosts",
                f"{host.name} and {first.name} differ in port ({host.interface}, {first.interface}) or environment",
                "MPI gives every rank the same environment",
                "use the same port and the same environment on every host",
            )


_CHECKS: tuple[Callable[[LaunchDescription], Problems], ...] = (
    _hosts,
    _world,
    _runtime,
    _ray,
    _settings,
    _flags,
    _secrets,
    _engine,
)
