# SPDX-License-Identifier: Apache-2.0
"""What Ansible packed of a module is packed once, hosts compile nothing, and nobody ever runs what is out of date."""

from __future__ import annotations

import base64
import dataclasses
import io
import os
import subprocess
import sys
import time
import zipfile
from pathlib import Path
from typing import Any

import pytest
from ansible.executor import module_common
from ansible_collections.firstlight.cluster.plugins.plugin_utils.kept_payloads import (
    VERSIONS,
    Payloads,
    Sources,
    look_at,
    with_bytecode,
)

OURS = "ansible_collections.firstlight.cluster.plugins.modules.observe-ZIP_DEFLATED-none"
SOURCE = b"import greeting\nprint(greeting.WORD, greeting.__cached__)\n"


def archive(**files: bytes) -> bytes:
    result = io.BytesIO()
    with zipfile.ZipFile(result, "w", zipfile.ZIP_DEFLATED) as packed:
        for name, content in files.items():
            packed.writestr(f"{name}.py", content)
    return result.getvalue()


def payload(directory: Path, name: str, content: bytes) -> Path:
    """As Ansible leaves it."""
    directory.mkdir(exist_ok=True)
    module = module_common._CachedModule(
        zip_data=base64.b64encode(content),
        metadata=module_common.ModuleMetadataV1(serialization_profile="modern"),
        source_mapping={},
    )
    module.dump(str(directory / name))
    return directory / name


def store_of(tmp_path: Path, version: str, form: Any = module_common._CachedModule) -> Payloads:
    return Payloads(tmp_path / "store", lambda: Sources(version, ""), form)


def run(content: bytes, tmp_path: Path) -> str:
    """What a host's Python says that runs the archive's `main`."""
    file = tmp_path / "payload.zip"
    file.write_bytes(content)
    program = (
        f"import sys; sys.path.insert(0, {str(file)!r}); import runpy; runpy.run_module('main', run_name='__main__')"
    )
    said = subprocess.run([sys.executable, "-c", program], check=True, capture_output=True, text=True, timeout=60)
    return said.stdout.strip()


def changed(content: bytes, name: str, replacement: bytes, at: int) -> bytes:
    """The archive with some bytes of a file replaced."""
    result = io.BytesIO()
    with zipfile.ZipFile(io.BytesIO(content)) as packed, zipfile.ZipFile(result, "w") as repacked:
        for entry in packed.infolist():
            kept = packed.read(entry)
            if entry.filename == name:
                kept = kept[:at] + replacement + kept[at + len(replacement) :]
            repacked.writestr(entry, kept)
    return result.getvalue()


def test_a_host_takes_the_bytecode_and_not_the_source(tmp_path: Path) -> None:
    packed = with_bytecode(archive(main=SOURCE, greeting=b"WORD = 'compiled'\n"))
    assert run(packed, tmp_path).startswith("compiled ")
    assert run(changed(packed, "greeting.py", b"source!!", 8), tmp_path).startswith("compiled ")


def test_a_host_with_another_python_takes_the_source(tmp_path: Path) -> None:
    packed = with_bytecode(archive(main=SOURCE, greeting=b"WORD = 'compiled'\n"))
    other = changed(changed(packed, "greeting.pyc", b"\0\0", 0), "greeting.py", b"source!!", 8)
    assert run(other, tmp_path).startswith("source!!")


def test_what_a_run_packed_is_there_for_the_next_one(tmp_path: Path) -> None:
    packed = payload(tmp_path / "first", OURS, archive(main=SOURCE))
    store_of(tmp_path, "v1").keep(packed.parent)
    store_of(tmp_path, "v1").restore(tmp_path / "second")
    module = module_common._CachedModule.load(str(tmp_path / "second" / OURS))
    with zipfile.ZipFile(io.BytesIO(base64.b64decode(module.zip_data))) as found:
        assert found.namelist() == ["main.py", "main.pyc"]
        assert found.read("main.py") == SOURCE
    assert module.metadata == module_common.ModuleMetadataV1(serialization_profile="modern")


def test_another_version_gets_nothing_of_it(tmp_path: Path) -> None:
    packed = payload(tmp_path / "first", OURS, archive(main=SOURCE))
    store_of(tmp_path, "v1").keep(packed.parent)
    store_of(tmp_path, "v2").restore(tmp_path / "second")
    assert not (tmp_path / "second").exists()


def test_every_byte_and_every_name_of_the_sources_counts(tmp_path: Path) -> None:
    (tmp_path / "core").mkdir()
    source = tmp_path / "core" / "units.py"
    source.write_text("TIMEOUT = 1\n")
    (tmp_path / "notes.txt").write_text("no source")
    first = look_at("2.19", [tmp_path])
    assert look_at("2.19", [tmp_path]) == first
    (tmp_path / "notes.txt").write_text("still none")
    assert look_at("2.19", [tmp_path]) == first
    before = source.stat()
    source.write_text("TIMEOUT = 2\n")
    os.utime(source, ns=(before.st_atime_ns, before.st_mtime_ns))
    second = look_at("2.19", [tmp_path])
    source.rename(source.with_name("other.py"))
    third = look_at("2.19", [tmp_path])
    assert len({one.version for one in (first, second, third, look_at("2.20", [tmp_path]))}) == 4


@pytest.mark.hostile
@pytest.mark.parametrize("taken_back", [False, True])
def test_what_was_packed_of_sources_that_changed_meanwhile_is_not_kept(tmp_path: Path, taken_back: bool) -> None:
    source = tmp_path / "sources" / "units.py"
    source.parent.mkdir()
    source.write_text("TIMEOUT = 1\n")
    store = Payloads(tmp_path / "store", lambda: look_at("2.19", [source.parent]), form=module_common._CachedModule)
    before = source.stat()
    source.write_text("TIMEOUT = 2\n")
    packed = payload(tmp_path / "first", OURS, archive(main=source.read_bytes()))
    if taken_back:
        source.write_text("TIMEOUT = 1\n")
        os.utime(source, ns=(before.st_atime_ns, before.st_mtime_ns))
    store.keep(packed.parent)
    assert not (tmp_path / "store").exists()


@pytest.mark.parametrize(
    "name",
    [
        "ansible_collections.community.docker.plugins.modules.docker_image-ZIP_DEFLATED-none",
        "ansible.legacy.observe-ZIP_DEFLATED-none",
        "ansible.modules.ping-ZIP_DEFLATED-debugpy",
        "ansible.modules.ping-ZIP_DEFLATED-none.lock",
    ],
)
def test_what_the_sources_do_not_say_all_about_is_not_kept(tmp_path: Path, name: str) -> None:
    packed = payload(tmp_path / "first", name, archive(main=SOURCE))
    store_of(tmp_path, "v1").keep(packed.parent)
    assert not (tmp_path / "store").exists()


@pytest.mark.parametrize("mode", [0o770, 0o707])
def test_a_directory_that_others_can_write_to_is_neither_read_nor_written(tmp_path: Path, mode: int) -> None:
    packed = payload(tmp_path / "first", OURS, archive(main=SOURCE))
    store = store_of(tmp_path, "v1")
    store.directory.mkdir(parents=True)
    store.directory.chmod(mode)
    store.keep(packed.parent)
    assert list(store.directory.iterdir()) == []
    (store.directory / OURS).write_bytes(packed.read_bytes())
    store.restore(tmp_path / "second")
    assert not (tmp_path / "second").exists()


@pytest.mark.hostile
@pytest.mark.parametrize("mode", [0o770, 0o707])
@pytest.mark.parametrize("above", [1, 2, 3])
def test_a_directory_below_one_that_others_can_write_to_is_not_used(tmp_path: Path, above: int, mode: int) -> None:
    packed = payload(tmp_path / "first", OURS, archive(main=SOURCE))
    store = Payloads(
        tmp_path / "cache" / "firstlight" / "store", lambda: Sources("v1", ""), module_common._CachedModule
    )
    store.keep(packed.parent)
    store.directory.parents[above - 1].chmod(mode)
    store.restore(tmp_path / "second")
    assert not (tmp_path / "second").exists()
    payload(tmp_path / "first", OURS.replace("observe", "plan"), archive(main=SOURCE))
    store.keep(packed.parent)
    assert [path.name for path in store.directory.iterdir()] == [OURS]


@pytest.mark.hostile
def test_a_directory_of_somebody_else_is_not_used(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    store = store_of(tmp_path, "v1")
    store.keep(payload(tmp_path / "first", OURS, archive(main=SOURCE)).parent)
    monkeypatch.setattr(os, "geteuid", lambda: os.getuid() + 1)
    store.restore(tmp_path / "second")
    assert not (tmp_path / "second").exists()


@pytest.mark.hostile
def test_a_file_that_others_can_write_to_or_that_is_a_link_is_not_given_to_a_run(tmp_path: Path) -> None:
    packed = payload(tmp_path / "first", OURS, archive(main=SOURCE))
    loose, link = OURS.replace("observe", "loose"), OURS.replace("observe", "link")
    store = store_of(tmp_path, "v1")
    store.keep(packed.parent)
    for name in (loose, link):
        (tmp_path / name).write_bytes(packed.read_bytes())
    (tmp_path / loose).rename(store.directory / loose)
    (store.directory / loose).chmod(0o620)
    (store.directory / link).symlink_to(tmp_path / link)
    store.restore(tmp_path / "second")
    assert [path.name for path in (tmp_path / "second").iterdir()] == [OURS]


def test_what_is_kept_is_its_owners_alone_whatever_the_umask(tmp_path: Path) -> None:
    packed = payload(tmp_path / "first", OURS, archive(main=SOURCE)).parent
    former = os.umask(0)
    try:
        store = Payloads(tmp_path / "firstlight" / "store", lambda: Sources("v1", ""), module_common._CachedModule)
        store.keep(packed)
    finally:
        os.umask(former)
    store.restore(tmp_path / "second")
    assert [path.name for path in (tmp_path / "second").iterdir()] == [OURS]


def test_what_is_being_written_is_not_given_to_a_run(tmp_path: Path) -> None:
    store = store_of(tmp_path, "v1")
    store.keep(payload(tmp_path / "first", OURS, archive(main=SOURCE)).parent)
    (store.directory / f"{OURS}.17").write_bytes(b"half of")
    store.restore(tmp_path / "second")
    assert [path.name for path in (tmp_path / "second").iterdir()] == [OURS]


def test_what_was_restored_is_not_kept_again(tmp_path: Path) -> None:
    store = store_of(tmp_path, "v1")
    store.keep(payload(tmp_path / "first", OURS, archive(main=SOURCE)).parent)
    before = (store.directory / OURS).stat()
    store.restore(tmp_path / "second")
    store.keep(tmp_path / "second")
    assert (store.directory / OURS).stat() == before


def test_the_versions_used_last_stay(tmp_path: Path) -> None:
    packed = payload(tmp_path / "first", OURS, archive(main=SOURCE)).parent
    names = [f"v{number}" for number in range(VERSIONS + 1)]
    now = time.time()
    for age, name in enumerate(reversed(names[:-1])):
        store = store_of(tmp_path, name)
        store.keep(packed)
        os.utime(store.directory, (now - 60 - age, now - 60 - age))
    store_of(tmp_path, names[-1]).keep(packed)
    assert sorted(path.name for path in (tmp_path / "store").iterdir()) == names[1:]


@dataclasses.dataclass
class SignedModule:
    """As a later Ansible might have it."""

    zip_data: bytes
    metadata: object
    source_mapping: dict[str, str]
    signature: bytes


@pytest.mark.parametrize("form", [None, int, SignedModule])
def test_an_ansible_that_packs_otherwise_is_left_alone(tmp_path: Path, form: Any) -> None:
    packed = payload(tmp_path / "first", OURS, archive(main=SOURCE)).parent
    store_of(tmp_path, "v1", form).keep(packed)
    assert not (tmp_path / "store").exists()
    store_of(tmp_path, "v1").keep(packed)
    store_of(tmp_path, "v1", form).restore(tmp_path / "second")
    assert not (tmp_path / "second").exists()
