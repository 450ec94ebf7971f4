# SPDX-License-Identifier: Apache-2.0
"""What the machine that carries the lab must have, and a Docker engine to run it on.

An engine that answers is used as it is. Otherwise, as root on Debian or Ubuntu, a private one is started: its data,
socket and pid file are its own, it changes neither iptables nor forwarding, and the last `down` ends it.
"""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import signal
import subprocess
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from .cache import Cache
from .shell import LabError, run

Say = Callable[[str], None]

# program -> the Debian or Ubuntu package that brings it
PROGRAMS = {
    "dockerd": "docker.io",
    "docker": "docker.io",
    "mmdebstrap": "mmdebstrap",
    "gpg": "gnupg",
    "openssl": "openssl",
    "ssh": "openssh-client",
    "ssh-keygen": "openssh-client",
    "dpkg-deb": "dpkg",
}
KEYRING = Path("/usr/share/keyrings/debian-archive-keyring.gpg")


def is_root() -> bool:
    return os.geteuid() == 0


def has_apt() -> bool:
    return shutil.which("apt-get") is not None and Path("/etc/debian_version").exists()


def _which(program: str) -> str | None:
    return shutil.which(program, path=os.environ.get("PATH", "") + ":/usr/sbin:/sbin:/usr/local/sbin")


def ensure_programs(say: Say, *, need_engine: bool) -> None:
    """Install what is missing; where that is not possible, name all of it in one message."""
    wanted = {p: package for p, package in PROGRAMS.items() if need_engine or p != "dockerd"}
    missing = sorted({package for program, package in wanted.items() if _which(program) is None})
    if not KEYRING.exists():
        missing.append("debian-archive-keyring")
    if not missing:
        return
    if not (is_root() and has_apt()):
        raise LabError(
            f"The lab needs these packages, which are not installed: {', '.join(missing)}. "
            f"Run as root on Debian or Ubuntu and they are installed for you, or install them: "
            f"apt-get install {' '.join(missing)}"
        )
    say(f"Installing {', '.join(missing)}")
    env = {"DEBIAN_FRONTEND": "noninteractive"}
    install = ["apt-get", "install", "-y", "-q", "--no-install-recommends", *missing]
    if run(install, env=env, timeout=900, check=False).returncode != 0:
        # Package lists that are old or were never fetched; a source that does not answer is no reason to stop.
        run(["apt-get", "update", "-q"], env=env, check=False)
        run(install, env=env, timeout=900)


@dataclass(frozen=True)
class Engine:
    """A Docker engine that answers."""

    address: str
    private: bool

    @property
    def env(self) -> dict[str, str]:
        return {"DOCKER_HOST": self.address}

    @property
    def socket(self) -> str:
        if not self.address.startswith("unix://"):
            raise LabError(
                f"The Docker engine is at {self.address}, expected one on this machine (unix://...): "
                "the lab plugs network cables into its containers. Unset DOCKER_HOST or use a local engine."
            )
        return self.address.removeprefix("unix://")

    def docker(self, *argv: str, check: bool = True, timeout: float = 600, stdin: str | None = None) -> str:
        """Run the docker client and give back what it printed."""
        return run(["docker", *argv], env=self.env, check=check, timeout=timeout, stdin=stdin).stdout

    def answers(self) -> bool:
        return run(["docker", "info", "--format", "{{.ID}}"], env=self.env, check=False, timeout=30).returncode == 0


def _private(cache: Cache) -> Engine:
    return Engine(address=f"unix://{cache.runtime}/docker.sock", private=True)


def find_engine(cache: Cache) -> Engine | None:
    """The engine that is running now, if any: the private one first, then the machine's own."""
    if _which("docker") is None:
        return None
    private = _private(cache)
    if (cache.runtime / "docker.sock").exists() and private.answers():
        return private
    public = Engine(address=os.environ.get("DOCKER_HOST", "unix:///var/run/docker.sock"), private=False)
    return public if public.answers() else None


def ensure_engine(cache: Cache, say: Say) -> Engine:
    """An engine that answers, started if need be."""
    found = find_engine(cache)
    if found is None and not (is_root() and has_apt()):
        raise LabError(
            "No Docker engine answers and this is not root on Debian or Ubuntu, so none can be started. "
            "Either run the command as root, or start Docker and make sure that `docker info` works for your user "
            "(for example: sudo usermod -aG docker $USER, then log in again)."
        )
    ensure_programs(say, need_engine=found is None)
    if found is not None:
        return found
    say("Starting a private Docker engine")
    return _start_private(cache)


def _start_private(cache: Cache) -> Engine:
    runtime = cache.runtime
    runtime.mkdir(mode=0o700, parents=True, exist_ok=True)
    cache.engine_data.mkdir(parents=True, exist_ok=True)
    config = {
        "data-root": str(cache.engine_data),
        "exec-root": str(runtime / "exec"),
        "pidfile": str(runtime / "docker.pid"),
        "hosts": [f"unix://{runtime}/docker.sock"],
        "bridge": "none",
        "iptables": False,
        "ip-masq": False,
        "ip-forward": False,
        "deprecated-key-path": str(cache.root / "docker-key.json"),
    }
    (runtime / "daemon.json").write_text(json.dumps(config, indent=2))
    dockerd = _which("dockerd")
    if dockerd is None:
        raise LabError("dockerd is not installed and could not be: install the package docker.io.")
    with (cache.root / "dockerd.log").open("w") as log:
        process = subprocess.Popen(
            [dockerd, "--config-file", str(runtime / "daemon.json")],
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
            start_new_session=True,
        )
    engine = _private(cache)
    deadline = time.monotonic() + 60
    while time.monotonic() < deadline:
        if engine.answers():
            return engine
        if process.poll() is not None:
            break
        time.sleep(0.3)
    tail = "\n".join((cache.root / "dockerd.log").read_text().splitlines()[-8:])
    raise LabError(f"The private Docker engine did not start. Its last words ({cache.root / 'dockerd.log'}):\n{tail}")


def stop_private(cache: Cache, say: Say) -> None:
    """End the private engine by its pid, and remove what it left outside the cache."""
    pidfile = cache.runtime / "docker.pid"
    if pidfile.exists():
        pid = int(pidfile.read_text())
        say("Stopping the private Docker engine")
        try:
            os.kill(pid, signal.SIGTERM)
        except ProcessLookupError:
            pid = 0
        deadline = time.monotonic() + 60
        while pid and Path(f"/proc/{pid}").exists() and time.monotonic() < deadline:
            with contextlib.suppress(ChildProcessError):
                os.waitpid(pid, os.WNOHANG)  # ours when the same command started it
            state = Path(f"/proc/{pid}/stat")
            if state.exists() and state.read_text().rsplit(")", 1)[1].split()[0] == "Z":
                break
            time.sleep(0.1)
    if cache.runtime.exists():
        shutil.rmtree(cache.runtime, ignore_errors=True)
    for leftover in (Path("/run/docker/plugins"), Path("/run/docker")):
        try:
            leftover.rmdir()
        except OSError:
            break  # in use by another engine, or never there
