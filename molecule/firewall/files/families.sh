#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Two hosts in network namespaces of their own, side by side on a management network and a fabric of both families: nodes of the
# lab have IPv4 only. The rules of the first come on standard input. Prints one line for every connection of the second.
# Run it as: unshare --net --mount --pid --fork --mount-proc bash families.sh
set -euo pipefail
mount -t tmpfs none /run
mkdir /run/netns
cat >/run/rules
for host in A B; do
  ip netns add "$host"
  ip -n "$host" link set lo up
done
number=1
for port in m0 f0; do
  ip link add "$port" netns A type veth peer name "$port" netns B
  for host in A B; do ip -n "$host" link set "$port" up; done
  ip -n A addr add "10.9.$number.1/24" dev "$port"
  ip -n A addr add "fd09:$number::1/64" dev "$port" nodad
  for last in 2 9; do
    ip -n B addr add "10.9.$number.$last/24" dev "$port"
    ip -n B addr add "fd09:$number::$last/64" dev "$port" nodad
  done
  number=$((number + 1))
done
ip netns exec A nft -f /run/rules
for port in 22 443 6379; do
  ip netns exec A python3 -m http.server "$port" --bind :: --directory /run/netns >/dev/null 2>&1 &
done
for _ in $(seq 50); do
  [[ $(ip netns exec A ss --no-header --listening --tcp --numeric | wc -l) -eq 3 ]] && break
  sleep 0.2
done
while read -r address source; do
  for port in 22 443 6379; do
    ip netns exec B python3 - "$address" "$port" "$source" <<'PYTHON' &
import socket, sys
host, port, source = sys.argv[1:]
try:
    socket.create_connection((host, int(port)), 3, (source, 0)).close()
    told = "open"
except TimeoutError:
    told = "closed"
sys.stdout.write(f"{source} {port} {told}\n")  # in one piece, as others write at the same time
PYTHON
    tries+=("$!")
  done
done <<'PLACES'
10.9.1.1 10.9.1.2
10.9.1.1 10.9.1.9
fd09:1::1 fd09:1::2
fd09:1::1 fd09:1::9
10.9.2.1 10.9.2.2
10.9.2.1 10.9.2.9
fd09:2::1 fd09:2::2
fd09:2::1 fd09:2::9
PLACES
wait "${tries[@]}"
# The first process of a process namespace takes all others with it.
