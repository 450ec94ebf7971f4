# SPDX-License-Identifier: Apache-2.0
"""Run ansible-test's sanity tests on this collection: sanity.py [ARGUMENT OF ansible-test sanity...] [FILE...].

ansible-test requires a working directory .../ansible_collections/NAMESPACE/NAME, so it gets a copy of the shipped files
in that layout. It would also create a virtual environment per test and fill it from a package index; instead, it finds
these environments prepared from the packages in .venv: nothing is downloaded, and nothing is left in the home
directory.
"""

from __future__ import annotations

import importlib.metadata
import json
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from fnmatch import fnmatch
from pathlib import Path

import yaml
from ansible_test._internal.commands.sanity import hash_pip_commands
from ansible_test._internal.host_configs import NativePythonConfig
from ansible_test._internal.python_requirements import collect_requirements

ROOT = Path(__file__).resolve().parent.parent
COLLECTION = "ansible_collections/firstlight/cluster"
OUR_LICENCE = "# SPDX-License-Identifier: Apache-2.0"
CONTROLLER_PYTHON = f"{sys.version_info.major}.{sys.version_info.minor}"
OLDEST_HOST_PYTHON = "3.10"
# Tests that need packages. "import" stands for a helper of that test, which reads YAML.
TESTS_WITH_PACKAGES = ("ansible-doc", "import", "runtime-metadata", "validate-modules", "yamllint")
# Packages that plugins may import on a controller: Ansible's own requirements only.
CONTROLLER_PACKAGES = ("jinja2", "markupsafe", "packaging", "pyyaml")


def copy_collection(collection: Path) -> None:
    """Copy the files that a build of the collection ships, and ansible-test's configuration."""
    ignored = yaml.safe_load((ROOT / "galaxy.yml").read_text())["build_ignore"]
    listed = subprocess.run(
        ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"],
        cwd=ROOT,
        check=True,
        capture_output=True,
        text=True,
    ).stdout
    for name in filter(None, listed.split("\0")):
        shipped = not any(fnmatch(name.partition("/")[0], pattern) for pattern in ignored)
        # A deleted file stays listed until the deletion is committed.
        if (shipped or name == "tests/config.yml") and (ROOT / name).exists():
            (collection / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(ROOT / name, collection / name, follow_symlinks=False)


def exceptions(collection: Path, *, oldest_python_found: bool) -> Iterator[str]:
    """Yield the entries of ansible-test's ignore list, one per file, as the list does not support patterns."""
    for kind in ("callback", "inventory", "lookup", "modules"):
        for plugin in collection.glob(f"plugins/{kind}/*.py"):
            # ansible-test requires the GPLv3, but this collection uses Apache-2.0. A missing licence still fails.
            if OUR_LICENCE in plugin.read_text().splitlines()[:2]:
                yield f"{plugin.relative_to(collection)} validate-modules:missing-gplv3-license"
    if oldest_python_found:
        # Code for hosts is imported with their oldest Python; the unit tests import it with the controller's.
        for kind in ("modules", "module_utils"):
            for plugin in collection.glob(f"plugins/{kind}/**/*.py"):
                yield f"{plugin.relative_to(collection)} import-{CONTROLLER_PYTHON}!skip"
    # This yamllint only has to check the YAML inside plugins: the project's own run checks the files.
    for document in collection.glob("**/*.y*ml"):
        yield f"{document.relative_to(collection)} yamllint!skip"


def provide_environments(home: Path) -> None:
    """Prepare an environment per test where ansible-test looks for one made by an earlier run."""
    for name in TESTS_WITH_PACKAGES:
        (provide_environment(home, name) / "lib").symlink_to(Path(sys.prefix, "lib"))
    packages = provide_environment(home, "import.plugin") / f"lib/python{CONTROLLER_PYTHON}/site-packages"
    packages.mkdir(parents=True)
    for package in CONTROLLER_PACKAGES:
        distribution = importlib.metadata.distribution(package)
        for entry in {file.parts[0] for file in distribution.files or ()} - {".."}:
            (packages / entry).symlink_to(Path(str(distribution.locate_file(entry))))


def provide_environment(home: Path, test: str) -> Path:
    """Create an environment with the Python of .venv and without packages, and return its path."""
    commands = collect_requirements(
        python=NativePythonConfig(version=CONTROLLER_PYTHON, path=sys.executable),
        controller=True,
        command=None,
        ansible=False,
        coverage=False,
        minimize=False,
        sanity=test,
    )
    environment = Path(home, ".ansible/test/venv", f"sanity.{test}", CONTROLLER_PYTHON, hash_pip_commands(commands))
    environment.mkdir(parents=True)
    for part in ("bin", "pyvenv.cfg"):
        (environment / part).symlink_to(Path(sys.prefix, part))
    (environment / "meta.yaml.json").write_text(json.dumps(yaml.__with_libyaml__))
    (environment / "marker.txt").touch()
    return environment


def oldest_host_python() -> str | None:
    """Return a Python of the oldest supported version, or None. A pyenv shim may be on PATH without being usable."""
    pyenv = Path(os.environ.get("PYENV_ROOT", "~/.pyenv")).expanduser()
    candidates = [f"python{OLDEST_HOST_PYTHON}", *map(str, pyenv.glob(f"versions/{OLDEST_HOST_PYTHON}.*/bin/python"))]
    for candidate in filter(shutil.which, candidates):
        asked = subprocess.run(
            [candidate, "-c", "import sys, venv; print(sys.executable)"], check=False, capture_output=True, text=True
        )
        if asked.returncode == 0:
            return asked.stdout.strip()
    return None


def main() -> int:
    search_path = [str(Path(sys.prefix, "bin")), os.environ["PATH"]]
    targets = [f"--target-python={CONTROLLER_PYTHON}"]
    oldest = oldest_host_python()
    if oldest:
        search_path.insert(1, str(Path(oldest).parent))
        targets.append(f"--target-python={OLDEST_HOST_PYTHON}")
    else:
        print(f"Modules are tested with Python {CONTROLLER_PYTHON} only, {OLDEST_HOST_PYTHON} was not found.")
    with tempfile.TemporaryDirectory(prefix="sanity-") as scratch:
        collection = Path(scratch, COLLECTION)
        copy_collection(collection)
        ignore = collection / "tests/sanity/ignore-2.19.txt"
        ignore.parent.mkdir()
        ignore.write_text("\n".join([*exceptions(collection, oldest_python_found=oldest is not None), ""]))
        os.chdir(collection)  # ansible-test derives the collection from the working directory, even at import time
        provide_environments(Path(scratch))
        return subprocess.run(
            ["ansible-test", "sanity", "--color=no", *targets, *sys.argv[1:]],
            env=os.environ | {"HOME": scratch, "PATH": os.pathsep.join(search_path)},
            check=False,
        ).returncode


if __name__ == "__main__":
    sys.exit(main())
