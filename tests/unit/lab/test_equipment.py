# SPDX-License-Identifier: Apache-2.0
"""The programs that run on the lab's nodes."""

from __future__ import annotations

import json
import os
import re
import runpy
import subprocess
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from firstlight_lab.images import EQUIPMENT, equipment

LIMITS = [{"type": "RLIMIT_MEMLOCK", "hard": 2**64 - 1, "soft": 2**64 - 1}]


@pytest.fixture
def runtime(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    """The OCI runtime in front of the real one, with the hand-over recorded."""
    source = tmp_path / "runc"
    source.write_text(equipment("runc"))
    program = SimpleNamespace(**runpy.run_path(str(source), run_name="runc"))
    handed: list[list[str]] = []
    monkeypatch.setattr("os.execv", lambda _, argv: handed.append(argv))
    program.handed = handed
    return program


@pytest.mark.parametrize("bundle", [["--bundle", "{}"], ["--bundle={}"], ["-b", "{}"]])
def test_a_container_is_made_without_limits_and_is_otherwise_as_asked(
    runtime: Any, tmp_path: Path, bundle: list[str]
) -> None:
    config = {"process": {"args": ["ray"], "rlimits": LIMITS}, "root": {"path": "rootfs"}}
    (tmp_path / "config.json").write_text(json.dumps(config))
    argv = ["--root", "/run/runc", "create", *(word.format(tmp_path) for word in bundle), "name"]
    runtime.main(argv)
    assert json.loads((tmp_path / "config.json").read_text()) == {
        "process": {"args": ["ray"]},
        "root": {"path": "rootfs"},
    }
    assert runtime.handed == [["runc", *argv]]


def test_a_process_that_joins_a_container_has_no_limits_either(runtime: Any, tmp_path: Path) -> None:
    process = tmp_path / "process.json"
    process.write_text(json.dumps({"args": ["ray", "status"], "rlimits": LIMITS}))
    runtime.main(["exec", "--process", str(process), "name"])
    assert json.loads(process.read_text()) == {"args": ["ray", "status"]}


def test_a_container_of_a_node_with_a_slow_disk_reads_as_slowly(runtime: Any, tmp_path: Path) -> None:
    (tmp_path / "limits").write_text("254:0 20000000\n8:16 1000\n")
    runtime.main.__globals__["DISK"] = str(tmp_path / "limits")
    config = {"process": {"args": ["ray"]}, "linux": {"resources": {"memory": {"limit": 1}}}}
    (tmp_path / "config.json").write_text(json.dumps(config))
    runtime.main(["create", "--bundle", str(tmp_path), "name"])
    assert json.loads((tmp_path / "config.json").read_text())["linux"]["resources"] == {
        "memory": {"limit": 1},
        "blockIO": {
            "throttleReadBpsDevice": [
                {"major": 254, "minor": 0, "rate": 20_000_000},
                {"major": 8, "minor": 16, "rate": 1000},
            ]
        },
    }


def test_other_commands_are_handed_over_untouched(runtime: Any) -> None:
    runtime.main(["delete", "name"])
    assert runtime.handed == [["runc", "delete", "name"]]


class Swap:
    """The node's swapon and swapoff, with a list and a table of their own."""

    header = "Filename\t\t\t\tType\t\tSize\t\tUsed\t\tPriority\n"

    def __init__(self, directory: Path) -> None:
        self.list, self.area = directory / "swaps", directory / "swap.img"
        self.list.write_text(self.header)
        self.area.touch()
        (directory / "fstab").write_text(f"# areas\n/dev/vda / ext4 defaults 0 1\n{self.area} none swap sw 0 0\n")
        text = equipment("swapon")
        for real, own in (("/proc/swaps", self.list), ("/etc/fstab", directory / "fstab")):
            text = text.replace(real, str(own))
        for name in ("swapon", "swapoff"):
            (directory / name).write_text(text)
        self.directory = directory

    def run(self, program: str, *argv: str) -> int:
        return subprocess.run(["sh", self.directory / program, *argv], check=False, capture_output=True).returncode

    @property
    def areas(self) -> list[str]:
        text = self.list.read_text()
        assert text.startswith(self.header)
        return [line.split()[0] for line in text.splitlines()[1:]]


@pytest.fixture
def swap(tmp_path: Path) -> Swap:
    return Swap(tmp_path)


def test_a_node_has_the_swap_of_its_table(swap: Swap) -> None:
    for _ in range(2):
        assert swap.run("swapon", "-a") == 0
        assert swap.areas == [str(swap.area)]
    assert swap.run("swapoff", "-a") == 0
    assert swap.areas == []


def test_a_priority_is_the_nodes_own_too(swap: Swap) -> None:
    assert swap.run("swapon", "--priority", "5", str(swap.area)) == 0
    assert swap.list.read_text().split()[-5:] == [str(swap.area), "file", "1048572", "0", "5"]


def test_a_single_swap_area_comes_and_goes(swap: Swap) -> None:
    assert swap.run("swapon", str(swap.directory / "nowhere")) == 255
    assert swap.run("swapon", str(swap.area)) == 0
    assert swap.areas == [str(swap.area)]
    assert swap.run("swapoff", str(swap.directory / "nowhere")) == 4
    assert swap.run("swapoff", str(swap.area)) == 0
    assert swap.areas == []


@pytest.fixture
def reading() -> Any:
    """The program that limits how fast a node reads."""
    return SimpleNamespace(**runpy.run_path(str(EQUIPMENT / "disk.py"), run_name="disk"))


NODE = "f84e446a7a60"


def groups(root: Path, file: str, *names: str) -> list[Path]:
    files = [root / name / file for name in names]
    for one in files:
        one.parent.mkdir(parents=True, exist_ok=True)
        one.touch()
    return files


@pytest.mark.parametrize(("rate", "text"), [(20_000_000, "254:0 20000000"), (0, "254:0 0")])
def test_the_first_version_of_control_groups_hands_no_limit_down(
    reading: Any, tmp_path: Path, rate: int, text: str
) -> None:
    groups(tmp_path, "io.max", f"unified/docker/{NODE}")
    names = [f"blkio/docker/{NODE}", f"blkio/docker/{NODE}/docker/0a1b", "blkio/docker/ea33b774adb8", "blkio"]
    own = groups(tmp_path, "blkio.throttle.read_bps_device", *names)[:2]
    assert reading.limits(NODE, "254:0", rate, tmp_path) == dict.fromkeys(own, text)


@pytest.mark.parametrize(("rate", "text"), [(20_000_000, "254:0 rbps=20000000"), (0, "254:0 rbps=max")])
@pytest.mark.parametrize("name", [f"system.slice/docker-{NODE}.scope", f"docker/{NODE}"])
def test_the_second_version_has_one_limit_for_the_whole_node(
    reading: Any, tmp_path: Path, name: str, rate: int, text: str
) -> None:
    own, *_ = groups(tmp_path, "io.max", name, f"{name}/init.scope", f"{name}/docker/0a1b", "docker/ea33b774adb8")
    assert reading.limits(NODE, "254:0", rate, tmp_path) == {own: text}


def test_the_limit_is_for_the_disk_that_the_nodes_are_on(reading: Any, tmp_path: Path) -> None:
    number = tmp_path.stat().st_dev
    name = f"{os.major(number)}:{os.minor(number)}"
    with pytest.raises(SystemExit, match=rf"\(device {name}\) that is not on one disk, expected one such as ext4"):
        reading.disk(str(tmp_path), tmp_path)
    (tmp_path / "sda/sda1").mkdir(parents=True)
    (tmp_path / name).symlink_to("sda/sda1")
    assert reading.disk(str(tmp_path), tmp_path) == name
    (tmp_path / "sda/sda1/partition").write_text("1\n")
    (tmp_path / "sda/dev").write_text("8:0\n")
    assert reading.disk(str(tmp_path), tmp_path) == "8:0"


@pytest.fixture
def kernel(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    """The node's dmesg, with the hand-over to the real one recorded."""
    source = tmp_path / "dmesg"
    source.write_text(equipment("dmesg"))
    program = SimpleNamespace(**runpy.run_path(str(source), run_name="dmesg"))
    program.handed = []

    def hand_over(path: str, argv: list[str]) -> None:
        text = Path(argv[2]).read_text() if "--file" in argv else ""
        program.handed.append((path, argv[3:] if text else argv, text))

    monkeypatch.setattr("os.execv", hand_over)
    return program


def test_the_real_dmesg_shows_the_log_of_the_node(kernel: Any) -> None:
    kernel.dmesg(["-T", "--level=err"])
    ((path, argv, text),) = kernel.handed
    assert (path, argv) == ("/usr/bin/dmesg.kernel", ["-T", "--level=err"])
    assert re.match(r"<5>\[ *\d+\.\d{6}\] Linux version ", text)


@pytest.mark.parametrize(
    ("form", "line"),
    [
        ("short", r"\w{3} \d\d [\d:]{8} \S+ kernel: Linux version"),
        ("short-iso", r"\d{4}-\d\d-\d\dT[\d:]{8}[+-]\d{4} \S+ kernel: Linux version"),
        ("short-monotonic", r"\[ *\d+\.\d{6}\] \S+ kernel: Linux version"),
        ("cat", r"Linux version"),
        ("json", r'\{"__REALTIME_TIMESTAMP": "\d{16}", "PRIORITY": "5", "_TRANSPORT": "kernel"'),
    ],
)
def test_the_journal_of_the_kernel_has_the_usual_forms(
    kernel: Any, capsys: pytest.CaptureFixture[str], form: str, line: str
) -> None:
    kernel.journal(["--dmesg", "--boot", "--no-pager", "--quiet", f"--output={form}"])
    printed = capsys.readouterr().out.splitlines()
    assert len(printed) == 2
    assert re.match(line, printed[0])


def test_the_journal_of_the_kernel_can_be_searched(kernel: Any, capsys: pytest.CaptureFixture[str]) -> None:
    for words in (["-k", "-n", "1"], ["-k", "-g", "Command line"], ["-k", "-S", "@0", "-b", "0", "-g", "Command"]):
        kernel.journal(words)
        assert capsys.readouterr().out.count("\n") == 1
    kernel.journal(["-k", "--since", "2099-01-01"])
    assert capsys.readouterr().out == "-- No entries --\n"
    kernel.journal(["-k", "-q", "--since=2099-01-01"])
    assert capsys.readouterr().out == ""
    for words, message in ((["-k", "--vacuum-time=1s"], "does not know"), (["-k", "-S", "soon"], "Failed to parse")):
        with pytest.raises(SystemExit, match=message):
            kernel.journal(words)


def test_the_rest_of_the_journal_is_real(kernel: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.argv", ["/usr/bin/journalctl", "-u", "ssh", "-n", "5"])
    kernel.main()
    assert kernel.handed == [("/usr/bin/journalctl.real", ["journalctl", "-u", "ssh", "-n", "5"], "")]
