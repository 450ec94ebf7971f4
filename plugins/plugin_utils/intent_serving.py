# SPDX-License-Identifier: Apache-2.0
"""What an intent says of serving: the server's place, its share of memory, and the engine's flags."""

from __future__ import annotations

import ipaddress
from collections.abc import Mapping, Sequence
from typing import Any

from ansible_collections.firstlight.cluster.plugins.module_utils.core.engine_flags import flag_name
from ansible_collections.firstlight.cluster.plugins.plugin_utils.intent_keys import read_mapping
from ansible_collections.firstlight.cluster.plugins.plugin_utils.refusals import Refusals

_SERVING_KEYS = (
    "tensor_parallel",
    "gpu_memory_utilization",
    "max_model_len",
    "port",
    "listen",
    "served_name",
    "start_timeout",
    "flags",
)
_PLANNED_FLAGS = {
    "--tensor-parallel-size": "firstlight_serving.tensor_parallel",
    "-tp": "firstlight_serving.tensor_parallel",
    "--gpu-memory-utilization": "firstlight_serving.gpu_memory_utilization",
    "--max-model-len": "firstlight_serving.max_model_len",
    "--host": "firstlight_serving.listen",
    "--port": "firstlight_serving.port",
    "--served-model-name": "firstlight_serving.served_name",
    "--model": "firstlight_model",
    "--distributed-executor-backend": "the number of hosts in the inventory",
    "--nnodes": "the number of hosts in the inventory",
    "-n": "the number of hosts in the inventory",
    "--node-rank": "the order of hosts in the inventory",
    "-r": "the order of hosts in the inventory",
    "--master-addr": "firstlight_fabric",
    "--master-port": "firstlight_fabric",
    "--headless": "the group head of the inventory",
    "--api-key": "the key file the role generates (a key never stands in a command line)",
}
"""Flags the plan or the role writes, and where their value comes from."""


def read_serving(
    intent: Mapping[str, Any],
    hardware: Mapping[str, Any] | None,
    model: Mapping[str, Any] | None,
    size: int,
    refusals: Refusals,
) -> Mapping[str, Any]:
    """How `size` hosts of this hardware serve the model."""
    serving = read_mapping(intent, "firstlight_serving", _SERVING_KEYS, refusals)
    flags = _flags(serving.get("flags"), refusals)
    total = hardware["gpus"] * size if hardware else None
    tensor_parallel = _whole(serving, "tensor_parallel", total, (1, 1024), refusals)
    if hardware and tensor_parallel != total:
        refusals.add(
            "serving.tensor_parallel",
            f"firstlight_serving.tensor_parallel is {tensor_parallel}",
            f"{size} x {hardware['name']} have {total} GPUs, and the model is sharded over all of them",
            f"set firstlight_serving.tensor_parallel to {total}, or list other hosts",
        )
    max_model_len = _whole(serving, "max_model_len", None, (1, 16_777_216), refusals)
    context = (model or {}).get("context")
    if max_model_len and context and max_model_len > context:
        refusals.add(
            "serving.max_model_len",
            f"firstlight_serving.max_model_len is {max_model_len}",
            f"{(model or {})['name']} was made for {context} tokens",
            f"set firstlight_serving.max_model_len to {context} or less",
        )
    utilisation = _utilisation(serving, hardware, flags, refusals)
    listen = serving.get("listen", "127.0.0.1")
    if not _is_address(listen):
        refusals.add(
            "serving.listen",
            f"firstlight_serving.listen is {listen!r}",
            "the server listens on an IP address of the head",
            "write 127.0.0.1 (only from the head itself), or the head's address to open it",
        )
    planned: list[str] = []
    if utilisation is not None:
        planned += ["--gpu-memory-utilization", f"{utilisation:g}"]
    if max_model_len:
        planned += ["--max-model-len", str(max_model_len)]
    return {
        "tensor_parallel": tensor_parallel,
        "port": _whole(serving, "port", 8000, (1, 65535), refusals),
        "listen": listen,
        "start_timeout": _whole(serving, "start_timeout", None, (30, 86_400), refusals),
        "served_name": serving.get("served_name") or (model or {}).get("name"),
        "flags": [*planned, *flags],
    }


def _whole(
    serving: Mapping[str, Any], key: str, default: int | None, span: tuple[int, int], refusals: Refusals
) -> int | None:
    value = serving.get(key, default)
    if value is None:
        return None
    least, most = span
    if isinstance(value, bool) or not isinstance(value, int) or not least <= value <= most:
        refusals.add(
            f"serving.{key}",
            f"firstlight_serving.{key} is {value!r}",
            f"{key} is a whole number from {least} to {most}",
            f"correct firstlight_serving.{key}, without quotes",
        )
        return default
    return value


def _is_address(text: object) -> bool:
    try:
        ipaddress.ip_address(str(text))
    except ValueError:
        return False
    return True


def _utilisation(
    serving: Mapping[str, Any], hardware: Mapping[str, Any] | None, flags: Sequence[str], refusals: Refusals
) -> float | None:
    """The share of memory to take; None leaves it to the engine.

    On unified memory the engine's own default would take what the operating system needs, so there the
    ceiling is the default, unless the cache has a size of its own.
    """
    value = serving.get("gpu_memory_utilization")
    if value is None:
        sized = any(flag_name(flag) == "--kv-cache-memory-bytes" for flag in flags)
        return hardware["utilisation_ceiling"] if hardware and hardware["unified"] and not sized else None
    if isinstance(value, bool) or not isinstance(value, (int, float)) or not 0 < value <= 1:
        refusals.add(
            "serving.utilisation",
            f"firstlight_serving.gpu_memory_utilization is {value!r}",
            "the utilisation is a number above 0 and at most 1",
            "write it as 0.85, without quotes",
        )
        return None
    if hardware and hardware["unified"] and value > hardware["utilisation_ceiling"]:
        refusals.add(
            "serving.utilisation",
            f"firstlight_serving.gpu_memory_utilization is {value:g}",
            f"{hardware['name']} shares its memory with the operating system, which is killed or hangs above "
            f"{hardware['utilisation_ceiling']:g}",
            f"set firstlight_serving.gpu_memory_utilization to {hardware['utilisation_ceiling']:g} or less",
        )
    return float(value)


def _flags(flags: object, refusals: Refusals) -> list[str]:
    if flags is None:
        return []
    if not isinstance(flags, (list, tuple)) or not all(isinstance(flag, (str, int, float)) for flag in flags):
        refusals.add(
            "serving.flags",
            f"firstlight_serving.flags is {flags!r}",
            "flags is a list of command line words",
            "write one list item for each word: [--max-num-seqs, 4]",
        )
        return []
    written = [str(flag) for flag in flags]
    for flag in written:
        if flag != flag.strip() or (flag.startswith("--") and " " in flag.split("=", 1)[0]):
            refusals.add(
                "serving.flags",
                f"firstlight_serving.flags has the item {flag!r}",
                "each word of the command line is a list item of its own",
                "split it into the flag and its value",
            )
    names = [name for flag in written if (name := flag_name(flag))]
    for name in sorted(set(names)):
        if name in _PLANNED_FLAGS:
            refusals.add(
                "serving.flags",
                f"firstlight_serving.flags has {name}",
                f"the plan writes it, from {_PLANNED_FLAGS[name]}",
                f"take {name} out of firstlight_serving.flags",
            )
        elif names.count(name) > 1:
            refusals.add(
                "serving.flags",
                f"firstlight_serving.flags has {name} {names.count(name)} times",
                "the engine would use only the last one",
                f"leave one {name}",
            )
    return written
