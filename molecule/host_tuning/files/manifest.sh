#!/bin/sh
# Everything of a node that the role could have changed, a line each, into the file that is named. With a second file, which
# is an earlier one, it says what is different and fails.
# Not in it: times, and the former versions of /etc/passwd and its like, which every change of an account writes anew.
set -eu
{
    find /etc /var/lib/systemd/linger /var/lib/firstlight ! -path '/etc/*-' ! -type f -printf '%y %p %#m %u:%g %l\n' 2>/dev/null || true
    find /etc ! -path '/etc/*-' -type f -printf '%y %p %#m %u:%g ' -exec sha256sum {} \;
    systemctl list-unit-files --no-legend --no-pager
    for unit in gdm sddm unattended-upgrades earlyoom systemd-timesyncd firstlight-tuning ssh docker; do
        echo "$unit $(systemctl is-active $unit)"
    done
    systemctl list-units --type=timer --no-legend --no-pager --plain | cut -d' ' -f1
    systemctl get-default
    systemctl show --property=DefaultLimitMEMLOCK
    loginctl show-session --property=RemoveIPC --property=KillUserProcesses
    cat /proc/swaps /proc/sys/vm/swappiness /proc/sys/kernel/numa_balancing /proc/sys/net/ipv4/ip_unprivileged_port_start
    cat /sys/devices/system/cpu/cpufreq/policy*/scaling_governor
    dpkg-query --show
} | sort >"$1"
[ $# -eq 1 ] || diff "$2" "$1"
