# SPDX-License-Identifier: Apache-2.0
"""Bills of materials, and what is said of known vulnerabilities."""

from __future__ import annotations

import json
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

ROOT = Path(__file__).resolve().parents[2]


def script(name: str) -> ModuleType:
    spec = spec_from_file_location(name, ROOT / "scripts" / f"{name}.py")
    assert spec
    assert spec.loader
    module = module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


AUDIT = script("audit")
RIGHT = {"name": "sound", "version": "1.0", "vulns": []}
WRONG = {
    "name": "hollow",
    "version": "2.0",
    "vulns": [{"id": "PYSEC-1", "aliases": ["CVE-1"], "fix_versions": ["2.1"]}],
}
UNKNOWN = {"name": "strange", "skip_reason": "not found"}


@pytest.mark.parametrize(
    ("packages", "status", "words"),
    [
        ([RIGHT], 0, "No known vulnerability in 1 packages"),
        ([RIGHT, WRONG], 1, "hollow 2.0: PYSEC-1 CVE-1, fixed in 2.1"),
        ([RIGHT, UNKNOWN], 1, "strange could not be looked up"),
        # A mirror without the database, of which pip-audit itself says that no vulnerability is known.
        ([UNKNOWN, UNKNOWN], 0, "NOT AUDITED"),
    ],
)
def test_what_was_looked_up_is_told_from_what_was_not(packages: list[Any], status: int, words: str) -> None:
    told, lines = AUDIT.verdict(json.dumps({"dependencies": packages, "fixes": []}), "")
    assert told == status
    assert words in " ".join(lines)


@pytest.mark.parametrize(
    ("complaint", "status"),
    [
        ("ERROR: Tip: your network may be blocking this service. Try another service", 0),
        ("requests.exceptions.ConnectionError: HTTPSConnectionPool: Failed to resolve", 0),
        ("requests.exceptions.ProxyError: Unable to connect to proxy", 0),
        ("requests.exceptions.ReadTimeout: read timed out", 0),
        ("requests.exceptions.SSLError: certificate verify failed", 1),
        ("ERROR: requirements.lock: no such file", 1),
        ("", 1),
    ],
)
def test_only_who_has_no_network_is_let_go(complaint: str, status: int) -> None:
    told, lines = AUDIT.verdict("", f"Traceback\n{complaint}\n")
    assert told == status
    assert ("NOT AUDITED" in lines[0]) is (status == 0)


@pytest.mark.extended  # two bills of everything
@pytest.mark.slow  # reads the whole catalog, and puts two programs together
def test_every_bill_of_materials_is_right_and_the_same_again() -> None:
    sbom = script("sbom")
    made = sbom.documents()
    stacks = {path.stem for path in (ROOT / "catalog" / "stacks").glob("*.yml")}
    assert set(made) == {"wheel", "collection", *(f"stack-{name}" for name in stacks)}
    for document in made.values():
        assert sbom.problem(json.dumps(document)) == ""
    assert "bomFormat" in sbom.problem(json.dumps({**made["wheel"], "bomFormat": "another"}))
    assert made == sbom.documents()

    names = {one["name"] for one in made["wheel"]["components"]}
    assert {"ansible-core", "paramiko", "jinja2", "cryptography"} <= names
    assert not {"pytest", "ruff", "pip-audit", "firstlight"} & names

    parts = {one["name"]: one for one in made["stack-h100-vllm-0.31"]["components"]}
    assert parts["vllm/vllm-openai"]["purl"].startswith("pkg:oci/vllm-openai@sha256:")
    assert parts["nvidia-driver-580-open"]["version"]
    assert len(parts["/usr/local/lib/firstlight/supervisor.pyz"]["hashes"][0]["content"]) == 64
    wheels = {one["name"]: one for one in made["stack-h100-vllm-0.32-venv"]["components"]}
    assert wheels["vllm"]["hashes"][0]["alg"] == "SHA-256"
