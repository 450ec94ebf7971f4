# SPDX-License-Identifier: Apache-2.0
"""The node is no desktop any more, in its files and in what runs; checked with other tools than those that did it."""

from __future__ import annotations

import pytest
from testinfra.host import Host

testinfra_hosts = ["ssh://spark0"]


@pytest.mark.parametrize(
    ("command", "said"),
    [
        ("sysctl -n vm.swappiness", "1"),
        ("sysctl -n kernel.numa_balancing", "0"),
        ("sysctl -n net.ipv4.ip_unprivileged_port_start", "1024"),
        ("sort -u /sys/devices/system/cpu/cpufreq/policy0/scaling_governor", "performance"),
        ("swapon --noheadings --show", ""),
        ("systemctl get-default", "multi-user.target"),
        ("systemctl is-active gdm unattended-upgrades apt-daily-upgrade.timer || true", "inactive\ninactive\ninactive"),
        ("systemctl is-enabled swap.target || true", "masked"),
        ("systemctl is-enabled earlyoom systemd-timesyncd firstlight-tuning", "enabled\nenabled\nenabled"),
        (
            "systemctl show --property=LimitMEMLOCK --value docker.service systemd-journald.service",
            "infinity\n\ninfinity",
        ),
        ("loginctl show-session --property=RemoveIPC --value", "no"),
        ("ls /var/lib/systemd/linger", "rank"),
        ("apt-config dump APT::Periodic::Enable", 'APT::Periodic::Enable "0";'),
        ("systemctl show --property=OOMScoreAdjust --value ssh.service", "-50"),
    ],
)
def test_it_is_so(host: Host, command: str, said: str) -> None:
    assert host.check_output(command).strip() == said


def test_a_service_that_is_started_now_may_lock_all_memory(host: Host) -> None:
    """The node itself may not raise its limits, so that the unit's own setting is what can be seen of it."""
    host.check_output("systemd-run --quiet --unit=locker sleep 60")
    try:
        assert host.check_output("systemctl show --property=LimitMEMLOCK --value locker.service") == "infinity"
    finally:
        host.check_output("systemctl stop locker.service")


def test_the_guard_runs_with_its_arguments(host: Host) -> None:
    line = host.check_output("tr '\\0' ' ' < /proc/$(systemctl show --property=MainPID --value earlyoom)/cmdline")
    assert line.startswith("/usr/bin/earlyoom -r 3600 -m 2 -s 100,100 --prefer ^(VLLM::|vllm|")


def test_only_root_can_read_what_there_was(host: Host) -> None:
    found = host.file("/var/lib/firstlight/host_tuning/ledger.json")
    assert (found.user, found.group, found.mode) == ("root", "root", 0o600)
    assert host.file("/var/lib/firstlight/host_tuning").mode == 0o700
