#!/bin/sh
# What people, programs and packages do to a node that was tuned.
set -eu
sysctl --quiet --write vm.swappiness=60
echo 1 >/proc/sys/kernel/numa_balancing
echo schedutil >/sys/devices/system/cpu/cpufreq/policy1/scaling_governor
rm /etc/security/limits.d/zz-firstlight.conf
chmod 0666 /etc/default/earlyoom
echo 'EARLYOOM_ARGS="-m 90"' >/etc/default/earlyoom
systemctl start gdm.service
systemctl enable --now apt-daily-upgrade.timer
systemctl disable --now firstlight-tuning.service
systemctl set-default graphical.target
systemctl unmask swap.target
swapon -a
loginctl disable-linger rank
# A file that has the last word, at the next boot as now.
echo 'vm.swappiness = 77' >/etc/sysctl.d/zzzz-later.conf
systemctl restart systemd-sysctl.service
