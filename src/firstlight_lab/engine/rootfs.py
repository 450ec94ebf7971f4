# SPDX-License-Identifier: Apache-2.0
"""Assemble the image's file system: Debian's own Python, the locked packages, the lab's glue, and nothing idle."""

from __future__ import annotations

import json
import os
import platform
import re
import shutil
import struct
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from importlib import metadata
from pathlib import Path
from typing import Any

from ..shell import LabError, run
from . import lock
from .registry import EPOCH

RECIPE = Path(__file__).with_name("recipe")
SITE = "usr/local/lib/python3.11/dist-packages"
MEMORY = "usr/local/share/vllm"  # what vLLM found out about the model's class; else every start asks a second process
PYTHON = "3.11"
PLUGIN = "firstlight_lab_platform"
PATIENCE = "firstlight_lab_start.pth"
ARROW = "pyarrow"

# What the image sets so that the product need not know it runs on a CPU. See the manual of each variable; together
# they mean: no compiler, one thread a process, no network but the cluster's, no reports to anybody.
ENVIRONMENT = {
    "PATH": "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin",
    "TORCHDYNAMO_DISABLE": "1",
    "OMP_NUM_THREADS": "1",
    "VLLM_CPU_OMP_THREADS_BIND": "nobind",
    "HF_HUB_OFFLINE": "1",
    "TRANSFORMERS_OFFLINE": "1",
    "RAY_USAGE_STATS_ENABLED": "0",
    "VLLM_NO_USAGE_STATS": "1",
    "DO_NOT_TRACK": "1",
    "VLLM_CACHE_ROOT": f"/{MEMORY}",
}

DEBIAN_PACKAGES = ("python3", "libgomp1", "libnuma1", "libstdc++6")
DEBIAN_EXCLUDED = ("/usr/share/doc/*", "/usr/share/man/*", "/usr/share/info/*", "/usr/share/locale/*",
                   "/usr/share/lintian/*", "/usr/share/bash-completion/*", "/usr/share/zoneinfo/*")  # fmt: skip
DEBIAN_REMOVED = ("/var/lib/apt/lists", "/var/cache/apt", "/var/cache/debconf", "/var/log/apt",
                  "/usr/lib/python3.11/lib2to3", "/usr/lib/python3.11/pydoc_data", "/usr/share/perl", "/usr/lib/*/perl",
                  "/usr/lib/*/libperl.so*", "/usr/lib/*/gconv")  # fmt: skip

# Below dist-packages, as patterns of Path.glob: never read by `vllm serve`, by Ray's nodes or by their commands.
# Without this part of torch's compiler (the image never compiles) vLLM skips its patches to it, and starts sooner.
PRUNED = ("bin", "share", "**/tests", "**/*.pyi", "**/*.pyx", "**/*.pxd", "**/*.h", "**/*.a", "*.dist-info/RECORD",
          "distutils-precedence.pth",
          "torch/include", "torch/test", "torch/bin/*[tT]est*", "torch/bin/protoc*", "torch/share", "torch/lib/*test*",
          "torch/_inductor/lowering.py", "torchgen/packaged", "ray/jars", "ray/dashboard/client", "ray/rllib",
          "ray/data", "ray/train", "ray/tune", "vllm/_C.abi3.so",
          "vllm/_C_AVX512.abi3.so")  # fmt: skip
STRIPPED = ("torch/lib/libtorch_cpu.so", "torch/lib/libtorch_python.so", "vllm/_C.abi3.so", "vllm/_C_AVX2.abi3.so",
            "ray/_raylet.so", "ray/core/src/ray/raylet/raylet", "ray/core/src/ray/gcs/gcs_server")  # fmt: skip
SPINNING = (
    "vllm/distributed/device_communicators/shm_broadcast.py",
    "busy_loop_s: float = 1,",
    "busy_loop_s: float = 0.01,",
)
PT_LOAD = 1
PIP_THAT_ONLY_ASKS = (23, 3)  # from here on --dry-run reads a wheel's metadata and leaves the wheel where it is
CUDA_REQUIREMENT = re.compile(r"(nvidia|cuda)-", re.IGNORECASE)
LIBRARIES_FOR_OTHER_CPUS = ("vllm/_C.abi3.so", "vllm/_C_AVX512.abi3.so")


def debian(target: Path, say_to: Path) -> subprocess.Popen[bytes]:
    """Start making the Debian base as a tar file."""
    excluded = [f"--dpkgopt=path-exclude={path}" for path in DEBIAN_EXCLUDED]
    command = ["mmdebstrap", "--variant=essential", f"--include={','.join(DEBIAN_PACKAGES)}", "--format=tar", *excluded,
               '--aptopt=APT::Install-Recommends "false"', '--aptopt=Acquire::Languages "none"',
               f"--customize-hook=cd $1 && rm -rf {' '.join('.' + path for path in DEBIAN_REMOVED)}",
               "bookworm", str(target)]  # fmt: skip
    if shutil.which(command[0]) is None:
        raise LabError("The program 'mmdebstrap' is not installed. Install the package mmdebstrap and run again.")
    environment = {**os.environ, "SOURCE_DATE_EPOCH": str(EPOCH), "LC_ALL": "C.UTF-8"}
    with say_to.open("wb") as log:
        return subprocess.Popen(command, env=environment, stdin=subprocess.DEVNULL, stdout=log, stderr=log)


def packages(target: Path, scratch: Path) -> None:
    """Install the locked packages for the image's Python, whatever Python runs this, as pip is configured here."""
    pins = lock.parse((RECIPE / "engine.lock").read_text(encoding="utf-8"))
    wanted = scratch / "requirements.txt"
    wanted.write_text("".join(f"{name}=={version}\n" for name, version in pins.items()), encoding="ascii")
    command = [sys.executable, "-m", "pip", "install", "--quiet", "--no-deps", "--no-compile",
               "--no-warn-script-location", "--only-binary=:all:", "--implementation=cp", f"--python-version={PYTHON}",
               "--abi=cp311", "--abi=abi3", "--abi=none", f"--target={target}",
               "--disable-pip-version-check"]  # fmt: skip
    command += [f"--platform={tag}" for tag in lock.platform_tags(platform.machine())]
    environment = {"TMPDIR": str(scratch)}
    _refuse_cuda(_offered(command, f"torch=={pins['torch']}", environment))
    run([*command, f"--requirement={wanted}"], env=environment, timeout=1800)
    lines = (target / "torch" / "version.py").read_text(encoding="utf-8").splitlines()
    if not any(line.startswith("cuda") and line.endswith("= None") for line in lines):
        _refuse_cuda(["torch/version.py names a CUDA version"])


def _offered(command: Sequence[str], requirement: str, environment: Mapping[str, str]) -> list[str]:
    """Ask pip which torch it would install, before it loads down gigabytes; return what of CUDA that one needs.

    An older pip would load it down to answer, and one that fails, or is not there, says so when it installs: they are
    not asked.
    """
    try:
        version = metadata.version("pip")
    except metadata.PackageNotFoundError:
        return []
    if tuple(int(number) for number in version.split(".")[:2]) < PIP_THAT_ONLY_ASKS:
        return []
    question = ["--dry-run", "--ignore-installed", "--use-feature=fast-deps", "--report=-", requirement]
    answer = run([*command, *question], env=environment, timeout=600, check=False)
    return needs_cuda(json.loads(answer.stdout)) if answer.returncode == 0 else []


def needs_cuda(report: Mapping[str, Any]) -> list[str]:
    """The CUDA packages that the torch of pip's installation report asks for; a CPU build asks for none."""
    needed = []
    for item in report["install"]:
        if item["metadata"]["name"] == "torch":
            needed += [word for word in item["metadata"].get("requires_dist", []) if CUDA_REQUIREMENT.match(word)]
    return [re.split(r"[ ;\[<>=!~]", word)[0] for word in needed if "extra ==" not in word]


def _refuse_cuda(found: Sequence[str]) -> None:
    if found:
        raise LabError(
            f"pip would use a CUDA build of torch ({', '.join(found)}), expected a CPU build: the lab has no GPU and "
            "the CUDA libraries are several gigabytes. Configure pip with PyTorch's index for CPU builds (pip config "
            "set global.extra-index-url ...) and run again."
        )


def prune(site: Path, patterns: Sequence[str] = PRUNED) -> None:
    """Take away what serving never reads."""
    for pattern in patterns:
        for path in sorted(site.glob(pattern), reverse=True):
            if platform.machine() != "x86_64" and str(path.relative_to(site)) in LIBRARIES_FOR_OTHER_CPUS:
                continue
            if path.is_dir() and not path.is_symlink():
                shutil.rmtree(path)
            else:
                path.unlink(missing_ok=True)


def strip(site: Path, scratch: Path) -> None:
    """Take symbols for debuggers out of the large libraries, where this machine can: it is a matter of size only.

    A library that a wheel repair tool has rewritten may come out of this unloadable; such a one stays as it is.
    """
    if shutil.which("strip") is None:
        return
    for name in STRIPPED:
        path, slim = site / name, scratch / "stripped"
        if not path.exists():
            continue
        done = run(["strip", "--strip-unneeded", "-o", str(slim), str(path)], check=False)
        if done.returncode == 0 and loadable(slim):
            shutil.copymode(path, slim)
            slim.replace(path)
        slim.unlink(missing_ok=True)


def loadable(path: Path) -> bool:
    """Tell whether the segments of a 64-bit ELF file lie in it as the loader wants them."""
    with path.open("rb") as file:
        header = file.read(64)
        table = int.from_bytes(header[32:40], "little")
        size, count = (int.from_bytes(header[at : at + 2], "little") for at in (54, 56))
        file.seek(table)
        for _ in range(count):
            kind, _, offset, address, _, _, _, alignment = struct.unpack("<IIQQQQQQ", file.read(size)[:56])
            if kind == PT_LOAD and (address - offset) % alignment != 0:
                return False
    return True


def calm(site: Path) -> None:
    """Let a rank that waits for work sleep at once.

    vLLM's looks for it without a pause for a second after the last, which is right where every rank has a processor.
    Here several nodes share a few, and somebody asks for a server's health every few seconds.
    """
    name, busy, brief = SPINNING
    path = site / name
    text = path.read_text(encoding="utf-8")
    if busy not in text:
        raise LabError(f'{name} of this vLLM has no "{busy}", expected it there: see how its ranks wait for work now.')
    path.write_text(text.replace(busy, brief), encoding="utf-8")


def forget_unused_models(site: Path) -> None:
    """Drop the model families that serving has not imported: transformers reads the names of all of them at start."""
    for path in (site / "transformers" / "models").iterdir():
        if path.is_dir() and path.name != "auto" and next(path.rglob("*.pyc"), None) is None:
            shutil.rmtree(path)


def glue(rootfs: Path, vllm_version: str) -> list[str]:
    """Add what makes the packages one working engine; return the paths added."""
    site = rootfs / SITE
    for name in (PLUGIN, ARROW):
        shutil.copytree(RECIPE / name, site / name, ignore=shutil.ignore_patterns("__pycache__"))
    distributions = {
        # The CPU build is published under another name, but the `vllm` command asks for its own.
        f"vllm-{vllm_version}+cpu.dist-info": {
            "METADATA": f"Metadata-Version: 2.1\nName: vllm\nVersion: {vllm_version}+cpu\n"
        },
        f"{PLUGIN}-1.dist-info": {
            "METADATA": f"Metadata-Version: 2.1\nName: {PLUGIN.replace('_', '-')}\nVersion: 1\n",
            "entry_points.txt": f"[vllm.platform_plugins]\nfirstlight_lab = {PLUGIN}:register\n",
        },
    }
    for directory, files in distributions.items():
        for name, content in files.items():
            (site / directory).mkdir(exist_ok=True)
            (site / directory / name).write_text(content, encoding="ascii")
    # Thousands of modules are loaded at once and none of them goes away: collecting garbage meanwhile is a fifth of the
    # time to start. This is read by every Python that starts.
    (site / PATIENCE).write_text("import gc; gc.set_threshold(100000, 50, 1000)\n", encoding="ascii")
    commands = {"vllm": "vllm.entrypoints.cli.main", "ray": "ray.scripts.scripts"}
    for name, module in commands.items():
        path = rootfs / "usr/local/bin" / name
        path.write_text(
            "#!/usr/bin/python3\nimport sys\n\n"
            f"from {module} import main\n\n"
            'if __name__ == "__main__":\n    sys.exit(main())\n',
            encoding="ascii",
        )
        path.chmod(0o755)
    added = [PLUGIN, ARROW, PATIENCE, *distributions]
    return [*(f"usr/local/bin/{name}" for name in commands), *(f"{SITE}/{name}" for name in added)]


def age(directory: Path) -> None:
    """Give every file the age it has in the image: byte code names the age of its source."""
    for parent, directories, files in os.walk(directory):
        for name in (*directories, *files):
            os.utime(os.path.join(parent, name), (EPOCH, EPOCH), follow_symlinks=False)


ENTER = """set -eu
root=$1; shared=$2; shift 2
ip link set lo up
for last in 10 11 12 13; do ip address add "192.0.2.$last/24" dev lo; done
hostname engine
mount -t proc proc "$root/proc"
mount -t sysfs -o ro sysfs "$root/sys"
mount -t tmpfs tmpfs "$root/tmp"
mount -t tmpfs tmpfs "$root/mnt"
mount -t tmpfs tmpfs "$root/dev"
mkdir "$root/dev/shm" "$root/mnt/shared"
mount -t tmpfs tmpfs "$root/dev/shm"
mount --bind "$shared" "$root/mnt/shared"
for device in null zero full random urandom; do
    touch "$root/dev/$device"
    mount --bind "/dev/$device" "$root/dev/$device"
done
exec chroot "$root" env -i "$@"
"""


def inside(rootfs: Path, shared: Path, argv: Sequence[str], environment: Mapping[str, str] = ENVIRONMENT) -> str:
    """Run a program in the file system, cut off from this machine's network and processes; return its output.

    ``shared`` is /mnt/shared there. The addresses 192.0.2.10 to .13 stand for nodes. Whatever the program
    leaves running ends with it.
    """
    assignments = [f"{name}={value}" for name, value in {**environment, "HOME": "/root"}.items()]
    command = ["unshare", "--mount", "--net", "--pid", "--ipc", "--uts", "--fork", "--kill-child",
               "sh", "-c", ENTER, "enter", str(rootfs), str(shared), *assignments, *argv]  # fmt: skip
    return run(command, timeout=900).stdout


def scratch_directory(cache: Path) -> tempfile.TemporaryDirectory[str]:
    """Return a directory for the work in between, on the cache's disk, gone when the build ends."""
    cache.mkdir(parents=True, exist_ok=True)
    return tempfile.TemporaryDirectory(prefix="engine-", dir=cache)
