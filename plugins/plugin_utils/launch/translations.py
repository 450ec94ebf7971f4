# SPDX-License-Identifier: Apache-2.0
"""Translations of the operator's settings for each engine: tables, no decisions (docs/launch.md lists them)."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

Version = tuple[int, ...]


@dataclass(frozen=True)
class Form:
    """One way to express a setting, for versions from `since` up to, but not including, `before`."""

    arguments: Callable[[Any], list[str]] | None = None
    file: Callable[[Any], dict[str, Any]] | None = None
    words: Mapping[str, str] | None = None
    """The engine's own value for a value, where it differs."""
    only: frozenset[str] | None = None
    """All values the engine knows, where nothing else checks them."""
    refuse: str | None = None
    """Why this engine has no such setting."""
    since: Version = ()
    before: Version | None = None


def flag(name: str, *more: str, words: Mapping[str, str] | None = None, **span: Any) -> Form:
    """A flag with a value; `more` are words that must accompany it."""
    return Form(arguments=lambda value: [*more, name, text(value)], words=words, **span)


def switch(on: Sequence[str], off: Sequence[str], **span: Any) -> Form:
    """A setting that is on or off."""
    return Form(arguments=lambda value: list(on if value else off), **span)


def key(path: str, words: Mapping[str, str] | None = None, only: Sequence[str] | None = None) -> Form:
    """A key of the engine's settings file, with its parents: kv_cache_config.dtype."""

    def nested(value: Any) -> dict[str, Any]:
        for part in reversed(path.split(".")):
            value = {part: value}
        return dict(value)

    return Form(file=nested, words=words, only=None if only is None else frozenset(only))


def text(value: Any) -> str:
    """Format a value as a command line word."""
    return f"{value:g}" if isinstance(value, float) else str(value)


def _vllm_speculative(value: Mapping[str, Any]) -> list[str]:
    document = {"method": value["method"], "num_speculative_tokens": value["tokens"]}
    return ["--speculative-config", json.dumps(document, separators=(",", ":"))]


def _sglang_speculative(value: Mapping[str, Any]) -> list[str]:
    # One chain of drafts, no tree: SGLang counts the token of the model itself as one more draft.
    return [
        *("--speculative-algorithm", "NEXTN"),
        *("--speculative-num-steps", str(value["tokens"])),
        *("--speculative-eagle-topk", "1"),
        *("--speculative-num-draft-tokens", str(value["tokens"] + 1)),
    ]


def _tensorrt_speculative(value: Mapping[str, Any]) -> dict[str, Any]:
    return {"speculative_config": {"decoding_type": "MTP", "num_nextn_predict_layers": value["tokens"]}}


_SGLANG_TOOL_PARSERS = {
    "qwen3_xml": "qwen3_coder",
    "llama3_json": "llama3",
    "llama4_pythonic": "pythonic",
    "deepseek_v3": "deepseekv3",
    "deepseek_v31": "deepseekv31",
    "deepseek_v32": "deepseekv32",
    "openai": "gpt-oss",
    "minimax_m2": "minimax-m2",
}
_TENSORRT_TOOL_PARSERS = {"qwen3_xml": "qwen3_coder", "hermes": "qwen3"}
_SGLANG_REASONING = {"deepseek_r1": "deepseek-r1", "deepseek_v3": "deepseek-v3", "openai_gptoss": "gpt-oss"}
_TENSORRT_REASONING = {"deepseek_r1": "deepseek-r1"}

TRANSLATIONS: dict[str, dict[str, tuple[Form, ...]]] = {
    "vllm": {
        "max_model_len": (flag("--max-model-len"),),
        "gpu_memory_utilization": (flag("--gpu-memory-utilization"),),
        "kv_cache_dtype": (flag("--kv-cache-dtype"),),
        "max_num_seqs": (flag("--max-num-seqs"),),
        "max_num_batched_tokens": (flag("--max-num-batched-tokens"),),
        "prefix_caching": (
            switch(["--enable-prefix-caching"], ["--no-enable-prefix-caching"], since=(0, 7)),
            switch(["--enable-prefix-caching"], [], before=(0, 7)),
        ),
        "expert_parallel": (
            switch(["--enable-expert-parallel"], [], since=(0, 8)),
            Form(refuse="vLLM has --enable-expert-parallel since 0.8.0", before=(0, 8)),
        ),
        # The parser needed a switch of its own in its first releases, which later releases reject.
        "reasoning_parser": (
            flag("--reasoning-parser", since=(0, 10)),
            flag("--reasoning-parser", "--enable-reasoning", since=(0, 7), before=(0, 10)),
            Form(refuse="vLLM has reasoning parsers since 0.7", before=(0, 7)),
        ),
        # Without the switch the server starts and then refuses every request with tool_choice auto.
        "tool_call_parser": (flag("--tool-call-parser", "--enable-auto-tool-choice"),),
        "speculative": (
            Form(arguments=_vllm_speculative, since=(0, 9)),
            Form(
                refuse="this vLLM has no --speculative-config, which was added between 0.8.0 and 0.8.5", before=(0, 9)
            ),
        ),
    },
    "sglang": {
        "max_model_len": (flag("--context-length"),),
        "gpu_memory_utilization": (flag("--mem-fraction-static"),),
        "kv_cache_dtype": (flag("--kv-cache-dtype", words={"fp8": "fp8_e4m3"}),),
        "max_num_seqs": (flag("--max-running-requests"),),
        "max_num_batched_tokens": (flag("--chunked-prefill-size"),),
        "prefix_caching": (switch([], ["--disable-radix-cache"]),),
        "expert_parallel": (Form(refuse="experts are spread over GPUs by --ep-size, in firstlight_serving.flags"),),
        "reasoning_parser": (flag("--reasoning-parser", words=_SGLANG_REASONING),),
        "tool_call_parser": (flag("--tool-call-parser", words=_SGLANG_TOOL_PARSERS),),
        "speculative": (Form(arguments=_sglang_speculative),),
    },
    "tensorrt-llm": {
        "max_model_len": (key("max_seq_len"),),
        "gpu_memory_utilization": (key("kv_cache_config.free_gpu_memory_fraction"),),
        "kv_cache_dtype": (key("kv_cache_config.dtype", words={"fp8_e4m3": "fp8"}, only=("auto", "fp8", "nvfp4")),),
        "max_num_seqs": (key("max_batch_size"),),
        "max_num_batched_tokens": (key("max_num_tokens"),),
        "prefix_caching": (key("kv_cache_config.enable_block_reuse"),),
        "expert_parallel": (Form(refuse="experts are spread over GPUs by --ep_size, in firstlight_serving.flags"),),
        "reasoning_parser": (flag("--reasoning_parser", words=_TENSORRT_REASONING),),
        "tool_call_parser": (flag("--tool_parser", words=_TENSORRT_TOOL_PARSERS),),
        "speculative": (Form(file=_tensorrt_speculative),),
    },
}

OWN_FLAGS: dict[str, frozenset[str]] = {
    "vllm": frozenset(
        [
            "--api-key",
            "--cpu-distributed-timeout-seconds",
            "--distributed-executor-backend",
            "--distributed-timeout-seconds",
            "--headless",
            "--host",
            "--master-addr",
            "--master-port",
            "--model",
            "--nnodes",
            "--node-rank",
            "--pipeline-parallel-size",
            "--port",
            "--served-model-name",
            "--tensor-parallel-size",
            "-n",
            "-pp",
            "-r",
            "-tp",
        ]
    ),
    "sglang": frozenset(
        [
            "--api-key",
            "--dist-init-addr",
            "--dist-timeout",
            "--enable-metrics",
            "--host",
            "--model",
            "--model-path",
            "--nccl-init-addr",
            "--nnodes",
            "--node-rank",
            "--pipeline-parallel-size",
            "--port",
            "--pp-size",
            "--served-model-name",
            "--tensor-parallel-size",
            "--tp",
            "--tp-size",
        ]
    ),
    "tensorrt-llm": frozenset(
        [
            "--backend",
            "--config",
            "--extra-llm-api-options",
            "--gpus-per-node",
            "--host",
            "--pipeline-parallel-size",
            "--port",
            "--pp-size",
            "--served-model-name",
            "--tensor-parallel-size",
            "--tp-size",
        ]
    ),
}
"""Flags a launch writes from its description, by their names with dashes; an operator never writes them."""

MEDIA_FLAG = "--allowed-media-domains"
MEDIA_SINCE: dict[str, Version] = {"vllm": (0, 11), "sglang": (0, 5, 18)}
"""Engines that can restrict from where a request may have them fetch images and videos, and since which version."""
NO_MEDIA = "none.invalid"
"""No host has a name in .invalid (RFC 6761). An empty list would not restrict anything: vLLM,
multimodal/media/connector.py, and SGLang, srt/utils/common.py, only compare if the list is not empty."""

SECRET_FLAGS = frozenset({"--api-key", "--admin-api-key", "--hf-token", "--ssl-keyfile-password"})
SECRET_ENDINGS = ("_TOKEN", "_KEY", "_PASSWORD", "_SECRET")
"""Suffixes of variables that hold a secret; anybody can read one in a command line or unit file."""

KEY_FROM_FILE = frozenset({"vllm", "sglang"})
"""Engines that can get the API key from an environment file: vLLM itself, SGLang through a program."""


def version_of(text_: str | None) -> Version | None:
    """Parse a version up to its first part that is no number: 0.11.1rc2 is (0, 11); None is a current version."""
    if text_ is None:
        return None
    parts: list[int] = []
    for part in str(text_).split("."):
        if not part.isdecimal() or len(part) > 9:
            break
        parts.append(int(part))
    return tuple(parts) or None


def form_of(engine: str, setting: str, version: str | None) -> Form:
    """Return how this engine, in this version, expresses a setting."""
    numbers = version_of(version)
    forms = TRANSLATIONS[engine][setting]
    if numbers is None:
        return forms[0]
    for form in forms:
        if numbers >= form.since and (form.before is None or numbers < form.before):
            return form
    return Form(refuse=f"{engine} {version} has no such setting")


def word_of(form: Form, value: Any) -> Any:
    """Return the engine's own value for a value."""
    return (form.words or {}).get(value, value) if isinstance(value, str) else value
