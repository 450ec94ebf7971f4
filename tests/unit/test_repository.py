# SPDX-License-Identifier: Apache-2.0
"""What must hold for the checkout as a whole: links, roles, pins, documentation, playbooks, packages."""

from __future__ import annotations

import functools
import json
import os
import re
import subprocess
import sys
import tarfile
from collections.abc import Iterator
from importlib import metadata
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.unit.ansible_runs import run_playbook

ROOT = Path(__file__).resolve().parents[2]
FAN = ROOT / "collections" / "ansible_collections" / "firstlight" / "cluster"
ROLES = sorted(path.name for path in (ROOT / "roles").iterdir() if path.is_dir())
ROLES_OF_THE_BRING_UP = {
    "preflight",
    "container_runtime",
    "host_tuning",
    "fabric_network",
    "inference_image",
    "model_weights",
    "ray_cluster",
    "inference_server",
    "supervisor",
}
PHASES = [
    "Plan",
    "Observe",
    "Preflight",
    "Driver",
    "Container runtime",
    "Host tuning",
    "GPUs",
    "Firewall",
    "Fabric",
    "Require all hosts",
    "Engine",
    "Image",
    "GPU burn-in",
    "Weights",
    "Ray",
    "Serve",
    "Gate",
    "Endpoint",
    "Monitoring",
    "Clients",
    "Benchmark clients",
    "Benchmark",
    "Verdict",
]
DOCUMENTED_PLUGINS = ("callback", "filter", "inventory", "lookup", "test")


def read_yaml(path: Path) -> Any:
    return yaml.safe_load(path.read_text(encoding="utf-8"))


@functools.cache
def own_files() -> tuple[Path, ...]:
    """Every file that is, or would be, committed."""
    listed = subprocess.run(
        ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"],
        cwd=ROOT,
        check=True,
        capture_output=True,
        text=True,
    ).stdout
    paths = (ROOT / name for name in sorted(set(listed.split("\0")) - {""}))
    return tuple(path for path in paths if path.is_file() and not path.is_symlink())


def run_tool(tool: str, *arguments: str) -> subprocess.CompletedProcess[str]:
    """Run one of this environment's Ansible tools in the checkout, with its configuration only."""
    environment = {key: value for key, value in os.environ.items() if not key.startswith("ANSIBLE_")}
    return subprocess.run(
        [str(Path(sys.executable).parent / tool), *arguments],
        cwd=ROOT,
        env=environment,
        check=False,
        capture_output=True,
        text=True,
        timeout=100,
    )


# --- layout -------------------------------------------------------------------------------------------------


def test_link_fan_resolves_home() -> None:
    entries = sorted(FAN.iterdir())
    assert [entry.name for entry in entries] == [
        "catalog",
        "galaxy.yml",
        "meta",
        "playbooks",
        "plugins",
        "roles",
    ]
    for entry in entries:
        assert entry.is_symlink(), f"{entry} is a copy; it must be a link"
        assert not entry.readlink().is_absolute(), f"{entry} would point away from a clone"
        assert entry.resolve() == ROOT / entry.name


def test_only_our_own_collection_is_committed() -> None:
    committed = [path.relative_to(ROOT) for path in own_files() if path.is_relative_to(ROOT / "collections")]
    assert committed == []


# --- roles --------------------------------------------------------------------------------------------------


def entry_points(role: str) -> dict[str, Any]:
    return dict(read_yaml(ROOT / "roles" / role / "meta" / "argument_specs.yml")["argument_specs"])


def options(role: str) -> dict[str, Any]:
    """The options of every entry point of a role; one that appears twice must be the same both times."""
    merged: dict[str, Any] = {}
    for entry_point in entry_points(role).values():
        for name, option in (entry_point.get("options") or {}).items():
            assert merged.setdefault(name, option)["type"] == option["type"], f"{name} has two types"
    return merged


def test_every_role_of_the_bring_up_is_there() -> None:
    assert set(ROLES) >= ROLES_OF_THE_BRING_UP


@pytest.mark.parametrize("role", ROLES)
def test_role_specification_matches_its_defaults(role: str) -> None:
    defaults = read_yaml(ROOT / "roles" / role / "defaults" / "main.yml") or {}
    specified = options(role)
    required = {name for name, option in specified.items() if option.get("required", False)}
    assert set(defaults) == set(specified) - required
    said = {name: option["default"] for name, option in specified.items() if "default" in option}
    assert said == {name: defaults[name] for name in said}


@pytest.mark.parametrize("role", ROLES)
def test_role_options_are_named_typed_and_described(role: str) -> None:
    for name, option in options(role).items():
        assert name.startswith(f"{role}_"), f"{name} does not start with the role's name"
        assert option.get("description"), f"{name} has no description"
        assert option.get("type"), f"{name} has no type"
        assert option["type"] != "list" or option.get("elements"), f"{name} does not say what it lists"


@pytest.mark.parametrize("role", ROLES)
def test_role_is_complete(role: str) -> None:
    home = ROOT / "roles" / role
    for entry_point, specification in entry_points(role).items():
        assert (home / "tasks" / f"{entry_point}.yml").is_file(), f"no tasks for the entry point {entry_point}"
        assert specification.get("short_description"), f"{entry_point} has no short_description"
    assert (home / "README.md").is_file()
    assert (ROOT / "molecule" / role / "molecule.yml").is_file(), "no Molecule scenario of the role's own name"
    states = (ROOT / "plugins" / "plugin_utils" / "plan").glob(f"*/{role}.py")
    assert len(list(states)) == 1, "no desired state of the role's own name"


@pytest.mark.parametrize("role", ROLES)
def test_role_readme_names_every_variable(role: str) -> None:
    text = (ROOT / "roles" / role / "README.md").read_text(encoding="utf-8")
    assert [name for name in options(role) if f"`{name}`" not in text] == []


def included_roles() -> list[tuple[str, str, str, dict[str, Any]]]:
    """Where playbooks include a role: file, role, entry point and the variables it is given."""
    found = []
    for path in sorted((ROOT / "playbooks").rglob("*.yml")):
        waiting = list(read_yaml(path))
        while waiting:
            one = waiting.pop()
            waiting += [task for part in ("tasks", "block", "rescue", "always") for task in one.get(part) or ()]
            role = one.get("ansible.builtin.include_role")
            if role:
                name = role["name"].rpartition(".")[2]
                found.append((path.name, name, role.get("tasks_from", "main"), one.get("vars") or {}))
    return found


CONDITIONS = ("when", "that", "until", "failed_when", "changed_when")


def expressions(value: Any, whole: bool = False) -> Iterator[str]:
    """Everything in a task or variable that Ansible evaluates: conditions, and what stands in braces."""
    if isinstance(value, str):
        yield from [value] if whole else re.findall(r"{{.*?}}", value, re.DOTALL)
    elif isinstance(value, dict):
        for key, one in value.items():
            yield from expressions(one, key in CONDITIONS)
    elif isinstance(value, list):
        for one in value:
            yield from expressions(one, whole)


@pytest.mark.parametrize("role", ROLES)
def test_role_reads_its_switches_as_booleans(role: str) -> None:
    """`-e x=false` is text, which is true where nobody converts it."""
    switches = [name for name, option in options(role).items() if option["type"] == "bool"]
    for path in (one for part in ("tasks", "vars") for one in sorted((ROOT / "roles" / role / part).glob("*.yml"))):
        for expression in expressions(read_yaml(path)):
            for name in switches:
                raw = re.search(rf"(?<![\w']){name}(?![\w'])(?! \| bool\b)", expression)
                assert not raw, f"{path}: {name} without `| bool` in {expression}"


# --- pins and names -----------------------------------------------------------------------------------------

PIN = re.compile(r"[a-z0-9][a-z0-9-]*==([0-9]+!)?[0-9][0-9A-Za-z.]*( ; [^\\]+)? \\")
HASH = re.compile(r"    --hash=sha256:[0-9a-f]{64}( \\)?")


def test_lock_is_exact_and_names_no_host() -> None:
    lines = (ROOT / "requirements.lock").read_text(encoding="utf-8").splitlines()
    pins = [line for line in lines if not line.startswith(("#", " "))]
    assert len(pins) > 20
    assert [line for line in pins if not PIN.fullmatch(line)] == []
    assert [line for line in lines if line.startswith(" ") and not HASH.fullmatch(line)] == []
    assert not any("://" in line or line.startswith("-") for line in lines)


def test_lock_is_what_is_installed() -> None:
    pins = dict(re.findall(r"^([a-z0-9-]+)==(\S+) \\$", (ROOT / "requirements.lock").read_text(), re.MULTILINE))
    installed = {name: metadata.version(name) for name in ("ansible-core", "ansible-lint", "pytest", "ruff", "mypy")}
    assert installed == {name: pins[name] for name in installed}, "run `make setup`"


def test_no_file_names_a_package_registry_or_this_machine() -> None:
    parts = [("pypi", "org"), ("pythonhosted", "org"), ("deb", "debian", "org")]
    parts += [(name, "ubuntu", "com") for name in ("archive", "ports", "security")]
    hosts = [".".join(words) for words in parts]  # in pieces, because this file is looked at too
    found = []
    for path in own_files():
        content = path.read_bytes()
        found += [f"{path}: {word}" for word in (*hosts, str(ROOT)) if _names(content, word)]
    assert found == []


def _names(content: bytes, word: str) -> bool:
    """Whether it has the word, and not only a longer one that begins the same: a checkout may be in /srv/c."""
    return re.search(rb"%b(?![\w-])" % re.escape(word.encode()), content) is not None


def test_version_has_release_notes() -> None:
    version = read_yaml(ROOT / "galaxy.yml")["version"]
    text = (ROOT / "CHANGELOG.md").read_text(encoding="utf-8").replace("\\.", ".")  # antsibull-changelog escapes them
    released = re.findall(r"(?m)^## v?(\d+\.\d+\.\d+)", text)
    fragments = list((ROOT / "changelogs" / "fragments").glob("*.yml"))
    assert released[:1] == [version] or fragments, f"{version} is neither in CHANGELOG.md nor has it fragments"


# --- documentation ------------------------------------------------------------------------------------------


@functools.cache
def documentation() -> dict[str, dict[str, Any]]:
    """What ansible-doc says of the whole collection, by plugin type and name, in one call."""
    result = run_tool("ansible-doc", "--metadata-dump", "--no-fail-on-errors", "firstlight.cluster")
    assert result.returncode == 0, result.stderr
    return dict(json.loads(result.stdout)["all"])


def plugin_names(kind: str) -> list[str]:
    directory = ROOT / "plugins" / kind
    return sorted(path.stem for path in directory.glob("*.py") if path.stem != "__init__")


def documented(kind: str, name: str) -> dict[str, Any]:
    entry = documentation().get(kind, {}).get(f"firstlight.cluster.{name}")
    assert entry is not None, f"ansible-doc does not find the {kind} {name}"
    assert "error" not in entry, entry
    return dict(entry)


@pytest.mark.slow  # ansible-doc reads all of the collection
@pytest.mark.parametrize("name", sorted({*plugin_names("modules"), *plugin_names("action")}))
def test_module_is_documented(name: str) -> None:
    entry = documented("module", name)
    doc = entry["doc"]
    assert doc["short_description"]
    assert doc["attributes"]["check_mode"]["support"] in {"full", "none", "partial"}
    assert doc["attributes"]["diff_mode"]["support"] in {"full", "none", "partial"}
    assert yaml.safe_load(entry["examples"])
    assert entry["return"]


@pytest.mark.slow  # ansible-doc reads all of the collection
@pytest.mark.parametrize(("kind", "name"), [(kind, name) for kind in DOCUMENTED_PLUGINS for name in plugin_names(kind)])
def test_plugin_is_documented(kind: str, name: str) -> None:
    assert documented(kind, name)["doc"]["short_description"]


@pytest.mark.slow  # ansible-doc reads all of the collection
@pytest.mark.parametrize("role", ROLES)
def test_role_is_documented(role: str) -> None:
    assert "main" in documented("role", role)["entry_points"]


def markdown_files() -> list[Path]:
    return [path for path in own_files() if path.suffix == ".md"]


def test_links_between_pages_resolve() -> None:
    broken = [
        f"{page.relative_to(ROOT)}: {target}"
        for page in markdown_files()
        for target in re.findall(r"\]\(([^)\s]+)\)", page.read_text(encoding="utf-8"))
        if "://" not in target and not (page.parent / target.partition("#")[0]).exists()
    ]
    assert broken == []


def test_readme_commands_follow_the_convention() -> None:
    text = (ROOT / "README.md").read_text(encoding="utf-8")
    fences = re.findall(r"(?ms)^( *)```(\w*)\n(.*?)^\1```$", text)
    assert {tag for _, tag, _ in fences} == {"console", "text"}
    commands = [line.strip() for _, tag, body in fences if tag == "console" for line in body.splitlines()]
    assert [line for line in commands if not line.startswith("$ ")] == []
    assert "$ make demo" in commands


def test_make_help_lists_every_target() -> None:
    makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
    phony = next(line for line in makefile.splitlines() if line.startswith(".PHONY:")).split()[1:]
    shown = subprocess.run(["make", "help"], cwd=ROOT, check=True, capture_output=True, text=True).stdout
    assert re.findall(r"(?m)^  make (\S+)", shown) == phony
    for page in markdown_files():
        for target in re.findall(r"(?m)^ *\$ make ([a-z0-9-]+)", page.read_text(encoding="utf-8")):
            assert target in phony, f"{page.name} names the target {target}"


# --- playbooks and packages ---------------------------------------------------------------------------------


@pytest.fixture
def tripwire(tmp_path: Path) -> Path:
    """A directory for PATH whose ssh records that somebody called it."""
    directory = tmp_path / "bin"
    directory.mkdir()
    for name in ("ssh", "scp", "sftp"):
        program = directory / name
        program.write_text(f"#!/bin/sh\ntouch {tmp_path}/called\nexit 255\n", encoding="utf-8")
        program.chmod(0o755)
    return directory


@pytest.mark.parametrize("inventory", ["spark4", "lab"])
@pytest.mark.parametrize("question", ["--syntax-check", "--list-tasks"])
def test_site_needs_no_host_to_be_looked_at(inventory: str, question: str, tripwire: Path) -> None:
    path = {"PATH": f"{tripwire}{os.pathsep}{os.environ['PATH']}"}
    result = run_playbook("site.yml", "-i", f"inventory/{inventory}", question, environment=path)
    assert result.returncode == 0, result.stdout + result.stderr
    assert not (tripwire.parent / "called").exists(), "a host was contacted"
    if question == "--list-tasks":
        plays = re.findall(r"(?m)^  play #\d+ \(\w+\): (.+?)\t", result.stdout)
        assert list(dict.fromkeys(plays)) == PHASES


NAMED = {
    "filter": r"\|\s*firstlight\.cluster\.(\w+)",
    "lookup": r"(?:lookup|query|q)\(\s*['\"]firstlight\.cluster\.(\w+)",
    "modules": r"(?m)^\s*(?:- )?firstlight\.cluster\.(\w+):",
}


@pytest.mark.parametrize("kind", NAMED)
def test_yaml_names_plugins_that_exist(kind: str) -> None:
    there = {path.stem for path in (ROOT / "plugins" / kind).glob("*.py")}
    texts = {
        path: path.read_text(encoding="utf-8")
        for directory in ("roles", "playbooks", "molecule", "tests", "inventory")
        for path in (ROOT / directory).rglob("*.yml")
    }
    named = {
        (str(path.relative_to(ROOT)), name) for path, text in texts.items() for name in re.findall(NAMED[kind], text)
    }
    assert named
    assert not [one for one in sorted(named) if one[1] not in there]


def test_collection_builds_with_what_a_control_node_needs(tmp_path: Path) -> None:
    result = run_tool("ansible-galaxy", "collection", "build", "--output-path", str(tmp_path))
    assert result.returncode == 0, result.stdout + result.stderr
    (archive,) = tmp_path.glob("firstlight-cluster-*.tar.gz")
    with tarfile.open(archive) as bundle:
        names = {member.name for member in bundle.getmembers()}
    assert {
        "LICENSE",
        "README.md",
        "meta/runtime.yml",
        "playbooks/site.yml",
        "plugins/modules/observe.py",
    } <= names
    top = {name.partition("/")[0] for name in names}
    assert top <= {
        "CHANGELOG.md",
        "CONTRIBUTING.md",
        "FILES.json",
        "LICENSE",
        "MANIFEST.json",
        "README.md",
        "SECURITY.md",
        "catalog",
        "changelogs",
        "docs",
        "meta",
        "playbooks",
        "plugins",
        "requirements.txt",
        "roles",
    }
    assert not any(name.endswith(".pyc") for name in names)


def test_the_architecture_names_files_that_exist() -> None:
    for name in ("architecture.md", "architecture.svg"):
        text = (ROOT / "docs" / name).read_text(encoding="utf-8")
        paths = re.findall(r"\b(?:plugins|playbooks|roles|catalog|inventory|src)/(?:[\w/.*-]|<\w+>)*", text)
        assert paths
        missing = [path for path in paths if not list(ROOT.glob(re.sub(r"<\w+>", "*", path.rstrip("/"))))]
        assert not missing, name
