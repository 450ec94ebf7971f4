# SPDX-License-Identifier: Apache-2.0
"""The flags an operator adds to the engine's command line; the engine's schema decides whether they exist."""

from __future__ import annotations

from ansible_collections.firstlight.cluster.plugins.plugin_utils.findings import PlanErrors
from ansible_collections.firstlight.cluster.plugins.plugin_utils.launch.flags import flag_name

ERRORS = {
    "serving.flags": "A flag that is repeated, joined with its value, or also set by the plan misleads its reader.",
}

_SECRET_PARTS = ("key", "token", "password", "secret")

_REPLICAS = "tensor_parallel, pipeline_parallel and, on one host, profile vllm-replicas with its replicas"

PLANNED_FLAGS = {
    "--tensor-parallel-size": "firstlight_serving.tensor_parallel",
    "-tp": "firstlight_serving.tensor_parallel",
    "--tp-size": "firstlight_serving.tensor_parallel",
    "--tp_size": "firstlight_serving.tensor_parallel",
    "--pipeline-parallel-size": "firstlight_serving.pipeline_parallel",
    "-pp": "firstlight_serving.pipeline_parallel",
    "--pp-size": "firstlight_serving.pipeline_parallel",
    "--tensor_parallel_size": "firstlight_serving.tensor_parallel",
    "--pipeline_parallel_size": "firstlight_serving.pipeline_parallel",
    "--data-parallel-size": _REPLICAS,
    "--data-parallel-size-local": _REPLICAS,
    "--dp-size": _REPLICAS,
    "--prefill-context-parallel-size": _REPLICAS,
    "--attn-cp-size": _REPLICAS,
    "--context_parallel_size": _REPLICAS,
    "--gpu-memory-utilization": "firstlight_serving.gpu_memory_utilization",
    "--mem-fraction-static": "firstlight_serving.gpu_memory_utilization",
    "--max-model-len": "firstlight_serving.max_model_len",
    "--context-length": "firstlight_serving.max_model_len",
    "--host": "firstlight_serving.listen",
    "--port": "firstlight_serving.port",
    "--served-model-name": "firstlight_serving.served_name",
    "--model": "firstlight_model",
    "--model-path": "firstlight_model",
    "--distributed-executor-backend": "the number of hosts in the inventory",
    "--nnodes": "the number of hosts in the inventory",
    "-n": "the number of hosts in the inventory",
    "--node-rank": "the order of hosts in the inventory",
    "-r": "the order of hosts in the inventory",
    "--master-addr": "firstlight_fabric",
    "--master-port": "firstlight_fabric",
    "--dist-init-addr": "firstlight_fabric",
    "--distributed-timeout-seconds": "the launch, so that a missing rank fails a start within minutes",
    "--cpu-distributed-timeout-seconds": "the launch, so that a missing rank fails a start within minutes",
    "--headless": "the group head of the inventory",
    "--api-key": "the key file the role generates (a key is never put on a command line)",
}
"""Flags that the plan or the role writes, and where their value comes from."""


def read_flags(flags: object, errors: PlanErrors) -> list[str]:
    """Return the flags as words; empty if they are refused as a whole."""
    if flags is None:
        return []
    if not isinstance(flags, (list, tuple)) or not all(_is_word(flag) for flag in flags):
        errors.add(
            "serving.flags",
            f"firstlight_serving.flags is {_shown(flags)}",
            "flags is a list of command line arguments",
            "write one list item per argument: [--max-num-seqs, 4]",
        )
        return []
    written = [str(flag) for flag in flags]
    for flag in list(written):
        if flag != flag.strip() or (flag.startswith("--") and " " in flag.split("=", 1)[0]):
            written.remove(flag)
            errors.add(
                "serving.flags",
                f"firstlight_serving.flags has the item {_shown(flag)}",
                "each argument is a list item of its own",
                "split it into the flag and its value",
            )
    names = [name for flag in written if (name := flag_name(flag))]
    for name in sorted(set(names)):
        if name in PLANNED_FLAGS:
            refuse_planned(name, PLANNED_FLAGS[name], errors)
        elif names.count(name) > 1:
            errors.add(
                "serving.flags",
                f"firstlight_serving.flags has {name} {names.count(name)} times",
                "the engine would use only the last one",
                f"keep one {name}",
            )
    return written


def refuse_planned(name: str, origin: str, errors: PlanErrors) -> None:
    """Refuse a flag whose value the plan decides."""
    errors.add(
        "serving.flags",
        f"firstlight_serving.flags has {name}",
        f"the plan writes it, from {origin}",
        f"take {name} out of firstlight_serving.flags",
    )


def _shown(flag: object) -> str:
    """Return a word for a message; a possible secret is not repeated."""
    text = str(flag)
    name = text.replace("=", " ").split(maxsplit=1)[0] if text.strip() else text
    return repr(f"{name} ..." if any(part in text.lower() for part in _SECRET_PARTS) else flag)


def _is_word(flag: object) -> bool:
    return isinstance(flag, (str, int, float)) and not isinstance(flag, bool) and "\n" not in str(flag)
