# SPDX-License-Identifier: Apache-2.0
"""Build file systems without root: a user who may use a Docker engine builds them in a container, the builder.

The builder lives as long as one build. It needs no downloaded image: its root is this machine's own `/`, read-only,
with a writable in-memory layer over the few directories that installing a package writes to. The same code runs in it
as root, with this machine's apt and pip settings. It installs missing build tools without installing them on the
machine, and hands ownership of its results in the cache to the user.
"""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import tarfile
import tempfile
import threading
from collections import deque
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from . import engine as inference
from .cache import Cache, fingerprint
from .host import BUILD_PROGRAMS, Engine, Say, ensure_programs, is_root
from .images import BUILD_PREFIX, SYSTEMS, base_is_current, ensure_base, image_exists
from .shell import LabError

SAY = "say: "  # prefix of a line for the user; all other output is kept in case the build fails
# Package sources and how to reach them are the user's settings. Names only: a value may hold a password.
PASSED_ON = re.compile(
    r"HOME|XDG_CONFIG_(HOME|DIRS)|NETRC|PIP_\w+|(SSL_CERT|REQUESTS_CA|CURL_CA)_\w+|\w+_proxy", re.IGNORECASE
)
# Contents of the image: directories to mount on, and the links with which /usr alone suffices to run a shell.
DIRECTORIES = ("cache", "dev", "etc", "host", "proc", "scratch", "sys", "tmp", "upper", "usr")
LINKS = {name: f"usr/{name}" for name in ("bin", "lib", "lib64", "sbin")}
GIVEN_UP = "The build was aborted: another one failed, or the command was interrupted."
_importing = threading.Lock()  # two builds start in parallel, but the image is imported only once

# Before Docker 25, `:ro` applies only to the root file system, so that anything mounted below it (a separate /home)
# stayed writable. Leaving those mounts out would leave out the checkout, and `ro=recursive` is newer than the mount of
# Debian 12; so each is remounted read-only here. One that cannot be is unmounted.
ONLY_READ = r"""only_read() {
    while read -r _ _ _ _ place _; do
        case $place in /host/* | /usr/*) ;; *) continue ;; esac
        place=$(printf %b "$place")  # a space is \040 there
        mount -o remount,bind,ro "$place" 2>/dev/null || umount -l "$place" 2>/dev/null || true
        if [ -w "$place" ]; then
            echo "${place#/host} of this machine could not be made read-only for the build. Run the command as root."
            exit 1
        fi
    done <"$1"
}
"""

ENTER = f"""set -eu
cache=$1; python=$2; shift 2
{ONLY_READ}mount --make-rprivate /host
for place in dev proc run; do  # devices can be written to on any mount; the builder has its own of all three
    umount -l "/host/$place" 2>/dev/null || true
done
cat /proc/self/mountinfo >/tmp/mounts  # the list changes while it is worked through
only_read /tmp/mounts
mount -t tmpfs tmpfs /upper
for place in etc usr var tmp; do
    mkdir -p "/upper/$place/new" "/upper/$place/work"
    mount -t overlay overlay "/host/$place" \\
        -o "lowerdir=/host/$place,upperdir=/upper/$place/new,workdir=/upper/$place/work"
done
chmod 1777 /host/tmp
mount -t tmpfs tmpfs /host/run
mkdir -p /host/run/lock /host/run/scratch
mount --bind /scratch /host/run/scratch
rm -f /host/etc/resolv.conf
cp /etc/resolv.conf /host/etc/resolv.conf
mount -t proc proc /host/proc
mount --rbind /dev /host/dev
mkdir -p "/host$cache"
mount --bind /cache "/host$cache"
if ! chroot /host test -x "$python"; then
    echo "The Docker engine sees another machine's files, not this one's: $python is not there. Engines that" \\
        "run in a virtual machine or as a snap do that. Use this machine's own Docker, or run the command as root."
    exit 1
fi
exec chroot /host "$python" -m firstlight_lab.builder "$@"
"""


@dataclass(frozen=True)
class Part:
    """Something in the cache that requires root to build."""

    is_current: Callable[[Cache], bool]
    make: Callable[[Cache, Say], object]
    results: Callable[[Cache], Sequence[Path]]


def _file_system(system: str) -> Part:
    return Part(
        lambda cache: base_is_current(cache, system),
        lambda cache, say: ensure_base(cache, say, system),
        lambda cache: [cache.node],
    )


PARTS: Mapping[str, Part] = {
    **{system: _file_system(system) for system in SYSTEMS},
    "inference": Part(
        lambda cache: inference.is_current(cache.root),
        lambda cache, say: inference.build(cache.root, say),
        lambda cache: [cache.registry, cache.hub, cache.root / inference.STATE],
    ),
}


class Builds:
    """The builds of one command. They run in parallel, and if one fails the others are cancelled."""

    def __init__(self, cache: Cache, engine: Engine, say: Say) -> None:
        self.cache, self.engine, self.say = cache, engine, say
        self._given_up = False
        self._clients: list[subprocess.Popen[str]] = []
        self._starting = threading.Lock()

    def provide(self, part: str) -> None:
        """Build a part in a builder if needed; as root, do nothing, since it is built directly on demand."""
        if is_root() or PARTS[part].is_current(self.cache):
            return
        image = _ensure_image(self.cache, self.engine)
        name = _name(part, self.cache)
        _end(self.engine, name)  # left by a command that was killed
        try:
            self._follow(["docker", *command(name, image, part, self.cache.root, os.environ)])
        finally:
            _end(self.engine, name)

    def give_up(self) -> None:
        """Cancel running and starting builds, after one failed or the user interrupted the command."""
        with self._starting:
            self._given_up = True
            clients = list(self._clients)
        abandon(self.cache, self.engine)
        for client in clients:
            client.kill()  # a container that did not exist yet is removed by `provide`

    def _start(self, argv: Sequence[str]) -> subprocess.Popen[str]:
        with self._starting:
            if self._given_up:
                raise LabError(GIVEN_UP)
            client = subprocess.Popen(
                list(argv),
                env={**os.environ, **self.engine.env},
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                text=True,
                errors="replace",
            )
            self._clients.append(client)
            return client

    def _follow(self, argv: Sequence[str]) -> None:
        """Run a build to its end and relay its messages; on failure, raise an error with the end of its output."""
        last: deque[str] = deque(maxlen=40)
        with self._start(argv) as client:
            for line in client.stdout or ():
                if line.startswith(SAY):
                    self.say(line.removeprefix(SAY).rstrip())
                else:
                    last.append(line)
        if client.returncode != 0 and self._given_up:
            raise LabError(GIVEN_UP)
        if client.returncode != 0:
            said = "".join(last).strip() or f"it exited with status {client.returncode} without any output"
            raise LabError(f"The build, in a container of the Docker engine, failed: {said}")


def abandon(cache: Cache, engine: Engine) -> None:
    """Stop any remaining builders."""
    if not is_root():
        _end(engine, *(_name(part, cache) for part in PARTS))


def _end(engine: Engine, *names: str) -> None:
    """Stop builders gracefully, so that they clean up root's files, which the user could not; then remove them."""
    engine.docker("stop", "-t", "30", *names, check=False)
    engine.docker("rm", "-f", "-v", *names, check=False)


def _name(part: str, cache: Cache) -> str:
    return f"{BUILD_PREFIX}{part}-{fingerprint(str(cache.root))}"


def command(name: str, image: str, part: str, cache: Path, environment: Mapping[str, str]) -> list[str]:
    """Return the arguments of docker that run a part's build."""
    variables = sorted(variable for variable in environment if PASSED_ON.fullmatch(variable))
    settings = {"PYTHONPATH": str(Path(__file__).parents[2]), "PYTHONDONTWRITEBYTECODE": "1", "TMPDIR": "/run/scratch"}
    return [
        *("run", "--rm", "--name", name, "--network=host", "--userns=host"),
        *("--cap-add=ALL", "--cap-drop=SYS_RESOURCE"),  # as for the nodes: many hosts cannot grant that one
        *("--security-opt=seccomp=unconfined", "--security-opt=apparmor=unconfined"),
        *("-v", "/:/host:ro", "-v", "/usr:/usr:ro", "-v", "/scratch", "-v", f"{cache}:/cache"),
        *(word for variable in variables for word in ("-e", variable)),
        *(word for variable, value in settings.items() for word in ("-e", f"{variable}={value}")),
        *(image, "/bin/sh", "-c", ENTER, "enter", str(cache), sys.executable),
        *(part, str(cache), str(os.getuid()), str(os.getgid())),
    ]


def write_image(path: Path) -> None:
    """Write the file system of the image: just mount points and links."""
    with tarfile.open(path, "w") as archive:
        for name in DIRECTORIES:
            entry = tarfile.TarInfo(name)
            entry.type, entry.mode = tarfile.DIRTYPE, 0o755
            archive.addfile(entry)
        for name, target in LINKS.items():
            entry = tarfile.TarInfo(name)
            entry.type, entry.linkname = tarfile.SYMTYPE, target
            archive.addfile(entry)


def _ensure_image(cache: Cache, engine: Engine) -> str:
    reference = f"firstlight-lab/builder:{fingerprint(repr(DIRECTORIES), repr(LINKS))}"
    with _importing, tempfile.TemporaryDirectory(dir=cache.root) as scratch:
        if not image_exists(engine, reference):
            write_image(Path(scratch) / "builder.tar")
            engine.docker("import", f"{scratch}/builder.tar", reference)
    return reference


def give(paths: Iterable[Path], user: int, group: int) -> None:
    """Change the owner of what root created to the user."""
    for path in paths:
        if not path.exists():
            continue
        for found in (path, *path.rglob("*")):
            os.chown(found, user, group, follow_symlinks=False)


def _leave(*_: object) -> None:
    """Handle a termination signal by cleaning up; further signals are ignored so that they cannot cut that short."""
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, signal.SIG_IGN)
    if os.getpid() == 1:  # init of the container: all other processes are ours, and some would take long to end
        os.kill(-1, signal.SIGKILL)
    raise KeyboardInterrupt


def main(argv: Sequence[str]) -> int:
    """Build a part as root inside the builder, and hand over its results."""
    part, root, user, group = argv
    os.umask(0o022)
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, _leave)
    cache = Cache(Path(root))

    def say(message: str) -> None:
        print(SAY + message, flush=True)

    try:
        ensure_programs(say, BUILD_PROGRAMS)
        PARTS[part].make(cache, say)
    except (LabError, OSError) as error:
        print(error, flush=True)
        return 1
    except KeyboardInterrupt:
        return 130
    finally:
        give(PARTS[part].results(cache), int(user), int(group))
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
