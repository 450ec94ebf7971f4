# SPDX-License-Identifier: Apache-2.0
"""A host below a directory: its files are real, systemd, logind, apt and swap are played. It can be cut off."""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml
from ansible_collections.firstlight.cluster.plugins.module_utils.host import Result
from ansible_collections.firstlight.cluster.plugins.module_utils.observe.probes import observe
from ansible_collections.firstlight.cluster.plugins.module_utils.tuning.converge import HostSettings
from ansible_collections.firstlight.cluster.plugins.module_utils.tuning.files import LOGIND_FILE, SYSTEM_FILE
from ansible_collections.firstlight.cluster.plugins.module_utils.tuning.tree import Tree
from ansible_collections.firstlight.cluster.plugins.plugin_utils.comparison.differences import differences
from ansible_collections.firstlight.cluster.plugins.plugin_utils.plan.states import desired_state

from tests.unit.fake_host import Call, FakeHost, Reply

ROLE = Path(__file__).parents[5] / "roles" / "host_tuning" / "defaults" / "main.yml"
ETC = "etc/systemd/system"
LEDGER = "/var/lib/firstlight/host_tuning/ledger.json"
VENDOR = {
    "gdm.service", "apt-daily.timer", "apt-daily-upgrade.timer", "unattended-upgrades.service", "swap.target",
    "systemd-logind.service", "ssh.service",
}  # fmt: skip
PACKAGES = {
    "earlyoom": ("earlyoom.service", "etc/default/earlyoom"),
    "systemd-timesyncd": ("systemd-timesyncd.service", None),
    "chrony": ("chrony.service", None),
}


class CutError(BaseException):
    """The process ends here and now; nothing may catch it."""


class Machine(FakeHost):
    """The host. `budget` is how many more changes it lives to make."""

    def __init__(self, root: Path) -> None:
        super().__init__()
        self.free = 1
        self.root = root
        self.units = set(VENDOR)
        self.active: set[str] = {"swap.target", "systemd-logind.service", "ssh.service"}
        self.packages: set[str] = set()
        self.unoffered: set[str] = set()
        self.offline = False
        self.accounts = {"rank"}
        self.moves: list[str] = []
        self.synchronized = False
        self.memlock, self.remove_ipc = "8388608", "yes"
        self.budget: int | None = None
        self.did: list[str] = []
        for folder in (
            ETC,
            "proc/sys/vm",
            "proc/sys/kernel",
            "proc/sys/net/ipv4",
            "sys/devices/system/cpu/cpufreq",
            "var/lib/systemd/linger",
        ):
            (root / folder).mkdir(parents=True)
        self.write("etc/passwd", "root:x:0:0::/root:/bin/bash\nrank:x:1000:1000::/home/rank:/bin/bash\n")
        self.write("proc/swaps", "Filename\tType\tSize\tUsed\tPriority\n")
        self.write("proc/sys/vm/swappiness", "60\n")
        self.write("proc/sys/net/ipv4/ip_unprivileged_port_start", "0\n")

    # --- files -----------------------------------------------------------------------------------------------------

    def place(self, path: str) -> Path:
        return self.root / path.lstrip("/")

    def write(self, path: str, text: str) -> None:
        self.place(path).parent.mkdir(parents=True, exist_ok=True)
        self.place(path).write_text(text, encoding="utf-8")

    def link(self, path: str, target: str) -> None:
        self.place(path).parent.mkdir(parents=True, exist_ok=True)
        self.place(path).symlink_to(target)

    def read_text(self, path: str) -> str | None:
        return super().read_text(str(self.place(path)))

    def names(self, path: str) -> list[str]:
        return super().names(str(self.place(path)))

    def file_state(self, path: str) -> dict[str, Any]:
        return super().file_state(str(self.place(path)))

    def everything(self) -> dict[str, Any]:
        """All that a run may change, in plain words."""
        found: dict[str, Any] = {"active": sorted(self.active), "packages": sorted(self.packages)}
        found |= {"memlock": self.memlock, "remove_ipc": self.remove_ipc, "units": sorted(self.units)}
        for path in sorted(self.root.rglob("*")):
            name = str(path.relative_to(self.root))
            if path.is_symlink():
                found[name] = f"-> {os.readlink(path)}"
            elif path.is_dir():
                found[name] = f"directory {path.stat().st_mode:o}"
            else:
                found[name] = (path.read_bytes(), oct(path.stat().st_mode))
        return found

    def spend(self) -> None:
        """Every change asks first; the last one is not done."""
        if self.budget is not None:
            self.budget -= 1
            if self.budget < 0:
                raise CutError

    # --- commands --------------------------------------------------------------------------------------------------

    def answer(self, call: Call) -> Reply:
        ignored = ("--", "--no-ask-password", "--yes", "--no-install-recommends")
        words = [word for word in call.argv if word not in ignored]
        play: dict[str, Callable[[list[str]], tuple[int, str]]] = {
            "systemctl": self.systemctl,
            "loginctl": self.loginctl,
            "apt-get": self.apt_get,
            "dpkg-query": lambda rest: (0, "".join(f"{n}\tinstalled\t1\n" for n in rest[2:] if n in self.packages)),
            "getent": lambda rest: (0 if rest[1] in self.accounts else 2, ""),
            "userdel": self.userdel,
            "journalctl": lambda _: (0, "config.json: unknown key\nexit 2\n"),
            "swapon": lambda rest: self.swap(rest, on=True),
            "swapoff": lambda rest: self.swap(rest, on=False),
            "timedatectl": lambda _: (0, f"NTPSynchronized={'yes' if self.synchronized else 'no'}\n"),
            "chronyc": lambda _: (1, "506 Cannot talk to daemon\n"),
        }
        self.did.append(" ".join(words))
        rc, out = play[words[0]](words[1:])
        return Result((), rc, out)

    def systemctl(self, words: list[str]) -> tuple[int, str]:
        verb, names = words[0], [word for word in words[1:] if not word.startswith("-")]
        if verb == "show":
            return 0, "\n\n".join(self.show(name) for name in names) or f"DefaultLimitMEMLOCK={self.memlock}\n"
        if verb == "get-default":
            link = self.place(f"{ETC}/default.target")
            return 0, f"{os.path.basename(os.readlink(link)) if link.is_symlink() else 'graphical.target'}\n"
        self.spend()
        if verb == "set-default":
            self.place(f"{ETC}/default.target").unlink(missing_ok=True)
            self.link(f"{ETC}/default.target", f"/lib/systemd/system/{names[0]}")
        elif verb == "daemon-reexec":
            self.memlock = "infinity" if self.place(SYSTEM_FILE).exists() else "8388608"
        elif verb == "kill":
            self.remove_ipc = "no" if self.place(LOGIND_FILE).exists() else "yes"
        elif verb in ("start", "stop"):
            return self.start_stop(verb, names[0])
        elif verb in ("enable", "disable"):
            self.enable(names[0], verb == "enable")
        elif verb == "mask":
            self.place(f"{ETC}/{names[0]}").unlink(missing_ok=True)
            self.link(f"{ETC}/{names[0]}", "/dev/null")
        elif verb == "unmask":
            self.place(f"{ETC}/{names[0]}").unlink()
        return 0, ""

    def is_known(self, name: str) -> bool:
        return name in self.units or self.place(f"{ETC}/{name}").is_file()

    def is_masked(self, name: str) -> bool:
        path = self.place(f"{ETC}/{name}")
        return path.is_symlink() and os.readlink(path) == "/dev/null"

    def wants(self, name: str) -> list[Path]:
        return [path for folder in self.place(ETC).glob("*.wants") if (path := folder / name).is_symlink()]

    def show(self, name: str) -> str:
        load = "masked" if self.is_masked(name) else "loaded" if self.is_known(name) else "not-found"
        enabled = "enabled" if self.wants(name) and load == "loaded" else "disabled"
        active = "active" if name in self.active else "inactive"
        return f"Id={name}\nNames={name}\nLoadState={load}\nUnitFileState={enabled}\nActiveState={active}\nSubState=x\n"

    def start_stop(self, verb: str, name: str) -> tuple[int, str]:
        if self.is_masked(name) and verb == "start":
            return 1, f"Failed to start {name}: Unit {name} is masked."
        (self.active.add if verb == "start" else self.active.discard)(name)
        return 0, ""

    def enable(self, name: str, enabled: bool) -> None:
        scripts = [
            path for level in range(7) for path in self.place(f"etc/rc{level}.d").glob(f"?01{name.partition('.')[0]}")
        ]
        for path in scripts:
            path.rename(path.with_name(("S" if enabled else "K") + path.name[1:]))
        if enabled and not self.wants(name):
            self.link(f"{ETC}/multi-user.target.wants/{name}", f"/lib/systemd/system/{name}")
        if not enabled:
            aliases = [
                path
                for path in self.place(ETC).iterdir()
                if path.is_symlink() and os.readlink(path).endswith(f"/{name}")
            ]
            for path in [*self.wants(name), *aliases]:
                path.unlink()
                if path.parent.name.endswith(".wants") and not any(path.parent.iterdir()):
                    path.parent.rmdir()

    def loginctl(self, words: list[str]) -> tuple[int, str]:
        if words[0] == "show-session":
            return 0, f"RemoveIPC={self.remove_ipc}\nKillUserProcesses=no\n"
        if words[1] not in self.accounts:
            return 1, f"Failed to look up user {words[1]}: No such process\n"
        self.spend()
        path = self.place(f"var/lib/systemd/linger/{words[1]}")
        (path.touch if words[0] == "enable-linger" else path.unlink)()
        return 0, ""

    def apt_get(self, words: list[str]) -> tuple[int, str]:
        name = words[-1]
        if words[0] == "update":
            return (100, "E: Could not resolve 'mirror.example'\n") if self.offline else (0, "")
        if "--simulate" in words and words[0] == "install":
            moved = "".join(f"Inst {one} [1] (2 x [amd64])\n" for one in self.moves)
            return (
                (100, f"E: Unable to locate package {name}\n")
                if name in self.unoffered
                else (0, f"Inst {name} (1 x)\n{moved}")
            )
        if "--simulate" in words:
            return 0, f"Purg {name} [1]\n"
        self.spend()
        unit, conffile = PACKAGES[name]
        if words[0] == "install":
            self.packages.add(name)
            self.units.add(unit)
            # As dpkg, which leaves a link that leads nowhere alone; through one, this would write outside of the rack.
            if conffile and not os.path.lexists(self.place(conffile)):
                self.write(conffile, 'EARLYOOM_ARGS="-r 3600"\n')
            self.enable(unit, enabled=True)
            self.active.add(unit)
            if name == "systemd-timesyncd":
                with self.place("etc/passwd").open("a") as stream:
                    stream.write("systemd-timesync:x:997:997::/:/usr/sbin/nologin\n")
        else:
            self.packages.discard(name)
            self.units.discard(unit)
            self.active.discard(unit)
            self.enable(unit, enabled=False)
            if conffile:
                self.place(conffile).unlink(missing_ok=True)
        return 0, ""

    def userdel(self, words: list[str]) -> tuple[int, str]:
        self.spend()
        path = self.place("etc/passwd")
        kept = [line for line in path.read_text().splitlines(keepends=True) if not line.startswith(f"{words[0]}:")]
        path.write_text("".join(kept))
        return 0, ""

    def swap(self, words: list[str], on: bool) -> tuple[int, str]:
        self.spend()
        path = self.place("proc/swaps")
        lines = path.read_text().splitlines(keepends=True)
        priority = words[1] if words[0] == "--priority" else "-2"
        kept = [line for line in lines if line.split()[0] != words[-1]]
        path.write_text("".join([*kept, *([f"{words[-1]} file 1 0 {priority}\n"] if on else [])]))
        return 0, ""


class CutTree(Tree):
    """The files of the machine; each change of one is a change that the machine may not live to make."""

    def __init__(self, machine: Machine) -> None:
        super().__init__(str(machine.root))
        self.machine = machine

    def put(self, path: str, entry: dict[str, Any]) -> None:
        self.machine.spend()
        super().put(path, entry)

    def write_value(self, path: str, value: str) -> None:
        self.machine.spend()
        super().write_value(path, value)


class Rack:
    """Makes machines, and runs the module on them."""

    cut = CutError

    @staticmethod
    def wanted(**changes: Any) -> dict[str, Any]:
        """The role's own defaults with everything on, but for a clock that only a time server can set."""
        variables = yaml.safe_load(ROLE.read_text(encoding="utf-8"))
        variables |= {"host_tuning_oom_guard": True, "host_tuning_swap": "off", "host_tuning_linger_users": ["rank"]}
        return desired_state("host_tuning", {**variables, "host_tuning_time_synchronized": False, **changes})

    @property
    def nothing(self) -> dict[str, Any]:
        """The state of a host that was given back."""
        return self.wanted(host_tuning_state="absent")

    @staticmethod
    def pending(machine: Machine, state: dict[str, Any]) -> list[dict[str, Any]]:
        return differences(state, observe(machine, {"x": state}))

    def __init__(self, folder: str) -> None:
        self.folder = folder

    def machine(self) -> Machine:
        return Machine(Path(tempfile.mkdtemp(dir=self.folder)))

    def settings(self, machine: Machine) -> HostSettings:
        return HostSettings(machine, LEDGER, CutTree(machine), pause=lambda _: None)

    def present(self, machine: Machine, desired: dict[str, Any], check: bool = False) -> dict[str, Any]:
        return self.settings(machine).present(desired, check)

    def absent(self, machine: Machine, check: bool = False) -> dict[str, Any]:
        return self.settings(machine).absent(check)


@pytest.fixture(scope="session")
def rack() -> Iterator[Rack]:
    folder = tempfile.mkdtemp()
    yield Rack(folder)
    shutil.rmtree(folder)
