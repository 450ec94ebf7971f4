# SPDX-License-Identifier: Apache-2.0
"""The files that role host_tuning writes, from its templates.

If several files of a directory contain the same setting, the last one by name wins; hence the zz.
"""

from __future__ import annotations

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
