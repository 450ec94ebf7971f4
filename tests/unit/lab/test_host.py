# SPDX-License-Identifier: Apache-2.0
"""What the lab says when the machine cannot carry it, and where it keeps its things."""

from __future__ import annotations

import io
import socketserver
import subprocess
import tarfile
import threading
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest

from firstlight_lab import host
from firstlight_lab.cache import Cache, default_root, fingerprint
from firstlight_lab.containers import archive_of
from firstlight_lab.host import Engine, ensure_engine, ensure_programs
from firstlight_lab.shell import LabError, run
from firstlight_lab.waiting import wait_until


def silent(_: str) -> None:
    """Nobody listens in a test."""


@pytest.fixture
def cache(tmp_path: Path) -> Cache:
    return Cache(tmp_path / "cache")


def test_no_engine_and_no_root_is_one_message_and_changes_nothing(
    cache: Cache, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(host, "find_engine", lambda _: None)
    monkeypatch.setattr(host, "is_root", lambda: False)
    with pytest.raises(LabError, match="run the command as root, or start Docker") as caught:
        ensure_engine(cache, silent)
    assert "\n" not in str(caught.value)
    assert not cache.root.exists()


def test_a_machine_without_apt_is_told_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(host, "_which", lambda program: None if program == "mmdebstrap" else "/bin/true")
    monkeypatch.setattr(host, "has_apt", lambda: False)
    with pytest.raises(LabError, match=r"apt-get install .*mmdebstrap"):
        ensure_programs(silent, host.PROGRAMS, host.BUILD_PROGRAMS)


def test_packages_are_installed_from_new_lists_only_when_the_old_ones_do_not_do(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    commands: list[str] = []

    def fake(argv: Sequence[str], *, check: bool = True, **_: Any) -> subprocess.CompletedProcess[str]:
        commands.append(argv[1])
        return subprocess.CompletedProcess(list(argv), 100 if not check and argv[1] == "install" else 0, "", "")

    monkeypatch.setattr(host, "_which", lambda program: None if program == "mmdebstrap" else "/bin/true")
    monkeypatch.setattr(host, "has_apt", lambda: True)
    monkeypatch.setattr(host, "is_root", lambda: True)
    monkeypatch.setattr(host, "run", fake)
    ensure_programs(silent, host.PROGRAMS, host.BUILD_PROGRAMS)
    assert commands == ["install", "update", "install"]


@pytest.mark.parametrize(("root", "asked"), [(True, True), (False, False)])
def test_what_only_building_takes_is_asked_of_root_alone(
    cache: Cache, monkeypatch: pytest.MonkeyPatch, root: bool, asked: bool
) -> None:
    groups: list[Mapping[str, str]] = []
    engine = Engine("unix:///run/docker.sock", private=False)
    monkeypatch.setattr(host, "find_engine", lambda _: engine)
    monkeypatch.setattr(Engine, "rootless", lambda _: False)
    monkeypatch.setattr(host, "is_root", lambda: root)
    monkeypatch.setattr(host, "ensure_programs", lambda _, *given: groups.extend(given))
    assert ensure_engine(cache, silent) is engine
    assert (host.BUILD_PROGRAMS in groups, host.ENGINE_PROGRAMS in groups) == (asked, False)
    assert "mmdebstrap" not in host.PROGRAMS


def test_a_rootless_engine_is_refused(cache: Cache, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(host, "find_engine", lambda _: Engine("unix:///run/user/1/docker.sock", private=False))
    monkeypatch.setattr(Engine, "docker", lambda *_, **__: "[name=seccomp,profile=builtin name=rootless]\n")
    with pytest.raises(LabError, match="is rootless, expected one that runs as root"):
        ensure_engine(cache, silent)


def test_a_cache_of_somebody_else_is_named(cache: Cache, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: Any, **__: Any) -> None:
        raise PermissionError

    monkeypatch.setattr(Path, "mkdir", refuse)
    with pytest.raises(LabError, match=f"{cache.root} cannot be written to by this user"), cache.locked():
        pass


def test_the_files_of_a_node_are_root_s_whoever_makes_the_lab() -> None:
    text = archive_of({"root/.ssh/authorized_keys": "key\n", "etc/machine-id": "1\n", "etc/netplan/50-x.yaml": "{}\n"})
    with tarfile.open(fileobj=io.BytesIO(text.encode("ascii"))) as archive:
        facts = {member.name: (member.uid, member.gid, member.mode) for member in archive}
    assert facts == {
        "root/.ssh/authorized_keys": (0, 0, 0o600),
        "etc/machine-id": (0, 0, 0o644),
        "etc/netplan/50-x.yaml": (0, 0, 0o600),
    }


def test_an_engine_on_another_machine_is_refused() -> None:
    with pytest.raises(LabError, match=r"ssh://rack.*expected one on this machine"):
        _ = Engine("ssh://rack", private=False).socket
    assert Engine("unix:///run/docker.sock", private=False).socket == "/run/docker.sock"


@pytest.mark.parametrize(
    ("environment", "expected"),
    [
        ({"FIRSTLIGHT_CACHE": "/srv/lab", "XDG_CACHE_HOME": "/x"}, "/srv/lab"),
        ({"XDG_CACHE_HOME": "/var/cache/me"}, "/var/cache/me/firstlight"),
        ({"HOME": "/home/me"}, "/home/me/.cache/firstlight"),
    ],
)
def test_the_cache_is_where_the_user_says(
    monkeypatch: pytest.MonkeyPatch, environment: Mapping[str, str], expected: str
) -> None:
    for name in ("FIRSTLIGHT_CACHE", "XDG_CACHE_HOME"):
        monkeypatch.delenv(name, raising=False)
    for name, value in environment.items():
        monkeypatch.setenv(name, value)
    assert default_root() == Path(expected)


def test_a_socket_below_the_runtime_directory_is_short_enough(tmp_path: Path) -> None:
    deep = Cache(tmp_path.joinpath(*["long-directory-name"] * 10))
    assert len(str(deep.runtime / "docker.sock")) < 60
    assert deep.runtime != Cache(tmp_path).runtime


def test_a_fingerprint_tells_apart_what_only_looks_alike(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("ab")
    assert fingerprint("a", "b") != fingerprint("ab")
    assert fingerprint("ab") == fingerprint(tmp_path / "file")


def test_waiting_ends_with_what_was_waited_for() -> None:
    with pytest.raises(LabError, match=r"sshd does not answer \(waited 0 s\)"):
        wait_until(lambda: False, 0, "sshd does not answer")


def test_a_program_that_is_missing_or_fails_is_quoted() -> None:
    with pytest.raises(LabError, match="'no-such-program' is not installed"):
        run(["no-such-program"])
    with pytest.raises(LabError, match="status 3:\nthe reason"):
        run(["sh", "-c", "echo the reason >&2; exit 3"])


@pytest.mark.parametrize(
    ("answer", "there"),
    [(b"HTTP/1.0 200 OK\r\n\r\nOK", True), (b"HTTP/1.0 503 No\r\n\r\n", False), (b"", False)],
)
def test_an_engine_is_there_when_it_answers_a_ping(tmp_path: Path, answer: bytes, there: bool) -> None:
    asked = []

    class Answer(socketserver.BaseRequestHandler):
        def handle(self) -> None:
            asked.append(self.request.recv(100).splitlines()[0])
            self.request.sendall(answer)

    with socketserver.UnixStreamServer(str(tmp_path / "docker.sock"), Answer) as server:
        thread = threading.Thread(target=server.handle_request)
        thread.start()
        assert Engine(f"unix://{tmp_path}/docker.sock", private=True).answers() is there
        thread.join()
    assert asked == [b"GET /_ping HTTP/1.0"]


def test_a_socket_that_nobody_serves_is_no_engine(tmp_path: Path) -> None:
    assert not Engine(f"unix://{tmp_path}/docker.sock", private=True).answers()
