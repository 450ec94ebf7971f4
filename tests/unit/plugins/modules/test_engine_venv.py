# SPDX-License-Identifier: Apache-2.0
"""The module with the real uv and real wheels: builds, switches, errors, and runs that were cut off."""

from __future__ import annotations

import functools
import http.server
import os
import platform
import re
import shutil
import sys
import threading
import zipfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, ClassVar

import pytest
from ansible_collections.firstlight.cluster.plugins.module_utils.engine_venv import build
from ansible_collections.firstlight.cluster.plugins.module_utils.engine_venv.build import VenvError, read_environment
from ansible_collections.firstlight.cluster.plugins.module_utils.host import Host, Result
from ansible_collections.firstlight.cluster.plugins.modules import engine_venv
from ansible_collections.firstlight.cluster.plugins.modules.engine_venv import converge

from firstlight_lab import wheels
from firstlight_lab.wheels import RELEASES, Wheel, lock_of, write_index
from tests.unit.fake_host import Call, FakeHost, Reply, failure, no_answer, not_installed

NEW, OLD = (lock_of(RELEASES[name]) for name in ("vllm-0.32.0", "vllm-0.31.0"))
UV = Path(sys.executable).with_name("uv")
PIN = (Path(__file__).resolve().parents[4] / "roles/engine_venv/files/uv.txt").read_text()
TOOL = f"uv-{re.search('^uv==([0-9.]+)', PIN, re.MULTILINE)[1]}"  # type: ignore[index]
ELSEWHERE = "\n".join(lock_of([wheels.ELSEWHERE]).splitlines()[3:])
SETUPTOOLS = Wheel("setuptools", "66.0", files={"setuptools.py": ""})


class Cut(BaseException):
    """The power goes out."""


def _nothing(what: str) -> None:
    """Goes well."""


class Machine(FakeHost):
    """A host on which Python, pip and nvidia-smi are played; files and uv are real."""

    def __init__(self, index: Path) -> None:
        super().__init__()
        self.index = index
        self.python = f"3.11 {platform.machine()} {sys.executable}"
        self.capabilities = "9.0\n9.0\n"
        self.header = index / "Python.h"
        self.header.write_text("")
        self.compilers = {"gcc"}
        self.configuration: str | Result = ""
        self.after_sync: Callable[[Call], Reply] | None = None
        self.pip_said = ""
        self.before: Callable[[str], None] = _nothing

    def answer(self, call: Call) -> Reply:
        command = call.argv
        if command[0] == "nvidia-smi":
            return self.capabilities
        if command[0].endswith("/bin/uv"):
            return self._uv(call)
        if command[1] == "-c" and "sysconfig" in command[2]:
            return f"{self.header}\n"
        if command[1] == "-c":
            return self.python if command[0] in ("python3.11", "/opt/python") else not_installed(call)
        what = " ".join(command[2:4]) if command[2] == "pip" else command[2]
        self.before(what)
        return self._python(what, Path(command[3] if what == "venv" else command[0]))

    def _uv(self, call: Call) -> Reply:
        if "--version" not in call.argv:
            self.before(f"uv {call.argv[1]}")
        # On a host that a test is not there for: no certificates to be read, nothing to be compiled.
        settings = {**(call.env or {}), "SSL_CERT_FILE": os.devnull, "UV_COMPILE_BYTECODE": "0"}
        done = Host().run(call.argv, call.timeout, settings)
        return self.after_sync(call) if self.after_sync and "sync" in call.argv else done

    def _python(self, what: str, place: Path) -> Reply:
        """The Python of uv's own environment, and what makes it."""
        if what == "venv":
            (place / "bin").mkdir(parents=True)
            (place / "bin/python").symlink_to(sys.executable)
        elif what == "pip config":
            return self.configuration
        elif what == "pip install":
            if self.pip_said:
                return failure(self.pip_said)
            (place.parent / "uv").symlink_to(UV)
        return 0

    def has(self, program: str) -> bool:
        return program in self.compilers

    def did(self, what: str) -> list[str]:
        """The command lines with this in them."""
        return [line for line in self.lines if what in line]


def site(environment: Path) -> Path:
    [found] = environment.glob("lib/python3*/site-packages")
    return found


@pytest.fixture
def machine(tmp_path: Path) -> Machine:
    write_index(tmp_path / "index", tmp_path / "locks")
    return Machine(tmp_path / "index")


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
            "uv_lock": PIN,
            "index": f"file://{machine.index}/simple/",
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
    assert versions(directory) == {"firstlight-lab-words": "1.0.0", "vllm": "0.32.0"}
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
    with pytest.raises(VenvError, match=r"Python\.h is missing\), expected Python\.h.*-dev package"):
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


@pytest.mark.parametrize("step", ["venv", "pip install", "pip config", "uv venv", "uv pip"])
def test_a_run_that_is_cut_off_leaves_the_link_and_the_next_one_finishes(
    ask: Ask, machine: Machine, directory: Path, step: str
) -> None:
    ask(OLD)
    # uv is new, too.
    shutil.rmtree(directory.parent / ".firstlight" / TOOL)

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
    (site(directory) / "vllm/engine.py").write_text("# a hot fix\n")
    assert read_environment(Host(), str(directory))["changed"] == ["vllm/engine.py"]
    fixed = ask(NEW)
    assert fixed["built"]
    assert os.readlink(directory) != meddled
    assert read_environment(Host(), str(directory))["changed"] == []
    assert not ask(NEW)["changed"]
    assert not ask(OLD)["built"]  # the former one is still there


def test_a_package_too_many_is_found(ask: Ask, machine: Machine, directory: Path) -> None:
    ask()
    wheel = machine.index / "setuptools.zip"
    wheel.write_bytes(SETUPTOOLS.content())
    zipfile.ZipFile(wheel).extractall(site(directory))
    found = read_environment(Host(), str(directory))
    assert found["differing"] == {"setuptools": {"expected": None, "observed": "66.0"}}
    assert ask()["built"]
    assert "setuptools" not in versions(directory)


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"lock": NEW.replace("vllm==0.32.0", "vllm==0.33.0"), "requires": {}}, "vllm==0.33.0 is not offered by"),
        ({"lock": re.sub(r"sha256:\w{8}", "sha256:00000000", NEW)}, "which is not in the lock (expected 00000000"),
        (
            {"lock": ELSEWHERE, "requires": {}},
            "for `firstlight-lab-elsewhere` (v1.0.0) on the following platform: `manyl",
        ),
        ({"lock": NEW.replace("vllm==", "sglang=="), "requires": {}}, "sglang==0.32.0 is not offered by file:///"),
        ({"python": "python3.13"}, "python3.13 is not installed, expected a Python 3.11"),
        ({"lock": NEW.replace("python: 3.11", "python: 3.12")}, "python3.11 is Python 3.11, the lock is for 3.12"),
        ({"lock": NEW.replace(f"architecture: {platform.machine()}", "architecture: s390x")}, "the lock is for s390x"),
        ({"compute_capability": "9.1"}, "2 of 2 GPUs have compute capability 9.0, expected at least 9.1: FP8"),
        ({"wheels": "/nowhere"}, "engine_venv_wheels is '/nowhere', which is not a directory"),
    ],
)
def test_what_cannot_be_is_one_message_and_the_link_stays(
    ask: Ask, directory: Path, changes: dict[str, Any], words: str
) -> None:
    ask(OLD)
    with pytest.raises(VenvError) as error:
        ask(**{"requires": {"vllm": "0.32.0"}, **changes})
    assert words in str(error.value)
    assert "Nothing was changed" in str(error.value) or "is unchanged" in str(error.value)
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
    files = machine.index / "files"
    ask(wheels=str(files))
    assert versions(directory)["vllm"] == "0.32.0"
    installed = machine.did(" install ") + machine.did(" sync ")
    assert len(installed) == 2
    assert all(f"--no-index --find-links={files}" in line for line in installed)
    assert not machine.did("pip config"), "nothing of pip's configuration counts"


def test_two_runs_do_not_build_at_once(ask: Ask, machine: Machine) -> None:
    def again(what: str) -> None:
        machine.before = _nothing
        ask()

    machine.before = again
    with pytest.raises(VenvError, match="another run is building"):
        ask()


# -- uv itself --------------------------------------------------------------------------------------------------------


def store(directory: Path) -> Path:
    return directory.parent / ".firstlight"


def test_uv_is_installed_once_and_an_older_one_goes(ask: Ask, machine: Machine, directory: Path) -> None:
    older = store(directory) / "uv-0.0.9"
    older.mkdir(parents=True)
    assert ask(OLD)["removed"] == [str(older)]
    assert not older.exists()
    [line] = machine.did("pip install")
    assert "--require-hashes --no-deps --only-binary=:all:" in line
    assert f"--index-url=file://{machine.index}/simple/" in line
    ask(NEW)
    assert len(machine.did("pip install")) == 1


def test_a_uv_that_no_longer_works_is_installed_anew(ask: Ask, machine: Machine, directory: Path) -> None:
    ask(OLD)
    tool = store(directory) / TOOL
    (tool / "bin/uv").unlink()
    (tool / "bin/uv").write_text("")
    ask(NEW)
    assert len(machine.did("pip install")) == 2
    assert versions(directory)["vllm"] == "0.32.0"


def test_a_source_without_uv_is_told(ask: Ask, machine: Machine, directory: Path) -> None:
    machine.pip_said = "ERROR: No matching distribution found for uv==0.13.7\n"
    with pytest.raises(
        VenvError, match=r"could not be installed from .*No matching distribution.*mirror it.*is unchanged"
    ):
        ask()
    assert os.listdir(store(directory)) == ["busy"]
    machine.pip_said = ""
    assert ask()["built"]


def test_nothing_but_uvs_own_environment_has_pip_and_no_file_is_everybodys(ask: Ask, directory: Path) -> None:
    ask()
    assert not list(directory.glob("bin/pip*"))
    everybodys = [path for path in directory.rglob("*") if not path.is_symlink() and path.stat().st_mode & 0o002]
    assert everybodys == []


# -- what pip is configured for ---------------------------------------------------------------------------------------


def test_without_an_index_uv_looks_where_pip_does(ask: Ask, machine: Machine, directory: Path) -> None:
    machine.configuration = f"global.index-url='file://{machine.index}/simple/'\nglobal.find-links='/nowhere'\n"
    ask(index="")
    assert versions(directory)["vllm"] == "0.32.0"
    assert not [line for line in machine.lines if "simple" in line]


def test_a_configuration_of_pip_that_cannot_be_read_is_told(ask: Ask, machine: Machine) -> None:
    machine.configuration = failure("invalid syntax in https://me:secret@mirror.example/simple/")
    with pytest.raises(
        VenvError, match=r"pip's configuration on this host cannot be read .*https://\*\*\*\*@"
    ) as error:
        ask(index="")
    assert "secret" not in str(error.value)


class Index(http.server.ThreadingHTTPServer):
    """An index that can want a password."""

    def __init__(self, directory: Path) -> None:
        super().__init__(("127.0.0.1", 0), functools.partial(_Page, directory=str(directory)))
        self.authorization = ""
        self.asked: list[str] = []
        self.address = f"http://127.0.0.1:{self.server_port}/simple/"


class _Page(http.server.SimpleHTTPRequestHandler):
    server: Index

    def do_GET(self) -> None:
        self.server.asked.append(self.path)
        if self.server.authorization not in self.headers.get("Authorization", ""):
            self.send_response(401)
            self.send_header("WWW-Authenticate", "Basic realm=x")
            self.end_headers()
        else:
            super().do_GET()

    def log_message(self, *words: object) -> None:
        """Quiet."""


@pytest.fixture
def index(machine: Machine) -> Iterator[Index]:
    server = Index(machine.index)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield server
    server.shutdown()
    server.server_close()


def test_a_password_reaches_the_index_and_nothing_else(
    ask: Ask, machine: Machine, directory: Path, index: Index
) -> None:
    index.authorization = "Basic bWU6czNjcmV0"
    machine.configuration = f"global.index-url='{index.address.replace('//', '//me:wrong@')}'\n"
    with pytest.raises(VenvError, match=r"credentials \(401 Unauthorized\)") as error:
        ask(index="")
    assert "wrong" not in str(error.value)
    machine.configuration = machine.configuration.replace("wrong", "s3cret")
    ask(index="")
    assert versions(directory)["vllm"] == "0.32.0"
    assert not [line for line in machine.lines if "s3cret" in line]


def test_netrc_is_read(
    ask: Ask, directory: Path, index: Index, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / ".netrc").write_text("machine 127.0.0.1 login me password s3cret\n")
    (tmp_path / ".netrc").chmod(0o600)
    monkeypatch.setenv("HOME", str(tmp_path))
    index.authorization = "Basic bWU6czNjcmV0"
    ask(index=index.address)
    assert versions(directory)["vllm"] == "0.32.0"


def test_what_is_set_for_another_uv_does_not_count(monkeypatch: pytest.MonkeyPatch) -> None:
    class Ended(Exception):
        """The module is done."""

    class Module:
        params: ClassVar[dict[str, Any]] = {"directory": "/opt/venvs/vllm"}
        check_mode = True

        def __init__(self, **words: object) -> None:
            pass

        def exit_json(self, **result: object) -> None:
            raise Ended

    seen: list[str] = []

    def converged(*words: object) -> dict[str, Any]:
        seen.extend(name for name in os.environ if name.startswith("UV_"))
        return {}

    monkeypatch.setattr(engine_venv, "AnsibleModule", Module)
    monkeypatch.setattr(engine_venv, "converge", converged)
    monkeypatch.setattr(os, "umask", lambda _: 0)
    monkeypatch.setenv("UV_OFFLINE", "1")
    with pytest.raises(Ended):
        engine_venv.main()
    assert seen == []


def test_an_index_that_nobody_answers_for_is_told(ask: Ask, machine: Machine, directory: Path) -> None:
    ask(OLD)
    machine.configuration = "global.retries='0'\n"
    with pytest.raises(VenvError, match=r"cannot be read \(Failed to fetch.*Connection refused.*is unchanged"):
        ask(index="http://127.0.0.1:9/simple/")
    assert versions(directory)["vllm"] == "0.31.0"


# -- what was fetched -------------------------------------------------------------------------------------------------


def test_what_was_fetched_before_the_time_was_up_is_used_again(
    ask: Ask, machine: Machine, directory: Path, index: Index
) -> None:
    machine.after_sync = no_answer
    with pytest.raises(VenvError, match=r"uv gave no answer within 60 s: see engine_venv_timeout\..*is unchanged"):
        ask(index=index.address)
    [cache] = store(directory).glob("*.wheels")
    assert cache.stat().st_mode & 0o777 == 0o700
    assert len([path for path in index.asked if "files" in path]) == 2
    machine.after_sync = None
    index.asked.clear()
    ask(index=index.address)
    assert versions(directory)["vllm"] == "0.32.0"
    assert [path for path in index.asked if "files" in path] == []
    assert not cache.exists()


def test_what_was_missing_is_looked_for_again(ask: Ask, machine: Machine, directory: Path, index: Index) -> None:
    """An index may say that its pages hold for a while; somebody who puts a wheel there does not wait for that."""
    page = machine.index / "simple/vllm/index.html"
    whole = page.read_text()
    page.write_text("".join(line for line in whole.splitlines(keepends=True) if "0.32.0" not in line))
    with pytest.raises(VenvError, match=r"vllm==0\.32\.0 is not offered"):
        ask(index=index.address)
    page.write_text(whole)
    ask(index=index.address)
    assert versions(directory)["vllm"] == "0.32.0"


def test_after_a_restart_nothing_that_was_fetched_is_trusted(
    ask: Ask, machine: Machine, directory: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """uv takes what is in its cache for right, and a power failure leaves files in it that are empty."""
    boot = tmp_path / "boot_id"
    boot.write_text("first")
    monkeypatch.setattr(build, "BOOT_ID", str(boot))
    machine.after_sync = no_answer
    with pytest.raises(VenvError, match="gave no answer"):
        ask()
    machine.after_sync = None
    [engine] = store(directory).glob("*.wheels/archive-v0/*/vllm/engine.py")
    engine.write_text("")
    boot.write_text("second")
    ask()
    assert read_environment(Host(), str(directory))["changed"] == []


def test_what_is_damaged_without_a_restart_is_not_switched_to(ask: Ask, machine: Machine, directory: Path) -> None:
    ask(OLD)

    def damaged(call: Call) -> Reply:
        (site(Path(call.argv[-1]).parent) / "vllm/engine.py").write_text("")
        return 0

    machine.after_sync = damaged
    with pytest.raises(VenvError, match=r"differs from the lock \(vllm/engine\.py\).*is unchanged"):
        ask(NEW)
    assert versions(directory)["vllm"] == "0.31.0"
    assert not list(store(directory).glob("*.wheels"))


def test_room_counts_what_was_fetched(ask: Ask, machine: Machine) -> None:
    machine.free = build.TOOL_ROOM
    with pytest.raises(VenvError, match="make room"):
        ask()
    machine.used = 10**6
    assert ask()["built"]
