# SPDX-License-Identifier: Apache-2.0
"""Locks: what they may say, and the ones that the catalog has."""

from __future__ import annotations

from pathlib import Path

import pytest
import yaml
from ansible_collections.firstlight.cluster.plugins.module_utils.engine_venv.lock import (
    LockError,
    check_requires,
    normal_name,
    parse_lock,
    same_version,
)

CATALOG = Path(__file__).resolve().parents[5] / "catalog"
LOCKS = sorted((CATALOG / "locks").glob("*.txt"))
HASH = "--hash=sha256:" + "ab" * 32
GOOD = f"""\
# python: 3.12
# architecture: x86_64
# wheels-bytes: 1200
VLLM==0.32.0 \\
    {HASH}
torch_c[x]==1.0 {HASH} {HASH}
"""


def test_a_lock_says_packages_hashes_and_what_it_is_for() -> None:
    lock = parse_lock(GOOD)
    assert lock.packages == {"vllm": "0.32.0", "torch-c": "1.0"}
    assert lock.hashes["vllm"] == ("ab" * 32,)
    assert (lock.python, lock.architecture, lock.wheels_bytes) == ("3.12", "x86_64", 1200)
    assert lock.digest != parse_lock(GOOD + "# remark\n").digest


@pytest.mark.parametrize(
    ("line", "words"),
    [
        ("vllm==0.32.0", "has no hash"),
        (f"vllm>=0.32.0 {HASH}", "is not pinned"),
        (f"vllm==0.32.* {HASH}", "is not pinned"),
        (f"vllm {HASH}", "is not pinned"),
        ("vllm==0.32.0 --hash=md5:" + "ab" * 16, "expected sha256"),
        ("vllm==0.32.0 --hash=sha256:abc", "expected sha256"),
        (f"vllm @ https://mirror.example/vllm-0.32.0-py3-none-any.whl {HASH}", "has an address"),
        ("--index-url https://me:secret@mirror.example/simple", "has an address"),
        ("--extra-index-url mirror", "is an option"),
        ("-r other.txt", "is an option"),
        ("-e .", "is an option"),
        (f'vllm==0.32.0 ; python_version < "3.12" {HASH}', "has a condition"),
        (f"torch-C==2.0 {HASH}", "pinned twice"),
    ],
)
def test_what_does_not_pin_is_refused_in_one_sentence(line: str, words: str) -> None:
    with pytest.raises(LockError) as error:
        parse_lock(GOOD + line + "\n", "my.txt")
    assert words in str(error.value)
    assert str(error.value).startswith("my.txt, line 7: ")
    assert "secret" not in str(error.value)


@pytest.mark.parametrize("text", ["", "# python: 3.12\n", "\n\n"])
def test_an_empty_lock_is_refused(text: str) -> None:
    with pytest.raises(LockError, match="has no package in it"):
        parse_lock(text)


@pytest.mark.parametrize(
    ("requires", "found"), [({"vllm": "0.31.0"}, "pins vllm 0.32.0"), ({"ray": "2"}, "not at all")]
)
def test_a_lock_of_another_release_is_refused(requires: dict[str, str], found: str) -> None:
    with pytest.raises(LockError, match=found):
        check_requires(parse_lock(GOOD), requires)


def test_a_lock_of_the_release_is_taken() -> None:
    check_requires(parse_lock(GOOD), {"vLLM": "0.32", "torch.c": "1.0.0"})


def test_versions_that_differ() -> None:
    assert not same_version("1.0", "1.0.1")
    assert not same_version("1.0", "1.0rc1")
    assert not same_version("1.0", "10")
    assert same_version("2.13.0", "2.13.0+cu130")
    assert not same_version("2.13.0+cu130", "2.13.0")
    assert not same_version("2.13.0+cu130", "2.13.0+cu126")
    assert not same_version("latest", "main")
    assert normal_name("Ruamel.YAML_clib") == "ruamel-yaml-clib"


def test_every_lock_of_the_catalog_belongs_to_a_stack_or_a_recipe_and_pins_its_engine() -> None:
    stacks = [yaml.safe_load(path.read_text()) for path in (CATALOG / "stacks").glob("*.yml")]
    named = {stack["venv"]["lock"]: stack for stack in stacks if (stack.get("venv") or {}).get("lock")}
    built = {yaml.safe_load(path.read_text())["lock"] for path in (CATALOG / "recipes").glob("*.yml")}
    layers = {lock for stack in stacks for lock in ((stack.get("ray") or {}).get("locks") or {}).values()}
    assert set(named) | built | layers == {path.name for path in LOCKS} != set()
    assert len(named) + len(built) + len(layers) == len(LOCKS)
    for name, stack in named.items():
        lock = parse_lock((CATALOG / "locks" / name).read_text(), name)
        check_requires(lock, stack["venv"]["requirements"], name)
        assert stack["venv"]["requirements"][stack["engine"]["name"]] == stack["engine"]["version"]
        assert lock.python == stack["python"]
        assert lock.packages["nvidia-nccl-cu13"] == stack["nccl"]
        assert lock.packages["nvidia-cuda-runtime"].startswith(stack["cuda"]["in_wheels"])


@pytest.mark.parametrize("path", LOCKS, ids=lambda path: path.name)
def test_a_lock_of_the_catalog_is_what_its_name_says(path: Path) -> None:
    text = path.read_text()
    name, architecture, python = path.stem.rsplit("-", 2)
    engine, version = name.split("-")[:2]
    lock = parse_lock(text, path.name)
    check_requires(lock, {engine: version})
    assert lock.architecture == architecture
    assert f"py{lock.python.replace('.', '')}" == python
    assert all(lock.hashes[name] for name in lock.packages)
    assert "://" not in text
    if engine == "ray":  # a layer beside what the image has
        assert "torch" not in lock.packages
    else:
        assert lock.wheels_bytes > 10**9
        assert len(lock.packages) > 100
        assert "torch" in lock.packages
