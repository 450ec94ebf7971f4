# SPDX-License-Identifier: Apache-2.0
"""The alert rules: condition, duration, severity, and remedy."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from ansible_collections.firstlight.cluster.plugins.plugin_utils.monitoring.scrape import JOB
from ansible_collections.firstlight.cluster.plugins.plugin_utils.monitoring.service import (
    E2E,
    TPOT,
    TTFT,
    hit_rate,
    percentile,
    prompt_tokens,
    waiting,
)

CRITICAL, WARNING = "critical", "warning"
_SERVING = "engine.*|ray"
"""Components that are expected to stop in the whole group when one of its nodes is drained."""


@dataclass(frozen=True)
class Alert:
    """One alert; its texts may use labels of the series."""

    name: str
    expression: str
    lasts: str
    severity: str
    summary: str
    remedy: str


ALERTS: tuple[Alert, ...] = (
    Alert(
        "FirstlightNodeSilent",
        f'up{{job="{JOB}"}} == 0',
        "2m",
        CRITICAL,
        "{{ $labels.host }} cannot be read",
        "No metrics of this node can be read. Check that it is up and that `systemctl status firstlight-metrics` there "
        "shows it running. If it answers with 403, this monitoring host is not in firstlight_monitoring.hosts.",
    ),
    Alert(
        "FirstlightSourceDown",
        f'firstlight_source_up{{source!~"{_SERVING}"}} == 0 or firstlight_source_up{{source=~"{_SERVING}"}} == 0 '
        'unless on (cluster) count by (cluster) (firstlight_group_phase{phase="drained"} == 1)',
        "10m",
        WARNING,
        "{{ $labels.source }} of {{ $labels.host }} cannot be read",
        "`journalctl --unit firstlight-metrics` on the node says why. What depends on it has no data meanwhile.",
    ),
    Alert(
        "FirstlightRankLost",
        "firstlight_group_node_lost == 1",
        "30s",
        CRITICAL,
        "{{ $labels.member }} is lost from group {{ $labels.group }}",
        "The group cannot serve without it. Check that the node is up and its fabric port has a link, then "
        "`systemctl status firstlight-supervisor` there. `firstlight status` shows what the group waits for.",
    ),
    Alert(
        "FirstlightGroupNotServing",
        'firstlight_group_serving == 0 unless on (cluster, host, group) firstlight_group_phase{phase="drained"} == 1',
        "15m",
        CRITICAL,
        "Group {{ $labels.group }} of {{ $labels.host }} does not serve",
        "`firstlight status` shows which phase it is in and why, `firstlight logs` the engine's last output.",
    ),
    Alert(
        "FirstlightGroupFailed",
        'firstlight_group_phase{phase="failed"} == 1',
        "0m",
        CRITICAL,
        "Group {{ $labels.group }} of {{ $labels.host }} was given up",
        "It failed too often and stays down. `firstlight status` has the reason; run playbooks/serve.yml once fixed.",
    ),
    Alert(
        "FirstlightGroupRestarts",
        "increase(firstlight_group_starts_total[1h]) > 2",
        "0m",
        WARNING,
        "Group {{ $labels.group }} of {{ $labels.host }} was started {{ $value | humanize }} times in an hour",
        "It fails repeatedly. `firstlight logs --since 1h` shows what each start ended with.",
    ),
    Alert(
        "FirstlightSupervisorStuck",
        "time() - firstlight_supervisor_written_timestamp_seconds > 120",
        "2m",
        WARNING,
        "The supervisor of {{ $labels.host }} no longer reports",
        "See `systemctl status firstlight-supervisor` on the node. Until it runs, nothing restarts the group.",
    ),
    Alert(
        "FirstlightGpuFault",
        "firstlight_gpu_last_fault_timestamp_seconds > 0 "
        "and time() - firstlight_gpu_last_fault_timestamp_seconds < 900",
        "0m",
        CRITICAL,
        "A GPU of {{ $labels.host }} reported an Xid",
        "`firstlight diagnose` on `journalctl --dmesg` of the node says what its number means and what to do. "
        "Drain the node before you reset the GPU.",
    ),
    Alert(
        "FirstlightGpuMissing",
        "firstlight_gpus < firstlight_gpus_expected",
        "2m",
        CRITICAL,
        "{{ $labels.host }} shows {{ $value | humanize }} GPUs, fewer than it has",
        "One fell off the bus or its driver did not initialize it. See `nvidia-smi` and the kernel's log, then reboot.",
    ),
    Alert(
        "FirstlightGpuThrottled",
        'firstlight_gpu_throttled{reason!="sw_power_cap"} == 1',
        "5m",
        WARNING,
        "GPU {{ $labels.gpu }} of {{ $labels.host }} is slowed down ({{ $labels.reason }})",
        "A slow GPU slows the whole group down. thermal: check fans and airflow. power_brake: check the power supply.",
    ),
    Alert(
        "FirstlightGpuMemoryErrors",
        "firstlight_gpu_uncorrected_errors > 0",
        "0m",
        CRITICAL,
        "GPU {{ $labels.gpu }} of {{ $labels.host }} has uncorrected memory errors",
        "What it computes may be wrong. Drain the node, reset the GPU, and have it replaced if they recur.",
    ),
    Alert(
        "FirstlightCacheFull",
        "vllm:kv_cache_usage_perc > 0.95 or sglang:token_usage > 0.95",
        "5m",
        WARNING,
        "The KV cache of {{ $labels.host }} is full",
        "Requests wait or are recomputed. Lower max_num_seqs or max_model_len, or give the engine more memory: "
        "`firstlight fit` says how much there is.",
    ),
    Alert(
        "FirstlightQueueGrowing",
        "vllm:num_requests_waiting > 10 and deriv(vllm:num_requests_waiting[10m]) > 0 "
        "or sglang:num_queue_reqs > 10 and deriv(sglang:num_queue_reqs[10m]) > 0",
        "5m",
        WARNING,
        "{{ $value | humanize }} requests wait on {{ $labels.host }}, and their number grows",
        "More is requested than can be answered. Throttle clients, or serve with more GPUs.",
    ),
    Alert(
        "FirstlightPinDrift",
        "firstlight_package_as_pinned == 0",
        "5m",
        WARNING,
        '{{ $labels.package }} of {{ $labels.host }} is "{{ $labels.installed }}", pinned is {{ $labels.wanted }}',
        "It was changed outside of a run. `ansible-playbook playbooks/verify.yml` shows all that differs; site.yml "
        "restores it, playbooks/repin.yml moves the pin.",
    ),
    Alert(
        "FirstlightCertificateEnds",
        "firstlight_certificate_end_timestamp_seconds - time() < 21 * 86400",
        "1h",
        WARNING,
        "{{ $labels.path }} of {{ $labels.host }} expires in {{ $value | humanizeDuration }}",
        "Renew it before clients refuse the endpoint.",
    ),
    Alert(
        "FirstlightCertificateEndsNow",
        "firstlight_certificate_end_timestamp_seconds - time() < 3 * 86400",
        "5m",
        CRITICAL,
        "{{ $labels.path }} of {{ $labels.host }} expires in {{ $value | humanizeDuration }}",
        "Renew it today: clients refuse the endpoint once it has expired.",
    ),
    Alert(
        "FirstlightFirewallDrops",
        "rate(firstlight_firewall_dropped_packets_total[10m]) > 10",
        "10m",
        WARNING,
        "The firewall of {{ $labels.host }} drops {{ $value | humanize }} packets a second",
        "A source that is not permitted connects, or a needed port is closed. `nft list ruleset` shows the counters.",
    ),
    Alert(
        "FirstlightDiskFull",
        'node_filesystem_avail_bytes{fstype!~"tmpfs|overlay|squashfs|ramfs"} / node_filesystem_size_bytes < 0.05',
        "15m",
        WARNING,
        "{{ $labels.mountpoint }} of {{ $labels.host }} has {{ $value | humanizePercentage }} left",
        "A full disk stops logs, updates and the next start. Remove what is not needed.",
    ),
)


_OWN_TOKENS = 5
"""Prompt tokens per second and server: above the supervisor's own probes, the only traffic of an idle server."""
_SLOWER = "P95 of cluster {{{{ $labels.cluster }}}} is {{{{ $value | humanizeDuration }}}} {what}, target {target:g} ms"


def target_alerts(targets: Mapping[str, float], cluster: str) -> tuple[Alert, ...]:
    """Return an alert for each target set in the inventory, for this cluster only."""
    chosen = f"cluster={json.dumps(cluster)}"

    def slow(name: str, target: str, what: str, remedy: str) -> Alert:
        limit = targets.get(target, 0)
        expression = f"{percentile(target, chosen)} > {limit / 1000:g}"
        return Alert(name, expression, "10m", WARNING, _SLOWER.format(what=what, target=limit), remedy)

    alerts = {
        TTFT: slow(
            "FirstlightFirstTokenSlow",
            TTFT,
            "to the first token",
            "If requests wait, more is requested than can be answered: throttle clients, or add replicas. If none "
            "wait, prompts are long: see the panel of prefix cache hits, and lower max_num_batched_tokens.",
        ),
        TPOT: slow(
            "FirstlightTokensSlow",
            TPOT,
            "per output token",
            "Many requests run at once, or a GPU or a link is slow. Lower max_num_seqs, and see FirstlightGpuThrottled "
            "and the panels of the fabric.",
        ),
        E2E: slow(
            "FirstlightRequestsSlow",
            E2E,
            "for a whole request",
            "See which part is slow: first token, tokens, or the length of the answers. Clients may ask for fewer "
            "tokens.",
        ),
        "queue": Alert(
            "FirstlightQueueLong",
            f"({waiting(chosen)}) > {targets.get('queue', 0):g}",
            "5m",
            WARNING,
            "{{ $value | humanize }} requests of cluster {{ $labels.cluster }} wait, "
            f"target {targets.get('queue', 0):g} at most",
            "More is requested than can be answered. Throttle clients, or serve with more GPUs.",
        ),
        "prefix_hit_rate": Alert(
            "FirstlightPrefixHitsLow",
            f"{hit_rate(chosen, '30m')} < {targets.get('prefix_hit_rate', 0):g} "
            f"and {prompt_tokens(chosen, '30m')} > {_OWN_TOKENS}",
            "30m",
            WARNING,
            "The prefix cache of cluster {{ $labels.cluster }} has a hit rate of {{ $value | humanizePercentage }}, "
            f"target {targets.get('prefix_hit_rate', 0):.0%}",
            "Prompts no longer share a prefix, or the cache is too small to keep them. Put what is common first in a "
            "prompt, send the requests of a conversation to one replica, and see the panel of the KV cache.",
        ),
    }
    return tuple(alert for target, alert in alerts.items() if target in targets)


def rules_document(targets: Mapping[str, float], cluster: str) -> dict[str, Any]:
    """Return the content of the rules file as data."""
    return {
        "groups": [
            {
                "name": JOB,
                "rules": [
                    {
                        "alert": one.name,
                        "expr": one.expression,
                        "for": one.lasts,
                        "labels": {"severity": one.severity},
                        "annotations": {"summary": one.summary, "description": one.remedy},
                    }
                    for one in (*ALERTS, *target_alerts(targets, cluster))
                ],
            }
        ]
    }
