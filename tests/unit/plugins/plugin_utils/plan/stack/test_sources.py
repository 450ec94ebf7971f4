# SPDX-License-Identifier: Apache-2.0
"""Sources of packages: the catalog's, and an operator's mirror or directory in their place."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from ansible_collections.firstlight.cluster.plugins.plugin_utils.catalog.load import load_catalog
from ansible_collections.firstlight.cluster.plugins.plugin_utils.findings import PlanErrors, explain_errors
from ansible_collections.firstlight.cluster.plugins.plugin_utils.packages.openpgp import fingerprints
from ansible_collections.firstlight.cluster.plugins.plugin_utils.plan.stack.sources import (
    key_files,
    read_replacements,
    resolve,
)

ROOT = Path(__file__).resolve().parents[6]
SOURCES = load_catalog([ROOT / "catalog"])["sources"]
KEY = (ROOT / "tests" / "fixtures" / "apt" / "key.asc").read_text(encoding="ascii")
FINGERPRINT = fingerprints(KEY)[0]
NOBLE = [{"distribution": "ubuntu", "version": "24.04"}]
OWN = {
    "site": {
        "name": "site",
        "kind": "repository",
        "repositories": [{"uris": ["https://mirror.example/cuda"]}],
        "suites": ["./"],
        "fingerprint": FINGERPRINT,
        "key": KEY,
    }
}


def replaced(given: Any, keys: dict[str, str] | None = None) -> tuple[dict[str, Any], list[str]]:
    errors = PlanErrors()
    found = read_replacements({"firstlight_sources": given}, SOURCES | OWN, keys or {}, errors)
    return found, [one["id"] for one in errors.found]


def resolved(
    name: str, given: Any = None, known: Any = None, architecture: str | None = "x86_64", on: Any = NOBLE, **keys: str
) -> tuple[dict[str, Any], list[str], list[str]]:
    errors, missing_inputs = PlanErrors(), PlanErrors()
    listed = known or SOURCES | OWN
    mine = read_replacements({"firstlight_sources": given}, listed, keys, errors)
    source = resolve(name, listed, mine, on, architecture, errors, missing_inputs)
    return source, [one["id"] for one in errors.found], [one["id"] for one in missing_inputs.found]


def test_every_key_of_the_catalog_has_its_fingerprint() -> None:
    for entry in SOURCES.values():
        if entry.get("key"):
            assert fingerprints(entry["key"]) == [entry["fingerprint"]]


@pytest.mark.parametrize(("architecture", "ending"), [("x86_64", "ubuntu2404/x86_64"), ("aarch64", "ubuntu2404/sbsa")])
def test_a_repository_is_the_one_of_distribution_and_architecture(architecture: str, ending: str) -> None:
    given = {"cuda-repository": {"key": KEY, "fingerprint": FINGERPRINT}}
    source, errors, missing_inputs = resolved("cuda-repository", given, architecture=architecture)
    assert source["uris"][0].endswith(ending)
    assert (source["suites"], source["key"], source["fingerprint"]) == (["./"], KEY, FINGERPRINT)
    assert errors == missing_inputs == []


def test_a_key_that_only_the_operator_has_is_a_missing_input() -> None:
    assert resolved("nvidia-container-toolkit") == ({}, [], ["source.key"])
    source, errors, missing_inputs = resolved("cuda-repository")
    assert (source["key"], errors, missing_inputs) == (SOURCES["cuda-repository"]["key"], [], [])
    given = {"cuda-repository": {"key_file": "cuda.asc"}}
    assert resolved("cuda-repository", given, **{"cuda.asc": KEY}) == ({}, ["source.key"], [])


def test_what_the_host_has_already_needs_no_source() -> None:
    assert resolved("ubuntu-archive") == ({}, [], [])
    assert resolved("factory") == ({}, [], [])


def test_a_mirror_keeps_the_key_and_a_directory_may_have_none() -> None:
    source, errors, _ = resolved("site", {"site": {"uris": "https://inside.example/cuda"}})
    assert (source["uris"], source["key"], errors) == (["https://inside.example/cuda"], KEY, [])
    source, errors, _ = resolved("cuda-repository", {"cuda-repository": {"directory": "/srv/cuda", "trusted": True}})
    assert source == {"uris": ["file:/srv/cuda"], "suites": ["./"], "trusted": True}
    assert errors == []
    snapshot = {"uris": ["https://snapshot.example/ubuntu"], "suites": ["noble"], "components": ["restricted"]}
    given = {"ubuntu-archive": {**snapshot, "key": KEY, "fingerprint": FINGERPRINT}}
    source, errors, _ = resolved("ubuntu-archive", given)
    assert (source["components"], errors) == (["restricted"], [])


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        ("https://mirror.example", "intent.type"),
        ({"cuda-repository": "https://mirror.example"}, "intent.type"),
        ({"cuda-repository": {"uris": [1]}}, "intent.type"),
        ({"cuda-repository": {"key": ["x"]}}, "intent.type"),
        ({"cuda-repository": {"trusted": "yes"}}, "intent.type"),
        ({"cuda-repository": {"url": "https://mirror.example"}}, "intent.unknown-key"),
        ({"cuda-repo": {}}, "source.unknown"),
        ({"cuda-repository": {"trusted": True}}, "source.trusted"),
        ({"cuda-repository": {"uris": ["http://mirror.example"], "trusted": True}}, "source.trusted"),
        ({"cuda-repository": {"directory": "srv/cuda"}}, "source.repository"),
        ({"cuda-repository": {"directory": "/srv/cuda", "uris": ["http://mirror.example"]}}, "source.repository"),
    ],
)
def test_each_bad_replacement_is_refused(given: Any, expected: str) -> None:
    assert replaced(given)[1] == [expected]


@pytest.mark.parametrize(
    "given",
    [
        {"site": {"uris": ["https://mirror.example/a", "https://me:hunter2@mirror.example/b"]}},
        {"site": {"uris": "https://me:hu#nt@hunter2@mirror.example/b"}},
        {"site": {"uris": ["http://hunter2@mirror.example"], "trusted": True}},
        {"site": "https://me:hunter2@mirror.example"},
        {"site": {"suites": {"x": "https://me:a@hunter2@mirror.example"}}},
        "https://me:hunter2@mirror.example",
    ],
)
def test_a_password_is_neither_taken_nor_repeated(given: Any) -> None:
    errors = PlanErrors()
    found = read_replacements({"firstlight_sources": given}, SOURCES | OWN, {}, errors)
    told = explain_errors(errors.found)
    assert "hunter2" not in f"{found}{told}{errors.found}"
    if isinstance(given, dict) and "uris" in given["site"]:
        assert errors.found[0]["id"] == "source.password"
        assert "/etc/apt/auth.conf.d" in str(told)
        assert "****@mirror.example" in str(told)


def test_a_password_in_the_catalog_is_refused_too() -> None:
    entry = {**OWN["site"], "repositories": [{"uris": ["https://me:hunter2@mirror.example/cuda"]}]}
    assert resolved("site", known={"site": entry}) == ({}, ["source.password"], [])
    assert resolved("site", known={"site": {**entry, "key": None}})[2] == ["source.key"]


@pytest.mark.parametrize(
    ("name", "more", "expected"),
    [
        ("nowhere", {}, "source.unknown"),
        ("cuda-repository", {"on": [{"distribution": "fedora", "version": "42"}]}, "source.repository"),
        ("cuda-repository", {"architecture": None}, "source.repository"),
        ("odd", {"known": {"odd": {"name": "odd", "kind": "ppa"}}}, "source.kind"),
        ("site", {"known": {"site": {**OWN["site"], "fingerprint": "0" * 40}}}, "source.key"),
        ("site", {"known": {"site": {**OWN["site"], "fingerprint": "F796ECB0"}}}, "source.key"),
        ("site", {"known": {"site": {**OWN["site"], "key": "none"}}}, "source.key"),
        ("site", {"known": {"site": {**OWN["site"], "fingerprint": []}}}, "source.key"),
        ("site", {"known": {"site": {**OWN["site"], "suites": []}}}, "source.repository"),
    ],
)
def test_each_bad_source_is_refused(name: str, more: dict[str, Any], expected: str) -> None:
    assert expected in resolved(name, **more)[1]


def test_the_files_that_have_to_be_read() -> None:
    given = {"cuda-repository": {"key_file": "b.asc"}, "site": {"key_file": "a.asc"}, "x": 1, "y": {"key_file": 3}}
    assert key_files({"firstlight_sources": given}) == ["a.asc", "b.asc"]
    assert key_files({}) == key_files({"firstlight_sources": 1}) == []
