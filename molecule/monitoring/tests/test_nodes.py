# SPDX-License-Identifier: Apache-2.0
"""Every node has one page, and only the monitoring host reads it."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from testinfra.host import Host

testinfra_hosts = ["ssh://spark0", "ssh://spark1"]
PORT = 9410
Ask = Callable[[str, str], tuple[str, str]]


def address(host: Host) -> str:
    """The management address."""
    route = host.check_output("ip -4 -oneline address show scope global")
    addresses = [line.split()[3].partition("/")[0] for line in route.splitlines()]
    return next(one for one in addresses if host.socket(f"tcp://{one}:{PORT}").is_listening)


@pytest.fixture
def url(host: Host) -> str:
    return f"http://{address(host)}:{PORT}/metrics"


@pytest.mark.parametrize("unit", ["firstlight-metrics", "prometheus-node-exporter"])
def test_units_run_and_come_back_after_a_boot(host: Host, unit: str) -> None:
    assert host.service(unit).is_running
    assert host.service(unit).is_enabled


def test_exporters_are_on_loopback_and_the_page_on_one_address(host: Host) -> None:
    assert host.socket("tcp://127.0.0.1:9100").is_listening
    assert not host.socket("tcp://0.0.0.0:9100").is_listening
    assert not host.socket(f"tcp://0.0.0.0:{PORT}").is_listening
    assert not host.socket(f"tcp://127.0.0.1:{PORT}").is_listening


def test_only_the_monitoring_host_reads(url: str, ask: Ask) -> None:
    status, page = ask("bare0", url)
    assert status == "200"
    assert "firstlight_source_up" in page
    assert ask("bare1", url) == ("403", "")
    assert ask("bare0", url.replace(str(PORT), "9100"))[0] == "refused"


def test_the_program_is_not_root(host: Host) -> None:
    pid = host.check_output("systemctl show --value --property=MainPID firstlight-metrics")
    assert host.check_output(f"stat --format=%u /proc/{pid}") != "0"


def test_nothing_is_on_the_page_that_is_not_allowed(host: Host, url: str, ask: Ask) -> None:
    page = ask("bare0", url)[1]
    token = host.file("/etc/firstlight/supervisor-spark1.token").content_string.strip()
    assert len(token) == 64
    assert token not in page
    assert "python_info" not in page
    assert "ray_gcs_" not in page


def test_every_part_can_be_read(host: Host, url: str, ask: Ask) -> None:
    page = ask("bare0", url)[1]
    parts = dict(line.rsplit(" ", 1) for line in page.splitlines() if line.startswith("firstlight_source_up{"))
    wanted = ["host", "node", "supervisor", "pins", "certificates", "firewall", "gpu", "kernel_log"]
    wanted += ["engine", "ray", "dcgm"] if host.check_output("hostname") == "spark0" else []
    assert parts == {f'firstlight_source_up{{source="{name}"}}': "1" for name in wanted}
