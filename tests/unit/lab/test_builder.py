# SPDX-License-Identifier: Apache-2.0
"""The container that builds for a user who is not root: what it is given, what it says, what it leaves."""

from __future__ import annotations

import os
import subprocess
import sys
import tarfile
import threading
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from firstlight_lab import builder
from firstlight_lab.builder import Builds, Part
from firstlight_lab.cache import Cache
from firstlight_lab.host import BUILD_PROGRAMS, Engine
from firstlight_lab.images import BUILD_PREFIX
from firstlight_lab.shell import LabError

CACHE = Path("/home/me/.cache/firstlight")


def options(argv: Sequence[str], name: str) -> list[str]:
    return [argv[index + 1] for index, word in enumerate(argv) if word == name]


def command(environment: Mapping[str, str] | None = None) -> list[str]:
    return builder.command("build", "image", "node", CACHE, environment or {})


def test_the_machine_is_read_only_and_the_cache_alone_is_written() -> None:
    assert options(command(), "-v") == ["/:/host:ro", "/usr:/usr:ro", "/scratch", f"{CACHE}:/cache"]


def test_the_same_code_runs_in_the_same_interpreter_for_the_same_user() -> None:
    argv = command()
    assert argv[argv.index("enter") + 1 :] == [
        *(str(CACHE), sys.executable, "node", str(CACHE), str(os.getuid()), str(os.getgid()))
    ]
    assert f"PYTHONPATH={Path(builder.__file__).parents[2]}" in options(argv, "-e")


def test_settings_of_indexes_and_proxies_go_in_by_name_only() -> None:
    secret = {"PIP_INDEX_URL": "https://me:secret@index", "https_proxy": "http://me:secret@proxy", "NO_PROXY": "secret"}
    other = {"PATH": "/home/me/bin", "PYTHONHOME": "/x", "MY_HOMES": "2", "LD_PRELOAD": "x.so"}
    argv = command({**secret, **other, "HOME": "/home/me"})
    assert set(secret) | {"HOME"} <= set(options(argv, "-e"))
    assert not set(other) & set(options(argv, "-e"))
    assert "secret" not in " ".join(argv)


def test_the_machine_s_own_name_service_and_network_are_used() -> None:
    assert "--network=host" in command()
    assert "cp /etc/resolv.conf /host/etc/resolv.conf" in builder.ENTER


def test_the_image_is_places_and_links_only(tmp_path: Path) -> None:
    builder.write_image(tmp_path / "image.tar")
    with tarfile.open(tmp_path / "image.tar") as archive:
        members = {member.name: member for member in archive}
    assert {member.linkname for member in members.values() if member.issym()} == {
        *("usr/bin", "usr/lib", "usr/lib64", "usr/sbin")
    }
    assert all(member.issym() or member.isdir() for member in members.values())
    assert {"host", "cache", "scratch", "upper"} <= set(members)


def test_what_it_says_is_handed_on_and_what_it_dies_of_is_quoted() -> None:
    heard: list[str] = []
    builds = Builds(Cache(CACHE), FakeEngine("unix:///x", private=False), heard.append)
    builds._follow(["sh", "-c", f"echo '{builder.SAY}half way'; echo noise"])
    assert heard == ["half way"]
    with pytest.raises(LabError, match=r"failed: no such mirror") as caught:
        builds._follow(["sh", "-c", f"echo '{builder.SAY}x'; echo no such mirror >&2; exit 1"])
    assert builder.SAY not in str(caught.value)


@pytest.fixture
def part(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """A part that is easily made, and what happened to it."""
    happened: list[str] = []

    def make(cache: Cache, _: Any) -> None:
        (cache.node / "below").mkdir(parents=True)
        (cache.node / "below/link").symlink_to("nowhere")
        happened.append("made")

    parts = {"node": Part(lambda cache: cache.node.exists(), make, lambda cache: [cache.node, cache.hub])}
    monkeypatch.setattr(builder, "PARTS", parts)
    monkeypatch.setattr("signal.signal", lambda *_: None)
    monkeypatch.setattr(builder, "ensure_programs", lambda _, *groups: happened.append(f"programs {list(groups)}"))
    monkeypatch.setattr(os, "chown", lambda path, user, *_, **__: happened.append(f"{Path(path).name} {user}"))
    return happened


def test_inside_it_makes_the_part_and_gives_all_of_it_away(part: list[str], tmp_path: Path) -> None:
    assert builder.main(["node", str(tmp_path), "1000", "1000"]) == 0
    assert part == [f"programs {[BUILD_PROGRAMS]}", "made", "node 1000", "below 1000", "link 1000"]


def test_a_part_that_cannot_be_made_is_one_message(
    part: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "node/below").mkdir(parents=True)
    assert builder.main(["node", str(tmp_path), "1000", "1000"]) == 1
    assert "File exists" in capsys.readouterr().out
    assert part[-1] == "below 1000", "what a failed build leaves is the user's too"


@pytest.mark.parametrize("first", [1, 4711])
def test_a_build_that_is_ended_cleans_up_and_says_nothing(
    part: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], first: int
) -> None:
    killed: list[int] = []
    monkeypatch.setattr(os, "kill", lambda pid, _: killed.append(pid))
    monkeypatch.setattr(os, "getpid", lambda: first)
    monkeypatch.setattr(builder, "ensure_programs", builder._leave)
    (tmp_path / "node").mkdir()
    assert builder.main(["node", str(tmp_path), "1000", "1000"]) == 130
    assert part == ["node 1000"]
    assert killed == ([-1] if first == 1 else []), "everybody else, but only in a container of its own"
    assert capsys.readouterr().out == ""


class FakeEngine(Engine):
    """An engine that only remembers what it was asked."""

    def docker(self, *argv: str, check: bool = True, timeout: float = 600, stdin: str | None = None) -> str:
        REMEMBERED.append(argv)
        return "there\n"


REMEMBERED: list[tuple[str, ...]] = []


@pytest.mark.parametrize(("root", "current", "built"), [(True, False, 0), (False, True, 0), (False, False, 1)])
def test_only_somebody_else_than_root_and_only_once_has_it_built(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, root: bool, current: bool, built: int
) -> None:
    runs: list[Sequence[str]] = []
    REMEMBERED.clear()
    monkeypatch.setattr(builder, "is_root", lambda: root)
    monkeypatch.setattr(builder, "PARTS", {"node": Part(lambda _: current, lambda *_: None, lambda _: [])})
    monkeypatch.setattr(Builds, "_follow", lambda _, argv: runs.append(argv))
    Builds(Cache(tmp_path), FakeEngine("unix:///x", private=False), lambda _: None).provide("node")
    assert len(runs) == built
    assert [argv[0] for argv in REMEMBERED] == ["image", "stop", "rm", "stop", "rm"][: 5 * built]


@pytest.mark.parametrize(("root", "removed"), [(True, 0), (False, 3)])
def test_abandoned_builds_are_ended_by_name(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, root: bool, removed: int
) -> None:
    REMEMBERED.clear()
    monkeypatch.setattr(builder, "is_root", lambda: root)
    builder.abandon(Cache(tmp_path), FakeEngine("unix:///x", private=False))
    names = [word for argv in REMEMBERED for word in argv if word.startswith(BUILD_PREFIX)]
    assert len(set(names)) == removed


@pytest.fixture
def slow_build(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Builds:
    """Builds whose client would take minutes, and whose engine knows no container yet that could be ended."""
    REMEMBERED.clear()
    monkeypatch.setattr(builder, "is_root", lambda: False)
    monkeypatch.setattr(builder, "PARTS", {"node": Part(lambda _: False, lambda *_: None, lambda _: [])})
    (tmp_path / "docker").write_text("#!/bin/sh\necho 'say: started'\nexec sleep 100\n")
    (tmp_path / "docker").chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    return Builds(Cache(tmp_path), FakeEngine("unix:///x", private=False), lambda _: None)


def test_a_build_given_up_before_its_container_is_there_ends_at_once(slow_build: Builds) -> None:
    started = threading.Event()
    slow_build.say = lambda _: started.set()
    with ThreadPoolExecutor(max_workers=1) as pool:
        build = pool.submit(slow_build.provide, "node")
        assert started.wait(60)
        slow_build.give_up()
        with pytest.raises(LabError, match="aborted"):
            build.result(timeout=60)
    assert [argv[0] for argv in REMEMBERED[-2:]] == ["stop", "rm"], "what the engine started after all is ended"


def test_a_build_given_up_is_not_started(slow_build: Builds) -> None:
    slow_build.give_up()
    with pytest.raises(LabError, match="aborted"):
        slow_build.provide("node")
    assert slow_build._clients == []


MOUNTS = """20 1 8:1 / / rw - ext4 /dev/sda1 rw
21 20 8:1 / /host ro - ext4 /dev/sda1 rw
22 21 8:2 / /host/home rw - ext4 /dev/sda2 rw
23 21 8:3 / /host/mnt/two\\040words rw - ext4 /dev/sda3 rw
24 21 0:9 / /host/odd rw - fuse x rw
25 20 8:4 / /usr/local rw - ext4 /dev/sda4 rw
26 20 8:5 / /cache rw - ext4 /dev/sda5 rw
"""


def only_read(tmp_path: Path, writable: str) -> subprocess.CompletedProcess[str]:
    """What is made read-only, in a shell that mounts nothing; /host/odd cannot be."""
    (tmp_path / "mounts").write_text(MOUNTS)
    script = f"""mount() {{ echo "mount $*"; case $3 in /host/odd) return 1 ;; esac; }}
umount() {{ echo "umount $*"; }}
writable() {{ case $1 in {writable}) ;; *) return 1 ;; esac; }}
{builder.ONLY_READ.replace('[ -w "$place" ]', 'writable "$place"')}
only_read {tmp_path}/mounts"""
    return subprocess.run(["sh", "-euc", script], capture_output=True, text=True, check=False)


def test_what_is_mounted_below_the_root_is_made_read_only_or_taken_away(tmp_path: Path) -> None:
    done = only_read(tmp_path, writable="/cache")
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines() == [
        "mount -o remount,bind,ro /host/home",
        "mount -o remount,bind,ro /host/mnt/two words",
        "mount -o remount,bind,ro /host/odd",
        "umount -l /host/odd",
        "mount -o remount,bind,ro /usr/local",
    ]


def test_a_build_that_could_write_to_the_machine_does_not_start(tmp_path: Path) -> None:
    done = only_read(tmp_path, writable="/host/home")
    assert done.returncode == 1
    assert "\n/home of this machine could not be made read-only" in done.stdout


@pytest.mark.parametrize("name", sorted(builder.PARTS))
def test_nothing_is_current_in_an_empty_cache_and_no_result_lies_outside(tmp_path: Path, name: str) -> None:
    part, cache = builder.PARTS[name], Cache(tmp_path)
    assert not part.is_current(cache)
    assert all(path.is_relative_to(tmp_path) and path != tmp_path for path in part.results(cache))
