# SPDX-License-Identifier: Apache-2.0
"""IPv4 and IPv6 are let in alike, on the management network and on the fabric."""

from __future__ import annotations

import shlex
import subprocess
from pathlib import Path

import pytest
from ansible_collections.firstlight.cluster.plugins.plugin_utils.firewall_rules import read_firewall, render_rules

testinfra_hosts = ["ssh://spark0"]

PROGRAM = Path(__file__).resolve().parents[1] / "files" / "families.sh"
RULES = {
    "firewall_fabric": {"interfaces": ["f0"], "peers": ["10.9.2.1", "10.9.2.2", "fd09:2::1", "fd09:2::2"]},
    "firewall_openings": [
        {"name": "endpoint", "protocol": "tcp", "ports": [443], "from": ["10.9.1.2", "fd09:1::2", "10.9.2.9"]}
    ],
}


def test_both_families_meet_the_same_rules(pytestconfig: pytest.Config) -> None:
    program = f"unshare --net --mount --pid --fork --mount-proc bash -c {shlex.quote(PROGRAM.read_text())}"
    argv = ["ssh", "-F", pytestconfig.getoption("ssh_config"), "spark0", program]
    rules = render_rules(read_firewall(RULES))
    ran = subprocess.run(argv, input=rules, capture_output=True, text=True, check=True, timeout=60)
    found: dict[str, set[str]] = {}
    for source, port, told in (line.split() for line in ran.stdout.splitlines()):
        found.setdefault(source, set()).update([port] if told == "open" else [])
    everything, opened, closed = {"22", "443", "6379"}, {"22", "443"}, {"22"}
    assert found == {
        "10.9.1.2": opened,
        "fd09:1::2": opened,
        "10.9.1.9": closed,
        "fd09:1::9": closed,
        "10.9.2.2": everything,
        "fd09:2::2": everything,
        # An opening is none on the fabric.
        "10.9.2.9": closed,
        "fd09:2::9": closed,
    }
