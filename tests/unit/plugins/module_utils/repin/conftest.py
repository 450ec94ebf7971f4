# SPDX-License-Identifier: Apache-2.0
"""A host in memory whose power can be cut before and after every command and in the middle of every transaction.

Journal, store and files are real ones in a directory; dpkg, apt and systemd are played. What runs on it is the real
code of the module.
"""

from __future__ import annotations

import fnmatch
import hashlib
import itertools
import os
import uuid
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest
from ansible_collections.firstlight.cluster.plugins.module_utils.host import Result
from ansible_collections.firstlight.cluster.plugins.module_utils.packages.apt import Places
from ansible_collections.firstlight.cluster.plugins.module_utils.packages.apt_local import LocalApt
from ansible_collections.firstlight.cluster.plugins.module_utils.packages.deb_store import Store
from ansible_collections.firstlight.cluster.plugins.module_utils.repin.actions import perform
from ansible_collections.firstlight.cluster.plugins.module_utils.repin.journals import Journals, Marker
from ansible_collections.firstlight.cluster.plugins.module_utils.repin.machine import PROBLEMS, Machine
from ansible_collections.firstlight.cluster.plugins.plugin_utils.repin.mover import (
    Mover,
    Outcome,
    RefusedError,
    Request,
    UnreachableError,
)

from tests.unit.fake_host import Call, FakeHost, Reply

OLD = {"nvidia-driver-580-open": "580.1-1", "nvidia-utils-580": "580.1-1", "nvidia-firmware-580.1": "580.1-1"}
NEW = {"nvidia-driver-580-open": "580.2-1", "nvidia-utils-580": "580.2-1", "nvidia-firmware-580.2": "580.2-1"}
DRIVER = "nvidia-driver-580-open"


class CutError(BaseException):
    """The process ends here and now; nothing may catch it."""


class SimulatedHost(FakeHost):
    """Packages, units and a boot."""

    def __init__(self, root: Path) -> None:
        super().__init__()
        self.root = root
        # name: version, status, whether it has to be unpacked again
        self.packages: dict[str, tuple[str, str, bool]] = {
            **{name: (version, "installed", False) for name, version in OLD.items()},
            "libc6": ("2.39", "installed", False),
        }
        self.held: set[str] = {"nvidia-utils-580"}
        self.units: dict[str, list[bool]] = {"firstlight-server.service": [True, True]}
        self.offered: set[tuple[str, str]] = {*OLD.items(), *NEW.items()}
        self.boot = str(uuid.uuid4())
        self.loaded: str | None = "580.1"
        self.boots = 0
        self.rebooting = False
        self.points = 0
        self.cut_at = -1
        self.unloadable: set[str] = set()
        self.broken_gates: set[str] = set()
        self.failing: set[str] = set()
        self.missing = {"update-initramfs"}
        self.along: dict[str, str] = {}
        self.upgrade = ""
        self.modules: dict[str, str] = {}
        self.did: list[str] = []

    # -- power --------------------------------------------------------------------------------------------------------

    def point(self) -> None:
        """A moment at which the process may be gone."""
        self.points += 1
        if self.points - 1 == self.cut_at:
            raise CutError

    def power_up(self) -> None:
        """Boot: the installed driver is loaded, if it is whole and loads at all."""
        self.boot = str(uuid.uuid4())
        self.boots += 1
        self.rebooting = False
        version, status, _ = self.packages.get(DRIVER, ("", "", False))
        upstream = version.partition("-")[0]
        self.loaded = upstream if status == "installed" and upstream not in self.unloadable else None
        drained = (self.root / "drained").exists()
        for unit in self.units.values():
            unit[0] = unit[1] and not drained

    # -- what the code asks for ---------------------------------------------------------------------------------------

    def read_text(self, path: str) -> str | None:
        if path.endswith("boot_id"):
            return f"{self.boot}\n"
        if path.endswith("dpkg-status"):
            whole = [(name, one[0]) for name, one in self.packages.items() if one[1] == "installed"]
            return "\n\n".join(f"Package: {name}\nStatus: install ok installed\nVersion: {v}" for name, v in whole)
        return super().read_text(path)

    def has(self, program: str) -> bool:
        return program not in self.missing

    def answer(self, call: Call) -> Reply:
        words = list(call.argv)
        directory = ""
        if words[0] == "env":
            directory = words[1].partition("=")[2]
            words = words[2:]
        self.point()
        self.did.append(" ".join(words[:2]))
        rc, out = self._run(words, directory)
        self.point()
        return Result((), rc, out, "" if rc == 0 else "E: it failed\n")

    def _run(self, words: list[str], directory: str) -> tuple[int, str]:
        program = words[0]
        if program in self.failing or " ".join(words[:2]) in self.failing:
            return 100, ""
        if program == "dpkg-query":
            return self._query(words)
        if program == "dpkg":
            return self._dpkg(words)
        if program == "dpkg-deb":
            return self._deb(words)
        if program == "apt-mark":
            names = set(words[2:])
            self.held = self.held | names if words[1] == "hold" else self.held - names
            return 0, ""
        if program == "systemctl":
            return self._systemctl(words)
        if program == "systemd-run":
            self.rebooting = True
            return 0, ""
        if program == "apt-get":
            return self._apt(words, directory)
        if program == "modinfo":
            module = self.modules.get(words[2])
            return (0, f"{module}\n") if module else (1, "")
        return 0, ""

    def _query(self, words: list[str]) -> tuple[int, str]:
        form, names = words[2], words[3:]
        rows = []
        for name, (version, status, again) in sorted(self.packages.items()):
            if names and not any(fnmatch.fnmatch(name, pattern) for pattern in names):
                continue
            if "Eflag" in form:
                rows.append(f"{name}\t{'reinstreq' if again else 'ok'}\t{status}")
            elif "Want" in form and "Version" in form:
                rows.append(f"{name}\t{'hold' if name in self.held else 'install'}\t{status}\t{version}")
            elif "Want" in form:
                rows.append(f"{name}\t{'hold' if name in self.held else 'install'}\t{status}")
            else:
                rows.append(f"{name}\t{status}\t{version}")
        return 0, "".join(f"{row}\n" for row in rows)

    def _dpkg(self, words: list[str]) -> tuple[int, str]:
        sick = [name for name, one in self.packages.items() if one[1] != "installed"]
        if words[1] == "--audit":
            return 0, "\n".join(sick)
        if words[1] == "--configure":
            for name in sick:
                version, _, again = self.packages[name]
                if not again:
                    self.packages[name] = (version, "installed", False)
                    self.point()
            return (1 if any(one[2] for one in self.packages.values()) else 0), ""
        if words[1] == "--remove":
            for name in [word for word in words[2:] if not word.startswith("-")]:
                self.packages.pop(name, None)
                self.point()
        if words[1] == "--install":
            for path in [word for word in words[2:] if word.endswith(".deb")]:
                name, version = Path(path).read_text().split()[:2]
                self._install(name, version)
        return 0, ""

    def _deb(self, words: list[str]) -> tuple[int, str]:
        try:
            name, version = Path(words[2]).read_text().split()[:2]
        except (OSError, ValueError):
            return 2, ""
        return 0, f"Package: {name}\nVersion: {version}\nArchitecture: all\nInstalled-Size: 10\n"

    def _systemctl(self, words: list[str]) -> tuple[int, str]:
        unit = self.units.get(words[-1])
        if words[1] == "show":
            if unit is None:
                return 0, "LoadState=not-found\nActiveState=inactive\n"
            return 0, f"LoadState=loaded\nActiveState={'active' if unit[0] else 'inactive'}\nSubState=x\n"
        if words[1] == "is-enabled":
            return 0, "enabled\n" if unit and unit[1] else "disabled\n"
        if words[1] in ("stop", "start") and unit is not None:
            unit[0] = words[1] == "start"
        return 0, ""

    def _apt(self, words: list[str], directory: str) -> tuple[int, str]:
        plain = [word for word in words[2:] if not word.startswith("-") and "::" not in word]
        if words[1] == "update":
            return (100 if "offline" in self.failing else 0), ""
        if words[1] == "dist-upgrade":
            return 0, self.upgrade
        if words[1] == "download":
            return self._download(words, plain, directory)
        install = dict(word.split("=", 1) for word in plain if "=" in word)
        newest = dict(sorted(self.offered))
        install |= {word: newest[word] for word in plain if word in newest}
        if install and not any(word.endswith(".deb") for word in plain):
            install |= self.along
        for path in [word for word in plain if word.endswith(".deb")]:
            name, version = Path(path).read_text().split()[:2]
            install[name] = version
        remove = [word[:-1] for word in plain if word.endswith("-")]
        now = self._before(words)
        if "--simulate" in words:
            rows = [
                f"Inst {name} [{now[name]}] ({version} x)" if name in now else f"Inst {name} ({version} x)"
                for name, version in install.items()
                if now.get(name) != version or self.packages.get(name, ("", "", False))[2]
            ]
            rows += [f"Remv {name} [{now[name]}]" for name in remove if name in now]
            return 0, "".join(f"{row}\n" for row in rows)
        for name in remove:
            self.packages.pop(name, None)
            self.held.discard(name)
            self.point()
        for name, version in install.items():
            self._unpack(name, version)
        for name, version in install.items():
            self.packages[name] = (version, "installed", False)
            self.point()
        return 0, ""

    def _before(self, words: list[str]) -> dict[str, str]:
        """What is installed, or what a status file says is."""
        path = next((word.partition("=")[2] for word in words if word.startswith("Dir::State::status=")), "")
        if not path:
            return {name: one[0] for name, one in self.packages.items()}
        found = {}
        for stanza in Path(path).read_text().split("\n\n"):
            fields = dict(line.split(": ", 1) for line in stanza.strip().splitlines())
            found[fields["Package"]] = fields["Version"]
        return found

    def _download(self, words: list[str], plain: list[str], directory: str) -> tuple[int, str]:
        rc, rows = 0, []
        for word in plain:
            name, _, version = word.partition("=")
            if (name, version) not in self.offered:
                rc = 100
                continue
            text = f"{name} {version}\n"
            file = f"{name}_{version}_all.deb"
            if "--print-uris" in words:
                digest = hashlib.sha256(text.encode()).hexdigest()
                rows.append(f"'http://x/{file}' {file} {len(text)} SHA256:{digest}")
            elif name in self.failing:
                rc = 100
                (Path(directory) / f"{file}.part").write_text("half")
            else:
                (Path(directory) / file).write_text(text)
                self.point()
        return rc, "".join(f"{row}\n" for row in rows)

    def _unpack(self, name: str, version: str) -> None:
        self.packages[name] = (version, "half-installed", True)
        self.held.discard(name)
        self.point()
        self.packages[name] = (version, "unpacked", False)
        self.point()

    def _install(self, name: str, version: str) -> None:
        self._unpack(name, version)
        self.packages[name] = (version, "installed", False)
        self.point()


class CutJournals(Journals):
    """Journals whose writing may be the last thing that happens, or the first that does not."""

    host: SimulatedHost

    def write(self, journal: Mapping[str, Any]) -> dict[str, Any]:
        self.host.point()
        written = super().write(journal)
        self.host.point()
        return written


class Bench:
    """A host, the module on it, and a controller's hands."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.host = SimulatedHost(root)
        self.clock = 0.0
        self.said: list[str] = []
        self.cut_means = "power"
        self.killed = False
        self.described: str | None = "580.1"
        self.fixed: list[tuple[str, dict[str, Any]]] = []
        self.cannot_mend = ""
        for place in ("etc/apt/sources.list.d", "etc/apt/preferences.d", "lists", "scratch", "archives"):
            (root / place).mkdir(parents=True)
        self.file = root / "etc" / "own.conf"
        self.file.write_text("old\n")

    def machine(self, check_mode: bool = False) -> Machine:
        places = Places(str(self.root / "etc/apt"), str(self.root / "lists"), str(self.root / "scratch"))
        apt = LocalApt(self.host, 5, 5, places)
        apt.lock_file = str(self.root / "lock-frontend")
        return Machine(
            host=self.host,
            apt=apt,
            store=Store(self.host, str(self.root / "debs"), str(self.root / "archives")),
            journals=CutJournals(self.host, str(self.root / "repin"), "/x/boot_id"),
            marker=Marker(self.host, str(self.root / "drained")),
            lock_timeout=5,
            status="/x/dpkg-status",
            root=str(self.root),
            check_mode=check_mode,
        )

    def do(self, action: str, check_mode: bool = False, **arguments: Any) -> dict[str, Any]:
        return perform(self.machine(check_mode), {"action": action, **arguments})

    def begin(self, **changes: Any) -> dict[str, Any]:
        arguments = {
            "id": "move-1",
            "stack": "new",
            "previous_stack": "old",
            "to": {
                "packages": NEW,
                "holds": sorted(NEW),
                "files": {str(self.file): {"content": "new\n", "mode": "0644"}},
            },
            "from_packages": sorted(OLD),
            "restore": [str(self.root / "etc" / "extra-*.conf")],
            "max_reboots": 4,
            **changes,
        }
        return self.do("begin", **arguments)

    def prepare(self, **changes: Any) -> None:
        """As a playbook does it, and does again after it was killed."""
        self.begin(**changes)
        self.do("fetch")
        self.do("drain", units=["firstlight-server.service"])

    def on(self, packages: Mapping[str, str], file: str, held: set[str]) -> bool:
        """Whether the host is exactly there."""
        expected = {
            **{name: (v, "installed", False) for name, v in packages.items()},
            "libc6": ("2.39", "installed", False),
        }
        return self.host.packages == expected and self.file.read_text() == file and self.host.held == held

    @property
    def on_old(self) -> bool:
        return self.on(OLD, "old\n", {"nvidia-utils-580"})

    @property
    def on_new(self) -> bool:
        return self.on(NEW, "new\n", set(NEW))

    def move(self, **request: Any) -> Outcome:
        defaults: dict[str, Any] = {"reboot_timeout": 60, "gate_timeout": 10, "unreachable_timeout": 30}
        return Mover(self, Request(**{**defaults, **request})).run()

    # -- hands --------------------------------------------------------------------------------------------------------

    def module(self, action: str, arguments: Mapping[str, Any]) -> dict[str, Any]:
        try:
            return self.do(action, **arguments)
        except CutError:
            self.after_cut()
            raise UnreachableError("the connection was lost") from None
        except PROBLEMS as error:
            raise RefusedError(str(error)) from error

    def after_cut(self) -> None:
        """What a cut means: the power goes, or the controller goes with its module, or the module alone."""
        self.host.cut_at = -1
        if self.cut_means == "power" or self.host.rebooting:
            self.host.power_up()
        if self.cut_means == "controller":
            raise KilledError

    def observe(self, desired: Mapping[str, Any]) -> dict[str, Any]:
        version, status, _ = self.host.packages.get(DRIVER, ("", "", False))
        installed = version.partition("-")[0] if status == "installed" else None
        return {
            "driver": {
                "installed": installed,
                "loaded": self.host.loaded,
                "library": installed,
                "flavour": "open",
                "nouveau": False,
                "mig": {"current": False, "pending": False},
                "reboot_required": installed is not None and installed != self.host.loaded,
                "error": None if installed == self.host.loaded else "mismatch",
            },
            "sysctl": {"gate": "bad" if installed in self.host.broken_gates else "good"},
            "gpu_health": {"checks": [self._links("fail" if installed in self.host.broken_gates else "pass")]},
            "cdi": {path: self._described() for path in (desired.get("runtime") or {}).get("cdi") or {}},
            "facts": {},
            "errors": {},
        }

    def _links(self, verdict: str) -> dict[str, Any]:
        wrong = verdict == "fail"
        return {
            "id": "nvlink.links",
            "verdict": verdict,
            "expected": "18 links",
            "observed": "17 links" if wrong else "18 links",
            "remedy": "reseat it" if wrong else "",
            "command": None,
        }

    def _described(self) -> dict[str, Any]:
        right = self.described == self.host.loaded
        wrong = {} if right else {"driver": [self.host.loaded, self.described]}
        return {"exists": True, "waiting": None, "wrong": wrong}

    def repair(self, module: str, arguments: Mapping[str, Any]) -> None:
        self.fixed.append((module, dict(arguments)))
        if module == self.cannot_mend:
            raise RefusedError("no")
        self.described = self.host.loaded

    def boot_id(self) -> str:
        if self.host.rebooting:
            self.host.power_up()
            raise UnreachableError("going down")
        return self.host.boot

    def say(self, words: str) -> None:
        self.said.append(words)

    def now(self) -> float:
        return self.clock

    def sleep(self, seconds: float) -> None:
        self.clock += seconds


class KilledError(BaseException):
    """The controller is gone."""


@pytest.fixture
def bench(tmp_path: Path) -> Bench:
    return Bench(tmp_path)


@pytest.fixture
def new_bench(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> Callable[[], Bench]:
    """For tests that need many. A cut loses nothing that was written, synchronized or not: nobody waits for a disk."""
    monkeypatch.setattr(os, "fsync", lambda _: None)
    directory, numbers = tmp_path_factory.mktemp("benches"), itertools.count()
    return lambda: Bench(directory / str(next(numbers)))


@pytest.fixture
def killed() -> type[BaseException]:
    return KilledError


@pytest.fixture
def cut() -> type[BaseException]:
    return CutError


@pytest.fixture(autouse=True)
def no_sync(monkeypatch: pytest.MonkeyPatch) -> None:
    """The test's machine need not wait for its disk."""
    monkeypatch.setattr(os, "sync", lambda: None)
    monkeypatch.setattr(os, "fsync", lambda _descriptor: None)
