# SPDX-License-Identifier: Apache-2.0
"""The metrics' desired state: what listens where, what is passed on, and what is refused."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest
import yaml
from ansible_collections.firstlight.cluster.plugins.plugin_utils.exposed_roles import METRICS_UNIT as UNIT
from ansible_collections.firstlight.cluster.plugins.plugin_utils.plan.exposure import monitoring
from ansible_collections.firstlight.cluster.plugins.plugin_utils.plan.states import desired_state
from ansible_collections.firstlight.cluster.plugins.plugin_utils.programs import METRICS_PATH, program_digest
from ansible_collections.firstlight.cluster.roles.monitoring.program.settings import CONFIG_PATH

ROOT = Path(__file__).resolve().parents[6]
GOLDEN = ROOT / "tests" / "golden" / "monitoring"
IMAGE = f"dcgm-exporter@sha256:{'ab' * 32}"
UNITS = {
    "metrics.service": monitoring.UNIT_PATH,
    "node.conf": monitoring.NODE_DROP_IN_PATH,
    "dcgm.service": monitoring.DCGM_UNIT_PATH,
}


def variables(**changes: Any) -> dict[str, Any]:
    return {
        "monitoring_node": "spark0",
        "monitoring_listen": "10.0.0.1",
        "monitoring_hosts": ["10.0.0.5"],
        "monitoring_firewall_tables": ["inet firstlight"],
        **changes,
    }


def config(**changes: Any) -> dict[str, Any]:
    return dict(json.loads(desired_state("monitoring", variables(**changes))["files"][CONFIG_PATH]["content"]))


@pytest.mark.parametrize("name", UNITS)
def test_units_are_the_golden_ones(name: str) -> None:
    """Regenerate with FIRSTLIGHT_UPDATE_GOLDEN=1, and read the difference before you commit it."""
    content = desired_state("monitoring", variables(monitoring_dcgm_image=IMAGE))["files"][UNITS[name]]["content"]
    if os.environ.get("FIRSTLIGHT_UPDATE_GOLDEN"):
        (GOLDEN / name).write_text(content)
    assert content == (GOLDEN / name).read_text()


def test_everything_runs_and_comes_back_after_a_boot() -> None:
    state = desired_state("monitoring", variables(monitoring_dcgm_image=IMAGE))
    assert state["files"][METRICS_PATH]["sha256"] == program_digest("monitoring")
    assert set(state["units"]) == {UNIT, monitoring.NODE_UNIT, monitoring.DCGM_UNIT}
    assert all(unit == {"enabled": True, "active": True} for unit in state["units"].values())


def test_the_image_of_the_exporter_is_brought_and_run_by_one_name() -> None:
    state = desired_state("monitoring", variables(monitoring_dcgm_image=IMAGE))
    ((name, wanted),) = state["images"].items()
    assert wanted["reference"] == IMAGE
    assert f"{name}\n" in state["files"][monitoring.DCGM_UNIT_PATH]["content"]
    assert "images" not in desired_state("monitoring", variables())


def test_without_a_monitoring_host_it_is_on_loopback() -> None:
    assert config(monitoring_hosts=[])["listen"] == "127.0.0.1"
    assert config()["listen"] == "10.0.0.1"


def test_exporters_of_others_are_on_loopback() -> None:
    state = desired_state("monitoring", variables(monitoring_dcgm_image=IMAGE))
    assert "--web.listen-address=127.0.0.1:9100" in state["files"][monitoring.NODE_DROP_IN_PATH]["content"]
    assert "--publish=127.0.0.1:9400:9400" in state["files"][monitoring.DCGM_UNIT_PATH]["content"]


def test_replicas_are_told_apart_by_their_ports() -> None:
    urls = ["http://127.0.0.1:8001/metrics", "http://127.0.0.1:8002/metrics"]
    sources = {one["name"]: one for one in config(monitoring_engine_urls=urls)["sources"]}
    assert list(sources) == ["node", "engine-8001", "engine-8002"]
    assert sources["engine-8002"]["labels"] == {"server": "8002"}


def test_targets_are_told_to_the_program_where_there_are_some() -> None:
    assert config(monitoring_targets={"ttft_p95_ms": 800})["targets"] == {"ttft_p95_ms": 800}
    assert "targets" not in config()


def test_an_exporter_that_is_there_is_passed_on_without_a_unit() -> None:
    state = desired_state("monitoring", variables(monitoring_dcgm_url="http://127.0.0.1:9400/metrics"))
    assert monitoring.DCGM_UNIT not in state["units"]
    assert '"dcgm"' in state["files"][CONFIG_PATH]["content"]


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"monitoring_hosts": ["monitor.example"]}, "expected an IP address"),
        ({"monitoring_hosts": ["10.0.0.0/24"]}, "expected an IP address"),
        ({"monitoring_hosts": "10.0.0.5"}, r"write it as \[10.0.0.5\]"),
        ({"monitoring_listen": "eth0"}, "expected an IP address"),
        ({"monitoring_port": 70000}, "from 1 to 65535"),
        ({"monitoring_node_port": 9410}, "ports of their own"),
        ({"monitoring_dcgm_image": "dcgm-exporter:latest"}, "sha256"),
        ({"monitoring_dcgm_image": IMAGE, "monitoring_dcgm_url": "http://127.0.0.1:1/"}, "leave one out"),
        ({"monitoring_engine_urls": ["https://127.0.0.1:8000/metrics"]}, "expected http://ADDRESS"),
        ({"monitoring_engine_urls": ["http://127.0.0.1:1/metrics", "http://127.0.0.2:1/metrics"]}, "same port"),
        ({"monitoring_ray_url": "http://head:1/metrics"}, "expected http://ADDRESS"),
        ({"monitoring_pins": {"bash": 5.2}}, "in quotes"),
        ({"monitoring_gpus": "many"}, "the number of GPUs"),
        ({"monitoring_certificates": ["a.pem"]}, "absolute path"),
        ({"monitoring_firewall_tables": ["firstlight"]}, "FAMILY NAME"),
        ({"monitoring_targets": {"ttft_p95_ms": "800 ms"}}, "expected numbers by name"),
    ],
)
def test_what_cannot_be_is_refused(change: dict[str, Any], words: str) -> None:
    with pytest.raises(ValueError, match=words):
        desired_state("monitoring", variables(**change))


def test_defaults_are_the_roles() -> None:
    defaults = yaml.safe_load((ROOT / "roles" / "monitoring" / "defaults" / "main.yml").read_text())
    assert defaults == monitoring.DEFAULTS
