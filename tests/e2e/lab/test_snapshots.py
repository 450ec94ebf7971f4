# SPDX-License-Identifier: Apache-2.0
"""Snapshots of a lab of two nodes. Tests that change the lab restore it first, so that their order does not matter."""

from __future__ import annotations

import json
import os
import signal
import stat
import subprocess
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from firstlight_lab import snapshots
from firstlight_lab.cache import Cache, default_root
from firstlight_lab.cluster import Lab
from firstlight_lab.containers import LABEL
from firstlight_lab.fabric import change_fabric
from firstlight_lab.incidents import play, power, set_faults, set_repository
from firstlight_lab.shell import LabError
from firstlight_lab.spec import make_spec
from tests.e2e.support import CHECKOUT

NAME = "snapshots"
BASE = "base"
NODES = ("spark0", "spark1")
# An image without a registry: a shell and its libraries. Its container writes to its own layer once a boot.
PREPARE = r"""
echo original > /etc/site.conf
mkdir -p /srv/odd && cd /srv/odd
install -m 4711 -o 1234 -g 5678 /dev/null owned
python3 -c 'import os; os.setxattr("owned", "user.color", b"blue")'
ln owned same-inode && ln -s owned link && mknod device c 1 3 && mkfifo fifo
rm /etc/issue
programs='/bin/sh /usr/bin/sleep'
tar -ch $programs $(ldd $programs | grep -o '/lib[^ ]*' | sort -u) 2>/dev/null | docker import - shell:1
docker run -d --name supervisor --restart=always --network=none shell:1 /bin/sh -c 'echo boot >> /boots; sleep 100000'
"""
# All that a boot leaves alone, with owners, modes, link targets, devices, extended attributes and content.
STATE = r"""
import hashlib, json, os, stat, subprocess
found = {}
for top in ("/etc", "/root", "/srv", "/usr", "/var/lib/dpkg"):
    for directory, directories, files in os.walk(top):
        for path in [os.path.join(directory, name) for name in directories + files]:
            s = os.lstat(path)
            content = ""
            if stat.S_ISLNK(s.st_mode):
                content = os.readlink(path)
            elif stat.S_ISREG(s.st_mode) and not directory.startswith("/usr"):
                content = hashlib.sha256(open(path, "rb").read()).hexdigest()
            attributes = os.listxattr(path, follow_symlinks=False)
            size = 0 if stat.S_ISDIR(s.st_mode) else s.st_size
            found[path] = [s.st_mode, s.st_uid, s.st_gid, size, s.st_rdev, content, attributes]
for path in ("/etc/hosts", "/etc/hostname", "/etc/resolv.conf", "/etc/mtab"):
    found.pop(path, None)
listing = ["docker", "image", "ls", "--no-trunc", "--format", "{{.ID}} {{.Repository}}:{{.Tag}}"]
images = subprocess.check_output(listing)
print(json.dumps({"files": found, "images": images.decode()}))
"""


@pytest.fixture(scope="module")
def taken() -> Iterator[Lab]:
    """Two nodes with files, packages and a container of their own, and a snapshot of them."""
    lab = Lab(Cache(default_root()), NAME, lambda _: None)
    try:
        lab.up(make_spec(NAME, nodes=len(NODES)))
        for node in NODES:
            inside(lab, node, PREPARE)
        snapshots.take(lab, BASE)
        yield lab
    finally:
        lab.down()


def inside(lab: Lab, node: str, script: str) -> str:
    return lab.engine().docker("exec", lab.container(node), "sh", "-ec", script)


def state(lab: Lab, node: str) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(lab.engine().docker("exec", lab.container(node), "python3", "-c", STATE))
    return found


def ssh(lab: Lab, node: str, command: str) -> str:
    argv = ["ssh", "-F", str(lab.directory / "ssh_config"), "-o", "BatchMode=yes", node, command]
    return subprocess.run(argv, capture_output=True, text=True, check=True, timeout=60).stdout


def volumes(lab: Lab) -> list[str]:
    return lab.engine().docker("volume", "ls", "-q", "--filter", f"label={LABEL}={lab.name}").split()


def helpers(lab: Lab) -> list[str]:
    return lab.engine().docker("ps", "-aq", "--filter", f"name={NAME}-disks").split()


def status(lab: Lab, node: str) -> str:
    return lab.engine().docker("inspect", "--format", "{{.State.Status}}", lab.container(node)).strip()


def wait_for(condition: Callable[[], bool], what: str) -> None:
    deadline = time.monotonic() + 60
    while not condition():
        assert time.monotonic() < deadline, f"{what}: not within a minute"
        time.sleep(0.05)


def start_command(*words: str) -> subprocess.Popen[bytes]:
    argv = [str(CHECKOUT / ".venv/bin/firstlight"), "lab", *words, "--name", NAME]
    return subprocess.Popen(argv, cwd=CHECKOUT, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)


@dataclass(frozen=True)
class Facts:
    """A lab at one moment."""

    record: dict[str, Any]
    files: dict[str, str]
    """Of the lab itself: keys, known hosts, catalog."""
    nodes: dict[str, dict[str, Any]]
    identities: dict[str, str]
    """What a node is, over SSH with the lab's known hosts."""
    boots: dict[str, str]
    fabric: str
    ports: list[list[str]]


def facts(lab: Lab) -> Facts:
    own = {path.relative_to(lab.directory): path for path in sorted(lab.directory.rglob("*")) if path.is_file()}
    return Facts(
        record=lab.record(),
        files={
            str(name): path.read_text() for name, path in own.items() if name.parts[0] not in ("snapshots", "wheels")
        },
        nodes={node: state(lab, node) for node in NODES},
        identities={node: ssh(lab, node, "cat /etc/machine-id /etc/firstlight-lab/serial") for node in NODES},
        boots={node: inside(lab, node, "cat /proc/sys/kernel/random/boot_id") for node in NODES},
        fabric=inside(lab, "switch", "cat /run/fabric.json; grep . /sys/class/net/n*/mtu"),
        ports=[row["ports"] for row in lab.status()],
    )


@dataclass(frozen=True)
class Comparison:
    before: Facts
    damaged: Facts
    after: Facts
    container: str
    """What the container of a node has in its own layer after the restore."""
    volatile: str
    """What is left of files in /run and /tmp."""


DAMAGE = r"""
echo damaged > /etc/site.conf; rm -r /srv/odd; touch /etc/new; chmod 0777 /etc/ssh
dpkg --purge --force-depends ethtool
docker exec supervisor /bin/sh -c 'echo more >> /boots'
docker rm -f supervisor; docker image rm shell:1
touch /run/marker /tmp/marker
"""


@pytest.fixture(scope="module")
def restored(taken: Lab) -> Comparison:
    """Everything that can happen to a lab, and the lab after a restore."""
    before = facts(taken)
    inside(taken, "spark0", DAMAGE)
    change_fabric(taken, node="spark0", mtu=1500, rate="200mbit")
    change_fabric(taken, node="spark1", cage=0)
    set_faults(taken, "spark0", ["gpu_missing"])
    taken.exchange("spark1")
    play(taken, "spark1", "h100-pcie", [])
    known = taken.directory / "known_hosts"
    changed = known.read_text().splitlines()[0] + f"\nspark1,{taken.record()['nodes'][1]['address']} "
    known.write_text(changed + (taken.directory / "keys/spark1_ed25519.pub").read_text())
    damaged = facts(taken)
    set_repository(taken, "gone", "Release")
    started = time.monotonic()
    snapshots.restore(taken, BASE)
    print(f"restored in {time.monotonic() - started:.1f} s")
    after = facts(taken)
    running = "docker inspect -f '{{.State.Running}}' supervisor"
    wait_for(lambda: "true" in inside(taken, "spark0", running), "the node's container")
    boots = "docker exec supervisor /bin/sh -c 'while read line; do echo $line; done < /boots'"
    volatile = inside(taken, "spark0", "ls /run /tmp | grep '^marker$' || true")
    inside(taken, "spark0", "apt-get -q update")
    return Comparison(before, damaged, after, inside(taken, "spark0", boots), volatile)


def test_restore_reverts_files_packages_and_images(restored: Comparison) -> None:
    assert restored.damaged.nodes["spark0"] != restored.before.nodes["spark0"]
    assert restored.after.nodes == restored.before.nodes
    found = restored.after.nodes["spark0"]["files"]
    assert found["/srv/odd/owned"][1:3] == [1234, 5678]
    assert found["/srv/odd/owned"][-1] == ["user.color"]
    assert stat.S_ISCHR(found["/srv/odd/device"][0])
    assert "shell:1" in restored.after.nodes["spark0"]["images"]


def test_restore_reverts_the_layer_of_a_running_container(restored: Comparison) -> None:
    """It started before the snapshot and starts again with the node; nothing else has been written."""
    assert restored.container.split() == ["boot", "boot"]


def test_restore_is_a_boot_of_every_node(restored: Comparison) -> None:
    assert all(restored.after.boots[node] != restored.damaged.boots[node] for node in NODES)
    assert restored.volatile == ""


def test_restore_brings_back_a_replaced_machine_with_its_key_and_address(restored: Comparison) -> None:
    assert restored.damaged.identities["spark1"] != restored.before.identities["spark1"]
    assert restored.damaged.files != restored.before.files
    assert restored.after.identities == restored.before.identities
    assert restored.after.files == restored.before.files


def test_restore_reverts_hardware_faults_and_fabric_settings(restored: Comparison) -> None:
    assert restored.damaged.record != restored.before.record
    assert restored.after.record == restored.before.record
    assert restored.damaged.fabric != restored.before.fabric
    assert restored.after.fabric == restored.before.fabric
    assert restored.damaged.ports != restored.before.ports
    assert restored.after.ports == restored.before.ports


def test_restore_leaves_off_what_was_off_and_powers_on_what_was_on(taken: Lab) -> None:
    snapshots.restore(taken, BASE)
    boot = inside(taken, "spark0", "cat /proc/sys/kernel/random/boot_id")
    power(taken, "spark1", "off")
    snapshots.take(taken, "one-off")
    try:
        assert inside(taken, "spark0", "cat /proc/sys/kernel/random/boot_id") == boot, "a snapshot restarts no node"
        power(taken, "spark0", "off")
        power(taken, "spark1", "on")
        snapshots.restore(taken, "one-off")
        assert [status(taken, node) for node in NODES] == ["running", "exited"]
    finally:
        snapshots.remove(taken, "one-off")


def test_a_snapshot_of_the_same_name_replaces_the_first_one(taken: Lab) -> None:
    snapshots.restore(taken, BASE)
    inside(taken, "spark0", "echo first > /etc/site.conf")
    snapshots.take(taken, "again")
    inside(taken, "spark0", "echo second > /etc/site.conf")
    snapshots.take(taken, "again")
    try:
        assert snapshots.names(taken) == [BASE, "again"]
        assert len(volumes(taken)) == 2
        inside(taken, "spark0", "echo third > /etc/site.conf")
        snapshots.restore(taken, "again")
        assert inside(taken, "spark0", "cat /etc/site.conf").strip() == "second"
    finally:
        snapshots.remove(taken, "again")
    assert len(volumes(taken)) == 1


def test_an_image_layer_that_was_changed_in_place_is_refused(taken: Lab) -> None:
    """The file is the snapshot's, too: with its former content and time it is good again."""
    snapshots.restore(taken, BASE)
    find = "find /var/lib/docker/overlay2/*/diff -path '*/bin/sleep' | head -1"
    file = inside(taken, "spark0", find).strip()
    inside(taken, "spark0", f"cp -a {file} /root/saved; printf x | dd of={file} bs=1 seek=100 conv=notrunc")
    try:
        with pytest.raises(LabError, match=r"changed in place .*on spark0\)"):
            snapshots.restore(taken, BASE)
        assert [status(taken, node) for node in NODES] == ["running", "running"]
    finally:
        inside(taken, "spark0", f"cat /root/saved > {file}; touch -r /root/saved {file}")
    snapshots.restore(taken, BASE)


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGKILL])
def test_an_interrupted_snapshot_leaves_nothing_and_keeps_the_one_it_would_replace(
    taken: Lab, number: signal.Signals
) -> None:
    snapshots.restore(taken, BASE)
    inside(taken, "spark0", "echo changed > /etc/site.conf")
    process = start_command("snapshot", BASE)
    wait_for(lambda: status(taken, "spark0") == "paused", "snapshot")
    process.send_signal(number)
    process.wait(timeout=60)
    if number == signal.SIGKILL:
        taken.up(make_spec(NAME, nodes=len(NODES)))
        assert [status(taken, node) for node in NODES] == ["running", "running"]
        taken.engine().docker("pause", taken.container("spark0"))
        snapshots.take(taken, "next")
        snapshots.remove(taken, "next")
    assert [status(taken, node) for node in NODES] == ["running", "running"]
    assert (len(volumes(taken)), helpers(taken), snapshots.names(taken)) == (1, [], [BASE])
    snapshots.restore(taken, BASE)
    assert inside(taken, "spark0", "cat /etc/site.conf").strip() == "original"


def test_an_interrupted_restore_is_completed_by_the_next_one(taken: Lab) -> None:
    snapshots.restore(taken, BASE)
    before = state(taken, "spark0")
    process = start_command("restore", BASE)
    wait_for(lambda: bool(helpers(taken)), "restore")
    process.kill()
    process.wait(timeout=60)
    snapshots.restore(taken, BASE)
    assert state(taken, "spark0") == before
    assert helpers(taken) == []


def test_an_unknown_snapshot_names_the_known_ones(taken: Lab) -> None:
    with pytest.raises(LabError, match=r"has no snapshot 'bse'. Its snapshots are base\."):
        snapshots.restore(taken, "bse")


def test_down_removes_snapshots() -> None:
    lab = Lab(Cache(default_root()), f"{NAME}-down", lambda _: None)
    try:
        lab.up(make_spec(lab.name, nodes=0, bare=1))
        snapshots.take(lab, BASE)
        engine, path = lab.engine(), Path(lab.engine().docker("info", "--format", "{{.DockerRootDir}}").strip())
        [volume] = volumes(lab)
    finally:
        lab.down()
    assert not lab.directory.exists()
    if os.geteuid() == 0 and engine.private:
        assert not (path / "volumes" / volume).exists()
    elif engine.answers():
        assert volumes(lab) == []
