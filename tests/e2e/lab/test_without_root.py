# SPDX-License-Identifier: Apache-2.0
"""A user who is not root and has a Docker: the lab builds its file systems in that Docker and starts.

The engine and the user are this test's own. The inference image is taken over from earlier tests, where it is there:
it is made in the same way and takes minutes.
"""

from __future__ import annotations

import contextlib
import os
import pwd
import shutil
import subprocess
import tempfile
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from firstlight_lab.cache import default_root
from firstlight_lab.engine import STATE, is_current
from firstlight_lab.host import engine_leftovers
from tests.e2e.support import CHECKOUT

USER = "firstlight-guest"
TAKEN_OVER = (STATE, "registry", "hub")
WITHHELD = (
    "VIRTUAL_ENV",
    "PYTHONPATH",
    "PYTHON",
    "FIRSTLIGHT_LAB",
    "XDG_CACHE_HOME",
    "XDG_CONFIG_HOME",
    "XDG_RUNTIME_DIR",
)


@dataclass(frozen=True)
class Guest:
    """Somebody with a home, a checkout in it and a Docker."""

    home: Path

    @property
    def checkout(self) -> Path:
        return self.home / "firstlight"

    @property
    def cache(self) -> Path:
        return self.home / ".cache" / "firstlight"

    @property
    def env(self) -> dict[str, str]:
        """Root's settings of package indexes and proxies, and nothing that leads into root's home."""
        env = {name: value for name, value in os.environ.items() if name not in WITHHELD}
        mine = {"HOME": str(self.home), "USER": USER, "LOGNAME": USER, "FIRSTLIGHT_CACHE": str(self.cache)}
        path = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
        return {**env, **mine, "PATH": path, "DOCKER_HOST": f"unix://{self.home}/docker.sock"}

    def run(self, command: str, timeout: float = 600) -> str:
        """Run a command as this user; it must succeed."""
        start = time.monotonic()
        done = subprocess.run(
            ["bash", "-c", command],
            cwd=self.checkout,
            env=self.env,
            user=USER,
            group=USER,
            extra_groups=[],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            timeout=timeout,
            check=False,
        )
        print(f"{time.monotonic() - start:7.1f} s  {command}")
        assert done.returncode == 0, f"{command}\n{done.stdout[-6000:]}"
        return done.stdout


@contextlib.contextmanager
def engine_of(home: Path) -> Iterator[None]:
    """A Docker engine as root, with a socket for the user's group."""
    options = {"data-root": "data", "exec-root": "exec", "pidfile": "docker.pid"}
    command = ["dockerd", *(f"--{option}={home}/.engine/{name}" for option, name in options.items())]
    command += [f"--host=unix://{home}/docker.sock", f"--group={USER}", f"--config-file={home}/.engine/daemon.json"]
    command += ["--bridge=none", "--iptables=false", "--ip6tables=false", "--ip-masq=false", "--ip-forward=false"]
    of_others = engine_leftovers()
    (home / ".engine").mkdir()
    (home / ".engine/daemon.json").write_text("{}")
    with (home / ".engine/log").open("w") as log:
        path = os.environ["PATH"] + ":/usr/sbin:/sbin"
        daemon = subprocess.Popen(command, stdout=log, stderr=log, env={**os.environ, "PATH": path})
    try:
        deadline = time.monotonic() + 60
        while not (home / "docker.sock").exists():
            assert daemon.poll() is None, (home / ".engine/log").read_text()[-3000:]
            assert time.monotonic() < deadline, "dockerd does not answer"
            time.sleep(0.2)
        yield
    finally:
        daemon.terminate()
        daemon.wait(timeout=60)
        mounted = [line.split()[1] for line in Path("/proc/mounts").read_text().splitlines()]
        for place in mounted:  # the network namespace of the builder, which is the machine's own
            if place.startswith(f"{home}/"):
                subprocess.run(["umount", place], check=True)
        for leftover in engine_leftovers():
            if leftover in of_others:  # of an engine that may run still, or was there before
                continue
            with contextlib.suppress(OSError):  # in use by another engine
                leftover.rmdir()


@contextlib.contextmanager
def a_guest() -> Iterator[Guest]:
    """A new account with a fresh clone, the machine's pip settings and an empty cache."""
    subprocess.run(["userdel", USER], capture_output=True, check=False)  # of a run that was cut off
    home = Path(tempfile.mkdtemp(prefix="firstlight-guest-", dir="/tmp"))
    try:
        home.chmod(0o755)
        subprocess.run(["useradd", "--system", "--user-group", "--no-create-home", "-d", home, USER], check=True)
        made = Guest(home)
        subprocess.run(["git", "clone", "--quiet", CHECKOUT, made.checkout], check=True)
        made.cache.mkdir(parents=True)
        if is_current(default_root()):
            for name in TAKEN_OVER:
                subprocess.run(["cp", "-r", default_root() / name, made.cache], check=True)
        settings = Path("~/.config/pip").expanduser()
        if settings.exists():
            shutil.copytree(settings, home / ".config/pip")
        subprocess.run(["chown", "-R", f"{USER}:{USER}", home], check=True)
        with engine_of(home):
            yield made
    finally:
        subprocess.run(["userdel", USER], capture_output=True, check=False)
        shutil.rmtree(home)


def test_a_docker_that_answers_is_enough() -> None:
    """What is left of it on the machine is looked for at the end of the run, when no other lab is there."""
    packages = Path("/var/lib/dpkg/status").read_bytes()
    with a_guest() as guest:
        guest.run("make setup")
        try:
            up = guest.run(".venv/bin/firstlight lab up --nodes 1", timeout=1500)  # both file systems may be built
            assert "Building the node file system" in up
            assert guest.run(".venv/bin/firstlight lab ssh spark0 id -un").strip() == "root"
            guest.run(".venv/bin/firstlight lab snapshot fresh")
            guest.run(".venv/bin/firstlight lab ssh spark0 rm /etc/machine-id")
            guest.run(".venv/bin/firstlight lab restore fresh")
            guest.run(".venv/bin/firstlight lab ssh spark0 test -s /etc/machine-id")
        finally:
            guest.run(".venv/bin/firstlight lab down")
        uid = pwd.getpwnam(USER).pw_uid
        assert [path for path in guest.cache.rglob("*") if path.lstat().st_uid != uid] == []
        for left in ("docker ps -aq", "docker image ls -aq", "docker volume ls -q"):
            assert guest.run(left) == ""
    assert Path("/var/lib/dpkg/status").read_bytes() == packages, "the build's tools belong into the builder"
