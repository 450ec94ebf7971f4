#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Make two versions of four packages, install and hold the first, and write two files. Nothing else knows these packages.
set -eu
home=/var/lib/drift
rm -rf "$home"
mkdir -p "$home/tree/DEBIAN"
for name in drift-upgraded drift-unheld drift-by-dpkg drift-removed; do
  for version in 1 2; do
    printf 'Package: %s\nVersion: %s\nArchitecture: all\nMaintainer: Drift <drift@example>\nDescription: nothing\n' \
      "$name" "$version" >"$home/tree/DEBIAN/control"
    dpkg-deb --build "$home/tree" "$home/${name}_${version}_all.deb"
  done
done
apt-get -y --allow-downgrades --allow-change-held-packages install "$home"/*_1_all.deb
apt-mark hold drift-upgraded drift-unheld drift-by-dpkg drift-removed
echo pinned | tee /etc/drift.conf >/etc/drift.kept
chmod 0644 /etc/drift.conf /etc/drift.kept
sysctl -w net.ipv4.tcp_keepalive_time=7200
