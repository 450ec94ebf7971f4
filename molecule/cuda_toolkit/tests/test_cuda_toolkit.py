# SPDX-License-Identifier: Apache-2.0
"""A node has the pinned toolkit, although a newer one is on offer, and no driver came with it."""

from __future__ import annotations

import re

from testinfra.host import Host

testinfra_hosts = ["ssh://bare0"]
PINNED = {
    "cuda-toolkit-13-0": "13.0.2-1",
    "cuda-compiler-13-0": "13.0.2-1",
    "cuda-nvcc-13-0": "13.0.88-1",
    "cuda-cudart-13-0": "13.0.88-1",
}


def test_every_package_is_pinned_and_held_although_a_newer_one_is_on_offer(host: Host) -> None:
    listed = host.check_output("dpkg-query -W -f '${Package} ${Version} ${db:Status-Want}\\n' 'cuda-*'")
    rows = [line.split() for line in listed.splitlines()]
    assert {row[0]: row[1:] for row in rows if len(row) == 3} == {
        name: [version, "hold"] for name, version in PINNED.items()
    }
    assert "13.0.3-1" in host.check_output("apt-cache madison cuda-toolkit-13-0")


def test_the_compiler_is_of_the_release(host: Host) -> None:
    assert "release 13.0, V13.0.88" in host.check_output("/usr/local/cuda-13.0/bin/nvcc --version")


def test_the_source_names_its_key_and_nothing_else_of_it_is_a_candidate(host: Host) -> None:
    source = host.file("/etc/apt/sources.list.d/firstlight-cuda.sources").content_string
    assert re.search(r"^Signed-By: /etc/apt/keyrings/firstlight-[0-9A-F]{40}\.asc$", source, re.MULTILINE)
    assert re.search(r" -1 http://nvidia\.lab\.example", host.check_output("apt-cache policy cuda-toolkit-12-6"))
    pinned = host.check_output("apt-cache policy cuda-nvcc-13-0")
    assert "Candidate: 13.0.88-1" in pinned
    assert re.search(r"\*\*\* 13\.0\.88-1 1001", pinned)


def test_unattended_upgrades_keep_off(host: Host) -> None:
    dumped = host.check_output("apt-config dump Unattended-Upgrade::Package-Blacklist")
    assert '"^cuda-nvcc-13-0$"' in dumped


def test_what_was_installed_is_kept(host: Host) -> None:
    names = host.check_output("ls /var/lib/firstlight/debs").splitlines()
    for name, version in PINNED.items():
        assert any(one.startswith(f"{name}_{version}_") for one in names)


def test_apt_goes_on_working(host: Host) -> None:
    assert host.run("apt-get check").rc == 0
