# SPDX-License-Identifier: Apache-2.0
"""Series out of what the supervisor, nvidia-smi, the kernel, openssl, dpkg and nft say."""

from __future__ import annotations

import json
from typing import Any

import pytest
from ansible_collections.firstlight.cluster.roles.monitoring.program.gpu_series import (
    FIELDS,
    gpu_families,
    parse_rows,
    xid_families,
)
from ansible_collections.firstlight.cluster.roles.monitoring.program.group_series import Starts, group_families
from ansible_collections.firstlight.cluster.roles.monitoring.program.host_series import (
    certificate_end,
    dropped_packets,
    firewall_families,
    pin_families,
)
from ansible_collections.firstlight.cluster.roles.monitoring.program.page import rendered

CONFIG: dict[str, Any] = {
    "node": "spark0",
    "groups": [
        {
            "name": "server",
            "head": "spark0",
            "nodes": {"spark0": [], "spark1": []},
            "timing": {"heartbeat_timeout": 20},
        },
        {"name": "other", "head": "spark1", "nodes": {"spark1": []}},
    ],
}


def state(**changes: Any) -> dict[str, Any]:
    group = {
        "phase": "serving",
        "epoch": "a",
        "attempts": 0,
        "nodes": {"spark0": {"heard_seconds": 0.0}, "spark1": {"heard_seconds": 1.5}},
        "probe": {"answered_at": "2026-11-16T03:00:00+00:00", "seconds": 0.25},
        **changes,
    }
    return {"written_at": "2026-11-16T03:00:01+00:00", "connected": True, "groups": {"server": group, "other": group}}


def lines(config: Any = CONFIG, told: Any = None, starts: Starts | None = None) -> list[str]:
    return rendered(group_families(config, told or state(), starts or Starts())).splitlines()


def test_a_group_is_told_by_its_head_alone() -> None:
    told = lines()
    assert 'firstlight_group_serving{group="server"} 1' in told
    assert 'firstlight_group_phase{group="server",phase="serving"} 1' in told
    assert 'firstlight_group_phase{group="server",phase="failed"} 0' in told
    assert 'firstlight_group_answer_seconds{group="server"} 0.25' in told
    assert "firstlight_supervisor_written_timestamp_seconds 1794798001" in told
    assert not any('group="other"' in line for line in told)


def test_goodput_is_told_of_requests_that_there_were_and_targets_that_there_are() -> None:
    load = {"recent": {"times": {"ttft": {"0.5": 6, "1.0": 10, "inf": 10}}}}
    targets = {"ttft_p95_ms": 750.0, "queue": 16}
    told = rendered(group_families(CONFIG, state(load=load), Starts(), targets))
    assert 'firstlight_group_goodput_ratio{group="server"} 0.8\n' in told
    for known, others in ((load, {"queue": 16}), ({}, targets), ({"recent": None}, targets), ({"recent": 3}, targets)):
        assert "goodput" not in rendered(group_families(CONFIG, state(load=known), Starts(), others))


@pytest.mark.parametrize(
    ("nodes", "lost"),
    [
        ({"spark0": {"heard_seconds": 0}, "spark1": {"heard_seconds": 19}}, 0),
        ({"spark0": {"heard_seconds": 0}, "spark1": {"heard_seconds": 21}}, 1),
        ({"spark0": {"heard_seconds": 0}}, 1),
        ({"spark0": {"heard_seconds": 0}, "spark1": None}, 1),
    ],
)
def test_a_silent_node_is_lost(nodes: dict[str, Any], lost: int) -> None:
    told = lines(told=state(nodes=nodes))
    assert f'firstlight_group_node_lost{{group="server",member="spark1"}} {lost}' in told
    assert 'firstlight_group_node_lost{group="server",member="spark0"} 0' in told


def test_starts_are_counted_by_epoch() -> None:
    starts = Starts()
    assert [starts.see("server", epoch) for epoch in ("a", "a", "", "b", "", "b", "c")] == [0, 0, 0, 1, 1, 1, 2]


@pytest.mark.parametrize("damaged", [{"groups": 3}, {"groups": {"server": {"nodes": [], "probe": 1}}}, {"groups": {}}])
def test_a_damaged_state_tells_less_and_breaks_nothing(damaged: dict[str, Any]) -> None:
    assert rendered(group_families(CONFIG, damaged, Starts()))
    assert rendered(group_families({}, state(), Starts()))


ROW = "0, GPU-1, NVIDIA H100 80GB HBM3, 41, 97, 70000, 81559, 612.5, 1980, 0, 0x0000000000000044"
UNIFIED = "0, GPU-2, NVIDIA GB10, 55, 3, [N/A], [N/A], 14.2, 2411, [N/A], 0x0000000000000001"


def test_gpus_are_told_in_base_units() -> None:
    told = rendered(gpu_families(parse_rows(f"{ROW}\n", FIELDS), 8)).splitlines()
    assert "firstlight_gpus 1" in told
    assert "firstlight_gpus_expected 8" in told
    assert 'firstlight_gpu_memory_used_bytes{gpu="0"} 73400320000' in told
    assert 'firstlight_gpu_utilization_ratio{gpu="0"} 0.97' in told
    assert 'firstlight_gpu_throttled{gpu="0",reason="hw_thermal_slowdown"} 1' in told
    assert 'firstlight_gpu_throttled{gpu="0",reason="hw_slowdown"} 0' in told


def test_what_a_gpu_does_not_tell_is_left_out() -> None:
    told = rendered(gpu_families(parse_rows(UNIFIED, FIELDS), 1))
    assert "memory" not in told
    assert 'firstlight_gpu_temperature_celsius{gpu="0"} 55' in told
    assert 'reason="sw_thermal_slowdown"} 0' in told


def test_no_gpu_is_told_as_none() -> None:
    assert "firstlight_gpus 0" in rendered(gpu_families(parse_rows("No devices were found\n", FIELDS), 1))


def test_faults_are_counted_and_dated() -> None:
    xids = [
        {"number": 79, "bus": "0000:01:00", "count": 2, "last": "2026-11-16T03:00:00+0000"},
        {"number": 31, "bus": "0000:01:00", "count": 1, "last": "2026-11-16T02:00:00+00:00"},
    ]
    told = rendered(xid_families(xids)).splitlines()
    assert "firstlight_gpu_faults_total 3" in told
    assert 'firstlight_gpu_xid_total{xid="79",bus="0000:01:00"} 2' in told
    assert "firstlight_gpu_last_fault_timestamp_seconds 1794798000" in told
    assert "firstlight_gpu_last_fault_timestamp_seconds 0" in rendered(xid_families([])).splitlines()


def test_pins_are_compared() -> None:
    told = rendered(pin_families({"a": "1", "b": "2", "c": "3"}, {"a": "1", "b": "9", "c": None})).splitlines()
    assert 'firstlight_package_as_pinned{package="a",wanted="1",installed="1"} 1' in told
    assert 'firstlight_package_as_pinned{package="b",wanted="2",installed="9"} 0' in told
    assert 'firstlight_package_as_pinned{package="c",wanted="3",installed=""} 0' in told


def test_the_end_of_a_certificate_is_read() -> None:
    assert certificate_end("notAfter=Nov  6 03:00:00 2036 GMT\n") == 2109553200
    with pytest.raises(ValueError, match="expected notAfter=DATE"):
        certificate_end("unable to load certificate")


def rule(chain: str, *expressions: dict[str, Any]) -> dict[str, Any]:
    return {"rule": {"family": "inet", "table": "t", "chain": chain, "expr": list(expressions)}}


def test_only_what_is_dropped_is_counted() -> None:
    listed = {
        "nftables": [
            {"metainfo": {"version": "1.0.6"}},
            {"counter": {"name": "dropped", "packets": 7, "bytes": 1}},
            {"chain": {"name": "input"}},
            {"chain": {"name": "output"}},
            rule("input", {"counter": {"packets": 5, "bytes": 1}}, {"drop": None}),
            rule("input", {"counter": {"packets": 100, "bytes": 1}}, {"accept": None}),
            rule("input", {"counter": "dropped"}, {"reject": {"type": "tcp reset"}}),
            rule("input", {"counter": "dropped"}, {"drop": None}),
            rule("input", {"drop": None}),
        ]
    }
    assert dropped_packets(json.dumps(listed)) == {"input": 12, "output": 0}
    told = rendered(firewall_families({"inet t": {"input": 12}}))
    assert 'firstlight_firewall_dropped_packets_total{table="inet t",chain="input"} 12' in told
    with pytest.raises(ValueError, match="no JSON list"):
        dropped_packets("Error: No such file or directory")
