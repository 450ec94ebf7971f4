# SPDX-License-Identifier: Apache-2.0
"""An image's recipe: its digest, the Dockerfile it becomes, and what is found wrong in it."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest
from ansible_collections.firstlight.cluster.plugins.module_utils.engine_venv.lock import parse_lock
from ansible_collections.firstlight.cluster.plugins.module_utils.image.image import (
    DIGEST_TO_SUPPLY,
    is_local_name,
    local_name,
)
from ansible_collections.firstlight.cluster.plugins.module_utils.image.recipe import (
    Recipe,
    Sources,
    lock_problems,
    missing_wheels,
    read_recipe,
    recipe_digest,
    recipe_dockerfile,
    recipe_failure,
    recipe_of,
    recipe_reference,
    wheels_bytes,
    wrong_architecture,
)

GOLDEN = Path(__file__).parents[4] / "golden" / "inference_image"
BASE = "sha256:" + "b" * 64
LOCK = f"""# python: 3.12
# architecture: aarch64
# wheels-bytes: 4000
nvidia-nccl-cu13==2.30.7 \\
    --hash=sha256:{"1" * 64}
vllm==0.32.0 \\
    --hash=sha256:{"2" * 64}
"""
APT = {
    "uri": "https://snapshot.example/ubuntu",
    "snapshot": "20261101T000000Z",
    "suites": ["noble", "noble-updates"],
    "components": ["main", "universe"],
    "keyring": "/usr/share/keyrings/archive.gpg",
}
GIVEN: dict[str, Any] = {
    "name": "vllm-gb10",
    "base": f"nvidia/cuda@{BASE}",
    "architecture": "aarch64",
    "python": "3.12",
    "packages": ["python3.12-venv", "g++"],
    "apt": APT,
    "environment": {"CUDA_HOME": "/usr/local/cuda"},
    "lock": LOCK,
}


def recipe(**changes: Any) -> Recipe:
    return read_recipe({**GIVEN, **changes})


class TestDigest:
    def test_a_name_like_that_of_any_other_image_follows_from_it(self) -> None:
        reference = recipe_reference(recipe())
        assert reference.startswith("firstlight/recipe/vllm-gb10@sha256:")
        assert is_local_name(local_name(reference))
        assert recipe_of(reference) == "vllm-gb10"
        assert recipe_of(f"vllm/vllm-openai@{BASE}") == ""

    def test_the_same_recipe_has_the_same_digest_today_and_tomorrow(self) -> None:
        """A change here is another image on every host: raise FORMAT on purpose, never by accident."""
        assert recipe_digest(recipe()) == "sha256:0b451f4572f7de7510121b137dbab6f9e61a93d01c53377837ef83bfcca8f8c2"

    @pytest.mark.parametrize(
        "changes",
        [
            {"name": "other"},
            {"base": f"mirror.example/cuda@{BASE}"},
            {"apt": {**APT, "uri": "http://mirror.example/ubuntu"}},
            {"packages": ["g++", "python3.12-venv"]},
        ],
    )
    def test_where_things_come_from_makes_no_other_image(self, changes: dict[str, Any]) -> None:
        assert recipe_digest(recipe(**changes)) == recipe_digest(recipe())

    @pytest.mark.parametrize(
        "changes",
        [
            {"base": "nvidia/cuda@sha256:" + "c" * 64},
            {"python": "3.11"},
            {"architecture": "x86_64"},
            {"packages": ["g++"]},
            {"packages": []},
            {"apt": {**APT, "snapshot": "20261102T000000Z"}},
            {"apt": {**APT, "components": ["main"]}},
            {"environment": {}},
            {"lock": LOCK.replace("2.30.7", "2.30.8")},
            {"lock": LOCK.replace("1" * 64, "3" * 64)},
        ],
    )
    def test_whatever_goes_into_the_image_is_in_its_digest(self, changes: dict[str, Any]) -> None:
        assert recipe_digest(recipe(**changes)) != recipe_digest(recipe())

    def test_without_the_base_there_is_none_yet(self) -> None:
        assert recipe_digest(recipe(base=f"nvidia/cuda@{DIGEST_TO_SUPPLY}")) == DIGEST_TO_SUPPLY


class TestDockerfile:
    @pytest.mark.parametrize(
        ("name", "sources"),
        [
            ("online", Sources(index="https://i.example/simple")),
            ("offline", Sources(wheels="/srv/wheels", packages="/srv/debs")),
        ],
    )
    def test_the_text_is_the_golden_one(self, name: str, sources: Sources) -> None:
        """Regenerate with FIRSTLIGHT_UPDATE_GOLDEN=1; where the image becomes another one, raise FORMAT."""
        text, golden = recipe_dockerfile(recipe(), sources), GOLDEN / f"{name}.Dockerfile"
        if os.environ.get("FIRSTLIGHT_UPDATE_GOLDEN"):
            golden.write_text(text)
        assert text == golden.read_text()

    def test_from_the_archive_of_a_day_and_nothing_else(self) -> None:
        text = recipe_dockerfile(recipe(), Sources())
        for suite in APT["suites"]:
            signed = "deb [signed-by=/usr/share/keyrings/archive.gpg check-valid-until=no]"
            assert f"'{signed} https://snapshot.example/ubuntu/20261101T000000Z {suite} main universe'" in text
        only = "-o Dir::Etc::SourceParts=/dev/null -o Dir::Etc::SourceList=/etc/apt/firstlight.list"
        assert text.count(only) == text.count("apt-get ") == 2
        assert "ARG SOURCE_DATE_EPOCH=1793491200\n" in text
        assert "--require-hashes --no-deps --only-binary=:all:" in text

    def test_from_directories_nothing_is_fetched_and_no_wheel_stays(self) -> None:
        sources = Sources(wheels="/srv/wheels", packages="/srv/debs", index="https://i.example")
        assert sources.offline(recipe())
        text = recipe_dockerfile(recipe(), sources, user="ubuntu")
        stages = text.split("FROM ")[1:]
        assert [stage.splitlines()[0] for stage in stages] == [
            f"firstlight/base:sha256-{'b' * 64} AS packages",
            "packages AS wheels",
            "packages",
        ]
        assert "COPY packages/ /tmp/firstlight-packages/" in stages[0]
        assert "SourceList=/dev/null /tmp/firstlight-packages/*.deb" in stages[0]
        assert "dpkg --status g++ python3.12-venv" in stages[0]
        assert "COPY wheels/ /tmp/firstlight-wheels/" in stages[1]
        assert "--no-index --find-links=/tmp/firstlight-wheels --requirement /opt/engine.lock" in stages[1]
        assert "COPY --from=wheels /opt/engine /opt/engine" in stages[2]
        assert "firstlight-wheels" not in stages[2]
        assert text.splitlines()[1] == "USER root"
        assert text.splitlines()[-1] == "USER ubuntu"
        assert "://" not in text

    def test_without_packages_apt_is_not_touched(self) -> None:
        plain = recipe(packages=[], apt=None)
        text = recipe_dockerfile(plain, Sources(wheels="/srv/wheels"))
        assert "apt" not in text
        assert "ARG SOURCE_DATE_EPOCH=0\n" in text
        assert Sources(wheels="/srv/wheels").offline(plain)
        assert not Sources(wheels="/srv/wheels").offline(recipe())

    def test_a_password_never_gets_into_an_image(self) -> None:
        with pytest.raises(ValueError, match="would stay in the image"):
            recipe_dockerfile(recipe(), Sources(index="https://me:secret@i.example/simple"))


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"base": "nvidia/cuda:13.0.3"}, "a tag can point at other bytes"),
        ({"architecture": "riscv64"}, "expected aarch64 or x86_64"),
        ({"python": "3"}, "expected a release like 3.12"),
        ({"name": "A B"}, "expected lowercase letters"),
        ({"lock": ""}, "every wheel by hash"),
        ({"packages": "g++"}, "expected a list of names"),
        ({"packages": ["g++; rm -rf /"]}, "expected a list of names"),
        ({"apt": None}, "expected the archive they come from"),
        ({"apt": {**APT, "uri": "https://me:x@mirror.example/ubuntu"}}, "without a user"),
        ({"apt": {**APT, "snapshot": "2026-11-01"}}, "expected a time like 20261101T000000Z"),
        ({"apt": {**APT, "keyring": "keyring.gpg"}}, "expected the path of a keyring"),
        ({"apt": {**APT, "suites": []}}, "expected at least one of each"),
        ({"apt": {**APT, "suites": ["noble main'; x"]}}, "expected a list of names"),
        ({"environment": {"A": 'x" y'}}, "without quotes"),
        ({"environment": {"A B": "x"}}, "expected a name"),
    ],
)
def test_what_cannot_be_built_is_refused(changes: dict[str, Any], words: str) -> None:
    with pytest.raises(ValueError, match=words):
        recipe(**changes)


def test_a_lock_is_compared_with_recipe_and_stack() -> None:
    assert lock_problems(recipe(), {"vllm": "0.32.0", "nvidia_nccl_cu13": "2.30.7", "ray": "2.60.0"}) == []
    assert lock_problems(recipe(), {"vllm": "0.31.0"}) == [
        "its lock has vllm 0.32.0, expected 0.31.0 as in the stack",
    ]
    assert lock_problems(recipe(architecture="x86_64", python="3.11"), {}) == [
        "its lock is for architecture aarch64, expected x86_64",
        "its lock is for Python 3.12, expected 3.11",
    ]
    assert "--hash" in lock_problems(recipe(lock="vllm==0.32.0\n"), {})[0]


def test_wheels_that_a_directory_lacks_are_named() -> None:
    files = ["vllm-0.32.0+cu130-cp38-abi3-manylinux_2_35_aarch64.whl", "nvidia_nccl_cu13-2.29.7-py3-none-any.whl"]
    assert missing_wheels(parse_lock(recipe().lock), [*files, "notes.txt"]) == ["nvidia-nccl-cu13==2.30.7"]
    assert missing_wheels(parse_lock(recipe().lock), [*files, "nvidia_nccl_cu13-2.30.7-py3-none-any.whl"]) == []
    assert wheels_bytes(recipe()) == 4000


def test_a_base_of_another_architecture_is_refused() -> None:
    assert wrong_architecture(recipe(), "arm64") is None
    assert wrong_architecture(recipe(), "") is None
    assert "is for amd64, recipe vllm-gb10 builds for arm64" in str(wrong_architecture(recipe(), "amd64"))


def test_a_failed_build_says_what_to_do() -> None:
    online = recipe_failure(recipe(), "timeout", Sources())
    assert "reaches https://snapshot.example/ubuntu, or has its packages in a directory" in online
    assert "a package index (inference_image_build_index)" in online
    offline = recipe_failure(recipe(), "x", Sources(wheels="/srv/wheels", packages="/srv/debs"))
    assert "/srv/wheels holds the wheels of the recipe's lock" in offline
