# SPDX-License-Identifier: Apache-2.0
"""A real Prometheus takes what is shipped, and has an answer to every question of the dashboard."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from pathlib import Path
from urllib.parse import quote

import pytest
from testinfra.host import Host

sys.path.insert(0, str(Path(__file__).resolve().parents[3] / "collections"))
from ansible_collections.firstlight.cluster.plugins.plugin_utils.monitoring.panels import questions

testinfra_hosts = ["ssh://bare0"]


@pytest.mark.parametrize("place", list(questions()))
def test_every_panel_has_data(place: str, ask: Callable[[str, str], tuple[str, str]]) -> None:
    status, answer = ask("bare0", f"http://127.0.0.1:9090/api/v1/query?query={quote(questions()[place])}")
    assert status == "200"
    assert json.loads(answer)["data"]["result"]


@pytest.mark.parametrize(
    "words",
    [
        "check config prometheus.yml",
        "check rules firstlight-rules.yml",
        "test rules rules_test.yml",
        "test rules targets_test.yml",
    ],
)
def test_promtool_takes_what_is_shipped(host: Host, words: str) -> None:
    assert "SUCCESS" in host.check_output(f"cd /etc/prometheus && promtool {words}")
