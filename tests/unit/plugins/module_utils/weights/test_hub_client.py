# SPDX-License-Identifier: Apache-2.0
"""Fetching from a hub on loopback that behaves, breaks off, lies and redirects."""

from __future__ import annotations

import email.message
import errno
import hashlib
import json
import os
import ssl
import threading
import urllib.error
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest
from ansible_collections.firstlight.cluster.plugins.module_utils.host import Host
from ansible_collections.firstlight.cluster.plugins.module_utils.weights import hub_client
from ansible_collections.firstlight.cluster.plugins.module_utils.weights.hub import Digester, RemoteFile
from ansible_collections.firstlight.cluster.plugins.module_utils.weights.hub_client import HubClient
from ansible_collections.firstlight.cluster.plugins.module_utils.weights.hub_token import hub_token, read_token
from ansible_collections.firstlight.cluster.plugins.module_utils.weights.snapshot import parse_record, verify_record
from ansible_collections.firstlight.cluster.plugins.module_utils.weights.snapshot_store import (
    HubError,
    make_directories,
    only_run,
    read_record,
)
from ansible_collections.firstlight.cluster.plugins.modules import model_snapshot

COMMIT = "0123456789abcdef0123456789abcdef01234567"
WEIGHTS = bytes(range(256)) * 4096
CONFIG = b'{"hidden_size": 256}\n'


class Hub(ThreadingHTTPServer):
    """A hub with one repository; the attributes say how it misbehaves."""

    daemon_threads = True

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), Answer)
        self.content = {"config.json": CONFIG, "sub/model.safetensors": WEIGHTS}
        self.requests: list[tuple[str, str | None, str | None]] = []
        self.break_after: int | None = None
        self.lie = False
        self.ranges = True
        self.status: int | None = None
        self.later: list[tuple[int, str]] = []
        self.redirect_to = ""
        self.token = ""
        """Files are handed out to whoever has it, the list to everybody, as with a gated repository."""

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_port}"

    def tree(self) -> list[dict[str, Any]]:
        listed: list[dict[str, Any]] = [{"type": "directory", "path": "sub", "oid": "0" * 40, "size": 0}]
        for path, data in self.content.items():
            blob = hashlib.sha1(f"blob {len(data)}\x00".encode() + data, usedforsecurity=False).hexdigest()
            entry: dict[str, Any] = {"type": "file", "path": path, "oid": blob, "size": len(data)}
            if path.endswith(".safetensors"):
                entry["lfs"] = {
                    "oid": hashlib.sha256(data).hexdigest(),
                    "size": len(data),
                    "pointerSize": 130,
                }
            listed.append(entry)
        return listed


class Answer(BaseHTTPRequestHandler):
    server: Hub

    def log_message(self, *_: Any) -> None:
        """Say nothing."""

    def do_HEAD(self) -> None:
        self.do_GET()

    def do_GET(self) -> None:
        hub = self.server
        if hub.token and self.path.startswith("/example/tiny/resolve/"):
            sent = self.headers.get("Authorization")
            if sent != f"Bearer {hub.token}":
                self.send_error(403 if sent else 401)
                return
        hub.requests.append((self.path, self.headers.get("Range"), self.headers.get("Authorization")))
        if hub.later:
            status, wait = hub.later.pop(0)
            self.send_response(status)
            if wait:
                self.send_header("Retry-After", wait)
            self.send_header("Content-Length", "0")
            self.end_headers()
        elif hub.status is not None:
            self.send_error(hub.status)
        elif self.path.startswith(f"/api/models/example/tiny/tree/{COMMIT}"):
            self.list_files()
        elif self.path.startswith("/example/tiny/resolve/") and hub.redirect_to:
            self.send_response(302)
            self.send_header("Location", hub.redirect_to + self.path)
            self.send_header("Content-Length", "0")
            self.end_headers()
        else:
            self.send_file(self.path.removeprefix(f"/example/tiny/resolve/{COMMIT}/"))

    def list_files(self) -> None:
        """One file a page, as a hub does with large repositories."""
        hub = self.server
        page = int(self.path.rpartition("cursor=")[2]) if "cursor=" in self.path else 0
        tree = hub.tree()
        body = json.dumps(tree[page : page + 1]).encode()
        self.send_response(200)
        if page + 1 < len(tree):
            following = f"{hub.url}/api/models/example/tiny/tree/{COMMIT}?cursor={page + 1}"
            self.send_header("Link", f'<{following}>; rel="next"')
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def send_file(self, path: str) -> None:
        hub = self.server
        if path not in hub.content:
            self.send_error(404)
            return
        data = hub.content[path]
        if hub.lie:
            data = bytes(len(data))
        start = 0
        wanted = self.headers.get("Range")
        if wanted and hub.ranges:
            start = int(wanted.removeprefix("bytes=").partition("-")[0])
        self.send_response(206 if start else 200)
        self.send_header("Content-Length", str(len(data) - start))
        self.end_headers()
        if hub.break_after is not None and len(data) > hub.break_after:
            self.wfile.write(data[start : start + hub.break_after])
            hub.break_after = None
            self.close_connection = True
            return
        self.wfile.write(data[start:])


@pytest.fixture
def hub() -> Iterator[Hub]:
    yield from served()


@pytest.fixture
def storage() -> Iterator[Hub]:
    yield from served()


def served() -> Iterator[Hub]:
    server = Hub()
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    yield server
    server.shutdown()
    thread.join()
    server.server_close()


def client_of(hub: Hub, token: str = "") -> HubClient:
    client = HubClient(hub.url, "example/tiny", COMMIT, token=token, timeout=10)
    client.pause = lambda _seconds: None
    return client


def parameters(hub: Hub, directory: Path) -> dict[str, Any]:
    return {
        "endpoint": hub.url,
        "repository": "example/tiny",
        "revision": COMMIT,
        "directory": str(directory),
        "workers": 2,
    }


def converge(hub: Hub, directory: Path, check_mode: bool = False) -> dict[str, Any]:
    return model_snapshot.converge(Host(), client_of(hub), parameters(hub, directory), check_mode)


FORMATS: dict[str, Any] = {
    "formats": [{"name": "safetensors", "files": ["*.safetensors"]}],
    "weights": ["*.pth", "*.bin"],
    "exclude": ["original/*"],
}


def chosen(hub: Hub, directory: Path, check_mode: bool = False, **files: Any) -> dict[str, Any]:
    wanted = {**parameters(hub, directory), "files": FORMATS | files}
    return model_snapshot.converge(Host(), client_of(hub), wanted, check_mode)


@pytest.fixture
def copies(hub: Hub) -> Hub:
    """A hub whose repository also has its weights as they were released, and as another program wants them."""
    hub.content |= {
        "original/consolidated.00.pth": WEIGHTS * 3,
        "original/params.json": b"{}",
        "sub/model.bin": WEIGHTS,
    }
    return hub


def test_only_what_the_engine_loads_is_fetched(copies: Hub, tmp_path: Path) -> None:
    told = chosen(copies, tmp_path / "tiny", check_mode=True)
    first = chosen(copies, tmp_path / "tiny")
    assert told["fetched"] == first["fetched"] == ["config.json", "sub/model.safetensors"]
    assert first["bytes"] == len(CONFIG) + len(WEIGHTS)
    assert first["left_out"] == ["original/consolidated.00.pth", "original/params.json", "sub/model.bin"]
    assert first["left_out_bytes"] == 4 * len(WEIGHTS) + 2
    assert [path for path, _, _ in copies.requests if "/resolve/" in path and ("pth" in path or ".bin" in path)] == []
    record = parse_record((tmp_path / "tiny" / ".firstlight-snapshot.json").read_text())
    assert record["left_out"]["original/consolidated.00.pth"] == 3 * len(WEIGHTS)
    assert verified(tmp_path / "tiny") == (True, "")
    assert not chosen(copies, tmp_path / "tiny")["changed"]


def test_room_is_asked_for_what_is_fetched(copies: Hub, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Host, "disk_free", lambda *_: len(CONFIG) + len(WEIGHTS))
    with pytest.raises(HubError, match=r"the model needs 0\.0 GB more"):
        converge(copies, tmp_path / "all")
    assert chosen(copies, tmp_path / "some")["changed"]


def test_what_an_earlier_run_brought_stays_and_is_named(copies: Hub, tmp_path: Path) -> None:
    converge(copies, tmp_path)
    again = chosen(copies, tmp_path)
    assert (again["changed"], again["fetched"], again["removed"]) == (True, [], []), "the record is of fewer files now"
    (note,) = again["notes"]
    assert (
        f"{tmp_path} has 3 files (0.0 GB, such as original/consolidated.00.pth) that the engine does not load" in note
    )
    assert (tmp_path / "original" / "consolidated.00.pth").read_bytes() == WEIGHTS * 3
    assert not chosen(copies, tmp_path)["changed"]
    # And what goes with a revision still goes.
    del copies.content["original/params.json"]
    copies.content["new.txt"] = b"x"
    assert chosen(copies, tmp_path)["removed"] == []


def test_another_load_format_fetches_what_it_needs(copies: Hub, tmp_path: Path) -> None:
    chosen(copies, tmp_path)
    pytorch: dict[str, Any] = {
        "formats": [{"name": "pytorch", "files": ["*.bin"]}],
        "weights": ["*.safetensors", "*.pth"],
    }
    again = chosen(copies, tmp_path, **pytorch)
    assert again["fetched"] == ["sub/model.bin"]
    assert "sub/model.safetensors" in again["left_out"]
    assert verified(tmp_path) == (True, "")


def test_a_repository_without_such_weights_is_refused_before_the_first_byte(hub: Hub, tmp_path: Path) -> None:
    hub.content = {"config.json": CONFIG, "model.bin": WEIGHTS}
    with pytest.raises(
        HubError, match=rf"example/tiny at {COMMIT}: the engine loads none of its weights \(model.bin\)"
    ):
        chosen(hub, tmp_path / "tiny")
    assert not (tmp_path / "tiny").exists()


def verified(directory: Path) -> tuple[bool, str]:
    record = parse_record((directory / ".firstlight-snapshot.json").read_text())
    assert (record["repository"], record["revision"]) == ("example/tiny", COMMIT)
    return verify_record(record, lambda path: Host().size_and_mtime(str(directory / path)))


def test_a_snapshot_comes_whole_and_only_once(hub: Hub, tmp_path: Path) -> None:
    directory = tmp_path / "models" / "tiny"
    old = os.umask(0o077)
    try:
        first = converge(hub, directory)
    finally:
        os.umask(old)
    assert first["changed"]
    assert first["fetched"] == ["config.json", "sub/model.safetensors"]
    assert first["bytes"] == len(CONFIG) + len(WEIGHTS)
    assert (directory / "sub" / "model.safetensors").read_bytes() == WEIGHTS
    assert (directory / "config.json").stat().st_mode & 0o777 == 0o644
    assert (directory / "sub").stat().st_mode & 0o777 == 0o755
    assert directory.stat().st_mode & 0o777 == 0o755
    assert verified(directory) == (True, "")
    hub.requests.clear()
    second = converge(hub, directory)
    assert not second["changed"]
    assert [path for path, _, _ in hub.requests if "/resolve/" in path] == []


def test_check_mode_says_what_would_come(hub: Hub, tmp_path: Path) -> None:
    told = converge(hub, tmp_path / "tiny", check_mode=True)
    assert told["changed"]
    assert told["fetched"] == ["config.json", "sub/model.safetensors"]
    assert f"sub/model.safetensors {len(WEIGHTS)} bytes sha256:" in told["diff"]["after"]
    assert not (tmp_path / "tiny").exists()
    converge(hub, tmp_path / "tiny")
    assert not converge(hub, tmp_path / "tiny", check_mode=True)["changed"]


def test_a_corrupt_file_of_the_right_size_is_fetched_again(hub: Hub, tmp_path: Path) -> None:
    converge(hub, tmp_path)
    (tmp_path / "config.json").write_bytes(CONFIG.replace(b"256", b"512"))
    assert verified(tmp_path) == (False, "config.json was modified after it was verified")
    again = converge(hub, tmp_path)
    assert again["fetched"] == ["config.json"]
    assert (tmp_path / "config.json").read_bytes() == CONFIG
    assert verified(tmp_path) == (True, "")


def test_a_touched_file_is_read_but_not_fetched(hub: Hub, tmp_path: Path) -> None:
    converge(hub, tmp_path)
    os.utime(tmp_path / "config.json", ns=(1, 1))
    again = converge(hub, tmp_path)
    assert again["changed"], "the record was out of date"
    assert again["fetched"] == []
    assert verified(tmp_path) == (True, "")


def test_files_of_an_earlier_revision_go(hub: Hub, tmp_path: Path) -> None:
    hub.content["old.safetensors"] = b"x" * 100
    converge(hub, tmp_path)
    (tmp_path / "mine.txt").write_text("not ours")
    del hub.content["old.safetensors"]
    assert converge(hub, tmp_path, check_mode=True)["removed"] == ["old.safetensors"]
    assert converge(hub, tmp_path)["removed"] == ["old.safetensors"]
    assert sorted(path.name for path in tmp_path.iterdir()) == [
        ".firstlight-lock",
        ".firstlight-snapshot.json",
        "config.json",
        "mine.txt",
        "sub",
    ]


def test_a_broken_connection_is_resumed(hub: Hub, tmp_path: Path) -> None:
    hub.break_after = 300_000
    converge(hub, tmp_path)
    assert (tmp_path / "sub" / "model.safetensors").read_bytes() == WEIGHTS
    ranges = [wanted for path, wanted, _ in hub.requests if path.endswith(".safetensors")]
    assert ranges[0] is None
    assert ranges[1] is not None
    assert ranges[1].startswith("bytes=")
    assert not list(tmp_path.rglob("*.partial"))


@pytest.mark.parametrize("ranges", [True, False])
def test_a_cut_run_is_resumed(hub: Hub, tmp_path: Path, ranges: bool) -> None:
    hub.ranges = ranges
    (tmp_path / "sub").mkdir()
    (tmp_path / "sub" / "model.safetensors.partial").write_bytes(WEIGHTS[:1000])
    converge(hub, tmp_path)
    assert (tmp_path / "sub" / "model.safetensors").read_bytes() == WEIGHTS
    assert ("bytes=1000-") in [wanted for _, wanted, _ in hub.requests]


def test_a_partial_file_of_other_bytes_is_thrown_away(hub: Hub, tmp_path: Path) -> None:
    (tmp_path / "config.json.partial").write_bytes(b"X" * 5)
    converge(hub, tmp_path)
    assert (tmp_path / "config.json").read_bytes() == CONFIG


def test_a_hub_that_sends_other_bytes_is_told(hub: Hub, tmp_path: Path) -> None:
    hub.lie = True
    with pytest.raises(HubError, match=r"came twice with .*, expected .*: something on the way changes it"):
        converge(hub, tmp_path)
    assert not (tmp_path / "config.json").exists()
    assert not (tmp_path / ".firstlight-snapshot.json").exists()


@pytest.mark.parametrize(
    ("status", "words"),
    [
        (404, "does not know example/tiny at 0123"),
        (401, "refuses access"),
        (403, "access token"),
        (408, "tried 5 times"),
        (429, "Too Many Requests.*tried 5 times"),
        (503, "tried 5 times"),
    ],
)
def test_a_hub_that_refuses_is_explained(hub: Hub, tmp_path: Path, status: int, words: str) -> None:
    hub.status = status
    with pytest.raises(HubError, match=words):
        converge(hub, tmp_path)


def test_a_hub_that_is_not_there_is_explained(hub: Hub) -> None:
    client = HubClient("http://127.0.0.1:9", "example/tiny", COMMIT, timeout=2)
    client.pause = lambda _seconds: None
    with pytest.raises(HubError, match="does not answer"):
        client.files()
    assert hub.requests == []


@pytest.mark.hostile
def test_a_list_without_an_end_is_not_read_to_its_end(
    hub: Hub, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, most in (("LISTING_BYTES", 100), ("MAX_PAGES", 1)):
        with monkeypatch.context() as patch:
            patch.setattr(hub_client, name, most)
            with pytest.raises(HubError, match=r"lists example/tiny without end.*nothing was fetched"):
                model_snapshot.converge(Host(), client_of(hub), parameters(hub, tmp_path / "to"), check_mode=False)
    assert not (tmp_path / "to").exists()


@pytest.mark.hostile
def test_bytes_that_are_not_the_pinned_ones_are_not_believed(hub: Hub, tmp_path: Path) -> None:
    lines = "".join(f"{hashlib.sha256(data).hexdigest()}  {path}\n" for path, data in sorted(hub.content.items()))
    pin = f"sha256:{hashlib.sha256(lines.encode()).hexdigest()}"
    wanted = {**parameters(hub, tmp_path / "to"), "contents": pin}
    assert model_snapshot.converge(Host(), client_of(hub), wanted, check_mode=False)["contents"] == pin
    kept = (tmp_path / "to" / ".firstlight-snapshot.json").read_text()
    hub.content = {"config.json": b"{}"}
    for directory in ("to", "other"):
        wanted = {**wanted, "directory": str(tmp_path / directory)}
        with pytest.raises(HubError, match=f"expected {pin} as they are pinned.*nothing was recorded as verified"):
            model_snapshot.converge(Host(), client_of(hub), wanted, check_mode=False)
    assert (tmp_path / "to" / ".firstlight-snapshot.json").read_text() == kept
    assert (tmp_path / "to" / "sub" / "model.safetensors").read_bytes() == WEIGHTS
    assert not (tmp_path / "other" / ".firstlight-snapshot.json").exists()


@pytest.mark.hostile
def test_a_token_is_not_sent_where_everybody_can_read_it(hub: Hub, tmp_path: Path) -> None:
    (tmp_path / "token").write_text("hf_secret")
    (tmp_path / "token").chmod(0o600)
    given = {**parameters(hub, tmp_path), "source": None, "peer": False, "listing": "", "token": None}
    given |= {"token_path": str(tmp_path / "token"), "contents": "sha256:" + "0" * 64}
    with pytest.raises(HubError, match="expected an https address"):
        model_snapshot.source_of(given)
    with pytest.raises(ValueError, match="over http anyone"):
        model_snapshot.source_of({**given, "contents": ""})
    assert hub.requests == []


def test_the_token_goes_to_the_hub_only(hub: Hub, storage: Hub, tmp_path: Path) -> None:
    hub.redirect_to = storage.url
    client = client_of(hub, token="hf_secret")
    for item in client.files():
        client.fetch(item, str(tmp_path))
    assert {authorization for _, _, authorization in hub.requests} == {"Bearer hf_secret"}
    assert {authorization for _, _, authorization in storage.requests} == {None}
    assert (tmp_path / "config.json").read_bytes() == CONFIG


def test_a_disk_that_is_too_small_is_refused_first(hub: Hub, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Host, "disk_free", lambda _self, _path: 1000)
    with pytest.raises(HubError, match=r"needs 0.0 GB more below .*, 0.0 GB are free"):
        converge(hub, tmp_path)
    assert [path.name for path in tmp_path.iterdir()] == [".firstlight-lock"]


def test_a_file_that_cannot_be_written_is_explained(hub: Hub, tmp_path: Path) -> None:
    (tmp_path / "config.json.partial").mkdir()
    with pytest.raises(HubError, match="cannot be written below"):
        client_of(hub).fetch(RemoteFile("config.json", 9, "git:" + "0" * 40), str(tmp_path))


def test_a_link_that_leads_outwards_is_refused(tmp_path: Path) -> None:
    (tmp_path / "in").mkdir()
    (tmp_path / "out").mkdir()
    (tmp_path / "in" / "sub").symlink_to(tmp_path / "out")
    with pytest.raises(HubError, match="through a link"):
        make_directories(str(tmp_path / "in"), "sub")


def test_a_token_file_that_is_missing_is_explained(tmp_path: Path) -> None:
    assert read_token(None) == ""
    with pytest.raises(HubError, match="cannot be read"):
        read_token(str(tmp_path / "absent"))
    (tmp_path / "token").write_text("hf_secret\n")
    (tmp_path / "token").chmod(0o644)
    with pytest.raises(HubError, match="mode 0644, expected 0600"):
        read_token(str(tmp_path / "token"))
    (tmp_path / "token").chmod(0o600)
    assert read_token(str(tmp_path / "token")) == "hf_secret"


@pytest.mark.parametrize("text", ["hf_secret\n# of alice", "hf secret", "hf_s\u00e9cret", "\x00hf_secret"])
def test_a_token_that_cannot_be_sent_is_refused_and_not_shown(tmp_path: Path, text: str) -> None:
    (tmp_path / "token").write_text(text)
    (tmp_path / "token").chmod(0o600)
    with pytest.raises(HubError, match="expected an access token alone") as refused:
        read_token(str(tmp_path / "token"))
    assert "cret" not in str(refused.value)


def test_a_connection_that_ends_early_again_and_again_is_named(
    hub: Hub, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    client = client_of(hub)
    monkeypatch.setattr(client, "_receive", lambda _item, _partial: None)
    with pytest.raises(HubError, match=r"broke off at config.json \(the connection ended before the end of the file\)"):
        client.fetch(client.files()[0], str(tmp_path))


def test_what_is_there_through_a_link_only_is_brought_as_a_file(hub: Hub, tmp_path: Path) -> None:
    """The engine's container sees the directory alone, where such a link leads nowhere."""
    blobs, directory = tmp_path / "blobs", tmp_path / "tiny"
    blobs.mkdir()
    directory.mkdir()
    (blobs / "config").write_bytes(CONFIG)
    (directory / "config.json").symlink_to(blobs / "config")
    assert "config.json" in converge(hub, directory, check_mode=True)["fetched"]
    assert "config.json" in converge(hub, directory)["fetched"]
    assert not (directory / "config.json").is_symlink()
    assert (blobs / "config").read_bytes() == CONFIG
    assert not converge(hub, directory)["changed"]


def test_a_directory_that_is_itself_a_link_is_right(hub: Hub, tmp_path: Path) -> None:
    (tmp_path / "disk").mkdir()
    (tmp_path / "tiny").symlink_to(tmp_path / "disk")
    assert converge(hub, tmp_path / "tiny")["changed"]
    assert not converge(hub, tmp_path / "tiny")["changed"]


def test_a_second_run_is_kept_out(hub: Hub, tmp_path: Path) -> None:
    with only_run(str(tmp_path)):
        with pytest.raises(HubError) as refused:
            converge(hub, tmp_path)
        assert converge(hub, tmp_path, check_mode=True)["changed"], "looking is allowed meanwhile"
    assert str(refused.value) == (
        f"another run is still fetching into {tmp_path}, expected only this one: wait for it to end, or end it "
        f"(`fuser {tmp_path}/.firstlight-lock` names it), and run again"
    )
    assert [path.name for path in tmp_path.iterdir()] == [".firstlight-lock"]
    assert (tmp_path / ".firstlight-lock").stat().st_mode & 0o777 == 0o600
    assert converge(hub, tmp_path)["changed"]


def test_the_lock_is_held_while_files_come(hub: Hub, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[str] = []
    fetch, reading = HubClient.fetch, read_record

    def locked(what: str) -> None:
        with pytest.raises(HubError, match="another run"), only_run(str(tmp_path)):
            raise AssertionError(f"no lock while {what}")
        seen.append(what)

    def fetching(client: HubClient, item: RemoteFile, directory: str) -> None:
        locked("fetching")
        fetch(client, item, directory)

    def choosing(*arguments: Any) -> Any:
        locked("choosing")
        return reading(*arguments)

    monkeypatch.setattr(HubClient, "fetch", fetching)
    monkeypatch.setattr(model_snapshot, "read_record", choosing)
    converge(hub, tmp_path)
    assert seen == ["choosing", "fetching", "fetching"]


def test_the_lock_file_is_no_part_of_the_snapshot(hub: Hub, tmp_path: Path) -> None:
    converge(hub, tmp_path)
    (tmp_path / ".firstlight-lock").unlink()
    again = converge(hub, tmp_path)
    assert not again["changed"]
    assert again["diff"] == {"before": "", "after": ""}
    assert (tmp_path / ".firstlight-lock").exists()
    assert verified(tmp_path) == (True, "")
    record = parse_record((tmp_path / ".firstlight-snapshot.json").read_text())
    assert sorted(record["files"]) == ["config.json", "sub/model.safetensors"]


def test_a_complete_snapshot_on_a_read_only_disk_is_still_right(
    hub: Hub, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    converge(hub, tmp_path)

    def read_only(path: str, *_: Any, **__: Any) -> int:
        raise OSError(errno.EROFS, os.strerror(errno.EROFS), path)

    with monkeypatch.context() as patch:
        patch.setattr(os, "open", read_only)
        assert not converge(hub, tmp_path)["changed"]


def test_a_file_of_another_size_is_not_recorded(hub: Hub, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    fetch = HubClient.fetch

    def fetch_and_spoil(client: HubClient, item: RemoteFile, directory: str) -> None:
        fetch(client, item, directory)
        with open(os.path.join(directory, item.path), "ab") as stream:
            stream.write(b"x")

    monkeypatch.setattr(HubClient, "fetch", fetch_and_spoil)
    with pytest.raises(HubError, match=rf"config.json has {len(CONFIG) + 1} bytes in .*, expected {len(CONFIG)}"):
        converge(hub, tmp_path)
    assert not (tmp_path / ".firstlight-snapshot.json").exists()


def test_a_hub_that_asks_to_wait_is_waited_for(hub: Hub, tmp_path: Path) -> None:
    pauses: list[float] = []
    client = client_of(hub)
    client.pause = pauses.append
    hub.later = [(429, "7"), (408, ""), (429, "3600")]
    files = client.files()
    assert pauses == [7.0, 2.0, 60.0]
    pauses.clear()
    hub.later = [(429, ""), (408, "0"), (429, "soon")]
    client.fetch(files[0], str(tmp_path))
    assert pauses == [1.0, 0.0, 4.0]
    assert (tmp_path / "config.json").read_bytes() == CONFIG


def test_no_wait_follows_the_last_attempt(hub: Hub) -> None:
    pauses: list[float] = []
    client = client_of(hub)
    client.pause = pauses.append
    hub.later = [(429, "60")] * 5
    with pytest.raises(HubError, match="tried 5 times"):
        client.files()
    assert pauses == [60.0] * 4


@pytest.mark.parametrize(
    "trouble",
    [
        ssl.SSLError(1, "bad record mac"),
        *(OSError(code, os.strerror(code)) for code in (errno.EHOSTUNREACH, errno.ENETUNREACH, errno.ENETDOWN)),
        OSError(errno.ETIMEDOUT, "timed out"),
        urllib.error.HTTPError("http://hub", 500, "broken", email.message.Message(), None),
    ],
)
def test_network_trouble_is_tried_again(
    hub: Hub, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, trouble: Exception
) -> None:
    client = client_of(hub)
    (item, _) = client.files()
    receive = client._receive
    troubles = [trouble]

    def receiving(wanted: RemoteFile, partial: str) -> Digester | None:
        if troubles:
            raise troubles.pop()
        return receive(wanted, partial)

    monkeypatch.setattr(client, "_receive", receiving)
    client.fetch(item, str(tmp_path))
    assert (tmp_path / "config.json").read_bytes() == CONFIG
    troubles += [trouble] * 5
    with pytest.raises(HubError, match=r"broke off at config.json .*tried 5 times"):
        client.fetch(item, str(tmp_path))


def test_a_full_disk_is_not_tried_again(hub: Hub, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    client = client_of(hub)
    tries: list[str] = []

    def receiving(_item: RemoteFile, partial: str) -> Digester | None:
        tries.append(partial)
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(client, "_receive", receiving)
    with pytest.raises(HubError, match=r"cannot be written below .* \(No space left"):
        client.fetch(RemoteFile("config.json", 9, "git:" + "0" * 40), str(tmp_path))
    assert len(tries) == 1


@pytest.mark.parametrize(
    ("token", "status", "told"),
    [("", 401, "is gated, private or misspelt; accept"), ("hf_other", 403, "or the access token may not read it")],
)
def test_a_gated_model_is_found_before_anything_is_fetched(hub: Hub, token: str, status: int, told: str) -> None:
    hub.token = "hf_secret"
    client = HubClient(hub.url, "example/tiny", COMMIT, token=token)
    assert len(client.files()) == 2  # the list is no proof
    with pytest.raises(HubError) as refused:
        client.check_access()
    assert f"(HTTP {status})" in str(refused.value)
    assert told in str(refused.value)
    assert "model_weights_token_path" in str(refused.value)
    assert "hf_" not in str(refused.value)


def test_whoever_may_read_a_gated_model_passes(hub: Hub) -> None:
    hub.token = "hf_secret"
    HubClient(hub.url, "example/tiny", COMMIT, token="hf_secret").check_access()
    hub.token = ""
    assert client_of(hub).check_access()


def test_a_model_that_the_hub_does_not_have_is_found_too(hub: Hub) -> None:
    hub.content = {}
    with pytest.raises(HubError, match="HTTP 404"):
        client_of(hub).check_access()


def test_a_hub_that_does_not_answer_refuses_nothing() -> None:
    assert not HubClient("http://127.0.0.1:9", "example/tiny", COMMIT).check_access()


def test_a_token_is_sent_over_https_only(tmp_path: Path) -> None:
    with pytest.raises(HubError, match="expected an https address") as refused:
        hub_token("hf_secret", None, "http://hub.example")
    assert "hf_secret" not in str(refused.value)
    assert hub_token("hf_secret\n", None, "https://hub.example") == "hf_secret"
    assert hub_token(None, None, "http://hub.example") == ""
