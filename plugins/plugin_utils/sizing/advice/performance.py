# SPDX-License-Identifier: Apache-2.0
"""Model how long an engine's step takes on given hardware (docs/advice.md explains the arithmetic and its limits).

A step reads every weight it uses and computes with all its tokens, reads the KV cache of the requests that decode,
all-reduces the partial results of the group, and pays for the kernels themselves. One set of constants serves every
case.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from ansible_collections.firstlight.cluster.plugins.plugin_utils.sizing.advice.all_reduce import (
    all_reduce_seconds,
    group_all_reduce_seconds,
    positive,
)

__all__ = [
    "Decode",
    "Draft",
    "Experts",
    "Group",
    "ModelLoad",
    "Prefill",
    "Serving",
    "Speculation",
    "Step",
    "all_reduce_seconds",
    "decode",
    "message_bytes",
    "missing_figures",
    "prefill",
    "serve",
]

ALL_REDUCES_PER_LAYER = 2
"""One after the attention's output projection, one after the feed-forward's down projection."""

# Constants marked "measured" were fitted to tests/fixtures/performance/h200-vllm-0.26.0.json, all models
# together; docs/advice.md shows the error for each model when it is left out of the fit.

MEMORY_EFFICIENCY = 0.83
"""Share of the nominal memory bandwidth that decode kernels reach, for weights and for the KV cache; measured.

Hardware may have its own in the catalog (`memory_efficiency`).
"""

COMPUTE_EFFICIENCY = 0.7
"""Share of the dense peak rate that matrix products reach, bf16 and FP8 alike; measured.

Products of 8192 x 8192 alone reach 0.75 and 0.72 on that GPU (catalog/hardware/h200-sxm-1.yml).
"""

EXPERTS_EFFICIENCY = {"bf16": 0.49, "fp8": 0.32}
"""The same for the fused kernels of routed experts, which gather their tokens; measured."""

ATTENTION_EFFICIENCY = 0.4
"""The same for the attention among the tokens of a prompt, which is computed in bf16; measured."""

OVERLAP = 2.5
"""How well reading weights and computing with them overlap: the exponent of a smooth maximum of both; measured."""

KERNEL_SECONDS_PER_LAYER = 24e-6
"""Start and tail of a layer's kernels inside a CUDA graph; measured."""

CAST_SECONDS_PER_LAYER = 8e-6
"""Added by FP8 for casting activations; measured. Routed experts cast twice."""

EXPERTS_SECONDS_PER_LAYER = 24e-6
"""Added by a layer of routed experts: routing, sorting and summing up; measured."""

LAUNCH_SECONDS_PER_LAYER = 800e-6
"""CPU time to launch a layer of a step that is too large for a CUDA graph; measured."""

EXPERTS_LAUNCH_SECONDS_PER_LAYER = 400e-6
"""Added to the launch time by routed experts; measured."""

GRAPH_TOKENS = 512
"""Tokens of the largest step that vLLM replays from a CUDA graph."""

STREAM_PASSES, FEED_PASSES, ROUTED_PASSES = 15, 4, 2
"""How often a token's vectors go through memory in a layer, outside of matrix products: the hidden one (norms, sums,
casts), that of the feed-forward, and the hidden one of each routed expert; measured on large prefills."""

SAMPLER_PASSES = 15
"""How often a token's float32 logits go through memory until the next token is sampled; measured."""

STEP_SECONDS = 0.44e-3
"""Scheduling of a step, as far as the GPU waits for it; measured."""

FRONT_SECONDS = 5e-3
"""HTTP, and the way into the engine and back; measured."""

REQUEST_SECONDS, TOKENISE_SECONDS = 0.6e-3, 2e-6
"""Front-end time for a request and for each token of its prompt, one request after the other; measured."""

PREFILL_CHUNK = 8192
"""Tokens an engine takes at once: vLLM's default --max-num-batched-tokens of a server on a large GPU."""

ACCEPTANCE = 0.8
"""Share of drafted tokens that are accepted, each given that the one before it was.

With MTP on GSM8K vLLM counted 0.83 for one token and 4.5 tokens a step of eight, which is 0.81
(github.com/vllm-project/vllm/pull/48892, 2026-08-03); DeepSeek V3's report has 0.85 to 0.90 for one
(arXiv:2412.19437, 5.4.3), its MTP 3.2 tokens a step of seven, which is 0.7 (model card nebius/MTP-DeepSeek-V3-0324).
Random prompts have much less.
"""


@dataclass(frozen=True)
class Experts:
    """The routed experts of a mixture: a token uses `per_token` of `count` in each layer; `bytes` is all of them."""

    count: int
    per_token: int
    bytes: float
    parameters: float = 0
    """Parameters of the experts that a token uses, in all layers."""
    alike: bool = False
    """Whether all tokens choose the same experts, as they do where dummy weights make all of them equal."""

    def read(self, tokens: int) -> float:
        """Return the expected bytes of the distinct experts that `tokens` tokens use, each choosing independently."""
        unused = (1 - min(1.0, self.per_token / self.count)) ** (1 if self.alike else tokens)
        return self.bytes * (1 - unused)


@dataclass(frozen=True)
class Draft:
    """What drafts one more token: an MTP layer and the output projection."""

    bytes: float
    parameters: float


@dataclass(frozen=True)
class Speculation:
    """The tokens drafted per request and step, and the share of them that is accepted."""

    tokens: int
    acceptance: float = ACCEPTANCE

    @property
    def per_step(self) -> float:
        """Tokens that a step gives a request: its own, and the drafted ones up to the first that is rejected."""
        return sum(self.acceptance**one for one in range(self.tokens + 1))


@dataclass(frozen=True)
class ModelLoad:
    """The cost of running a whole model, before it is split over GPUs."""

    layers: int
    hidden: int
    weight_bytes: float
    active_weight_bytes: float
    """Read for one decoded token at batch 1: attention, shared parts, the chosen experts, the output projection."""
    active_parameters: float
    kv_bytes_per_token: float
    activation_bytes: int = 2
    experts: Experts | None = None
    precision: str = "bf16"
    """Of the matrix products, `bf16` or `fp8`; 4-bit weights and the output projection are computed in bf16."""
    kv_shards: int | None = None
    """Into how many parts the KV cache can be split (KV heads; 1 for a latent cache); None: over any number of GPUs."""
    state_bytes_per_sequence: float = 0
    """State of linear attention: read and written once per token, whatever the context."""
    attention_layers: int | None = None
    """Layers whose attention grows with the context; None: all."""
    attention: int | None = None
    """Width of all heads together; None: the hidden size."""
    feed: int = 0
    """Width of the feed-forward that a token goes through, all its experts together."""
    vocabulary: int = 0
    window: int = 0
    """Tokens that layers with a sliding window attend to ..."""
    window_bytes_per_token: float = 0
    """... and the bytes that those layers together cache for one of them."""
    draft: Draft | None = None

    def weights_read(self, tokens: int) -> float:
        """Return the bytes of weights that a step over `tokens` tokens reads."""
        if self.experts is None:
            return self.active_weight_bytes
        fixed = self.active_weight_bytes - self.experts.read(1)
        return min(fixed + self.experts.read(tokens), max(self.weight_bytes, self.active_weight_bytes))

    def kv_read(self, batch: int, context: float, tensor_parallel: int) -> float:
        """Return the bytes of KV cache and state that one GPU of a group reads in a step."""
        shards = min(tensor_parallel, self.kv_shards or tensor_parallel)
        cached = context * self.kv_bytes_per_token + min(context, self.window) * self.window_bytes_per_token
        return batch * (cached / shards + 2 * self.state_bytes_per_sequence / tensor_parallel)


@dataclass(frozen=True)
class Step:
    """Where the time of a step goes. Reading weights and computing overlap, so the parts exceed the total."""

    seconds: float
    memory_seconds: float
    """Reading weights and KV cache."""
    compute_seconds: float
    """Matrix products, and the attention among the tokens of prompts."""
    communication_seconds: float
    overhead_seconds: float
    """Kernels, their launches, scheduling, sampling, and passes over activations."""
    nominal_seconds: float
    """Roofline: at the nominal bandwidth or rate, without any overhead."""

    @property
    def bound_by(self) -> str:
        parts = {
            "memory": self.memory_seconds,
            "compute": self.compute_seconds,
            "communication": self.communication_seconds,
            "overhead": self.overhead_seconds,
        }
        return max(parts, key=parts.__getitem__)


class Group:
    """GPUs that run a model together, and the cost of a step on them."""

    def __init__(
        self,
        load: ModelLoad,
        hardware: Mapping[str, Any],
        *,
        tensor_parallel: int,
        hosts: int = 1,
        rails: int | None = None,
        rdma: bool | None = None,
        speculation: Speculation | None = None,
    ) -> None:
        self.load, self.hardware, self.ranks, self.speculation = load, hardware, tensor_parallel, speculation
        self._place: dict[str, Any] = {"ranks": tensor_parallel, "hosts": hosts, "rails": rails, "rdma": rdma}
        self._bandwidth = hardware["memory_bandwidth_gb_s"] * 1e9
        self._efficiency = positive(hardware.get("memory_efficiency")) or MEMORY_EFFICIENCY
        self._bf16 = float(hardware["tflops"]["bf16"]) * 1e12
        self._rate, self._precision = self._bf16, "bf16"
        fp8 = positive(hardware["tflops"].get("fp8")) if hardware.get("fp8", True) else None
        if load.precision == "fp8" and fp8:  # without a rate for FP8 it is computed in bf16
            self._rate, self._precision = fp8 * 1e12, "fp8"
        self._head = load.vocabulary * load.hidden
        self._routed = load.experts.parameters if load.experts else 0.0
        self._plain = load.active_parameters - self._head - self._routed
        casts = (0 if load.precision != "fp8" else 2 if load.experts else 1) * CAST_SECONDS_PER_LAYER
        self._kernels = KERNEL_SECONDS_PER_LAYER + casts + (EXPERTS_SECONDS_PER_LAYER if load.experts else 0)
        self._launch = LAUNCH_SECONDS_PER_LAYER + (EXPERTS_LAUNCH_SECONDS_PER_LAYER if load.experts else 0)
        per_token = load.experts.per_token if load.experts else 0
        passes = (STREAM_PASSES + ROUTED_PASSES * per_token) * load.hidden + FEED_PASSES * load.feed / tensor_parallel
        self._passes = load.layers * load.activation_bytes * passes / self._bandwidth / self._efficiency
        self._sampling = SAMPLER_PASSES * 4 * load.vocabulary / self._bandwidth / self._efficiency
        self._all_reduces: dict[int, float] = {}

    @property
    def tokens_per_step(self) -> float:
        """Tokens that a step gives to each decoding request."""
        return self.speculation.per_step if self.speculation else 1.0

    def step(self, decoding: int, context: float = 0, *, prompt: int = 0, pairs: float = 0, first: int = 0) -> Step:
        """Return a step in which `decoding` requests of `context` tokens each get a token, and prompts are prefilled.

        The step takes `prompt` tokens of prompts in all, with `pairs` pairs of tokens that attend to each other;
        `first` of the prompts end and give their first token.
        """
        load, ranks, drafted = self.load, self.ranks, self.speculation.tokens if self.speculation else 0
        tokens, sampled = decoding * (1 + drafted) + prompt, decoding * (1 + drafted) + first
        plain = 2 * self._plain * tokens / self._rate
        routed = 2 * self._routed * tokens / self._rate
        head = 2 * self._head * sampled / self._bf16
        compute = ((plain + head) / COMPUTE_EFFICIENCY + routed / EXPERTS_EFFICIENCY[self._precision]) / ranks
        weights = load.weights_read(tokens) / ranks / self._bandwidth
        cache = load.kv_read(decoding, context, ranks) / self._bandwidth
        attention = 4 * pairs * (load.attention or load.hidden) * (load.attention_layers or load.layers)
        among = attention / ranks / self._bf16 / ATTENTION_EFFICIENCY
        if drafted and load.draft:
            weights += drafted * load.draft.bytes / ranks / self._bandwidth
            compute += drafted * 2 * load.draft.parameters * decoding / ranks / self._rate / COMPUTE_EFFICIENCY
        reading = weights / self._efficiency
        products = (reading**OVERLAP + compute**OVERLAP) ** (1 / OVERLAP)
        overhead = load.layers * self._kernels + STEP_SECONDS + tokens * self._passes + sampled * self._sampling / ranks
        if drafted:
            overhead += drafted * (self._kernels + STEP_SECONDS)
        communication = self._communication(tokens)
        busy = products + cache / self._efficiency + overhead + communication
        launching = load.layers * self._launch + STEP_SECONDS if prompt and tokens > GRAPH_TOKENS else 0.0
        waiting = max(0.0, launching - busy)
        return Step(
            seconds=busy + waiting + among,
            memory_seconds=reading + cache / self._efficiency,
            compute_seconds=compute + among,
            communication_seconds=communication,
            overhead_seconds=overhead + waiting,
            nominal_seconds=max(weights + cache, (plain + routed + head) / ranks),
        )

    def _communication(self, tokens: int) -> float:
        if self.ranks <= 1:
            return 0.0
        found = self._all_reduces.get(tokens)
        if found is None:
            one = group_all_reduce_seconds(message_bytes(self.load, tokens), self.hardware, **self._place)
            found = self._all_reduces[tokens] = ALL_REDUCES_PER_LAYER * self.load.layers * one
        return found


@dataclass(frozen=True)
class Decode(Step):
    """One decode step of one group: a token for each request of the batch, more where tokens are drafted."""

    batch: int
    tokens_per_step: float = 1.0

    @property
    def tokens_per_s_per_stream(self) -> float:
        return self.tokens_per_step / self.seconds

    @property
    def tokens_per_s_total(self) -> float:
        return self.batch * self.tokens_per_s_per_stream

    @property
    def roofline_tokens_per_s(self) -> float:
        """Limit for the whole batch at the nominal bandwidth and rate, without any overhead."""
        return self.batch * self.tokens_per_step / self.nominal_seconds

    @property
    def communication_share(self) -> float:
        return self.communication_seconds / self.seconds


@dataclass(frozen=True)
class Prefill:
    """A prompt on an idle group."""

    seconds: float
    communication_seconds: float
    prompt: int

    @property
    def communication_share(self) -> float:
        return self.communication_seconds / self.seconds

    @property
    def ttft_seconds(self) -> float:
        """Time to the first token, including what precedes the GPU."""
        return FRONT_SECONDS + REQUEST_SECONDS + TOKENISE_SECONDS * self.prompt + self.seconds


@dataclass(frozen=True)
class Serving:
    """A group that decodes a full batch and prefills the prompts that replace the finished ones."""

    tokens_per_s: float
    tokens_per_s_per_stream: float
    decode: Decode

    @property
    def tpot_seconds(self) -> float:
        """Time per output token that a client sees."""
        return 1 / self.tokens_per_s_per_stream


def message_bytes(load: ModelLoad, tokens: int) -> float:
    """Return the size of one all-reduce of a step over `tokens` tokens (decode: the batch; prefill: the prompt)."""
    return tokens * load.hidden * load.activation_bytes


def missing_figures(hardware: Mapping[str, Any]) -> list[str]:
    """Return the figures that a hardware entry lacks for this model."""
    tflops = hardware.get("tflops")
    figures = {
        "memory_bandwidth_gb_s": hardware.get("memory_bandwidth_gb_s"),
        "tflops": tflops.get("bf16") if isinstance(tflops, Mapping) else None,
    }
    return [name for name, value in figures.items() if positive(value) is None]


def decode(load: ModelLoad, hardware: Mapping[str, Any], *, batch: int = 1, context: int = 0, **group: Any) -> Decode:
    """Return a step over `batch` requests of `context` tokens each; `group` is as Group takes it."""
    one = Group(load, hardware, **group)
    return Decode(**vars(one.step(batch, context)), batch=batch, tokens_per_step=one.tokens_per_step)


def prefill(load: ModelLoad, hardware: Mapping[str, Any], *, prompt: int, **group: Any) -> Prefill:
    """Return the prefill of a prompt on an idle group, in chunks of PREFILL_CHUNK; `group` is as Group takes it."""
    one = Group(load, hardware, **group)
    whole, rest = divmod(prompt, PREFILL_CHUNK)
    pairs = prompt**2 / 2
    last = one.step(0, prompt=rest or PREFILL_CHUNK, pairs=pairs, first=1)
    before = whole if rest else whole - 1
    chunk = one.step(0, prompt=PREFILL_CHUNK) if before else None
    seconds, communication = last.seconds, last.communication_seconds
    if chunk is not None:
        seconds += before * chunk.seconds
        communication += before * chunk.communication_seconds
    return Prefill(seconds, communication, prompt)


def serve(
    load: ModelLoad, hardware: Mapping[str, Any], *, batch: int, prompt: int, output: int, **group: Any
) -> Serving:
    """Return a group kept at `batch` requests of `prompt` and `output` tokens; `group` is as Group takes it.

    Prompts wait together, so they are prefilled in full chunks, in steps in which all others decode.
    """
    one = Group(load, hardware, **group)
    context = prompt + output // 2
    step = one.step(batch, context)
    packed = min(prompt * batch, PREFILL_CHUNK)
    chunks = prompt * batch / packed
    mixed = one.step(batch, context, prompt=packed, pairs=packed * prompt / 2, first=round(batch / chunks))
    steps = max(output / one.tokens_per_step, 1.0)
    seconds = chunks * mixed.seconds + max(0.0, steps - chunks) * step.seconds
    decoding = Decode(**vars(step), batch=batch, tokens_per_step=one.tokens_per_step)
    return Serving(batch * output / seconds, output / seconds, decoding)
