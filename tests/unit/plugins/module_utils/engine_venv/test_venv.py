# SPDX-License-Identifier: Apache-2.0
"""What is known of an environment without running it."""

from __future__ import annotations

import re

import pytest
from ansible_collections.firstlight.cluster.plugins.module_utils.engine_venv.lock import parse_lock
from ansible_collections.firstlight.cluster.plugins.module_utils.engine_venv.venv import (
    Marker,
    capability,
    check_directory,
    check_index,
    environment_names,
    identity,
    is_environment,
    package_differences,
    parse_capabilities,
    parse_marker,
    parse_metadata,
    sample,
)
from ansible_collections.firstlight.cluster.plugins.plugin_utils.comparison.differences import differences, explain
from ansible_collections.firstlight.cluster.plugins.plugin_utils.plan.states import desired_state

from tests.unit.ideal import ideal

HASH = "--hash=sha256:" + "ab" * 32
LOCK = f"# python: 3.12\nvllm==0.32.0 {HASH}\ntorch==2.13.0 {HASH}\n"
VARIABLES = {"engine_venv_lock": "my.txt", "engine_venv_lock_text": LOCK}


def test_an_environment_is_named_after_its_lock_and_python() -> None:
    key = identity("ab" * 32, "python3.12")
    assert key == identity("ab" * 32, "python3.12")
    assert len({key, identity("cd" * 32, "python3.12"), identity("ab" * 32, "python3.11")}) == 3
    for name in environment_names("/opt/venvs/vllm", key):
        assert is_environment("/opt/venvs/vllm", name)
        assert not is_environment("/opt/venvs/vllm-next", name)
    assert not is_environment("/opt/venvs/vllm", environment_names("/opt/venvs/vllm-next", key)[0])


@pytest.mark.parametrize(
    "path", ["vllm", "/vllm", "/opt/../vllm", "/opt/venvs/.firstlight", "/opt/my venvs/x", "/opt//x"]
)
def test_a_path_that_cannot_be_the_link_is_refused(path: str) -> None:
    with pytest.raises(ValueError, match="engine_venv_directory is"):
        check_directory(path)


def test_a_marker_is_read_back() -> None:
    marker = Marker("ab", "python3.12", {"vllm": "0.32.0"}, ["vllm"])
    assert parse_marker(marker.text()) == marker


@pytest.mark.parametrize(
    "text", [None, "", "{", "[]", '{"lock": "ab"}', '{"lock": 1, "python": "", "packages": [], "watched": []}']
)
def test_half_a_marker_is_none(text: str | None) -> None:
    assert parse_marker(text) is None


def test_metadata_ends_at_its_first_empty_line() -> None:
    assert parse_metadata("Metadata-Version: 2.1\nName: Torch_C\nVersion: 1.0\n\nName: other\n") == ("torch-c", "1.0")
    assert parse_metadata("Name: x\n\nVersion: 1\n") is None


def test_packages_missing_other_and_too_many() -> None:
    recorded = {"a": "1.0", "b": "2", "c": "3", "d": "2.9.0+cu130"}
    found = package_differences(recorded, {"a": "1.0", "b": "2.1", "d": "2.9.0+cu130", "pip": "24.0"})
    assert found == {
        "b": {"expected": "2", "observed": "2.1"},
        "c": {"expected": "3", "observed": None},
        "pip": {"expected": None, "observed": "24.0"},
    }
    assert package_differences(recorded, recorded) == {}


def test_a_sample_is_spread_over_the_record_and_leaves_compiled_files_out() -> None:
    record = "".join(f"pkg/m{n}.py,sha256=abc,{n}\npkg/__pycache__/m{n}.cpython-312.pyc,,\n" for n in range(100))
    record += '"pkg/a, b.py",sha256=x,7\npkg/RECORD,,\n'
    assert [file.size for file in sample(record, 4)] == [0, 25, 50, 75]
    every = sample(record, None)
    assert len(every) == 101
    assert every[-1].path == "pkg/a, b.py"


def test_compute_capabilities() -> None:
    assert parse_capabilities("9.0\n12.1\n[N/A]\n") == [(9, 0), (12, 1)]
    assert capability("12.1") == (12, 1)
    for wrong in ("9", "hopper", "9.0\n9.0", "9.0a"):
        with pytest.raises(ValueError, match=r"expected MAJOR\.MINOR"):
            capability(wrong)


def test_an_index_with_a_password_is_refused_without_repeating_it() -> None:
    assert check_index("") == ""
    assert check_index("https://mirror.example/simple/") == "https://mirror.example/simple/"
    for wrong in ("https://me:secret@mirror.example/simple/", "https://secret@mirror.example/"):
        with pytest.raises(ValueError, match="user or password") as error:
            check_index(wrong)
        assert "secret" not in str(error.value)
    with pytest.raises(ValueError, match="expected the address of a simple index"):
        check_index("mirror.example")


# -- state ------------------------------------------------------------------------------------------------------------


def test_the_desired_state_has_the_environment_and_what_makes_it() -> None:
    state = desired_state("engine_venv", VARIABLES)
    assert state["packages"] == {"build-essential": None, "python3.12-dev": None, "python3.12-venv": None}
    assert state["venvs"] == {"/opt/venvs/vllm": {"lock": parse_lock(LOCK).digest}}
    assert differences(state, ideal(state)) == []
    own = desired_state("engine_venv", {**VARIABLES, "engine_venv_python": "/opt/python/bin/python3.12"})
    assert own["packages"] == {"build-essential": None}, "its headers are its owner's"


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"engine_venv_lock_text": ""}, "which is not a lock"),
        ({"engine_venv_requires": {"vllm": "0.31.0"}}, "my.txt pins vllm 0.32.0, expected 0.31.0"),
        ({"engine_venv_python": "python3.11"}, "my.txt is for Python 3.12"),
        ({"engine_venv_python": "pypy"}, "engine_venv_python is 'pypy'"),
        ({"engine_venv_index": "https://a:b@c/"}, "user or password"),
        ({"engine_venv_compute_capability": "nine"}, "expected MAJOR.MINOR"),
        ({"engine_venv_directory": "venv"}, "engine_venv_directory is"),
    ],
)
def test_what_no_host_is_needed_for_is_refused_without_one(changes: dict[str, object], words: str) -> None:
    with pytest.raises(ValueError, match=re.escape(words)):
        desired_state("engine_venv", {**VARIABLES, **changes})


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        (None, "venv /opt/venvs/vllm has exists unknown, expected exists yes"),
        ({"exists": False}, "venv /opt/venvs/vllm is missing, expected it to exist"),
        ({"lock": None}, "venv /opt/venvs/vllm is of the lock none, it was never finished, expected "),
        ({"lock": "cd" * 32}, "venv /opt/venvs/vllm is of the lock cdcdcdcdcdcd, expected "),
        (
            {"differing": package_differences({"vllm": "0.32.0", "torch": "2.13.0"}, {"vllm": "0.33.0", "flask": "3"})},
            "venv /opt/venvs/vllm has flask 3, torch not installed, vllm 0.33.0, expected flask not installed, torch 2",
        ),
        ({"changed": ["vllm/a.py"]}, "venv /opt/venvs/vllm has files vllm/a.py, expected files as installed"),
    ],
)
def test_a_difference_is_one_sentence(change: dict[str, object] | None, sentence: str) -> None:
    state = desired_state("engine_venv", VARIABLES)
    observed = ideal(state)
    if change is None:
        observed["venvs"] = {}
    else:
        observed["venvs"]["/opt/venvs/vllm"] |= change
    [told] = explain(differences(state, observed))
    assert told.startswith(sentence)
