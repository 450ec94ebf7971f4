# SPDX-License-Identifier: Apache-2.0
"""The module against a host whose pip unpacks real wheels: builds, switches, errors, and runs that were cut off."""

from __future__ import annotations

import hashlib
import os
import platform
import re
import shutil
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from ansible_collections.firstlight.cluster.plugins.module_utils.engine_venv.build import VenvError, read_environment
from ansible_collections.firstlight.cluster.plugins.module_utils.engine_venv.lock import parse_lock
from ansible_collections.firstlight.cluster.plugins.module_utils.host import Host, Result
from ansible_collections.firstlight.cluster.plugins.modules.engine_venv import converge

from firstlight_lab.wheels import RELEASES, Wheel, lock_of
from tests.unit.fake_host import Call, FakeHost, Reply, not_installed

NEW, OLD = (lock_of(RELEASES[name]) for name in ("vllm-0.32.0", "vllm-0.31.0"))
SETUPTOOLS = Wheel("setuptools", "66.0", files={"setuptools.py": ""})
PIP = Wheel("pip", "23.0", files={"pip.py": ""})


class Cut(BaseException):
    """The power goes out."""


def _nothing(what: str) -> None:
    """Goes well."""


class Machine(FakeHost):
    """A host on which Python, pip and nvidia-smi are played; files are real."""

    def __init__(self, index: Path) -> None:
        super().__init__()
        self.index = index
        self.python = f"3.11 {platform.machine()}"
        self.capabilities = "9.0\n9.0\n"
        self.header = index / "Python.h"
        self.header.write_text("")
        self.compilers = {"gcc"}
        self.before: Callable[[str], None] = _nothing

    def answer(self, call: Call) -> Reply:
        command = call.argv
        if command[0] == "nvidia-smi":
            return self.capabilities
        if command[1] == "-c" and "sysconfig" in command[2]:
            return f"{self.header}\n"
        if command[1] == "-c":
            return self.python if command[0] in ("python3.11", "/opt/python") else not_installed(call)
        what = command[2] if command[2] == "venv" else command[3]
        self.before(what)
        done: Result = getattr(self, f"_{what}")(command)
        return done

    def has(self, program: str) -> bool:
        return program in self.compilers

    def _venv(self, argv: tuple[str, ...]) -> Result:
        for wheel in (PIP, SETUPTOOLS):
            self._unpack(wheel, Path(argv[3]) / "lib/python3.11/site-packages")
        return Result(argv, 0)

    def _uninstall(self, argv: tuple[str, ...]) -> Result:
        shutil.rmtree(self._site(argv) / "setuptools-66.0.dist-info")
        return Result(argv, 0)

    def _download(self, argv: tuple[str, ...]) -> Result:
        if "-vv" in argv:
            return Result(argv, 1, "nothing")
        return self._fetch(argv, self.index, Path(_option(argv, "--dest")))

    def _install(self, argv: tuple[str, ...]) -> Result:
        return self._fetch(argv, Path(_option(argv, "--find-links")), None)

    def _fetch(self, argv: tuple[str, ...], source: Path, target: Path | None) -> Result:
        assert {"--require-hashes", "--no-deps", "--only-binary=:all:"} <= set(argv)
        lock = parse_lock(Path(argv[-1]).read_text())
        for name, version in lock.packages.items():
            found = list(source.glob(f"{name.replace('-', '_')}-{version}-*.whl"))
            if not found:
                return Result(argv, 1, stderr=f"ERROR: No matching distribution found for {name}=={version}\n")
            digest = hashlib.sha256(found[0].read_bytes()).hexdigest()
            if digest not in lock.hashes[name]:
                said = f"    {name}=={version} from x\n        Expected sha256 e0\n             Got   {digest}\n"
                return Result(argv, 1, stderr=f"THESE DO NOT MATCH THE HASHES\n{said}")
            if target:
                target.mkdir(exist_ok=True)
                shutil.copy(found[0], target)
            else:
                zipfile.ZipFile(found[0]).extractall(self._site(argv))
        return Result(argv, 0)

    def _site(self, argv: tuple[str, ...]) -> Path:
        return Path(argv[0]).parents[1] / "lib/python3.11/site-packages"

    def _unpack(self, wheel: Wheel, site: Path) -> None:
        archive = site / "wheel.zip"
        site.mkdir(parents=True, exist_ok=True)
        archive.write_bytes(wheel.content())
        zipfile.ZipFile(archive).extractall(site)
        archive.unlink()


def _option(argv: tuple[str, ...], name: str) -> str:
    return next(word.partition("=")[2] for word in argv if word.startswith(f"{name}="))


@pytest.fixture
def machine(tmp_path: Path) -> Machine:
    index = tmp_path / "index"
    index.mkdir()
    for release in RELEASES.values():
        for wheel in release:
            (index / wheel.filename).write_bytes(wheel.content())
    return Machine(index)


@pytest.fixture
def directory(tmp_path: Path) -> Path:
    return tmp_path / "venvs" / "vllm"


@pytest.fixture
def ask(machine: Machine, directory: Path) -> Callable[..., dict[str, Any]]:
    def asked(lock: str = NEW, check: bool = False, **changes: Any) -> dict[str, Any]:
        parameters = {
            "directory": str(directory),
            "lock": lock,
            "python": "python3.11",
            "index": "https://mirror.example/simple/",
            "wheels": "",
            "requires": {"vllm": "0.32.0" if lock == NEW else "0.31.0"},
            "compute_capability": "",
            "timeout": 60,
            **changes,
        }
        return converge(parameters, check, machine)

    return asked


Ask = Callable[..., dict[str, Any]]


def versions(path: Path) -> dict[str, str]:
    found: dict[str, str] = read_environment(Host(), str(path))["packages"]
    return found


def leftovers(directory: Path) -> set[str]:
    kept = {os.path.basename(os.readlink(directory))} if directory.is_symlink() else set()
    store = directory.parent / ".firstlight"
    return {path.name for path in store.iterdir() if path.name.startswith("vllm-")} - kept if store.is_dir() else set()


def test_the_first_run_installs_the_lock_and_the_second_changes_nothing(
    ask: Ask, machine: Machine, directory: Path
) -> None:
    first = ask()
    assert first["changed"]
    assert first["built"]
    assert versions(directory) == {"firstlight-lab-words": "1.0.0", "pip": "23.0", "vllm": "0.32.0"}
    assert first["diff"][0]["after"] == "firstlight-lab-words 1.0.0\nvllm 0.32.0\n"
    assert not leftovers(directory)
    machine.calls.clear()
    second = ask()
    assert not second["changed"]
    assert second["diff"] == []
    assert machine.ran == []


def test_without_headers_or_a_compiler_nothing_is_built(ask: Ask, machine: Machine, directory: Path) -> None:
    machine.compilers = set()
    with pytest.raises(VenvError, match=r"none of cc, gcc, clang is installed.*build-essential\. Nothing was changed"):
        ask()
    machine.header.unlink()
    with pytest.raises(VenvError, match=r"Python\.h is not there\), expected Python\.h.*-dev package"):
        ask()
    assert not directory.exists()
    assert ask(check=True)["changed"], "the role's packages were only rehearsed"


def test_check_mode_says_what_would_be_and_leaves_no_trace(ask: Ask, directory: Path) -> None:
    told = ask(check=True)
    assert told["changed"]
    assert told["built"]
    assert not directory.parent.exists()


def test_a_repin_keeps_the_former_one_and_goes_back_without_a_download(
    ask: Ask, machine: Machine, directory: Path
) -> None:
    ask(OLD)
    moved = ask(NEW)
    assert os.path.basename(moved["previous"]) in leftovers(directory)
    assert moved["diff"][0]["before"] == "firstlight-lab-words 0.9.0\nvllm 0.31.0\n"
    machine.calls.clear()
    back = ask(OLD)
    assert back["changed"]
    assert not back["built"]
    assert machine.ran == []
    assert versions(directory)["vllm"] == "0.31.0"
    assert not ask(OLD)["changed"]


def test_only_the_former_one_is_kept(ask: Ask, directory: Path) -> None:
    ask(OLD)
    ask(NEW)
    third = ask(NEW + "# another lock\n", requires={})
    assert len(third["removed"]) == 1
    assert leftovers(directory) == {os.path.basename(third["previous"])}
    assert versions(directory.parent / ".firstlight" / os.path.basename(third["previous"]))["vllm"] == "0.32.0"


@pytest.mark.parametrize("step", ["venv", "uninstall", "download", "install"])
def test_a_run_that_is_cut_off_leaves_the_link_and_the_next_one_finishes(
    ask: Ask, machine: Machine, directory: Path, step: str
) -> None:
    ask(OLD)

    def cut(what: str) -> None:
        if what == step:
            raise Cut

    machine.before = cut
    with pytest.raises(Cut):
        ask(NEW)
    assert versions(directory)["vllm"] == "0.31.0"
    machine.before = _nothing
    assert ask(NEW)["built"]
    assert versions(directory)["vllm"] == "0.32.0"
    assert len(leftovers(directory)) == 1


def test_a_run_that_is_cut_off_before_the_marker_is_begun_anew(ask: Ask, directory: Path) -> None:
    place = Path(ask(NEW)["environment"])
    ask(OLD)
    (place / ".firstlight.json").unlink()
    assert ask(NEW)["built"]
    assert versions(directory)["vllm"] == "0.32.0"


def test_an_environment_that_was_changed_by_hand_is_built_anew_beside_it(ask: Ask, directory: Path) -> None:
    ask(OLD)
    ask(NEW)
    meddled = os.readlink(directory)
    (directory / "lib/python3.11/site-packages/vllm/engine.py").write_text("# a hot fix\n")
    assert read_environment(Host(), str(directory))["changed"] == ["vllm/engine.py"]
    mended = ask(NEW)
    assert mended["built"]
    assert os.readlink(directory) != meddled
    assert read_environment(Host(), str(directory))["changed"] == []
    assert not ask(NEW)["changed"]
    assert not ask(OLD)["built"]  # the way back is still there


def test_a_package_too_many_is_found(ask: Ask, machine: Machine, directory: Path) -> None:
    ask()
    machine._unpack(SETUPTOOLS, directory / "lib/python3.11/site-packages")
    assert ask()["built"]
    assert "setuptools" not in versions(directory)


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"lock": NEW.replace("vllm==0.32.0", "vllm==0.33.0"), "requires": {}}, "vllm==0.33.0 is not offered by"),
        ({"lock": re.sub(r"sha256:\w{8}", "sha256:00000000", NEW)}, "which is not in the lock (expected e0)"),
        ({"python": "python3.13"}, "python3.13 is not installed, expected a Python 3.11"),
        ({"lock": NEW.replace("python: 3.11", "python: 3.12")}, "python3.11 is Python 3.11, the lock is for 3.12"),
        ({"lock": NEW.replace(f"architecture: {platform.machine()}", "architecture: s390x")}, "the lock is for s390x"),
        ({"compute_capability": "9.1"}, "2 of 2 GPUs have compute capability 9.0, expected at least 9.1: FP8"),
        ({"wheels": "/nowhere"}, "engine_venv_wheels is '/nowhere', which is no directory"),
    ],
)
def test_what_cannot_be_is_one_message_and_the_link_stays(
    ask: Ask, directory: Path, changes: dict[str, Any], words: str
) -> None:
    ask(OLD)
    with pytest.raises(VenvError) as error:
        ask(**{"requires": {"vllm": "0.32.0"}, **changes})
    assert words in str(error.value)
    assert "Nothing was changed" in str(error.value) or "is as it was" in str(error.value)
    assert versions(directory)["vllm"] == "0.31.0"
    assert not ask(OLD)["built"]


def test_a_full_disk_is_told_before_anything_is_fetched(ask: Ask, machine: Machine, directory: Path) -> None:
    machine.free = 1000
    with pytest.raises(VenvError, match="make room"):
        ask()
    assert not directory.parent.exists()


def test_gpus_that_do_not_answer_are_told(ask: Ask, machine: Machine) -> None:
    machine.capabilities = "No devices were found\n"
    with pytest.raises(VenvError, match="compute capability cannot be read"):
        ask(compute_capability="9.0")


def test_somebody_elses_directory_is_left_alone(ask: Ask, directory: Path) -> None:
    directory.mkdir(parents=True)
    with pytest.raises(VenvError, match="is not a link, expected nothing"):
        ask()
    directory.rmdir()
    directory.symlink_to("/usr")
    with pytest.raises(VenvError, match="is a link to /usr"):
        ask()


def test_wheels_of_a_directory_need_no_index(ask: Ask, machine: Machine, directory: Path) -> None:
    ask(wheels=str(machine.index))
    assert versions(directory)["vllm"] == "0.32.0"
    assert all("--no-index" in call for call in machine.ran if "install" in call)
    assert not [call for call in machine.ran if "download" in call]


def test_two_runs_do_not_build_at_once(ask: Ask, machine: Machine) -> None:
    def again(what: str) -> None:
        machine.before = _nothing
        ask()

    machine.before = again
    with pytest.raises(VenvError, match="another run is building"):
        ask()
