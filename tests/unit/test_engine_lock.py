# SPDX-License-Identifier: Apache-2.0
"""Locks are made of what uv resolved: the platform's wheels, their hashes and sizes, and no address."""

from __future__ import annotations

from typing import Any

import pytest
from ansible_collections.firstlight.cluster.plugins.module_utils.engine_venv.lock import parse_lock

from firstlight.errors import FirstlightError
from scripts.engine_lock import lock_text, size_of

FILES = "https://files.example/packages"


def package(name: str, version: str, *digests: str) -> dict[str, Any]:
    wheels = [{"url": f"{FILES}/{name}-{version}-{one[:2]}.whl", "hashes": {"sha256": one}} for one in digests]
    return {"name": name, "version": version, "wheels": wheels}


def test_a_lock_is_what_the_role_reads_and_names_no_address() -> None:
    document = {"packages": [package("vllm", "0.32.0", "cd" * 32, "ab" * 32), package("a-b", "1", "ef" * 32)]}
    sizes = {f"{FILES}/vllm-0.32.0-cd.whl": 10, f"{FILES}/vllm-0.32.0-ab.whl": 30, f"{FILES}/a-b-1-ef.whl": 5}
    text = lock_text(document, "3.12", "aarch64", sizes.__getitem__)
    lock = parse_lock(text)
    assert lock.packages == {"a-b": "1", "vllm": "0.32.0"}
    assert lock.hashes["vllm"] == ("ab" * 32, "cd" * 32)
    assert (lock.python, lock.architecture, lock.wheels_bytes) == ("3.12", "aarch64", 35)
    assert "://" not in text


def test_a_lock_beside_another_has_only_what_that_one_has_not() -> None:
    document = {"packages": [package("ray", "2.60.0", "ab" * 32), package("typing_extensions", "4", "ef" * 32)]}
    there = f"typing-extensions==4 --hash=sha256:{'ef' * 32}\n"
    assert parse_lock(lock_text(document, "3.12", "aarch64", len, beside=there)).packages == {"ray": "2.60.0"}


def test_a_package_without_a_wheel_is_refused() -> None:
    with pytest.raises(FirstlightError, match=r"autoawq 0\.2\.9 has no wheel for Python 3\.10"):
        lock_text({"packages": [{"name": "autoawq", "version": "0.2.9"}]}, "3.10", "x86_64", len)


def test_sizes_are_asked_for_over_tls_only() -> None:
    with pytest.raises(FirstlightError, match="expected an https address"):
        size_of("http://files.example/x.whl")
