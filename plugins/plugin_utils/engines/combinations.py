# SPDX-License-Identifier: Apache-2.0
"""Refuse valid vLLM flags that exclude each other: its parser accepts them, and the engine ends minutes later."""

from __future__ import annotations

from collections.abc import Mapping

from ansible_collections.firstlight.cluster.plugins.plugin_utils.engines.written import Written
from ansible_collections.firstlight.cluster.plugins.plugin_utils.findings import PlanErrors

ERRORS = {
    "flags.combination": "Flags that are each valid may exclude each other. The engine's parser accepts them; the "
    "engine exits at startup, or silently ignores one of them.",
}

ENGINE = "vllm"
"""The engine these rules are for: vllm/config/ and vllm/entrypoints/openai/ at a014e35 (2026-08-22)."""
_NO_GRAPHS = ("none", "0")
_WITH_MODEL = ("draft_model", "eagle", "eagle3", "medusa")
_BLOCK = 16
"""Tokens that CUDA attention kernels take at a time; a block is a multiple of them (v1/attention/backends/)."""


def check_combinations(flags: Written, errors: PlanErrors) -> None:
    """Refuse what the engine itself would refuse later. `flags` are those of a whole command line."""

    def refuse(found: str, rule: str, remedy: str) -> None:
        errors.add("flags.combination", found, rule, remedy)

    batched, sequences, longest = (
        flags.size(one) for one in ("--max-num-batched-tokens", "--max-num-seqs", "--max-model-len")
    )
    if batched is not None and sequences is not None and batched < sequences:
        refuse(
            f"max_num_batched_tokens is {batched}, max_num_seqs is {sequences}",
            "a step has at least one token for each running request, and vLLM exits otherwise",
            f"set max_num_seqs to {batched} or less, or max_num_batched_tokens to {sequences} or more",
        )
    unchunked = any(use.name == "--no-enable-chunked-prefill" for use in flags.uses)
    if unchunked and batched is not None and longest is not None and batched < longest:
        refuse(
            f"--no-enable-chunked-prefill with max_num_batched_tokens {batched} and max_model_len {longest}",
            "without chunked prefill a prompt of full length is one step, and vLLM exits if it does not fit into one",
            f"remove --no-enable-chunked-prefill, or set max_num_batched_tokens to {longest} or more",
        )
    if flags.has("--enable-auto-tool-choice") and not flags.text("--tool-call-parser"):
        refuse(
            "--enable-auto-tool-choice without a tool parser",
            "vLLM exits at startup: the model's calls must be read by a parser of its family",
            "set firstlight_serving.tool_call_parser, which writes both flags",
        )
    _check_graphs(flags, errors)
    _check_draft(flags, errors)
    block = flags.size("--block-size")
    if block is not None and block > 0 and block % _BLOCK:
        refuse(
            f"--block-size is {block}",
            f"on CUDA a block of the cache is a multiple of {_BLOCK} tokens",
            f"set --block-size to {max(1, round(block / _BLOCK)) * _BLOCK}, or leave it out",
        )


def _check_graphs(flags: Written, errors: PlanErrors) -> None:
    mode = (flags.document("--compilation-config") or {}).get("cudagraph_mode")
    sizes = flags.has("--cudagraph-capture-sizes") or flags.has("--max-cudagraph-capture-size")
    if flags.has("--enforce-eager") and (sizes or (mode is not None and str(mode).lower() not in _NO_GRAPHS)):
        errors.add(
            "flags.combination",
            "--enforce-eager together with settings of CUDA graphs",
            "--enforce-eager captures no graphs, so the others have no effect",
            "remove --enforce-eager for speed, or remove the settings of CUDA graphs",
        )


def _check_draft(flags: Written, errors: PlanErrors) -> None:
    document = flags.document("--speculative-config")
    if document is None or document.get("model") or document.get("method") not in _WITH_MODEL:
        return
    errors.add(
        "flags.combination",
        f"--speculative-config has the method {document['method']} and no model",
        "this method drafts with a second model, which must be named",
        "add model to --speculative-config, the path of its files on the hosts, or leave speculation out",
    )


def check_devices(environment: Mapping[str, str], ranks: int, errors: PlanErrors) -> None:
    """Refuse CUDA_VISIBLE_DEVICES that leaves a host fewer GPUs than it has ranks."""
    text = environment.get("CUDA_VISIBLE_DEVICES")
    if text is None:
        return
    seen = len([one for one in str(text).split(",") if one.strip() not in ("", "-1")])
    if seen < ranks:
        errors.add(
            "flags.combination",
            f"CUDA_VISIBLE_DEVICES shows {seen} GPUs to {ranks} ranks",
            "every rank of a host needs a GPU of its own",
            "remove CUDA_VISIBLE_DEVICES, or list as many GPUs as the host has ranks",
        )
