#!/bin/sh
# Makes a node a desktop that somebody has used: a graphical login, updates that run by themselves, swap, and files of the
# names that the role writes, with modes and owners of their own.
set -eu
units=/etc/systemd/system

useradd --uid 1500 --create-home rank

# A display manager with an alias and an odd way to its unit file, and one more that is not enabled.
cat >$units/gdm.service <<END
[Unit]
Description=Stands for a display manager
[Service]
ExecStart=/bin/sleep infinity
[Install]
WantedBy=graphical.target
Alias=display-manager.service
END
cp $units/gdm.service $units/sddm.service
systemctl daemon-reload
systemctl enable --now gdm.service
ln -sfn ../gdm.service $units/graphical.target.wants/gdm.service
ln -sfn /usr/lib/systemd/../systemd/system/graphical.target $units/default.target

# Updates that run by themselves, enabled by an init script, too.
systemctl enable --now unattended-upgrades.service
systemctl enable apt-daily-upgrade.timer

# Files of our names, of others.
mkdir -p $units/ssh.service.d /etc/systemd/logind.conf.d
printf 'vm.swappiness=\t42\n# caf\351, not UTF-8, and no newline at the end' >/etc/sysctl.d/zz-firstlight.conf
chmod 0600 /etc/sysctl.d/zz-firstlight.conf
chown nobody:rank /etc/sysctl.d/zz-firstlight.conf
ln -s /etc/hostname /etc/tmpfiles.d/zz-firstlight.conf
echo 'EARLYOOM_ARGS="-m 50"' >/etc/default/earlyoom
chmod 0755 /etc/default/earlyoom
printf '[Login]\nRemoveIPC=yes\n' >/etc/systemd/logind.conf.d/site.conf
# One that has the last word after ours, at every boot.
echo 'vm.swappiness = 60' >/etc/sysctl.d/zzz-theirs.conf

touch /swap.img
echo '/swap.img none swap sw 0 0' >>/etc/fstab
swapon -a
