# SPDX-License-Identifier: Apache-2.0
"""What the dashboard shows: rows of panels, each with its question to Prometheus. How it is drawn, others decide."""

from __future__ import annotations

from dataclasses import dataclass

ON_HOSTS = 'cluster=~"$cluster", host=~"$host"'
RATE = "[5m]"
_IDLE = 'mode="idle"'
_NOT_LOOPBACK = 'device!="lo"'


@dataclass(frozen=True)
class Panel:
    """One picture: `kind` is a graph over time, a number, or a list of states."""

    title: str
    question: str
    legend: str = "{{host}}"
    unit: str = "short"
    kind: str = "graph"


@dataclass(frozen=True)
class Row:
    """Panels that belong together."""

    title: str
    panels: tuple[Panel, ...]


def _all(name: str, more: str = "") -> str:
    return f"{name}{{{ON_HOSTS}{', ' + more if more else ''}}}"


def _quantile(share: str, name: str) -> str:
    return f"histogram_quantile({share}, sum by (le) (rate({_all(name + '_bucket')}{RATE})))"


ROWS: tuple[Row, ...] = (
    Row(
        "Serving",
        (
            Panel("Groups that serve", f"sum({_all('firstlight_group_serving')})", "serving", kind="number"),
            Panel("Nodes that answer", 'sum(up{job="firstlight", cluster=~"$cluster"})', "up", kind="number"),
            Panel("Nodes lost", f"sum({_all('firstlight_group_node_lost')})", "lost", kind="number"),
            Panel("Phase", f"{_all('firstlight_group_phase')} == 1", "{{group}}: {{phase}}", kind="states"),
            Panel("Starts in an hour", f"increase({_all('firstlight_group_starts_total')}[1h])", "{{group}}"),
            Panel("A completion takes", _all("firstlight_group_answer_seconds"), "{{group}}", "s"),
        ),
    ),
    Row(
        "Requests",
        (
            Panel("Running", _all("vllm:num_requests_running"), "{{host}} {{model_name}}"),
            Panel("Waiting", _all("vllm:num_requests_waiting"), "{{host}} {{model_name}}"),
            Panel("KV cache", _all("vllm:kv_cache_usage_perc"), "{{host}} {{model_name}}", "percentunit"),
            Panel("Tokens in", f"sum(rate({_all('vllm:prompt_tokens_total')}{RATE}))", "tokens/s"),
            Panel("Tokens out", f"sum(rate({_all('vllm:generation_tokens_total')}{RATE}))", "tokens/s"),
            Panel("First token, half of them", _quantile("0.5", "vllm:time_to_first_token_seconds"), "p50", "s"),
            Panel("First token, 99 of 100", _quantile("0.99", "vllm:time_to_first_token_seconds"), "p99", "s"),
            Panel("Between tokens, 99 of 100", _quantile("0.99", "vllm:inter_token_latency_seconds"), "p99", "s"),
            Panel("Whole request, 99 of 100", _quantile("0.99", "vllm:e2e_request_latency_seconds"), "p99", "s"),
            Panel("Preemptions", f"sum(rate({_all('vllm:num_preemptions_total')}{RATE}))", "a second"),
            Panel(
                "Finished",
                f"sum by (finished_reason) (rate({_all('vllm:request_success_total')}{RATE}))",
                "{{finished_reason}}",
            ),
        ),
    ),
    Row(
        "GPUs",
        (
            Panel("Busy", _all("firstlight_gpu_utilization_ratio"), "{{host}} {{gpu}}", "percentunit"),
            Panel("Temperature", _all("firstlight_gpu_temperature_celsius"), "{{host}} {{gpu}}", "celsius"),
            Panel("Power", _all("firstlight_gpu_power_watts"), "{{host}} {{gpu}}", "watt"),
            Panel("Clock", _all("firstlight_gpu_clock_hertz"), "{{host}} {{gpu}}", "hertz"),
            # Where GPU and machine share one memory, nvidia-smi tells nothing of it.
            Panel(
                "Memory in use",
                f"{_all('firstlight_gpu_memory_used_bytes')} or {_all('DCGM_FI_DEV_FB_USED')} * 1048576",
                "{{host}} {{gpu}}",
                "bytes",
            ),
            Panel(
                "Slowed down", f"{_all('firstlight_gpu_throttled')} == 1 or vector(0)", "{{host}} {{gpu}} {{reason}}"
            ),
            Panel("Xid faults", _all("firstlight_gpu_faults_total"), "{{host}}"),
            Panel("NVLink traffic (DCGM)", _all("DCGM_FI_DEV_NVLINK_BANDWIDTH_TOTAL"), "{{host}} {{gpu}}"),
        ),
    ),
    Row(
        "Ray",
        (
            Panel("GPUs of Ray", _all("ray_resources", 'Name="GPU"'), "{{host}} {{State}}"),
            Panel("Memory of Ray's nodes", _all("ray_node_mem_used"), "{{host}}", "bytes"),
            Panel("Object store", _all("ray_object_store_memory"), "{{host}} {{Location}}", "bytes"),
        ),
    ),
    Row(
        "Nodes",
        (
            Panel(
                "Processors busy",
                f"1 - avg by (host) (rate({_all('node_cpu_seconds_total', _IDLE)}{RATE}))",
                unit="percentunit",
            ),
            Panel("Memory available", _all("node_memory_MemAvailable_bytes"), unit="bytes"),
            Panel(
                "Fabric and network, in",
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
        "Order",
        (
            Panel(
                "Packages off their pins",
                f"count({_all('firstlight_package_as_pinned')} == 0) or vector(0)",
                "packages",
            ),
            Panel(
                "Certificates end in",
                f"{_all('firstlight_certificate_end_timestamp_seconds')} - time()",
                "{{host}} {{path}}",
                "s",
            ),
            Panel(
                "Packets dropped",
                f"rate({_all('firstlight_firewall_dropped_packets_total')}{RATE})",
                "{{host}} {{chain}}",
                "pps",
            ),
            Panel("Parts that cannot be read", f"count({_all('firstlight_source_up')} == 0) or vector(0)", "parts"),
        ),
    ),
)


def questions() -> dict[str, str]:
    """Every question by its place, as Prometheus takes it: the dashboard's variables stand for everything."""
    return {
        f"{row.title}: {panel.title}": panel.question.replace("$cluster", ".*").replace("$host", ".*")
        for row in ROWS
        for panel in row.panels
    }
