#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Move what pin.sh pinned, each thing in another way.
set -eu
apt-get -y --allow-change-held-packages install /var/lib/drift/drift-upgraded_2_all.deb
apt-mark unhold drift-unheld
dpkg --install /var/lib/drift/drift-by-dpkg_2_all.deb
apt-get -y --allow-change-held-packages purge drift-removed
echo changed >/etc/drift.conf
sysctl -w net.ipv4.tcp_keepalive_time=60
