# SPDX-License-Identifier: Apache-2.0
"""container_image, with a Docker that keeps its images in a dictionary."""

from __future__ import annotations

import io
import json
import os
import tarfile
from collections.abc import Mapping
from hashlib import sha256
from pathlib import Path
from typing import Any

import pytest
from ansible_collections.firstlight.cluster.plugins.module_utils.host import Result
from ansible_collections.firstlight.cluster.plugins.module_utils.image import store as image_store
from ansible_collections.firstlight.cluster.plugins.module_utils.image.image import local_name, record_path, record_text
from ansible_collections.firstlight.cluster.plugins.module_utils.image.recipe import (
    read_recipe,
    recipe_digest,
    recipe_reference,
)
from ansible_collections.firstlight.cluster.plugins.module_utils.image.store import ImageError
from ansible_collections.firstlight.cluster.plugins.modules.container_image import converge

from tests.unit.fake_host import Call, FakeHost, Reply, failure

DIGEST = "sha256:" + "0f" * 32
REFERENCE = f"registry.example/vllm@{DIGEST}"
NAME = local_name(REFERENCE)
DERIVED = local_name(REFERENCE, "2.60.0")
ID, BUILT = "sha256:" + "1a" * 32, "sha256:" + "2b" * 32
REQUIRES = {"vllm": "0.32.0", "ray": "2.60.0"}
VERSIONS = {"vllm": "0.32.0+cpu", "ray": "2.60.0"}
WHEEL = b"the wheel of ray"
LOCK = f"ray==2.60.0 --hash=sha256:{sha256(WHEEL).hexdigest()}\n"


class Docker(FakeHost):
    """Stands for a host with Docker: names of images and their ids, and what each image contains."""

    def __init__(self, images: Mapping[str, str] | None = None, free: int = 10**12) -> None:
        super().__init__()
        self.images: dict[str, str] = dict(images or {})
        self.free = free
        self.contents: dict[str, dict[str, str | None]] = {ID: dict(VERSIONS), BUILT: dict(VERSIONS)}
        self.in_archive = {ID: ""}
        self.failures: dict[str, str] = {}
        self.pulled = ID
        self.verbs: list[str] = []
        self.built: dict[str, str] = {}
        self.labels: dict[str, dict[str, str]] = {}
        self.architecture = "arm64"

    def answer(self, call: Call) -> Reply:
        assert (call.argv[0], call.env, call.stdin) == ("docker", None, None)
        verb = call.argv[1] if call.argv[1] != "image" else call.argv[2]
        self.verbs.append(verb)
        if verb in self.failures:
            return failure(self.failures[verb])
        return Result((), *getattr(self, f"_{verb}")(list(call.argv)))

    def _inspect(self, argv: list[str]) -> tuple[Any, ...]:
        found = self.images.get(argv[-1]) or (argv[-1] if argv[-1] in self.images.values() else None)
        if found is None:
            return (1, "[]", f"Error: No such image: {argv[-1]}")
        digests = [name for name, one in self.images.items() if one == found and "@" in name]
        config = {"User": "vllm", "Labels": self.labels.get(found)}
        told = {"Id": found, "RepoDigests": digests, "Config": config, "Architecture": self.architecture}
        return (0, json.dumps([told]))

    def _prune(self, _argv: list[str]) -> tuple[Any, ...]:
        return (0, "Total reclaimed space: 0B")

    def _info(self, _argv: list[str]) -> tuple[Any, ...]:
        return (0, "/srv/docker\n")

    def _pull(self, argv: list[str]) -> tuple[Any, ...]:
        if self.pulled:
            self.images[argv[-1]] = self.pulled
        return (0, argv[-1])

    def _tag(self, argv: list[str]) -> tuple[Any, ...]:
        self.images[argv[-1]] = self.images.get(argv[-2], argv[-2])
        return (0, "")

    def _load(self, argv: list[str]) -> tuple[Any, ...]:
        assert Path(argv[-1].partition("=")[2]).exists()
        self.images |= {name or found: found for found, name in self.in_archive.items()}
        return (0, "Loaded image")

    def _build(self, argv: list[str]) -> tuple[Any, ...]:
        context = Path(argv[-1])
        self.built = {path.name: path.read_text() if path.is_file() else "" for path in context.rglob("*")}
        self.built["command"] = " ".join(argv)
        self.built["network"] = next(one for one in argv if one.startswith("--network"))
        self.images[next(one for one in argv if one.startswith("--tag=")).removeprefix("--tag=")] = BUILT
        return (0, BUILT)

    def _run(self, argv: list[str]) -> tuple[Any, ...]:
        assert "--network=none" in argv
        found = self.contents[self.images[argv[argv.index("-c") - 1]]]
        return (0, json.dumps({name: found.get(name) for name in argv[argv.index("-c") + 2 :]}) + "\n")


@pytest.fixture
def records(tmp_path: Path) -> Path:
    return tmp_path / "firstlight" / "images"


@pytest.fixture
def run(records: Path) -> Any:
    def converged(docker: Docker, check_mode: bool = False, **changes: Any) -> dict[str, Any]:
        plain = {
            "reference": REFERENCE,
            "requires": REQUIRES,
            "size_bytes": 10**10,
            "pull_timeout": 60,
            "archive": None,
            "identity": None,
            "origin": "spark0",
            "ray": "",
            "ray_lock": "",
            "ray_wheels": None,
            "ray_index": "",
            "recipe": {},
            "build_wheels": None,
            "build_packages": None,
            "build_index": "",
            "records": str(records),
        }
        return converge(docker, {**plain, **changes}, check_mode)

    return converged


def archive(tmp_path: Path, config: bytes = b"{}", **more: bytes) -> tuple[Path, str]:
    """What `docker save` writes, as small as it can be, and the id of the image in it; `more` are further ones."""
    path = tmp_path / "engine.tar"
    configs = {"c.json": config, **{f"{name}.json": data for name, data in more.items()}}
    listed = json.dumps([{"Config": name} for name in configs]).encode()
    with tarfile.open(path, "w") as target:
        for name, data in {**configs, "manifest.json": listed}.items():
            add(target, name, data)
    return path, "sha256:" + sha256(config).hexdigest()


def add(target: tarfile.TarFile, name: str, data: bytes = b"", kind: bytes = tarfile.REGTYPE, link: str = "") -> None:
    member = tarfile.TarInfo(name)
    member.size, member.type, member.linkname = len(data), kind, link
    target.addfile(member, io.BytesIO(data))


def test_a_missing_image_is_pulled_named_and_checked(run: Any, records: Path) -> None:
    docker = Docker()
    result = run(docker)
    assert (result["changed"], result["how"], result["versions"], result["id"]) == (True, "pulled", VERSIONS, ID)
    assert result["name"] == NAME
    assert docker.images == {REFERENCE: ID, NAME: ID}
    record = Path(record_path(NAME, str(records)))
    assert record.read_text() == record_text(NAME, REFERENCE, ID, REQUIRES)
    assert record.stat().st_mode & 0o7777 == 0o644


def test_the_second_run_changes_nothing(run: Any) -> None:
    docker = Docker()
    run(docker)
    docker.verbs.clear()
    again = run(docker)
    assert (again["changed"], again["how"]) == (False, "present")
    assert again["diff"]["before"] == again["diff"]["after"]
    assert docker.verbs == ["inspect", "inspect", "run"]


def test_an_image_under_the_registrys_name_only_is_not_pulled_again(run: Any) -> None:
    docker = Docker({REFERENCE: ID})
    assert run(docker)["changed"]
    assert "pull" not in docker.verbs
    assert docker.images[NAME] == ID


def test_check_mode_changes_nothing(run: Any, records: Path) -> None:
    docker = Docker()
    result = run(docker, check_mode=True)
    assert (result["changed"], result["how"], result["id"], result["versions"]) == (True, "pulled", "", {})
    assert docker.images == {}
    assert not records.exists()
    assert run(docker, check_mode=True, ray="2.60.0")["how"] == "built"
    assert run(docker, check_mode=True, archive=str(records / "engine.tar"))["how"] == "loaded"
    assert run(docker, check_mode=True, identity=ID)["how"] == "loaded"


def test_check_mode_before_docker_itself_is_there(run: Any) -> None:
    docker = Docker()
    docker.failures = {"inspect": "docker: not found", "info": "docker: not found"}
    assert run(docker, check_mode=True)["changed"]
    with pytest.raises(ImageError, match="run container_runtime first"):
        run(docker)


def test_a_disk_that_is_too_small_is_refused_before_the_pull(run: Any) -> None:
    docker = Docker(free=2 * 10**9)
    with pytest.raises(ImageError, match=r"needs 11.0 GB on /srv/docker, 2.0 GB are free"):
        run(docker)
    assert "pull" not in docker.verbs


def test_a_disk_that_becomes_full_is_told_as_one(run: Any) -> None:
    docker = Docker()
    docker.failures["pull"] = "failed to register layer: write /x: no space left on device"
    with pytest.raises(ImageError, match="the disk became full"):
        run(docker)


def test_a_pull_that_brings_something_else_is_refused(run: Any) -> None:
    docker = Docker()
    docker.pulled = ""
    with pytest.raises(ImageError, match="lists no image with digest"):
        run(docker)


def test_a_refused_image_loses_its_record_and_is_refused_again(run: Any, records: Path) -> None:
    docker = Docker()
    run(docker)
    docker.contents[ID]["ray"] = None
    for _ in range(2):
        with pytest.raises(ImageError, match="has no ray"):
            run(docker)
        assert list(records.iterdir()) == []
    assert docker.verbs.count("pull") == 1


def test_an_image_without_python_is_explained(run: Any) -> None:
    docker = Docker()
    docker.failures["run"] = 'exec: "python3": executable file not found in $PATH'
    with pytest.raises(ImageError, match="expected a Python 3 in it"):
        run(docker)


def test_an_image_that_does_not_end_leaves_no_container(run: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    commands: list[list[str]] = []

    def remember(_docker: Docker, argv: list[str]) -> tuple[Any, ...]:
        commands.append(argv)
        return (124, "", "", "docker gave no answer within 300 s") if argv[1] == "run" else (0, "")

    for verb in ("_run", "_rm"):
        monkeypatch.setattr(Docker, verb, remember, raising=False)
    with pytest.raises(ImageError, match="gave no answer within 300 s"):
        run(Docker())
    asked, removed = commands
    assert f"--name={removed[-1]}" in asked


def test_other_bytes_under_the_name_are_not_believed(run: Any) -> None:
    docker = Docker()
    run(docker)
    docker.images[NAME] = BUILT
    assert run(docker, check_mode=True)["how"] == "named"
    assert docker.images[NAME] == BUILT
    told = run(docker)
    assert (told["changed"], told["how"], docker.images[NAME]) == (True, "named", ID)
    assert run(docker)["changed"] is False


def test_where_the_one_that_was_checked_is_gone_it_is_brought_again(run: Any) -> None:
    docker = Docker()
    run(docker)
    docker.images = {NAME: BUILT}
    assert (run(docker)["how"], docker.images[NAME]) == ("pulled", ID)


def test_an_image_that_answers_nothing_is_explained(run: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Docker, "_run", lambda _docker, _argv: (0, ""))
    with pytest.raises(ImageError, match="expected versions"):
        run(Docker())


@pytest.mark.parametrize("former", [None, "half a rec", record_text(NAME, REFERENCE, ID, {"vllm": "0.31.0"})])
def test_an_image_that_is_there_without_its_record_is_recorded(run: Any, records: Path, former: str | None) -> None:
    record = Path(record_path(NAME, str(records)))
    if former is not None:
        records.mkdir(parents=True)
        record.write_text(former)
    docker = Docker({NAME: ID, REFERENCE: ID})
    for check_mode, left in ((True, former), (False, record_text(NAME, REFERENCE, ID, REQUIRES))):
        result = run(docker, check_mode=check_mode)
        assert (result["changed"], result["how"]) == (True, "present")
        assert (record.read_text() if record.exists() else None) == left


@pytest.mark.hostile
def test_a_name_alone_is_no_proof(run: Any, records: Path) -> None:
    """Whoever may use Docker can give our name to an image of his own."""
    docker = Docker({NAME: BUILT})
    assert run(docker, check_mode=True)["how"] == "pulled"
    assert not records.exists()
    assert (run(docker)["how"], docker.images[NAME]) == ("pulled", ID)


@pytest.mark.hostile
def test_the_name_of_what_ray_is_added_to_is_no_proof_either(run: Any) -> None:
    docker = Docker({NAME: BUILT, DERIVED: BUILT})
    docker.contents[ID]["ray"] = None
    result = run(docker, ray="2.60.0", ray_lock=LOCK)
    assert (result["how"], docker.images[NAME], docker.verbs.count("pull")) == ("built", ID, 1)


@pytest.mark.hostile
def test_an_image_with_the_pinned_id_needs_no_registry(run: Any) -> None:
    docker = Docker({local_name(f"r/v@{ID}"): ID})
    assert run(docker, reference=f"r/v@{ID}")["how"] == "present"
    assert "pull" not in docker.verbs


def test_a_record_that_cannot_be_written_is_explained(run: Any, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(ImageError, match=r"cannot be written: .*: make room and let root write there"):
        run(Docker({NAME: ID}), records=str(tmp_path / "file" / "images"))


class TestRay:
    def test_it_is_added_where_there_is_none(self, run: Any) -> None:
        docker = Docker()
        docker.contents[ID]["ray"] = None
        result = run(docker, ray="2.60.0", ray_lock=LOCK, ray_index="https://i.example/simple")
        assert (result["how"], result["name"], result["id"]) == ("built", DERIVED, BUILT)
        assert docker.built["Dockerfile"].startswith(f"FROM {NAME}\nUSER root\nCOPY ray.lock /opt/ray.lock\nRUN if")
        assert docker.built["ray.lock"] == LOCK
        assert "https://i.example/simple" in docker.built["Dockerfile"]
        assert docker.built["network"] == "--network=host"
        assert run(docker, ray="2.60.0")["changed"] is False

    def test_a_proxy_of_the_host_is_handed_on_without_its_password(
        self, run: Any, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setenv("HTTPS_PROXY", "http://user:secret@proxy.example:3128")
        docker = Docker()
        docker.contents[ID]["ray"] = None
        run(docker, ray="2.60.0", ray_lock=LOCK)
        assert "--build-arg=HTTPS_PROXY" in docker.built["command"]
        assert "secret" not in docker.built["command"]

    def test_an_image_that_has_it_only_gets_the_name(self, run: Any) -> None:
        docker = Docker()
        result = run(docker, ray="2.60.0")
        assert (result["how"], result["name"], result["id"]) == ("pulled", DERIVED, ID)
        assert "build" not in docker.verbs

    def test_another_one_in_the_image_is_refused(self, run: Any) -> None:
        docker = Docker()
        docker.contents[ID]["ray"] = "2.48.0"
        with pytest.raises(ImageError, match=r"has ray 2\.48\.0; expected ray 2\.60\.0"):
            run(docker, ray="2.60.0")

    def test_from_wheels(self, run: Any, tmp_path: Path) -> None:
        docker = Docker()
        docker.contents[ID]["ray"] = None
        wheels = tmp_path / "wheels"
        offline = {"ray": "2.60.0", "ray_lock": LOCK, "ray_wheels": str(wheels)}
        with pytest.raises(ImageError, match="cannot be read"):
            run(docker, **offline)
        wheels.mkdir()
        with pytest.raises(ImageError, match=r"lacks 1 of the wheels of Ray's lock.* such as ray==2\.60\.0"):
            run(docker, **offline)
        (wheels / "ray-2.60.0-cp311-none-any.whl").write_bytes(WHEEL)
        (wheels / "notes.txt").write_text("")
        assert run(docker, **offline)["how"] == "built"
        assert docker.built["network"] == "--network=none"
        assert "ray-2.60.0-cp311-none-any.whl" in docker.built
        assert "notes.txt" not in docker.built

    @pytest.mark.hostile
    def test_wheels_with_other_bytes_get_nowhere_near_the_build(self, run: Any, tmp_path: Path) -> None:
        """Least of all a pip, which would be run as root to compare the others."""
        docker = Docker()
        docker.contents[ID]["ray"] = None
        for name in ("ray-2.60.0-py3-none-any.whl", "pip-26.0-py3-none-any.whl"):
            (tmp_path / name).write_text("of a stranger")
        offline = {"ray": "2.60.0", "ray_lock": LOCK, "ray_wheels": str(tmp_path)}
        with pytest.raises(ImageError, match=r"or has them with other bytes, such as ray==2\.60\.0"):
            run(docker, **offline)
        assert "build" not in docker.verbs
        (tmp_path / "ray-2.60.0-py3-none-any.whl").write_bytes(WHEEL)
        assert run(docker, **offline)["how"] == "built"
        assert not any(name.startswith("pip-") for name in docker.built)
        assert (tmp_path / "pip-26.0-py3-none-any.whl").exists()

    @pytest.mark.hostile
    @pytest.mark.parametrize(
        "lock", ["", "ray==2.60.0\n", LOCK.replace("2.60.0", "2.59.0"), LOCK.replace("ray=", "rey=")]
    )
    def test_nothing_is_installed_that_no_lock_names(self, run: Any, lock: str) -> None:
        docker = Docker()
        docker.contents[ID]["ray"] = None
        with pytest.raises(ValueError, match=r"no lock lists|has no hash|pins ray"):
            run(docker, ray="2.60.0", ray_lock=lock)
        assert "build" not in docker.verbs

    def test_a_failed_build_is_told_by_its_error(self, run: Any) -> None:
        docker = Docker()
        docker.contents[ID]["ray"] = None
        docker.failures["build"] = "ERROR: No matching distribution found for ray\nThe command returned 1\n"
        with pytest.raises(ImageError, match="No matching distribution found for ray; check that the head reaches"):
            run(docker, ray="2.60.0", ray_lock=LOCK)


class TestArchive:
    def test_it_is_loaded_by_the_images_id(self, run: Any, tmp_path: Path) -> None:
        path, found = archive(tmp_path)
        docker = Docker()
        docker.in_archive, docker.contents[found] = {found: ""}, dict(VERSIONS)
        pinned = f"registry.example/vllm@{found}"
        result = run(docker, reference=pinned, archive=str(path))
        assert (result["how"], result["id"]) == ("loaded", found)
        assert docker.images[local_name(pinned)] == found
        assert path.exists()
        assert "pull" not in docker.verbs

    def test_one_of_another_image_is_not_loaded(self, run: Any, tmp_path: Path) -> None:
        path, found = archive(tmp_path)
        docker = Docker()
        with pytest.raises(ImageError, match=f"holds {found}, expected {DIGEST}"):
            run(docker, archive=str(path))
        assert "load" not in docker.verbs

    def test_what_docker_makes_of_it_is_compared(self, run: Any, tmp_path: Path) -> None:
        path, found = archive(tmp_path)
        with pytest.raises(ImageError, match="Docker lists none of"):
            run(Docker(), reference=f"r/v@{found}", archive=str(path))

    def test_one_that_cannot_be_read_is_explained(self, run: Any, tmp_path: Path) -> None:
        (tmp_path / "half.tar").write_bytes(b"x" * 700)
        for name, reason in (("half", "it is not a complete tar archive"), ("none", "No such file or directory")):
            with pytest.raises(ImageError, match=rf"{name}\.tar cannot be read \({reason}\)"):
                run(Docker(), archive=str(tmp_path / f"{name}.tar"))


MANIFEST = b'[{"Config": "c.json"}]'


@pytest.mark.hostile
class TestHostileArchive:
    """Docker reads an archive with rules of its own: one that two programs may read in two ways is read by neither."""

    @pytest.mark.parametrize(
        ("name", "data", "kind", "link"),
        [
            ("manifest.json", MANIFEST, tarfile.REGTYPE, ""),
            ("./manifest.json", MANIFEST, tarfile.REGTYPE, ""),
            ("x/../manifest.json", MANIFEST, tarfile.REGTYPE, ""),
            ("x//y", b"", tarfile.REGTYPE, ""),
            ("/etc/passwd", b"", tarfile.REGTYPE, ""),
            ("\x1f\x8b\x08", b"", tarfile.REGTYPE, ""),
            ("BZh91AY&SY", b"", tarfile.REGTYPE, ""),
            ("index.json", b"", tarfile.SYMTYPE, "o.json"),
            ("blobs", b"", tarfile.SYMTYPE, "/"),
            ("x/layer.tar", b"", tarfile.LNKTYPE, "c.json"),
            ("x/layer.tar", b"", tarfile.CHRTYPE, ""),
            ("index.json", b"", tarfile.DIRTYPE, ""),
        ],
    )
    def test_it_is_not_loaded(self, run: Any, tmp_path: Path, name: str, data: bytes, kind: bytes, link: str) -> None:
        path, found = archive(tmp_path)
        with tarfile.open(path, "a") as target:
            add(target, name, data, kind, link)
        docker = Docker()
        with pytest.raises(ImageError, match=r"cannot be read \(.*nothing was loaded"):
            run(docker, reference=f"r/v@{found}", archive=str(path))
        assert "load" not in docker.verbs

    def test_a_document_that_is_too_large_to_read_hides_nothing(
        self, run: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        path, found = archive(tmp_path)
        with tarfile.open(path, "a") as target:
            add(target, "index.json", b"{}" + b" " * 100)
        monkeypatch.setattr(image_store, "MEMBER_LIMIT", 50)
        with pytest.raises(ImageError, match=r"its index\.json is not a document"):
            run(Docker(), reference=f"r/v@{found}", archive=str(path))

    def test_a_second_image_is_not_loaded(self, run: Any, tmp_path: Path) -> None:
        path, found = archive(tmp_path, stranger=b'{"os": "strange"}')
        docker = Docker()
        with pytest.raises(ImageError, match=rf"besides {found}, expected that image alone.*nothing was loaded"):
            run(docker, reference=f"r/v@{found}", archive=str(path))
        assert "load" not in docker.verbs

    def test_a_shared_layer_may_be_a_link(self, run: Any, tmp_path: Path) -> None:
        path, found = archive(tmp_path)
        with tarfile.open(path, "a") as target:
            add(target, "x", kind=tarfile.DIRTYPE)
            add(target, "x/layer.tar", kind=tarfile.SYMTYPE, link="../y/layer.tar")
        docker = Docker()
        docker.in_archive, docker.contents[found] = {found: ""}, dict(VERSIONS)
        assert run(docker, reference=f"r/v@{found}", archive=str(path))["how"] == "loaded"


class TestFromTheHead:
    @pytest.fixture
    def came(self, tmp_path: Path) -> tuple[Path, str, Docker]:
        """The file that came, the id of the image in it, and a Docker that has not loaded it yet."""
        path, found = archive(tmp_path)
        docker = Docker({NAME: BUILT})
        docker.in_archive, docker.contents[found] = {found: NAME}, dict(VERSIONS)
        return path, found, docker

    def test_it_is_compared_loaded_and_the_file_removed(self, run: Any, came: tuple[Path, str, Docker]) -> None:
        path, found, docker = came
        result = run(docker, archive=str(path), identity=found)
        assert (result["how"], result["id"], docker.images[NAME]) == ("loaded", found, found)
        assert not path.exists()
        assert run(docker, identity=found)["changed"] is False

    def test_one_that_is_here_only_gets_the_name(self, run: Any) -> None:
        docker = Docker({"other:1": ID})
        assert run(docker, check_mode=True, identity=ID)["how"] == "named"
        assert NAME not in docker.images
        assert (run(docker, identity=ID)["how"], docker.images[NAME]) == ("named", ID)
        assert "load" not in docker.verbs

    @pytest.mark.hostile
    def test_another_image_is_not_loaded(self, run: Any, came: tuple[Path, str, Docker]) -> None:
        path, found, docker = came
        with pytest.raises(ImageError, match=f"holds {found}, expected the image {ID} of spark0 alone"):
            run(docker, archive=str(path), identity=ID)
        with pytest.raises(ImageError, match=f"has the id {BUILT}, expected {ID}"):
            run(docker, identity=ID)
        assert "load" not in docker.verbs
        assert docker.images == {NAME: BUILT}

    @pytest.mark.hostile
    def test_an_image_that_rides_along_is_not_loaded(self, run: Any, came: tuple[Path, str, Docker]) -> None:
        path, found, docker = came
        archive(path.parent, stranger=b'{"os": "strange"}')
        with pytest.raises(ImageError, match=f"expected the image {found} of spark0 alone"):
            run(docker, archive=str(path), identity=found)
        assert "load" not in docker.verbs

    def test_what_docker_makes_of_it_is_compared(self, run: Any, came: tuple[Path, str, Docker]) -> None:
        path, found, docker = came
        docker.in_archive = {ID: NAME}
        with pytest.raises(ImageError, match=f"has the id {ID}, expected {found} as on spark0"):
            run(docker, archive=str(path), identity=found)

    def test_a_full_disk_is_not_kept_full(self, run: Any, came: tuple[Path, str, Docker]) -> None:
        path, found, docker = came
        docker.failures["load"] = "write /x: no space left on device"
        with pytest.raises(ImageError, match="the disk became full"):
            run(docker, archive=str(path), identity=found)
        assert not path.exists()

    def test_a_broken_file_is_kept_for_the_next_run(self, run: Any, came: tuple[Path, str, Docker]) -> None:
        path, found, docker = came
        docker.failures["load"] = "unexpected EOF"
        with pytest.raises(ImageError, match="cannot be loaded: unexpected EOF"):
            run(docker, archive=str(path), identity=found)
        assert path.exists()


BASE = "registry.example/cuda@sha256:" + "3c" * 32
RECIPE: dict[str, Any] = {
    "name": "vllm-gb10",
    "base": BASE,
    "architecture": "aarch64",
    "python": "3.12",
    "packages": ["g++"],
    "apt": {
        "uri": "https://snapshot.example/ubuntu",
        "snapshot": "20261101T000000Z",
        "suites": ["noble"],
        "components": ["main"],
        "keyring": "/usr/share/keyrings/archive.gpg",
    },
    "lock": f"# wheels-bytes: 1000000000\nvllm==0.32.0 --hash=sha256:{'4d' * 32}\n",
}
OF_RECIPE = recipe_reference(read_recipe(RECIPE))
RECIPE_DIGEST = recipe_digest(read_recipe(RECIPE))
OF_BASE = read_recipe(RECIPE).base_name


class TestRecipe:
    @pytest.mark.hostile
    def test_names_are_no_proof(self, run: Any) -> None:
        """Neither that of the image, with the recipe's label, nor that of the base it is built on."""
        docker = Docker({local_name(OF_RECIPE): "sha256:" + "6f" * 32, OF_BASE: "sha256:" + "7a" * 32})
        docker.labels = {"sha256:" + "6f" * 32: {"io.firstlight.recipe": RECIPE_DIGEST}}
        assert self.build(run, docker)["how"] == "built"
        assert docker.images == {BASE: ID, OF_BASE: ID, local_name(OF_RECIPE): BUILT}

    def build(self, run: Any, docker: Docker, **changes: Any) -> Any:
        return run(docker, **{"reference": OF_RECIPE, "recipe": RECIPE, **changes})

    def test_it_is_built_on_its_base_and_checked_like_any_other(self, run: Any, records: Path) -> None:
        docker = Docker()
        result = self.build(run, docker, build_index="https://i.example/simple")
        name = local_name(OF_RECIPE)
        assert (result["how"], result["name"], result["id"], result["versions"]) == ("built", name, BUILT, VERSIONS)
        assert docker.images == {BASE: ID, OF_BASE: ID, name: BUILT}
        assert docker.built["Dockerfile"].startswith(f"FROM {OF_BASE}\nUSER root\n")
        assert docker.built["Dockerfile"].endswith("USER vllm\n")
        assert docker.built["engine.lock"] == RECIPE["lock"]
        assert (
            "docker build --quiet --pull=false --force-rm --network=host --build-arg=SOURCE_DATE_EPOCH=1793491200 "
            f"--tag={name} " in docker.built["command"]
        )
        record = Path(record_path(name, str(records))).read_text()
        assert record == record_text(name, OF_RECIPE, BUILT, REQUIRES)
        docker.verbs.clear()
        assert self.build(run, docker)["changed"] is False
        assert docker.verbs == ["inspect", "inspect", "run"]

    def test_what_is_in_it_is_asked_and_refused(self, run: Any) -> None:
        docker = Docker()
        docker.contents[BUILT]["vllm"] = "0.31.0"
        with pytest.raises(ImageError, match=r"has vllm 0\.31\.0; expected vllm 0\.32\.0"):
            self.build(run, docker)

    def test_check_mode_says_so_and_touches_nothing(self, run: Any) -> None:
        docker = Docker()
        assert self.build(run, docker, check_mode=True)["how"] == "built"
        assert docker.images == {}

    def test_another_recipe_than_the_name_promises_is_refused(self, run: Any) -> None:
        with pytest.raises(ImageError, match=f"recipe vllm-gb10 has the digest {RECIPE_DIGEST}, expected {DIGEST}"):
            run(Docker(), recipe=RECIPE)

    def test_a_disk_that_is_too_small_is_refused_before_the_base_comes(self, run: Any) -> None:
        docker = Docker(free=5 * 10**9)
        with pytest.raises(ImageError, match=r"needs 6.0 GB on /srv/docker, 5.0 GB are free"):
            self.build(run, docker)
        assert "pull" not in docker.verbs

    def test_a_base_for_other_machines_is_refused(self, run: Any) -> None:
        docker = Docker()
        docker.architecture = "amd64"
        with pytest.raises(ImageError, match="is for amd64, recipe vllm-gb10 builds for arm64"):
            self.build(run, docker)
        assert "build" not in docker.verbs

    def test_without_a_network(self, run: Any, tmp_path: Path) -> None:
        path, found = archive(tmp_path)
        given = {**RECIPE, "base": f"r/cuda@{found}"}
        reference = recipe_reference(read_recipe(given))
        wheels, packages = tmp_path / "wheels", tmp_path / "debs"
        offline = {
            "reference": reference,
            "recipe": given,
            "archive": str(path),
            "build_wheels": str(wheels),
            "build_packages": str(packages),
        }
        docker = Docker()
        docker.in_archive = {found: ""}
        with pytest.raises(ImageError, match=r"the wheels in .* cannot be read .*inference_image_build_wheels empty"):
            run(docker, **offline)
        wheels.mkdir()
        packages.mkdir()
        with pytest.raises(ImageError, match=r"lacks 1 of the wheels of recipe vllm-gb10, vllm==0\.32\.0 first"):
            run(docker, **offline)
        (wheels / "vllm-0.32.0-cp38-abi3-manylinux_2_35_aarch64.whl").write_text("")
        with pytest.raises(ImageError, match=r"holds no package \(\*\.deb\), expected g\+\+"):
            run(docker, **offline)
        (packages / "g++_1_arm64.deb").write_text("")
        assert run(docker, **offline)["how"] == "built"
        assert docker.built["network"] == "--network=none"
        assert {*os.listdir(wheels), *os.listdir(packages), "engine.lock"} <= set(docker.built)
        assert docker.verbs.count("prune") == 1
        assert "pull" not in docker.verbs

    def test_one_that_was_built_elsewhere_is_loaded(self, run: Any, tmp_path: Path) -> None:
        labels = {"io.firstlight.recipe": RECIPE_DIGEST}
        path, found = archive(tmp_path, json.dumps({"config": {"Labels": labels}}).encode())
        docker = Docker()
        docker.in_archive, docker.labels, docker.contents[found] = {found: ""}, {found: labels}, dict(VERSIONS)
        result = self.build(run, docker, archive=str(path))
        assert (result["how"], result["id"]) == ("loaded", found)
        assert "build" not in docker.verbs

    def test_a_failed_build_is_told_by_its_error(self, run: Any) -> None:
        docker = Docker()
        docker.failures["build"] = "ERROR: THESE PACKAGES DO NOT MATCH THE HASHES\nThe command returned 1\n"
        with pytest.raises(ImageError, match="DO NOT MATCH THE HASHES; check that the head reaches"):
            self.build(run, docker)
        docker.failures["build"] = "write /x: no space left on device"
        with pytest.raises(ImageError, match="the disk became full"):
            self.build(run, docker)

    @pytest.mark.parametrize(("ray", "built"), [("2.60.0", 1), ("2.60.0_metrics", 2)])
    def test_ray_of_the_recipe_is_enough_unless_more_is_asked_for(self, run: Any, ray: str, built: int) -> None:
        docker = Docker()
        result = self.build(run, docker, ray=ray, ray_lock=LOCK)
        assert (result["how"], result["name"]) == ("built", local_name(OF_RECIPE, ray))
        assert docker.verbs.count("build") == built
