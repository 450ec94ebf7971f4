# SPDX-License-Identifier: Apache-2.0
"""Requirements of the machine that runs the lab, and a Docker engine for it.

An engine that responds is used as it is. Otherwise, as root on Debian or Ubuntu, a private one is started: it has its
own data, socket and pid file, changes neither iptables nor forwarding, and is stopped by the last `down`.
"""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import signal
import socket
import subprocess
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from .cache import Cache
from .shell import LabError, run

Say = Callable[[str], None]

# Required program (or file, by its path) -> the Debian or Ubuntu package that provides it.
ENGINE_PROGRAMS = {"dockerd": "docker.io"}
PROGRAMS = {
    "docker": "docker.io",
    "gpg": "gnupg",
    "openssl": "openssl",
    "ssh": "openssh-client",
    "ssh-keygen": "openssh-client",
    "dpkg-deb": "dpkg",
    "gpg-agent": "gpg-agent",
    "gpgconf": "gpgconf",
}
# Only needed to build file systems, which is done by root or, for other users, by the builder.
BUILD_PROGRAMS = {
    "mmdebstrap": "mmdebstrap",
    "ip": "iproute2",
    "mount": "mount",
    "unshare": "util-linux",
    "/usr/share/keyrings/debian-archive-keyring.gpg": "debian-archive-keyring",
}


def is_root() -> bool:
    return os.geteuid() == 0


def has_apt() -> bool:
    return shutil.which("apt-get") is not None and Path("/etc/debian_version").exists()


def _which(program: str) -> str | None:
    return shutil.which(program, path=os.environ.get("PATH", "") + ":/usr/sbin:/sbin:/usr/local/sbin")


def _present(name: str) -> bool:
    return Path(name).exists() if name.startswith("/") else _which(name) is not None


def ensure_programs(say: Say, *groups: Mapping[str, str]) -> None:
    """Install missing packages; if that is not possible, list all of them in one message."""
    missing = sorted({package for group in groups for name, package in group.items() if not _present(name)})
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
    options = ["-y", "-q", "--no-install-recommends", "-o", "DPkg::Lock::Timeout=300"]
    install = ["apt-get", "install", *options, *missing]
    with _services_stay_down():
        if run(install, env=env, timeout=900, check=False).returncode != 0:
            # Package lists may be outdated or missing; continue even if a source does not respond.
            run(["apt-get", "update", "-q"], env=env, check=False)
            run(install, env=env, timeout=900)


@contextlib.contextmanager
def _services_stay_down() -> Iterator[None]:
    """Keep newly installed services from starting: the lab has its own engine, which ends with it."""
    policy = Path("/usr/sbin/policy-rc.d")
    ours = not policy.exists()
    if ours:
        policy.write_text("#!/bin/sh\nexit 101\n")
        policy.chmod(0o755)
    try:
        yield
    finally:
        if ours:
            policy.unlink(missing_ok=True)


@dataclass(frozen=True)
class Engine:
    """A Docker engine that responds."""

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
        """Run the docker client and return its output."""
        return run(["docker", *argv], env=self.env, check=check, timeout=timeout, stdin=stdin).stdout

    def answers(self) -> bool:
        """Return whether the engine responds. A ping, unlike `docker info`, does not wait for containers on a busy
        engine.
        """
        if not self.address.startswith("unix://"):
            return run(["docker", "version"], env=self.env, check=False, timeout=60).returncode == 0
        with contextlib.suppress(OSError), socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as link:
            link.settimeout(60)
            link.connect(self.socket)
            link.sendall(b"GET /_ping HTTP/1.0\r\n\r\n")
            return link.recv(16).split()[1:2] == [b"200"]
        return False

    def rootless(self) -> bool:
        return "name=rootless" in self.docker("info", "--format", "{{.SecurityOptions}}")


def _private(cache: Cache) -> Engine:
    return Engine(address=f"unix://{cache.runtime}/docker.sock", private=True)


def find_engine(cache: Cache) -> Engine | None:
    """Return the running engine, if any: the private one first, then the machine's own."""
    if _which("docker") is None:
        return None
    private = _private(cache)
    if os.path.exists(cache.runtime / "docker.sock") and private.answers():  # another user's is no error
        return private
    public = Engine(address=os.environ.get("DOCKER_HOST", "unix:///var/run/docker.sock"), private=False)
    return public if public.answers() else None


def require_engine(cache: Cache) -> Engine | None:
    """Return the running engine, or None if one can be started. Raises LabError if neither. Writes nothing."""
    found = find_engine(cache)
    if found is not None:
        _ = found.socket  # rejects an engine on another machine before anything is created there
        if found.rootless():
            raise LabError(
                f"The Docker engine at {found.address} is rootless, expected one that runs as root: the lab's "
                "nodes mount file systems and have networks that this machine reaches. Use the machine's own Docker "
                "(DOCKER_HOST=unix:///var/run/docker.sock), or run the command as root."
            )
    elif not (is_root() and has_apt()):
        raise LabError(
            "No Docker engine answers and this is not root on Debian or Ubuntu, so none can be started. "
            "Either run the command as root, or start Docker and make sure that `docker info` works for your user "
            "(for example: sudo usermod -aG docker $USER, then log in again)."
        )
    return found


def ensure_engine(cache: Cache, say: Say) -> Engine:
    """Return a running engine, started if necessary."""
    found = require_engine(cache)
    groups = [PROGRAMS, *([BUILD_PROGRAMS] if is_root() else []), *([ENGINE_PROGRAMS] if found is None else [])]
    ensure_programs(say, *groups)
    if found is not None:
        return found
    say("Starting a private Docker engine")
    return start_private(cache)


def engine_to_clean(cache: Cache) -> Engine | None:
    """Return the engine to remove containers from; one that died with containers is restarted to release them."""
    found = find_engine(cache)
    left = any((cache.engine_data / "containers").glob("*"))
    if left and is_root() and (found is None or not found.private):
        return start_private(cache)
    return found


def start_private(cache: Cache) -> Engine:
    runtime = cache.runtime
    runtime.mkdir(mode=0o700, parents=True, exist_ok=True)
    pidfile = runtime / "docker.pid"
    if pidfile.exists() and _program(int(pidfile.read_text())) != "dockerd":
        pidfile.unlink()  # of an engine that was killed
    cache.engine_data.mkdir(parents=True, exist_ok=True)
    config = {
        "data-root": str(cache.engine_data),
        "exec-root": str(runtime / "exec"),
        "pidfile": str(runtime / "docker.pid"),
        "hosts": [f"unix://{runtime}/docker.sock"],
        "bridge": "none",
        "iptables": False,
        "ip6tables": False,
        "ip-masq": False,
        "ip-forward": False,
        "deprecated-key-path": str(cache.root / "docker-key.json"),
    }
    (runtime / "daemon.json").write_text(json.dumps(config, indent=2))
    dockerd = _which("dockerd")
    if dockerd is None:
        raise LabError("dockerd is not installed and could not be installed: install the package docker.io.")
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
    raise LabError(
        f"The private Docker engine did not start. The end of its log ({cache.root / 'dockerd.log'}):\n{tail}"
    )


def stop_private(cache: Cache, say: Say) -> None:
    """Stop the private engine by its pid, and remove what it left outside the cache."""
    pidfile = cache.runtime / "docker.pid"
    if pidfile.exists():
        pid = int(pidfile.read_text())
        say("Stopping the private Docker engine")
        if _program(pid) == "dockerd":
            os.kill(pid, signal.SIGTERM)
        else:
            pid = 0  # it has exited, and its pid may have been reused
        deadline = time.monotonic() + 60
        while pid and Path(f"/proc/{pid}").exists() and time.monotonic() < deadline:
            with contextlib.suppress(ChildProcessError):
                os.waitpid(pid, os.WNOHANG)  # it is our child if this command started it
            state = Path(f"/proc/{pid}/stat")
            if state.exists() and state.read_text().rsplit(")", 1)[1].split()[0] == "Z":
                break
            time.sleep(0.1)
        else:
            if pid and Path(f"/proc/{pid}").exists():
                raise LabError(
                    f"The private Docker engine (process {pid}) does not exit; see {cache.root}/dockerd.log."
                )
    if cache.runtime.exists():
        shutil.rmtree(cache.runtime, ignore_errors=True)
    if is_root() and str(cache.engine_data) in _mounted():
        # An engine bind-mounts its data directory on itself, and leaves the mount behind if it is killed.
        run(["umount", str(cache.engine_data)], check=False)
    for leftover in engine_leftovers():
        with contextlib.suppress(OSError):  # in use by another engine
            leftover.rmdir()


def engine_leftovers() -> list[Path]:
    """Return directories that an engine creates outside its own and leaves behind, empty, when it exits."""
    cgroups = Path("/sys/fs/cgroup")
    places = [*sorted(cgroups.glob("*/docker")), cgroups / "docker"]
    places += [Path("/run") / name for name in ("docker/plugins", "docker", "containerd/s", "containerd")]
    return [place for place in places if place.exists()]


def _mounted() -> set[str]:
    """Return all mount points; a directory mounted on itself is visible only here."""
    return {line.split()[1] for line in Path("/proc/mounts").read_text().splitlines()}


def _program(pid: int) -> str:
    """Return the name of a running process, or an empty string."""
    try:
        return Path(f"/proc/{pid}/comm").read_text().strip()
    except OSError:
        return ""
