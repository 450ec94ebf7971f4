# SPDX-License-Identifier: Apache-2.0
"""Choose the host that sends a benchmark's requests, and build the command line of the engine's benchmark client."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from ansible_collections.firstlight.cluster.plugins.module_utils.benchmark.output import PERCENTILES, RESULT
from ansible_collections.firstlight.cluster.plugins.plugin_utils.bench.points import Point
from ansible_collections.firstlight.cluster.plugins.plugin_utils.bench.workloads import RANDOM, Workload, WorkloadError

ENDPOINT, SERVER = "endpoint", "server"
PROMPTS = "prompts.json"
_TARGETS = {"ttft_ms": "ttft", "tpot_ms": "tpot", "e2e_ms": "e2el"}


@dataclass(frozen=True)
class Client:
    """The host that sends requests, and where to."""

    host: str
    through: str
    on_head: bool
    url: str
    """The base URL, without /v1."""

    def shown(self) -> dict[str, Any]:
        """Return the client's part of a result document."""
        return {"host": self.host, "through": self.through, "on_head": self.on_head}


@dataclass(frozen=True)
class Served:
    """What the benchmark client needs to know about the server."""

    engine: str
    model: str
    """The served model name."""
    tokenizer: str
    """Where the client finds the model's tokenizer."""
    program: str
    """The engine's command, or the Python interpreter with the engine's package."""


def choose_client(
    head: str,
    hosts: Sequence[str],
    server_url: str,
    endpoint_url: str | None,
    reached: Mapping[str, str],
    through: str = "",
) -> Client:
    """Choose a host other than the head, through the endpoint, if there is one; else the head, at its server.

    `reached` maps each host that was asked to why it cannot reach the endpoint, empty if it can. `through` is the
    operator's choice. Raises WorkloadError if that is not possible.
    """
    if through == SERVER or not (endpoint_url or through):
        return Client(head, SERVER, True, server_url)
    if not endpoint_url:
        raise WorkloadError(
            "this cluster has no endpoint to measure through: set firstlight_endpoint (docs/endpoint.md), or measure "
            "--through server"
        )
    # Prefer the last host: the first ones usually get other work too.
    order = [*(name for name in reversed(hosts) if name != head), head]
    able = [name for name in order if reached.get(name) == ""]
    if able and (able[0] != head or through == ENDPOINT):
        return Client(able[0], ENDPOINT, able[0] == head, endpoint_url)
    if through == ENDPOINT:
        told = "; ".join(f"{name}: {why}" for name, why in reached.items() if why) or "no host was queried"
        raise WorkloadError(f"no host reaches the endpoint {endpoint_url} ({told}): measure --through server")
    return Client(head, SERVER, True, server_url)


def client_argv(served: Served, client: Client, workload: Workload, point: Point, seed: int, place: str) -> list[str]:
    """Return the command line of the engine's own client; `place` is the directory of its prompts and results."""
    if served.engine == "vllm":
        return _vllm(served, client, workload, point, seed, place)
    if served.engine == "sglang":
        return _sglang(served, client, workload, point, seed, place)
    raise WorkloadError(f"no benchmark client is known for engine {served.engine}: measure another way")


def _vllm(served: Served, client: Client, workload: Workload, point: Point, seed: int, place: str) -> list[str]:
    """Return the arguments of `vllm bench serve`, with flags that are the same in 0.26 to 0.32."""
    is_random = workload.prompts == RANDOM
    targets = [f"{_TARGETS[name]}:{value:g}" for name, value in (workload.targets or {}).items() if value is not None]
    return [
        served.program,
        "bench",
        "serve",
        # Completions keep the length of a token prompt; for conversations the server applies the chat template.
        f"--backend={'openai' if is_random else 'openai-chat'}",
        f"--base-url={client.url}",
        f"--endpoint={'/v1/completions' if is_random else '/v1/chat/completions'}",
        f"--model={served.model}",
        f"--served-model-name={served.model}",
        f"--tokenizer={served.tokenizer}",
        *(
            [
                "--dataset-name=random",
                f"--random-input-len={workload.input}",
                f"--random-output-len={workload.output}",
                *([f"--random-prefix-len={workload.prefix}"] if workload.prefix else []),
                "--ignore-eos",
            ]
            if is_random
            else ["--dataset-name=sharegpt", f"--dataset-path={place}/{PROMPTS}"]
        ),
        *([f"--sharegpt-output-len={workload.output}"] if not is_random and workload.output else []),
        f"--num-prompts={point.requests}",
        f"--num-warmups={point.warmups}",
        *([f"--max-concurrency={point.streams}"] if point.streams else []),
        *([f"--request-rate={point.rate:g}"] if point.rate else []),
        f"--seed={seed}",
        "--percentile-metrics=ttft,tpot,itl,e2el",
        f"--metric-percentiles={','.join(PERCENTILES)}",
        *(["--goodput", *targets] if targets else []),
        "--save-result",
        "--save-detailed",
        f"--result-dir={place}/out",
        f"--result-filename={RESULT}",
    ]


def _sglang(served: Served, client: Client, workload: Workload, point: Point, seed: int, place: str) -> list[str]:
    """Return the arguments of `sglang.benchmark.serving`; percentiles and goodput come from its per-request details."""
    is_random = workload.prompts == RANDOM
    if workload.prefix:
        raise WorkloadError(
            f"workload {workload.name} has prompts that share a prefix, which SGLang's client cannot send: choose "
            "another workload"
        )
    return [
        served.program,
        "-m",
        "sglang.benchmark.serving",
        f"--backend={'sglang-oai' if is_random else 'sglang-oai-chat'}",
        f"--base-url={client.url}",
        f"--model={served.model}",
        f"--served-model-name={served.model}",
        f"--tokenizer={served.tokenizer}",
        *(
            # "random" would download a file of conversations; "random-ids" draws prompts from the vocabulary.
            [
                "--dataset-name=random-ids",
                f"--random-input-len={workload.input}",
                f"--random-output-len={workload.output}",
                "--random-range-ratio=1.0",
            ]
            if is_random
            else ["--dataset-name=sharegpt", f"--dataset-path={place}/{PROMPTS}", "--disable-ignore-eos"]
        ),
        *([f"--sharegpt-output-len={workload.output}"] if not is_random and workload.output else []),
        f"--num-prompts={point.requests}",
        f"--warmup-requests={point.warmups}",
        *([f"--max-concurrency={point.streams}"] if point.streams else []),
        *([f"--request-rate={point.rate:g}"] if point.rate else []),
        f"--seed={seed}",
        "--output-details",
        f"--output-file={place}/out/{RESULT}",
    ]
