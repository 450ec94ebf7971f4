# SPDX-License-Identifier: Apache-2.0
"""The node images: one Debian file system, and the flavours made from it.

`base` is Debian with systemd, sshd, netplan and Docker. `node` adds what a factory installs (driver, container
toolkit), `bare` removes Docker again, `services` adds the registry. Each is named by the hash of its inputs.
"""

from __future__ import annotations

import platform
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from importlib import resources
from pathlib import Path

from .cache import Cache, fingerprint
from .host import Engine, Say
from .nvidia import ARCHIVE, CUDA, LAMBDA, VENDOR, build_repository
from .pki import ensure_pki
from .shell import LabError, run

PACKAGES = (
    "systemd",
    "systemd-sysv",
    "udev",
    "dbus",
    "openssh-server",
    "python3",
    "python3-apt",
    "sudo",
    "iproute2",
    "iputils-ping",
    "netplan.io",
    "kmod",
    "procps",
    "ca-certificates",
    "gnupg",
    "iptables",
    "nftables",
    "ethtool",
    "needrestart",
    "unattended-upgrades",
)


@dataclass(frozen=True)
class System:
    """An operating system that nodes can run."""

    suite: str
    docker: tuple[str, ...]
    """Docker's own packages: removed from `bare` nodes, and offered by the lab's apt repository for reinstallation."""
    venv: tuple[str, ...]
    """Packages to create a virtual environment with pip; not on a node until a role installs them."""
    headers: str
    """Packages to compile a Python extension."""
    network_manager: bool = False
    """Whether NetworkManager runs beside networkd, as on a DGX Spark."""

    @property
    def packages(self) -> tuple[str, ...]:
        """The packages of every node."""
        return (*PACKAGES, *self.docker, *(("network-manager",) if self.network_manager else ()))

    @property
    def tools(self) -> tuple[str, ...]:
        """The packages that roles install on nodes without them."""
        return (*TOOL_PACKAGES, self.headers)

    @property
    def kept(self) -> tuple[str, ...]:
        """The packages that are downloaded beside the file system."""
        return (*self.docker, *self.venv, "docker-registry")


# One is older and one newer than Ubuntu 24.04 in systemd, netplan, apt, Python and nftables: what works on both very
# likely works in between.
SYSTEMS: Mapping[str, System] = {
    "debian12": System(
        "bookworm",
        ("docker.io", "containerd", "runc", "tini"),
        ("python3.11-venv", "python3-pip-whl", "python3-setuptools-whl", "python3-distutils", "python3-lib2to3"),
        "python3.11-dev",
    ),
    "debian13": System(
        "trixie",
        ("docker.io", "docker-cli", "containerd", "runc", "tini"),
        ("python3.13-venv", "python3-pip-whl"),
        "python3.13-dev",
        network_manager=True,
    ),
}
USUAL_SYSTEM = "debian12"
# For every system; apt resolves the dependencies beyond the node's own packages.
TOOL_PACKAGES = (
    "iperf3",
    "perftest",
    "ibverbs-utils",
    "rdma-core",
    "earlyoom",
    "systemd-timesyncd",
    "iputils-arping",
    "nginx",
    "prometheus",
    "prometheus-node-exporter",
    "build-essential",
)
NOT_OFFERED = ("docker-registry",)  # for the services node, from a file
BUILD_PREFIX = "firstlight-build-"
NODE_PROGRAMS = ("lab-init", "runc", "swapon", "dmesg")
EQUIPMENT = resources.files("firstlight_lab") / "equipment"
APT_SOURCE = "deb [signed-by=/usr/share/keyrings/firstlight-lab.asc] {uri} firstlight main\n"


@dataclass(frozen=True)
class NodeImages:
    """References of the images in the engine."""

    node: str
    bare: str
    services: str


def equipment(name: str) -> str:
    """Return the source of a program that runs on a lab node."""
    return (EQUIPMENT / name).read_text(encoding="utf-8")


def image_exists(engine: Engine, reference: str) -> bool:
    return bool(engine.docker("image", "ls", "-q", reference, check=False).strip())


def _base(cache: Cache, name: str) -> tuple[Path, Path]:
    """Return the paths of the Debian file system and the packages kept beside it, named by a hash of their inputs."""
    system = SYSTEMS[name]
    tag = fingerprint(
        system.suite,
        " ".join(system.packages),
        " ".join(system.kept),
        " ".join(system.tools),
        platform.machine(),
        "4",
    )
    return cache.node / f"base-{system.suite}-{tag}.tar", cache.node / f"debs-{system.suite}-{tag}"


def base_is_current(cache: Cache, name: str = USUAL_SYSTEM) -> bool:
    """Return whether the results of `ensure_base` exist."""
    return all(path.exists() for path in _base(cache, name))


def ensure_base(cache: Cache, say: Say, name: str = USUAL_SYSTEM) -> tuple[Path, Path]:
    """Return the Debian file system and the packages beside it, building them (as root) if they are missing."""
    tarball, debs = _base(cache, name)
    if base_is_current(cache, name):
        return tarball, debs
    system = SYSTEMS[name]
    cache.node.mkdir(parents=True, exist_ok=True)
    for old in [*cache.node.glob(f"base-{system.suite}-*"), *cache.node.glob(f"debs-{system.suite}-*/*")]:
        old.unlink()
    say(f"Building the node file system ({name}, systemd, Docker): about a minute")
    debs.mkdir(exist_ok=True)
    partial = tarball.with_suffix(".tar.partial")
    unneeded = [f"--dpkgopt=path-exclude=/usr/share/{place}/*" for place in ("man", "locale", "doc")]
    keep = f'chroot "$1" sh -ec "{KEEP_SCRIPT.format(kept=" ".join(system.kept), tools=" ".join(system.tools))}"'
    run(
        [
            "mmdebstrap",
            "--variant=minbase",
            "--format=tar",
            "--quiet",
            '--aptopt=APT::Install-Recommends "false"',
            *unneeded,
        ]
        + [f"--include={','.join(system.packages)}", f"--customize-hook={keep}"]
        + [f"--customize-hook=sync-out /var/tmp {debs}", '--customize-hook=rm -f "$1"/var/tmp/*.deb']
        + [system.suite, str(partial)],
        timeout=1200,
    )
    partial.rename(tarball)
    return tarball, debs


# Runs in the finished file system: download packages that it does not (or not always) contain.
KEEP_SCRIPT = """
cd /var/tmp
apt-get download -q {kept}
apt-get install -q -y --no-install-recommends --download-only -o Dir::Cache::Archives=/var/tmp {tools}
rm -rf lock partial
"""


def _derive(engine: Engine, parent: str, reference: str, script: str, mounts: Sequence[str], command: str) -> None:
    """Commit a flavour: the parent image after a shell script ran in it, without network."""
    name = f"{BUILD_PREFIX}{fingerprint(reference)}"
    engine.docker("rm", "-f", name, check=False)
    volumes = [part for mount in mounts for part in ("-v", mount)]
    try:
        engine.docker("run", "--name", name, "--network=none", *volumes, parent, "sh", "-ec", script)
        engine.docker("commit", "-c", f"CMD {command}", name, reference)
    finally:
        engine.docker("rm", "-f", "-v", name, check=False)


def ensure_images(
    cache: Cache, engine: Engine, factory: Sequence[str], say: Say, system: str = USUAL_SYSTEM
) -> NodeImages:
    """Build missing images. `factory` lists the packages preinstalled on a node."""
    tarball, debs = ensure_base(cache, say, system)
    pki = ensure_pki(cache)
    offered = sorted(path for path in debs.glob("*.deb") if path.name.split("_")[0] not in NOT_OFFERED)
    for repository in (VENDOR, CUDA, LAMBDA):
        build_repository(cache.root, say, repository)
    archive = build_repository(cache.root, say, ARCHIVE, offered, system)
    key, vendor_key = (place / "key.asc" for place in (archive, cache.apt))
    programs = [equipment(name) for name in NODE_PROGRAMS]
    tag = fingerprint(tarball.name, key, pki / "ca.crt", *programs, NODE_SCRIPT)
    releases = [place / "dists" / "firstlight" / "Release" for place in (cache.apt, archive)]
    packages_tag = fingerprint(tag, " ".join(factory), vendor_key, FACTORY_SCRIPT, *releases)
    base = f"firstlight-lab/base:{tag}"
    images = NodeImages(
        node=f"firstlight-lab/node:{packages_tag}",
        bare=f"firstlight-lab/bare:{tag}",
        services=f"firstlight-lab/services:{tag}",
    )
    if not image_exists(engine, base):
        say("Importing the node image")
        raw = f"firstlight-lab/raw:{tag}"
        engine.docker("import", "-c", "ENV container=docker", str(tarball), raw, timeout=600)
        staging = cache.node / "staging"
        _stage(staging, pki, key)
        _derive(engine, raw, base, NODE_SCRIPT, [f"{staging}:/mnt/staging:ro"], '["/sbin/lab-init"]')
    if not image_exists(engine, images.node):
        say(f"Installing the factory packages: {', '.join(factory)}")
        mounts = [f"{cache.apt}:/mnt/nvidia:ro", f"{archive}:/mnt/archive:ro"]
        script = FACTORY_SCRIPT.format(packages=" ".join(factory))
        _derive(engine, base, images.node, script, mounts, '["/sbin/lab-init"]')
    if not image_exists(engine, images.bare):
        script = f"dpkg --purge {' '.join(SYSTEMS[system].docker)} && rm -rf /var/lib/docker /var/lib/containerd"
        _derive(engine, base, images.bare, script, [], '["/sbin/lab-init"]')
    if not image_exists(engine, images.services):
        script = "dpkg --install --force-depends /mnt/debs/docker-registry_*.deb"
        _derive(
            engine,
            base,
            images.services,
            script,
            [f"{debs}:/mnt/debs:ro"],
            '["python3", "-c", "raise SystemExit"]',
        )
    return images


NODE_SCRIPT = """
install -m 0755 /mnt/staging/lab-init /sbin/lab-init
install -m 0755 /mnt/staging/runc /mnt/staging/swapon /usr/local/sbin/
ln -s swapon /usr/local/sbin/swapoff
dpkg-divert --local --rename --divert /usr/bin/dmesg.kernel --add /usr/bin/dmesg
dpkg-divert --local --rename --divert /usr/bin/journalctl.real --add /usr/bin/journalctl
install -m 0755 /mnt/staging/dmesg /usr/bin/dmesg
ln -s dmesg /usr/bin/journalctl
install -m 0644 /mnt/staging/ca.crt /usr/local/share/ca-certificates/firstlight-lab.crt
update-ca-certificates
install -m 0644 /mnt/staging/key.asc /usr/share/keyrings/firstlight-lab.asc
rm -f /etc/apt/sources.list /etc/apt/sources.list.d/*
cp /mnt/staging/source.list /etc/apt/sources.list.d/lab.list
mkdir -p /root/.ssh /etc/firstlight-lab && chmod 0700 /root/.ssh
printf 'PasswordAuthentication no\\nKbdInteractiveAuthentication no\\nPermitRootLogin prohibit-password\\n' \\
    > /etc/ssh/sshd_config.d/lab.conf
rm -f /etc/ssh/ssh_host_* /etc/machine-id
systemctl enable ssh.service systemd-networkd.service
systemctl mask getty.target console-getty.service systemd-networkd-wait-online.service
systemctl disable apt-daily.timer apt-daily-upgrade.timer e2scrub_all.timer e2scrub_reap.service fstrim.timer || true
# Only the network ports are the node's own. The kernel tells every node of any other device, so that each node which
# asks for all devices of this machine would keep all the others busy.
mkdir /etc/systemd/system/systemd-udev-trigger.service.d
printf '[Service]\\nExecStart=\\nExecStart=-udevadm trigger --type=devices --action=add --subsystem-match=net\\n' \\
    > /etc/systemd/system/systemd-udev-trigger.service.d/lab.conf
"""

# Nodes with the vendor's packages preinstalled have the vendor's repository among their sources, too.
FACTORY_SCRIPT = """
install -m 0644 /mnt/nvidia/key.asc /usr/share/keyrings/factory-archive-keyring.asc
echo 'deb [signed-by=/usr/share/keyrings/factory-archive-keyring.asc] http://nvidia.lab.example firstlight main' \\
    > /etc/apt/sources.list.d/factory.list
sed 's,http://nvidia.lab.example,file:/mnt/nvidia,; s,http://apt.lab.example,file:/mnt/archive,' \\
    /etc/apt/sources.list.d/*.list > /tmp/factory.list
apt() {{ apt-get -q -o Dir::Etc::sourcelist=/tmp/factory.list -o Dir::Etc::sourceparts=/nonexistent "$@"; }}
apt update
DEBIAN_FRONTEND=noninteractive apt install -y --no-install-recommends {packages}
rm -rf /tmp/factory.list /var/lib/apt/lists/* /var/cache/apt/archives/*.deb
"""


def _stage(staging: Path, pki: Path, key: Path) -> None:
    """Write the files that every node gets to one directory for the build container."""
    staging.mkdir(parents=True, exist_ok=True)
    for name in NODE_PROGRAMS:
        (staging / name).write_text(equipment(name))
    (staging / "ca.crt").write_bytes((pki / "ca.crt").read_bytes())
    (staging / "key.asc").write_bytes(key.read_bytes())
    (staging / "source.list").write_text(APT_SOURCE.format(uri="http://apt.lab.example"))
    if not key.stat().st_size:
        raise LabError(f"The lab's apt signing key {key} is empty. Remove the cache directory and start again.")
