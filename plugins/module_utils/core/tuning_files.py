# SPDX-License-Identifier: Apache-2.0
"""The files that role host_tuning writes. Each says why its settings are as they are, where somebody will look for it.

Where several files of a directory speak of the same thing, the last one by name wins; hence the zz.
"""

from __future__ import annotations

import functools
import textwrap
from collections.abc import Iterable, Mapping

SYSCTL_FILE = "/etc/sysctl.d/zz-firstlight.conf"
LIMITS_FILE = "/etc/security/limits.d/zz-firstlight.conf"
SYSTEM_FILE = "/etc/systemd/system.conf.d/zz-firstlight.conf"
USER_FILE = "/etc/systemd/user.conf.d/zz-firstlight.conf"
LOGIND_FILE = "/etc/systemd/logind.conf.d/zz-firstlight.conf"
SSH_FILE = "/etc/systemd/system/ssh.service.d/zz-firstlight.conf"
SLICE_FILE = "/etc/systemd/system/system.slice.d/zz-firstlight.conf"
GUARD_FILE = "/etc/default/earlyoom"
GOVERNOR_FILE = "/etc/tmpfiles.d/zz-firstlight.conf"
PERIODIC_FILE = "/etc/apt/apt.conf.d/zz-firstlight"
UNIT = "firstlight-tuning.service"
UNIT_FILE = f"/etc/systemd/system/{UNIT}"

GOVERNORS = "/sys/devices/system/cpu/cpufreq"

_HEADER = "Managed by Firstlight (role host_tuning): changes here are overwritten."

_SSH_MEMORY = "64M"

_SYSCTL_REASONS = {
    "vm.swappiness": "Hardly any swapping: the kernel otherwise pages a model's memory out to keep file cache in.",
    "net.ipv4.ip_unprivileged_port_start": (
        "Only root listens below it, for IPv6 as well: nobody else can take the engine's port while the engine is "
        "down, and be sent its key and its prompts."
    ),
    "kernel.numa_balancing": (
        "No page is unmapped to see who uses it: the faults stall all ranks of a collective. The minus lets a kernel "
        "without the setting pass."
    ),
}


@functools.cache
def _said(*paragraphs: str, mark: str = "#") -> str:
    """The heading of a file: who writes it, and why it is as it is."""
    lines = [line for one in paragraphs for line in textwrap.wrap(one, 100, break_on_hyphens=False)]
    return "".join(f"{mark} {line}\n" for line in lines)


def sysctl_conf(settings: Mapping[str, str], optional: Mapping[str, str]) -> str:
    """A sysctl.d file; settings that not every kernel has are marked so."""
    lines = [_said(_HEADER)]
    for key, value in {**settings, **optional}.items():
        lines.append(f"{_said(_SYSCTL_REASONS[key])}{'-' if key in optional else ''}{key} = {value}\n")
    return "".join(lines)


def limits_conf(memlock: str) -> str:
    """A limits.d file for who logs in; memory in KiB or `unlimited`."""
    reason = (
        "RDMA locks the memory that it registers, which the default of 8 MiB forbids to users. Root needs no line: "
        "it may "
        "lock what it wants. Containers get their limit from Docker (--ulimit memlock=-1)."
    )
    return f"{_said(_HEADER, reason)}* soft memlock {memlock}\n* hard memlock {memlock}\n"


def manager_conf(memlock: str) -> str:
    """A drop-in for systemd's own settings, the system's or a user's manager: limits.d is only read at logins."""
    reason = (
        "Services do not log in, so limits.d says nothing to them. This is the same limit for everything that systemd "
        "starts."
    )
    return f"{_said(_HEADER, reason)}[Manager]\nDefaultLimitMEMLOCK={manager_limit(memlock)}\n"


def manager_limit(memlock: str) -> str:
    """The limit as systemd writes it: in bytes, or infinity."""
    return "infinity" if memlock == "unlimited" else str(int(memlock) * 1024)


def logind_conf(settings: Mapping[str, str]) -> str:
    """A drop-in for logind."""
    reason = (
        "When a user's last session ends, logind deletes that user's semaphores and shared memory and, where it was "
        "told "
        "so, ends the processes. A rank that was started over SSH then dies with the connection, and the head waits "
        "for "
        "ever."
    )
    return f"{_said(_HEADER, reason)}[Login]\n" + "".join(f"{key}={value}\n" for key, value in settings.items())


def guard_conf(memory: int, swap: int, prefer: Iterable[str], avoid: Iterable[str]) -> str:
    """Arguments of earlyoom. Names are beginnings, as the kernel keeps 15 characters of a process' name.

    systemd splits the line at blanks and takes quotes out, so there is neither in it but for the outer ones.
    """
    words = ["-r", "3600", "-m", str(memory), "-s", f"{swap},{swap}"]
    for option, names in (("--prefer", list(prefer)), ("--avoid", list(avoid))):
        words += [option, f"^({'|'.join(names)})"] if names else []
    reason = (
        "On unified memory the GPU's allocations belong to no process and to no cgroup: the kernel's own OOM killer "
        "comes late, after minutes without an answer, and takes the wrong one. This ends the engine while the host "
        "answers."
    )
    options = (
        "-m: SIGTERM below this percentage of available memory, SIGKILL below half of it.",
        "-s: only with less free swap than this percentage; 100 acts on memory alone, before swapping began.",
        "--prefer: the engines. --avoid: what is needed to log in, to look, and to start them again.",
        "-r: a line in the journal every hour.",
    )
    return f'{_said(_HEADER, reason, *options)}EARLYOOM_ARGS="{" ".join(words)}"\n'


def ssh_conf() -> str:
    """A drop-in for sshd."""
    reason = (
        "When memory runs out somebody has to log in. sshd protects its listener itself; this is for its sessions, "
        "which "
        "inherit it. It stands for 5 % of the memory and no more, so that an engine that was started in a session is "
        "still "
        "taken before the shell. MemoryMin keeps the pages of sshd from being reclaimed. Both hold from the next "
        "start of "
        "sshd."
    )
    return f"{_said(_HEADER, reason)}[Service]\nOOMScoreAdjust=-50\nMemoryMin={_SSH_MEMORY}\n"


def slice_conf() -> str:
    """A drop-in for the slice of all services."""
    reason = (
        "A service keeps no more memory than the slices above it do: without this, MemoryMin of sshd counts for "
        "nothing."
    )
    return f"{_said(_HEADER, reason)}[Slice]\nMemoryMin={_SSH_MEMORY}\n"


def governor_conf(governor: str) -> str:
    """A tmpfiles.d file, by which a boot sets the governor of every CPU; a glob that matches nothing does nothing."""
    reason = "One rank whose CPU has to speed up first holds up all others in every step: the clock stays up."
    return f"{_said(_HEADER, reason)}w {GOVERNORS}/policy*/scaling_governor - - - - {governor}\n"


def periodic_conf() -> str:
    """An apt.conf.d file without any periodic work."""
    reason = (
        "A driver, a kernel or a library that changes by itself under a running server ends it, or a part of it. What "
        "changes on this host is what somebody asked for."
    )
    names = ("Enable", "Update-Package-Lists", "Download-Upgradeable-Packages", "Unattended-Upgrade")
    settings = "".join(f'APT::Periodic::{name} "0";\n' for name in (*names, "AutocleanInterval"))
    return _said(_HEADER, reason, mark="//") + settings


def unit_conf(sysctl: bool, governor: bool) -> str:
    """A service that sets our values after everybody else has set theirs."""
    sysctl_line = f"ExecStart=/usr/lib/systemd/systemd-sysctl {SYSCTL_FILE}\n" if sysctl else ""
    # With a minus: the kernel takes no governor for a CPU that is offline, and the others are set all the same.
    governor_line = f"ExecStart=-/usr/bin/systemd-tmpfiles --create {GOVERNOR_FILE}\n" if governor else ""
    reason = (
        "Another file or service may have set our values to something else during the boot: this has the last word."
    )
    return (
        f"{_said(_HEADER, reason)}"
        "[Unit]\n"
        "Description=Kernel settings and CPU governor of Firstlight\n"
        "After=systemd-sysctl.service systemd-tmpfiles-setup.service\n"
        "After=ondemand.service cpufrequtils.service power-profiles-daemon.service tuned.service tlp.service\n"
        "\n"
        "[Service]\n"
        "Type=oneshot\n"
        "RemainAfterExit=yes\n"
        f"{sysctl_line}{governor_line}"
        "\n"
        "[Install]\n"
        "WantedBy=multi-user.target\n"
    )
