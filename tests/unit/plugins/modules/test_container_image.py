# SPDX-License-Identifier: Apache-2.0
"""container_image, with a Docker that is a table of answers."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest
from ansible_collections.firstlight.cluster.plugins.module_utils.core.image import proof_text
from ansible_collections.firstlight.cluster.plugins.module_utils.host import Host, Result
from ansible_collections.firstlight.cluster.plugins.modules import container_image
from ansible_collections.firstlight.cluster.plugins.modules.container_image import ImageError, converge

DIGEST = "sha256:" + "0f" * 32
REFERENCE = f"registry.example/vllm@{DIGEST}"
REQUIRES = {"vllm": "0.32.0", "ray": "2.60.0"}
RECORD = proof_text(REFERENCE, REQUIRES)
VERSIONS = {"vllm": "0.32.0+cpu", "ray": "2.60.0"}


class Docker(Host):
    """Stands for a host with Docker."""

    def __init__(self, there: bool = False, free: int = 10**12) -> None:
        self.there = there
        self.free = free
        self.contents: dict[str, str | None] = dict(VERSIONS)
        self.pull_error = ""
        self.after_pull = True
        self.installed = True
        self.calls: list[str] = []

    def run(
        self,
        argv: Sequence[str],
        timeout: float = 30.0,
        env: Mapping[str, str] | None = None,
        stdin: str | None = None,
    ) -> Result:
        assert argv[0] == "docker"
        assert timeout > 0
        assert env is None
        assert stdin is None
        command = tuple(argv)
        if not self.installed:
            return Result(command, 127, problem="docker is not installed")
        verb = argv[1] if argv[1] != "image" else "inspect"
        self.calls.append(verb)
        if verb == "inspect":
            found = Result(command, 0, json.dumps([REFERENCE]))
            return found if self.there else Result(command, 1, "[]", f"Error: No such image: {REFERENCE}")
        if verb == "info":
            return Result(command, 0, "/srv/docker\n")
        if verb == "pull":
            if self.pull_error:
                return Result(command, 1, "", self.pull_error)
            self.there = self.after_pull
            return Result(command, 0, REFERENCE)
        assert "--network=none" in argv
        names = argv[argv.index("-c") + 2 :]
        return Result(command, 0, json.dumps({name: self.contents.get(name) for name in names}) + "\n")

    def disk_free(self, path: str) -> int:
        assert path == ("/srv/docker" if self.installed else "/var/lib/docker")
        return self.free

    def file_state(self, path: str) -> dict[str, Any]:
        found = super().file_state(path)
        return {**found, "owner": "root", "group": "root"} if found["exists"] else found


def parameters(**changes: Any) -> dict[str, Any]:
    plain = {"reference": REFERENCE, "requires": REQUIRES, "size_bytes": 10**10, "pull_timeout": 60, "proof": None}
    return {**plain, **changes}


@pytest.fixture
def proof(tmp_path: Path) -> Path:
    return tmp_path / "firstlight" / "image.proof"


def test_a_missing_image_is_pulled_and_checked() -> None:
    docker = Docker()
    result = converge(docker, parameters(), check_mode=False)
    assert (result["changed"], result["pulled"], result["versions"]) == (True, True, VERSIONS)
    assert docker.calls == ["inspect", "info", "pull", "inspect", "run"]


def test_an_image_that_is_there_is_no_change() -> None:
    docker = Docker(there=True)
    assert not converge(docker, parameters(), check_mode=False)["changed"]
    assert docker.calls == ["inspect", "run"]


def test_check_mode_pulls_nothing() -> None:
    docker = Docker()
    assert converge(docker, parameters(), check_mode=True)["changed"]
    assert docker.calls == ["inspect", "info"]


def test_check_mode_before_docker_itself_is_there() -> None:
    docker = Docker()
    docker.installed = False
    assert converge(docker, parameters(), check_mode=True)["changed"]
    with pytest.raises(ImageError, match="run container_runtime first"):
        converge(docker, parameters(), check_mode=False)


def test_a_disk_that_is_too_small_is_refused_before_the_pull() -> None:
    docker = Docker(free=2 * 10**9)
    with pytest.raises(ImageError, match=r"needs 11.0 GB on /srv/docker, 2.0 GB are free"):
        converge(docker, parameters(), check_mode=False)
    assert "pull" not in docker.calls


def test_a_disk_that_becomes_full_is_told_as_one() -> None:
    docker = Docker()
    docker.pull_error = "failed to register layer: write /x: no space left on device"
    with pytest.raises(ImageError, match="the disk became full"):
        converge(docker, parameters(), check_mode=False)
    assert "run" not in docker.calls


def test_a_pull_that_brings_something_else_is_refused() -> None:
    docker = Docker()
    docker.after_pull = False
    with pytest.raises(ImageError, match="lists no image with digest"):
        converge(docker, parameters(), check_mode=False)


def test_an_image_without_ray_is_refused() -> None:
    docker = Docker(there=True)
    docker.contents["ray"] = None
    with pytest.raises(ImageError, match=r"has no ray .* expected ray 2.60.0"):
        converge(docker, parameters(), check_mode=False)


def test_an_image_without_python_is_explained(monkeypatch: pytest.MonkeyPatch) -> None:
    docker = Docker(there=True)
    answer = Docker.run

    def run(self: Docker, argv: Sequence[str], timeout: float = 30.0) -> Result:
        if argv[1] == "run":
            return Result(tuple(argv), 127, "", 'exec: "python3": executable file not found in $PATH')
        return answer(self, argv, timeout)

    monkeypatch.setattr(Docker, "run", run)
    with pytest.raises(ImageError, match="expected a Python 3 in it"):
        container_image.versions(docker, REFERENCE, {"vllm": "0.32.0"})


def test_a_passed_check_is_recorded_once(proof: Path) -> None:
    docker = Docker()
    first = converge(docker, parameters(proof=str(proof)), check_mode=False)
    assert first["changed"] is True
    assert first["diff"] == {"before": "", "after": f"{REFERENCE}\n{RECORD}"}
    assert proof.read_text() == RECORD
    assert proof.stat().st_mode & 0o7777 == 0o644
    assert proof.parent.stat().st_mode & 0o7777 == 0o755
    again = converge(docker, parameters(proof=str(proof)), check_mode=False)
    assert (again["changed"], again["pulled"]) == (False, False)
    assert again["diff"]["before"] == again["diff"]["after"]


@pytest.mark.parametrize("former", [None, "half a rec", proof_text(REFERENCE, {"vllm": "0.31.0"})])
def test_an_image_that_is_there_without_its_record_is_recorded(proof: Path, former: str | None) -> None:
    if former is not None:
        proof.parent.mkdir()
        proof.write_text(former)
    docker = Docker(there=True)
    for check_mode, left in ((True, former), (False, RECORD)):
        result = converge(docker, parameters(proof=str(proof)), check_mode)
        assert (result["changed"], result["pulled"]) == (True, False)
        assert (proof.read_text() if proof.exists() else None) == left


def test_a_record_of_another_mode_is_put_right(proof: Path) -> None:
    proof.parent.mkdir()
    proof.write_text(RECORD)
    proof.chmod(0o600)
    assert converge(Docker(there=True), parameters(proof=str(proof)), check_mode=False)["changed"] is True
    assert proof.stat().st_mode & 0o7777 == 0o644


def test_check_mode_before_the_pull_writes_no_record(proof: Path) -> None:
    result = converge(Docker(), parameters(proof=str(proof)), check_mode=True)
    assert (result["changed"], result["versions"]) == (True, {})
    assert not proof.parent.exists()


def test_a_refused_image_has_no_record_and_is_refused_again(proof: Path) -> None:
    docker = Docker()
    docker.contents["ray"] = None
    for _ in range(2):
        with pytest.raises(ImageError, match="has no ray"):
            converge(docker, parameters(proof=str(proof)), check_mode=False)
        assert not proof.exists()
    assert docker.calls.count("pull") == 1


@pytest.mark.parametrize(
    ("record", "check_mode", "stays"),
    [
        (RECORD, False, False),
        (proof_text(REFERENCE, {"vllm": "0.31.0"}), False, False),
        (RECORD, True, True),
        (proof_text("registry.example/vllm@sha256:" + "1e" * 32, REQUIRES), False, True),
    ],
)
def test_a_failed_check_removes_only_its_own_record(proof: Path, record: str, check_mode: bool, stays: bool) -> None:
    proof.parent.mkdir()
    proof.write_text(record)
    docker = Docker(there=True)
    docker.contents["ray"] = None
    with pytest.raises(ImageError, match="has no ray"):
        converge(docker, parameters(proof=str(proof)), check_mode)
    assert (proof.read_text() if proof.exists() else None) == (record if stays else None)


def test_without_requirements_the_record_is_left_alone(proof: Path) -> None:
    result = converge(Docker(there=True), parameters(proof=str(proof), requires={}), check_mode=False)
    assert result["changed"] is False
    assert not proof.exists()


def test_a_record_that_cannot_be_written_is_explained(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(ImageError, match=r"cannot be written: .*: make it writable for root"):
        converge(Docker(there=True), parameters(proof=str(tmp_path / "file" / "image.proof")), check_mode=False)
