# SPDX-License-Identifier: Apache-2.0
"""The progress callback in real runs of ansible-playbook: in a log, on a terminal, failing, secret."""

from __future__ import annotations

import json
import os
import pty
import re
import select
import signal
import struct
import subprocess
import sys
import termios
import time
from collections.abc import Callable, Mapping
from fcntl import ioctl
from pathlib import Path
from typing import Any

import ansible_collections.firstlight.cluster.plugins.callback.progress as callback
import pytest
import yaml

from tests.unit.ansible_runs import run_playbook
from tests.unit.hostile import ESCAPES

pytestmark = pytest.mark.slow  # a run of Ansible each

CALLBACK = "firstlight.cluster.progress"
# .../collections/ansible_collections/firstlight/cluster/plugins/callback/progress.py
COLLECTIONS = Path(callback.__file__).parents[5]
SECRET = "hunter2-never-shown"

Play = dict[str, Any]


def play(name: str, *tasks: dict[str, Any], **keywords: Any) -> Play:
    return {"name": name, "hosts": "cluster", "gather_facts": False, "tasks": list(tasks), **keywords}


def debug(message: Any, **keywords: Any) -> dict[str, Any]:
    return {"name": "Say", "ansible.builtin.debug": {"msg": message}, **keywords}


def stat_task(name: str, **keywords: Any) -> dict[str, Any]:
    """A task that runs on the controller and needs no module on the host: fast."""
    return {"name": name, "ansible.builtin.set_fact": {"seen": True}, **keywords}


class Site:
    """A directory with an inventory of two hosts on this machine and one address where nobody listens."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        local = {"ansible_connection": "local", "ansible_python_interpreter": sys.executable}
        silent = {
            "ansible_host": "127.0.0.1",
            "ansible_port": 1,
            "ansible_user": "operator",
            "ansible_ssh_private_key_file": "{{ inventory_dir }}/key",
            "ansible_become_password": SECRET,
        }
        inventory = {
            "cluster": {"hosts": {"spark0": local, "spark1": local}},
            "silent": {"hosts": {"spark9": silent}},
        }
        (directory / "hosts.yml").write_text(yaml.safe_dump(inventory))
        # Runs with the same settings share the start of an Ansible: what differs from test to test is elsewhere.
        shared = directory.parent
        (shared / "ansible.cfg").write_text("[defaults]\n")
        self.settings = {
            "LC_ALL": "C.UTF-8",
            "TERM": "xterm",
            "ANSIBLE_CONFIG": str(shared / "ansible.cfg"),
            "ANSIBLE_COLLECTIONS_PATH": str(COLLECTIONS),
            "ANSIBLE_STDOUT_CALLBACK": CALLBACK,
            "ANSIBLE_LOCAL_TEMP": str(shared / "local"),
            "ANSIBLE_REMOTE_TEMP": str(shared / "remote"),
            "ANSIBLE_SSH_RETRIES": "0",
        }
        self.environment = {"PATH": os.environ["PATH"], "HOME": str(directory), **self.settings}

    def words(self, *plays: Play) -> list[str]:
        (self.directory / "site.yml").write_text(yaml.safe_dump(list(plays), sort_keys=False))
        return ["-i", "hosts.yml", "site.yml"]

    def run(
        self,
        *plays: Play,
        arguments: tuple[str, ...] = (),
        settings: Mapping[str, str] | None = None,
        **environment: str,
    ) -> subprocess.CompletedProcess[str]:
        """Run without a terminal, as a log or a CI job sees it."""
        return run_playbook(
            *self.words(*plays),
            *arguments,
            environment={"HOME": str(self.directory), **environment},
            settings={**self.settings, **(settings or {})},
            cwd=self.directory,
        )

    def run_on_terminal(
        self,
        *plays: Play,
        columns: int = 60,
        during: Callable[[str, subprocess.Popen[bytes]], None] | None = None,
        **environment: str,
    ) -> str:
        """Run on a terminal of so many columns and give everything it received."""
        control, terminal = pty.openpty()
        ioctl(terminal, termios.TIOCSWINSZ, struct.pack("HHHH", 24, columns, 0, 0))
        process = subprocess.Popen(
            [str(Path(sys.executable).with_name("ansible-playbook")), *self.words(*plays)],
            cwd=self.directory,
            env={**self.environment, **environment},
            stdin=terminal,
            stdout=terminal,
            stderr=terminal,
        )
        os.close(terminal)
        received = b""
        deadline = time.monotonic() + 100
        while time.monotonic() < deadline:
            if select.select([control], [], [], 0.1)[0]:
                try:
                    block = os.read(control, 65536)
                except OSError:  # Linux says EIO when the last writer of a terminal is gone
                    break
                if not block:
                    break
                received += block
            if during is not None:
                during(received.decode(errors="replace"), process)
        os.close(control)
        process.wait(timeout=30)
        return received.decode()


def screen(received: str) -> list[str]:
    """What is left to read on a terminal: carriage return and erase-line carried out, colours removed."""
    lines = [""]
    plain = re.sub(r"\x1b\[[0-9;]*m", "", received).replace("\r\n", "\n")
    for token in re.split(r"(\n|\r\x1b\[K)", plain):
        if token == "\n":
            lines.append("")
        elif token == "\r\x1b[K":
            lines[-1] = ""
        else:
            lines[-1] += token
    return lines


@pytest.fixture
def site(tmp_path: Path) -> Site:
    return Site(tmp_path)


def test_a_log_has_phases_changes_messages_recap_and_no_escape_codes(site: Site, tmp_path: Path) -> None:
    done = site.run(
        play(
            "Plan",
            debug(["Two hosts.", "One rail."], run_once=True),
            stat_task("Nothing to do"),
            stat_task("Not for anybody", when=False),
        ),
        play("Fabric", stat_task("Write the {{ 'netplan' }} file", changed_when=True)),
        FIRSTLIGHT_TIMINGS=str(tmp_path / "timings.json"),
    )
    assert done.returncode == 0, done.stderr
    lines = done.stdout.splitlines()
    assert lines[:3] == ["==> Plan  (1/2)", "  spark0  Two hosts.", "  spark0  One rail."]
    assert re.fullmatch(r"    Plan done in [\d.]+ s, 0 changed", lines[3])
    assert lines[4] == "==> Fabric  (2/2)"
    assert sorted(lines[5:7]) == [f"  spark{n}  changed  Write the netplan file" for n in range(2)]
    assert re.fullmatch(r"    Fabric done in [\d.]+ s, 2 changed", lines[7])
    assert "spark1 : ok=2 changed=1 unreachable=0 failed=0 skipped=1 rescued=0 ignored=0" in lines
    assert any(re.fullmatch(r"Fabric +[\d.]+ s +\d+ % +2", line) for line in lines)
    assert "Slowest tasks" in lines
    assert "\x1b" not in done.stdout
    assert "\r" not in done.stdout

    timings = json.loads((tmp_path / "timings.json").read_text())
    assert [(phase["name"], phase["changed"]) for phase in timings["phases"]] == [("Plan", 0), ("Fabric", 2)]
    assert 0 < sum(phase["seconds"] for phase in timings["phases"]) <= timings["total_seconds"]
    assert timings["hosts"]["spark0"]["changed"] == 1


def test_a_log_gets_a_sign_of_life_with_the_tries(site: Site) -> None:
    waiting = {
        "name": "Wait for the answer",
        "ansible.builtin.assert": {"that": "false", "fail_msg": "Nothing answered on port 8000."},
        "register": "answer",
        "until": "answer is success",
        "retries": 2,
        "delay": 1,
    }
    done = site.run(play("Gate", waiting), FIRSTLIGHT_PROGRESS_HEARTBEAT="0.5")
    assert done.returncode == 2
    pattern = r"  \.{3} still waiting after \d s: Gate: Wait for the answer on spark0, spark1 \(try \d of 3\)"
    assert re.search(pattern, done.stdout)
    assert "FAILED  spark0, spark1: Wait for the answer\n    Nothing answered on port 8000.\n" in done.stdout


def test_check_mode_and_diff(site: Site, tmp_path: Path) -> None:
    target = tmp_path / "file"
    target.write_text("mtu 1500\n")
    copy = {
        "name": "Write the file",
        "ansible.builtin.copy": {"content": "mtu 9000\n", "dest": str(target), "mode": "0644"},
        "run_once": True,
    }
    done = site.run(play("Fabric", copy), arguments=("--check", "--diff"))
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith("Check mode: nothing is changed")
    assert "==> Fabric  (check mode)" in done.stdout
    assert "  spark0  diff  Write the file\n" in done.stdout
    assert "-mtu 1500\n+mtu 9000\n" in done.stdout
    assert "  spark0  would change  Write the file\n" in done.stdout
    assert target.read_text() == "mtu 1500\n"


HOSTILE_MODULE = """#!/usr/bin/python
import json
ESCAPES = {escapes!r}
print(json.dumps({{
    "changed": True,
    "failed": {failed!r},
    "msg": "msg " + ESCAPES + "over" + "\\nx" * 5000,
    "warnings": ["warning " + ESCAPES + "over"],
    "deprecations": [{{"msg": "deprecation " + ESCAPES + "over", "version": "9"}}],
    "diff": [{{"before": "before " + ESCAPES + "over", "after": "after " + ESCAPES + "over", "after_header": ESCAPES}}],
}}))
"""


@pytest.mark.hostile
@pytest.mark.parametrize("failed", [False, True])
def test_a_host_says_nothing_that_a_terminal_obeys(site: Site, tmp_path: Path, failed: bool) -> None:
    (tmp_path / "library").mkdir()
    (tmp_path / "library" / "hostile.py").write_text(HOSTILE_MODULE.format(escapes=ESCAPES, failed=failed))
    task = {"name": "Ask", "hostile": {}, "register": "said", "run_once": True}
    tell = debug("{{ said.msg }}", run_once=True)
    done = site.run(play("Look", task, tell), arguments=("--diff", "-v"), settings={"ANSIBLE_FORCE_COLOR": "true"})
    plain = re.sub(r"\x1b\[[0-9;]*m", "", done.stdout + done.stderr)
    assert not set(plain) & set(map(chr, [*range(10), *range(11, 32), *range(127, 160)]))
    assert len(plain.splitlines()) < (400 if failed else 6000)
    words = ["msg", "warning"] if failed else ["msg", "warning", "deprecation", "-before", "+after"]
    assert [word for word in words if f"{word} 31m\n" not in plain] == []


def test_failures_are_one_block_and_secrets_stay_secret(site: Site) -> None:
    fail = {"ansible.builtin.fail": {"msg": "Found {{ item }}.\nExpected 9000.\nDo: set the switch."}}
    secret = {"ansible.builtin.fail": {"msg": SECRET}}
    done = site.run(
        play(
            "Fabric",
            {"name": "Hand over the key", **secret, "no_log": True, "ignore_errors": True, "run_once": True},
            {
                "name": "Hand over the keys",
                **secret,
                "no_log": True,
                "ignore_errors": True,
                "run_once": True,
                "loop": [SECRET],
            },
            {"name": "Verify jumbo frames", **fail, "loop": ["1500", "9000"], "failed_when": "item == '1500'"},
        ),
        play("Never", debug("not reached")),
        FIRSTLIGHT_PROGRESS_HEARTBEAT="0",
    )
    assert done.returncode == 2
    assert "  spark0  failed, ignored  Hand over the key: The message is hidden" in done.stdout
    block = (
        "\nFAILED  spark0, spark1: Verify jumbo frames\n"
        "    1500: Found 1500.\n"
        "      Expected 9000.\n"
        "      Do: set the switch.\n"
        "    at site.yml:"
    )
    assert block in done.stdout
    assert "not reached" not in done.stdout
    assert re.search(r"\nFailed in Fabric: Verify jumbo frames on spark0, spark1\n$", done.stdout)
    assert SECRET not in done.stdout + done.stderr


def test_a_silent_host_is_told_with_reason_and_remedy(site: Site, tmp_path: Path) -> None:
    ping = {"name": "Read the host", "ansible.builtin.raw": "true"}
    done = site.run(play("Observe", ping, hosts="silent"))
    assert done.returncode == 4
    assert "UNREACHABLE  spark9 does not answer SSH\n    Reason: " in done.stdout
    assert "ssh: connect to host 127.0.0.1 port 1: Connection refused" in done.stdout
    assert (
        f"    Do: check its power and cable, then try: ssh -i {tmp_path}/key -p 1 operator@127.0.0.1\n" in done.stdout
    )
    assert "    Task to run: Observe: Read the host\n" in done.stdout
    assert "spark9 : ok=0 changed=0 unreachable=1 failed=0" in done.stdout
    assert SECRET not in done.stdout + done.stderr


def test_rescued_failures_and_verbosity(site: Site) -> None:
    block = {
        "block": [{"name": "Try", "ansible.builtin.fail": {"msg": "no"}}],
        "rescue": [stat_task("Recover")],
    }
    done = site.run(play("Fabric", block, hosts="spark0"), arguments=("-v",))
    assert done.returncode == 0
    assert "FAILED  spark0: Try\n    no\n" in done.stdout
    assert "  spark0  ok  Recover\n" in done.stdout
    assert "rescued=1" in done.stdout
    assert "Failed in" not in done.stdout


def test_a_play_without_hosts_and_an_unwritable_record(site: Site, tmp_path: Path) -> None:
    idle = play("Idle", debug("x"), hosts="{{ [] }}")
    done = site.run(
        idle, play("Nobody", debug("x"), hosts="nobody"), FIRSTLIGHT_TIMINGS=str(tmp_path / "absent" / "t.json")
    )
    assert done.returncode == 0
    assert "==> Nobody  (2/2)\n    No host of the inventory belongs to this phase.\n" in done.stdout
    assert "Idle" not in done.stdout
    assert "No host took part." in done.stdout
    assert "The timings were not written" in done.stderr


@pytest.mark.parametrize("argument", ["--list-tasks", "--syntax-check"])
def test_listings_are_left_alone(site: Site, argument: str) -> None:
    done = site.run(play("Fabric", debug("x")), arguments=(argument,))
    assert done.returncode == 0, done.stderr
    assert "==>" not in done.stdout
    assert "playbook: site.yml" in done.stdout


SLOW = {"name": "Verify jumbo frames", "ansible.builtin.wait_for": {"timeout": 2}}


def test_a_terminal_has_a_live_line_that_leaves_no_trace(site: Site) -> None:
    received = site.run_on_terminal(
        play(
            "Fabric",
            SLOW,
            stat_task("Warn", register="serial"),
            stat_task("Write the file", changed_when=True),
        ),
        columns=58,
    )
    drawn = re.findall(r"\r\x1b\[K([^\r\n\x1b]+)", received)
    live = [text for text in drawn if text[2:].startswith("Fabric 00:")]
    assert any(re.search(r"spark0, spark1: Verify jumbo frames \(\d+ s\)", text) for text in live)
    assert all(len(text) <= 57 for text in live)
    left = screen(received)
    assert not [line for line in left if "Verify jumbo frames (" in line and not line.startswith("  ")]
    assert "==> Fabric" in left
    assert sorted(line for line in left if "  changed  " in line) == [
        "  spark0  changed  Write the file",
        "  spark1  changed  Write the file",
    ]
    assert "spark0 : ok=3 changed=1" in "\n".join(left)
    assert any(line.startswith("[WARNING]: ") for line in left)
    assert "\x1b[0;33m" in received  # colours, because it is a terminal


def test_a_terminal_without_colours_and_without_a_live_line(site: Site) -> None:
    received = site.run_on_terminal(
        play("Fabric", SLOW),
        ANSIBLE_NOCOLOR="1",
        FIRSTLIGHT_PROGRESS_LIVE="no",
        FIRSTLIGHT_PROGRESS_HEARTBEAT="1",
    )
    assert "\x1b" not in received
    assert "  ... still waiting after 1 s: Fabric: Verify jumbo frames on spark0, spark1" in received


def test_an_interrupted_run_ends_at_once_and_leaves_a_clean_line(site: Site) -> None:
    sent: list[int] = []

    def interrupt(received: str, process: subprocess.Popen[bytes]) -> None:
        if not sent and "Verify jumbo frames (1 s)" in received:
            process.send_signal(signal.SIGINT)
            sent.append(signal.SIGINT)

    slow = {**SLOW, "ansible.builtin.wait_for": {"timeout": 600}}
    received = site.run_on_terminal(play("Fabric", slow), during=interrupt)
    assert sent
    assert not [line for line in screen(received) if "Verify jumbo frames (" in line]


def test_the_documentation_is_found(site: Site) -> None:
    done = subprocess.run(
        [str(Path(sys.executable).parent / "ansible-doc"), "--json", "-t", "callback", CALLBACK],
        env=site.environment,
        cwd=site.directory,
        capture_output=True,
        text=True,
        check=True,
    )
    options = json.loads(done.stdout)[CALLBACK]["doc"]["options"]
    assert options["heartbeat"]["env"] == [{"name": "FIRSTLIGHT_PROGRESS_HEARTBEAT"}]
    assert options["timings_path"]["env"] == [{"name": "FIRSTLIGHT_TIMINGS"}]
