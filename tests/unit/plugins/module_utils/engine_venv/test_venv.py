# SPDX-License-Identifier: Apache-2.0
"""What is known of an environment without running it."""

from __future__ import annotations

import re

import pytest
from ansible_collections.firstlight.cluster.plugins.module_utils.engine_venv.venv import (
    Marker,
    capability,
    check_directory,
    check_index,
    differences_sentence,
    environment_names,
    identity,
    is_environment,
    other_platforms,
    package_differences,
    parse_capabilities,
    parse_complaint,
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

# As pip 23.0.1 says it.
MISMATCH = """\
ERROR: THESE PACKAGES DO NOT MATCH THE HASHES FROM THE REQUIREMENTS FILE. If you have updated the package versions,
 please update the hashes. Otherwise, examine the package contents carefully; someone may have tampered with them.
    vllm==0.31.0 from https://wheels.example/files/vllm-0.31.0-cp38-abi3-manylinux_2_17_x86_64.whl (from -r x):
        Expected sha256 0000
        Expected     or 1111
             Got        2222

"""
MISSING = """\
ERROR: Could not find a version that satisfies the requirement vllm==0.30.0 (from versions: 0.31.0, 0.32.0)
ERROR: No matching distribution found for vllm==0.30.0
"""
SKIPPED = (
    "  Skipping link: none of the wheel's tags (cp38-abi3-manylinux_2_17_{}) are compatible (run pip debug --verbose "
    "to show compatible tags): https://wheels.example/files/vllm-{}-cp38-abi3-manylinux_2_17_{}.whl#sha256=ab\n"
)


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
    found = package_differences({"a": "1.0", "b": "2", "c": "3"}, {"a": "1", "b": "2.1", "pip": "24.0", "z": "9"})
    assert found == {
        "b": {"expected": "2", "observed": "2.1"},
        "c": {"expected": "3", "observed": None},
        "z": {"expected": None, "observed": "9"},
    }
    assert differences_sentence(found) == "b is 2.1 instead of 2, c is missing instead of 3, z 9 is not in the lock"
    assert differences_sentence(found, most=1).endswith(" and 2 more")


def test_a_sample_is_spread_over_the_record_and_leaves_compiled_files_out() -> None:
    record = "".join(f"pkg/m{n}.py,sha256=abc,{n}\npkg/__pycache__/m{n}.cpython-312.pyc,,\n" for n in range(100))
    record += '"pkg/a, b.py",sha256=x,7\npkg/RECORD,,\n'
    assert [file.size for file in sample(record, 4)] == [0, 25, 50, 75]
    every = sample(record, None)
    assert len(every) == 101
    assert every[-1].path == "pkg/a, b.py"


def test_what_pip_said() -> None:
    wrong = parse_complaint(MISMATCH)
    assert (wrong.reason, wrong.package, wrong.expected, wrong.got) == ("hash", "vllm==0.31.0", "0000", "2222")
    missing = parse_complaint("noise\n" + MISSING)
    assert (missing.reason, missing.package) == ("missing", "vllm==0.30.0")
    other = parse_complaint("WARNING: x\nERROR: first\nERROR: No space left\n")
    assert (other.reason, other.detail) == ("other", "No space left")
    assert parse_complaint("").detail == "pip said nothing"


def test_wheels_for_other_machines_count_only_in_the_version_that_is_asked_for() -> None:
    output = SKIPPED.format("riscv64", "0.32.0", "riscv64") + SKIPPED.format("s390x", "0.31.0", "s390x")
    assert other_platforms(output, "0.32.0") == ["cp38-abi3-manylinux_2_17_riscv64"]
    assert other_platforms(output, "0.30.0") == []


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
    assert state["venvs"]["/opt/venvs/vllm"]["packages"] == {"vllm": "0.32.0", "torch": "2.13.0"}
    assert differences(state, ideal(state)) == []
    own = desired_state("engine_venv", {**VARIABLES, "engine_venv_python": "/opt/python/bin/python3.12"})
    assert own["packages"] == {"build-essential": None}, "its headers are its owner's"


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"engine_venv_lock_text": ""}, "gives no lock"),
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
            {"packages": {"vllm": "0.33.0", "flask": "3"}},
            "venv /opt/venvs/vllm has torch not installed, vllm 0.33.0, flask 3, expected torch 2.13.0, vllm 0.32.0",
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
