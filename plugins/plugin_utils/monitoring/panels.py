# SPDX-License-Identifier: Apache-2.0
"""The content of the dashboard: rows of panels with their Prometheus queries. Rendering is done elsewhere."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

from ansible_collections.firstlight.cluster.plugins.module_utils.serving.recent import TARGET_TIMES
from ansible_collections.firstlight.cluster.plugins.plugin_utils.monitoring.service import (
    E2E,
    ITL,
    TPOT,
    TTFT,
    either,
    hit_rate,
    percentile,
    rate,
    waiting,
)

ON_HOSTS = 'cluster=~"$cluster", host=~"$host"'
RATE = "[5m]"
_IDLE = 'mode="idle"'
_NOT_LOOPBACK = 'device!="lo"'
_ENGINE = "{{host}} {{model_name}}"


@dataclass(frozen=True)
class Panel:
    """One panel: `kind` is a graph over time, a number, or a list of states."""

    title: str
    question: str
    legend: str = "{{host}}"
    unit: str = "short"
    kind: str = "graph"
    target: str = ""
    """The key of firstlight_targets for which this panel shows a line, if it is set."""
    least: bool = False
    """Whether the target is a minimum."""
    line: float | None = None


@dataclass(frozen=True)
class Row:
    """A row of related panels."""

    title: str
    panels: tuple[Panel, ...]


def _all(name: str, more: str = "") -> str:
    return f"{name}{{{ON_HOSTS}{', ' + more if more else ''}}}"


def _engine(vllm: str, sglang: str) -> str:
    return either(vllm, sglang, ON_HOSTS)


def _tokens(vllm: str, sglang: str) -> str:
    return f"sum({rate(vllm, sglang, ON_HOSTS, '5m')})"


GOODPUT = Panel("Goodput", _all("firstlight_group_goodput_ratio"), "{{cluster}} {{group}}", "percentunit")
"""Shown only if there are latency targets."""

ROWS: tuple[Row, ...] = (
    Row(
        "Serving",
        (
            Panel("Serving groups", f"sum({_all('firstlight_group_serving')})", "serving", kind="number"),
            Panel("Nodes up", 'sum(up{job="firstlight", cluster=~"$cluster"})', "up", kind="number"),
            Panel("Lost nodes", f"sum({_all('firstlight_group_node_lost')})", "lost", kind="number"),
            Panel("Phase", f"{_all('firstlight_group_phase')} == 1", "{{group}}: {{phase}}", kind="states"),
            Panel("Starts per hour", f"increase({_all('firstlight_group_starts_total')}[1h])", "{{group}}"),
            Panel("Probe completion time", _all("firstlight_group_answer_seconds"), "{{group}}", "s"),
        ),
    ),
    Row(
        "Service",
        (
            Panel("Time to first token, p95", percentile(TTFT, ON_HOSTS), "{{cluster}}", "s", target=TTFT),
            Panel("Time per output token, p95", percentile(TPOT, ON_HOSTS), "{{cluster}}", "s", target=TPOT),
            Panel("End-to-end latency, p95", percentile(E2E, ON_HOSTS), "{{cluster}}", "s", target=E2E),
            Panel("Queue", waiting(ON_HOSTS), "{{cluster}}", target="queue"),
            Panel(
                "Prefix cache hits",
                hit_rate(ON_HOSTS),
                "{{cluster}}",
                "percentunit",
                target="prefix_hit_rate",
                least=True,
            ),
        ),
    ),
    Row(
        "Requests",
        (
            Panel("Running requests", _engine("vllm:num_requests_running", "sglang:num_running_reqs"), _ENGINE),
            Panel("Waiting requests", _engine("vllm:num_requests_waiting", "sglang:num_queue_reqs"), _ENGINE),
            Panel("KV cache", _engine("vllm:kv_cache_usage_perc", "sglang:token_usage"), _ENGINE, "percentunit"),
            Panel("Prompt tokens", _tokens("vllm:prompt_tokens_total", "sglang:prompt_tokens_total"), "tokens/s"),
            Panel(
                "Generated tokens",
                _tokens("vllm:generation_tokens_total", "sglang:generation_tokens_total"),
                "tokens/s",
            ),
            Panel("Time to first token, p50", percentile(TTFT, ON_HOSTS, "0.5"), "{{cluster}}", "s"),
            Panel("Time to first token, p99", percentile(TTFT, ON_HOSTS, "0.99"), "{{cluster}}", "s"),
            Panel("Inter-token latency, p99", percentile(ITL, ON_HOSTS, "0.99"), "{{cluster}}", "s"),
            Panel("End-to-end latency, p99", percentile(E2E, ON_HOSTS, "0.99"), "{{cluster}}", "s"),
            Panel("Preemptions", f"sum(rate({_all('vllm:num_preemptions_total')}{RATE}))", "per second"),
            Panel(
                "Finished requests",
                f"sum by (finished_reason) (rate({_all('vllm:request_success_total')}{RATE}))",
                "{{finished_reason}}",
            ),
        ),
    ),
    Row(
        "GPUs",
        (
            Panel("Utilization", _all("firstlight_gpu_utilization_ratio"), "{{host}} {{gpu}}", "percentunit"),
            Panel("Temperature", _all("firstlight_gpu_temperature_celsius"), "{{host}} {{gpu}}", "celsius"),
            Panel("Power", _all("firstlight_gpu_power_watts"), "{{host}} {{gpu}}", "watt"),
            Panel("Clock", _all("firstlight_gpu_clock_hertz"), "{{host}} {{gpu}}", "hertz"),
            # If GPU and machine share one memory, nvidia-smi does not report it.
            Panel(
                "Memory in use",
                f"{_all('firstlight_gpu_memory_used_bytes')} or {_all('DCGM_FI_DEV_FB_USED')} * 1048576",
                "{{host}} {{gpu}}",
                "bytes",
            ),
            Panel("Throttled", f"{_all('firstlight_gpu_throttled')} == 1 or vector(0)", "{{host}} {{gpu}} {{reason}}"),
            Panel("Xid faults", _all("firstlight_gpu_faults_total"), "{{host}}"),
            Panel("NVLink traffic (DCGM)", _all("DCGM_FI_DEV_NVLINK_BANDWIDTH_TOTAL"), "{{host}} {{gpu}}"),
        ),
    ),
    Row(
        "Ray",
        (
            Panel("Ray GPUs", _all("ray_resources", 'Name="GPU"'), "{{host}} {{State}}"),
            Panel("Ray node memory", _all("ray_node_mem_used"), "{{host}}", "bytes"),
            Panel("Object store", _all("ray_object_store_memory"), "{{host}} {{Location}}", "bytes"),
        ),
    ),
    Row(
        "Nodes",
        (
            Panel(
                "CPU utilization",
                f"1 - avg by (host) (rate({_all('node_cpu_seconds_total', _IDLE)}{RATE}))",
                unit="percentunit",
            ),
            Panel("Memory available", _all("node_memory_MemAvailable_bytes"), unit="bytes"),
            Panel(
                "Network receive rate",
                f"rate({_all('node_network_receive_bytes_total', _NOT_LOOPBACK)}{RATE})",
                "{{host}} {{device}}",
                "Bps",
            ),
            Panel(
                "Disk free",
                _all("node_filesystem_avail_bytes", 'fstype!~"tmpfs|squashfs|ramfs"'),
                "{{host}} {{mountpoint}}",
                "bytes",
            ),
        ),
    ),
    Row(
        "Drift",
        (
            Panel(
                "Packages not as pinned",
                f"count({_all('firstlight_package_as_pinned')} == 0) or vector(0)",
                "packages",
            ),
            Panel(
                "Time to certificate expiry",
                f"{_all('firstlight_certificate_end_timestamp_seconds')} - time()",
                "{{host}} {{path}}",
                "s",
            ),
            Panel(
                "Dropped packets",
                f"rate({_all('firstlight_firewall_dropped_packets_total')}{RATE})",
                "{{host}} {{chain}}",
                "pps",
            ),
            Panel("Unreadable metrics sources", f"count({_all('firstlight_source_up')} == 0) or vector(0)", "sources"),
        ),
    ),
)


def rows(targets: Mapping[str, float]) -> tuple[Row, ...]:
    """Return the rows with the lines of these targets, and the panels that need targets."""
    found = []
    for row in ROWS:
        panels = [
            replace(one, line=targets[one.target] / (1000 if one.unit == "s" else 1)) if one.target in targets else one
            for one in row.panels
        ]
        if row.title == "Service" and any(name in targets for name in TARGET_TIMES):
            panels.append(GOODPUT)
        found.append(Row(row.title, tuple(panels)))
    return tuple(found)


def questions() -> dict[str, str]:
    """Return every query by its place, with the dashboard's variables replaced by wildcards."""
    return {
        f"{row.title}: {panel.title}": panel.question.replace("$cluster", ".*").replace("$host", ".*")
        for row in ROWS
        for panel in row.panels
    }
