# SPDX-License-Identifier: Apache-2.0
"""Whatever is asked for, nft takes the rules and its own listing of them, and lists the same rules alike."""

from __future__ import annotations

import io
import subprocess
import tarfile

import pytest
from ansible_collections.firstlight.cluster.plugins.module_utils.firewall.firewall import REMOVAL
from ansible_collections.firstlight.cluster.plugins.plugin_utils.firewall_rules import read_firewall, render_rules
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

testinfra_hosts = ["ssh://spark0"]

COUNT = 150
LOAD = """
set -u
cd "$(mktemp -d /run/rules.XXXXXX)"
tar xz
for file in */rules; do
  home=$(dirname "$file")
  unshare --net sh -c '
    nft -f "$0/rules" && nft -s list table inet firstlight >"$0/listing" &&
    cat "$0/../removal" "$0/listing" >"$0/again" && nft -f "$0/again" && nft -f "$0/rules" &&
    nft -s list table inet firstlight | cmp - "$0/listing"' "$home" 2>"$home/said" ||
    { echo "$home:"; head -3 "$home/said"; }
done
rm -rf "$PWD"
"""

four = st.builds(
    lambda number, prefix: (
        f"{'.'.join(str(part) for part in (number & (0xFFFFFFFF << (32 - prefix))).to_bytes(4, 'big'))}/{prefix}"
    ),
    st.integers(0, 2**32 - 1),
    st.integers(0, 32),
)
six = st.sampled_from(["::/0", "fd00::/8", "fd00:1::/64", "fd00:1::7", "2001:db8::/32", "::1/128"])
networks = st.lists(four | six, min_size=1, max_size=6)
port = st.integers(1, 65535)
ports = st.lists(port | st.tuples(port, port).map(lambda pair: f"{min(pair)}-{max(pair)}"), min_size=1, max_size=6)
names = st.text("abcdefghijklmnopqrstuvwxyz0123456789_-", min_size=1, max_size=40)
interfaces = st.text("abcXYZ019._-@+", min_size=1, max_size=15)
peers = st.builds(lambda last, rail: f"192.168.{rail}.{last}", st.integers(1, 254), st.integers(100, 103))
requests = st.fixed_dictionaries(
    {
        "firewall_ssh_ports": ports,
        "firewall_ssh_from": st.just([]) | networks,
        "firewall_fabric": st.fixed_dictionaries(
            {
                "interfaces": st.lists(interfaces, max_size=4),
                "peers": st.lists(peers | st.sampled_from(["fd00::10", "fd00::11"]), max_size=20),
            }
        ),
        "firewall_openings": st.lists(
            st.fixed_dictionaries(
                {"name": names, "protocol": st.sampled_from(["tcp", "udp"]), "ports": ports, "from": networks}
            ),
            max_size=4,
            unique_by=lambda opening: str(opening["name"]),
        ),
        "firewall_container_interfaces": st.lists(interfaces | st.sampled_from(["docker0", "br-*"]), max_size=3),
    }
)


@pytest.fixture(scope="module")
def rules() -> list[str]:
    """The rules of this many requests."""
    found: list[str] = []

    @settings(
        max_examples=COUNT, derandomize=True, deadline=None, database=None, suppress_health_check=list(HealthCheck)
    )
    @given(requests)
    def collect(request: dict[str, object]) -> None:
        found.append(render_rules(read_firewall(request)))

    collect()
    return sorted(set(found))


def test_nft_takes_every_one_and_its_own_listing(rules: list[str], pytestconfig: pytest.Config) -> None:
    assert len(rules) > COUNT // 2
    stream = io.BytesIO()
    with tarfile.open(fileobj=stream, mode="w:gz", compresslevel=1) as archive:
        named = {f"{number:03}/rules": text for number, text in enumerate(rules)} | {"removal": REMOVAL}
        for name, text in named.items():
            entry = tarfile.TarInfo(name)
            entry.size = len(text.encode())
            archive.addfile(entry, io.BytesIO(text.encode()))
    argv = ["ssh", "-F", pytestconfig.getoption("ssh_config"), "spark0", LOAD]
    ran = subprocess.run(argv, input=stream.getvalue(), capture_output=True, check=True, timeout=100)
    assert ran.stdout.decode() == ""
