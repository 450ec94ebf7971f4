# SPDX-License-Identifier: Apache-2.0
"""Interprets an observation of the NVIDIA driver: which package is the driver, what blocks a change, when to reboot."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from typing import Any

from ..versions import is_older

MODULE_PACKAGES = (
    "nvidia-dkms",
    "nvidia-kernel-open-dkms",
    "nvidia-kernel-dkms",
    "nvidia-driver",
    "nvidia-headless",
    "nvidia-open",
)
"""Names, or prefixes of names, of packages that have the driver's version; those closest to the module first."""


DRIVERS = (
    "cuda-drivers",
    "cuda-runtime",
    "nvidia-driver",
    "nvidia-open",
    "nvidia-dkms",
    "nvidia-kernel",
    "nvidia-utils",
    "nvidia-fabricmanager",
    "libnvidia-compute",
    "linux-modules-nvidia",
)
"""Packages that are a driver or depend on one, by name or prefix."""

BUILD_TOOLS = frozenset({"dkms"})
"""Build tools that a set may pin at a version of their own. They stay when the set is removed, as other modules are
built with them, too.
"""

_NO_DRIVERS = ("nvidia-driver-pinning", "nvidia-driver-assistant", "nvidia-driver-local-repo")
"""Names that start like a driver's and are not."""

_PARTS = frozenset(
    {
        "libnvidia-cfg1",
        "libnvidia-common",
        "libnvidia-compute",
        "libnvidia-decode",
        "libnvidia-encode",
        "libnvidia-extra",
        "libnvidia-fbc1",
        "libnvidia-gl",
        "libnvidia-gpucomp",
        "nvidia-compute-utils",
        "nvidia-dkms",
        "nvidia-driver",
        "nvidia-fabricmanager",
        "nvidia-headless",
        "nvidia-headless-no-dkms",
        "nvidia-kernel-common",
        "nvidia-kernel-source",
        "nvidia-utils",
        "xserver-xorg-video-nvidia",
    }
)
"""Packages, without branch and flavour, that work only with the driver of their own version.

Firmware is not among them: its packages are named by version and can coexist. Others (nvidia-settings, nvidia-modprobe,
nvidia-persistenced) have versions of their own in some distributions.
"""


_FOLLOWERS = frozenset(
    {
        "cuda-drivers",
        "cuda-drivers-fabricmanager",
        "libnvidia-nscq",
        "libnvsdm",
        "nvidia-imex",
        "nvidia-open",
        "nvlink5",
    }
)
"""Packages, without branch and flavour, that name a driver or must match its version, and go when it is replaced.

The driver works without them, so a version other than its own is not a fault of the driver.
"""

PRECOMPILED = "linux-modules-nvidia-"

_KERNEL_PACKAGES = (PRECOMPILED, "linux-objects-nvidia-", "linux-signatures-nvidia-")
"""Ubuntu's precompiled modules, which are versioned like kernels."""

_STAYING = frozenset({"libxnvctrl0"})
"""Has the driver's version in NVIDIA's repository, but others link to it (hwloc's plugins), and any version works."""

_OF_DRIVERS = (
    "nvidia-",
    "libnvidia-",
    "libnvsdm",
    "libxnvctrl0",
    "linux-",
    "xserver-xorg-video-nvidia",
    "nvlink5",
    "cuda-drivers",
)
"""Prefixes of the package names of drivers and kernels."""

_NO_PERSISTENCE = "--no-persistence-mode"

PINNING = "nvidia-driver-pinning"
"""NVIDIA's packages of apt preferences, by branch or version (nvidia-driver-pinning-580), with a priority of 1000."""


def module_package(names: Iterable[str]) -> str | None:
    """The package of a set that has the driver's version; names changed with branches 580 and 590."""
    listed = sorted(name for name in names if not name.startswith(_NO_DRIVERS))
    for start in MODULE_PACKAGES:
        for name in listed:
            if name == start or name.startswith(f"{start}-"):
                return name
    return None


def is_part(name: str) -> bool:
    """Whether a package is bound to the driver's version, as `libnvidia-gl-580-server` is."""
    return _plain(name) in _PARTS or name == "nvidia-open"


def follows(name: str) -> bool:
    """Whether a package goes with the driver it came with, as `cuda-drivers-570` and `libnvidia-nscq-570` do."""
    return _unbranched(name) in _FOLLOWERS or name.startswith(_KERNEL_PACKAGES)


def pins_another(name: str, want: Mapping[str, Any]) -> bool:
    """Whether a package contains apt preferences for a driver other than the wanted one.

    With a priority of 1000 apt would even downgrade to that one, with every package that is not pinned otherwise.
    """
    if name != PINNING and not name.startswith(f"{PINNING}-"):
        return False
    version = str(want.get("version") or "")
    branch = str(want.get("branch") or version.partition(".")[0])
    pinned = name.removeprefix(PINNING).removeprefix("-")
    return not pinned or pinned not in (branch, version)


def _plain(name: str) -> str:
    return "-".join(word for word in name.split("-") if not word.isdigit() and word not in ("open", "server"))


def _unbranched(name: str) -> str:
    return "-".join(word for word in name.split("-") if not word.isdigit())


def related(releases: Mapping[str, str], named: Collection[str], installed: str | None) -> list[str]:
    """Installed packages of the driver's release that are not in `named`: a metapackage alone does not keep a driver.

    `releases` maps packages to upstream versions.
    """
    if installed is None:
        return []
    return sorted(
        name
        for name, release in releases.items()
        if name not in named and (release == installed or name.startswith(_KERNEL_PACKAGES))
    )


def mixed(installed: Mapping[str, str], driver: str | None) -> list[str]:
    """Installed parts of a release other than the driver's, each as `name version`; versions are upstream's."""
    return [f"{name} {version}" for name, version in sorted(installed.items()) if is_part(name) and version != driver]


def leaving(observed: Mapping[str, Any], want: Mapping[str, Any]) -> list[str]:
    """Packages that must go with the present driver, because another one takes its place.

    These are the packages of its release that were not named, parts of any other release, metapackages and companions
    of any driver, and preferences for another one. Others that depend on it go only if the operator named them
    (`remove` of the wanted driver). If the driver stays, they all stay.
    """
    if matches(observed.get("installed"), want):
        return []
    strays = [str(row).partition(" ")[0] for row in observed.get("mixed") or ()]
    around = [name for name in observed.get("others") or () if follows(name) or pins_another(name, want)]
    named = [str(name) for name in want.get("remove") or ()]
    found = {*(observed.get("related") or ()), *strays, *around} - _STAYING
    # Precompiled modules come and go with their kernel, not with the set.
    kernels = {name for name in found if want.get("precompiled") and name.startswith(_KERNEL_PACKAGES)}
    return sorted({*(found - kernels), *named})


def bystanders(leaving: Iterable[str]) -> list[str]:
    """The packages being removed that are not drivers: metapackages of CUDA or of a vendor.

    What they installed beyond the driver stays, and must be protected from apt's autoremove.
    """
    return sorted(name for name in leaving if not name.startswith(_OF_DRIVERS))


def exec_start(unit: str) -> str | None:
    """The command that a unit file starts."""
    rows = (line.partition("=") for line in unit.splitlines())
    return next((value.strip() for key, _, value in rows if key.strip() == "ExecStart" and value.strip()), None)


def with_persistence(command: str | None) -> str | None:
    """The command that starts the persistence daemon and keeps the GPUs initialised; None if the unit already does so.

    Ubuntu's unit starts it with --no-persistence-mode: it then runs without keeping anything.
    """
    words = (command or "").split()
    if _NO_PERSISTENCE not in words:
        return None
    return " ".join(word for word in words if word != _NO_PERSISTENCE)


def builds_module(names: Iterable[str]) -> bool:
    """Whether the set builds its kernel module on the host; nvidia-headless-no-dkms-580 is for sets that do not."""
    return any("dkms" in name.replace("-no-dkms", "").split("-") for name in names)


def precompiled(names: Iterable[str]) -> list[str]:
    """Packages of a set with modules that Ubuntu compiled and signed, each for one kernel or following one."""
    return sorted(name for name in names if name.startswith(PRECOMPILED))


def matches(version: str | None, want: Mapping[str, Any]) -> bool:
    """Whether this is the wanted version, or one of the wanted branch if only that is pinned."""
    if not version:
        return False
    if want.get("version"):
        return version == str(want["version"])
    return not want.get("branch") or version.partition(".")[0] == str(want["branch"])


def wanted_words(want: Mapping[str, Any]) -> str:
    """The pin, for a message."""
    if want.get("version"):
        return str(want["version"])
    return f"branch {want['branch']}" if want.get("branch") else "any version"


def reboot_required(installed: str | None, loaded: str | None, nouveau: bool) -> bool:
    """Whether the loaded module differs from the installed one; nouveau in its place counts too."""
    return installed is not None and (loaded != installed or nouveau)


def problems(
    observed: Mapping[str, Any],
    packages: Iterable[str],
    mig_ok: bool,
    signing_ok: bool,
    want: Mapping[str, Any] | None = None,
) -> list[str]:
    """Return why this host's driver must not be touched: one sentence each, with the remedy.

    With `want`, the driver of the desired state, a matching driver that is loaded needs no reboot.
    """
    packages = list(packages)
    found = []
    if observed.get("silent"):
        found.append(
            f"{observed.get('error')}, expected an answer: a GPU or its firmware hangs, and its state cannot "
            "be read. Look for Xid in `dmesg`, and reboot the host"
        )
    mig = observed.get("mig") or {}
    if not mig_ok and (mig.get("current") or mig.get("pending")):
        now = "on" if mig.get("current") else "off now and on after the next reset"
        found.append(
            f"MIG is {now}, expected it off: with MIG on, GPUs cannot work together. Turn it off with "
            "`nvidia-smi -mig 0` and reset the GPUs, or set nvidia_driver_mig_ok to keep it"
        )
    if builds_module(packages) and observed.get("secure_boot", False) is None and not signing_ok:
        found.append(
            "whether Secure Boot is on cannot be read; if it is, the kernel would refuse the module that DKMS builds "
            "here. Install mokutil, or set nvidia_driver_signing_ok where modules are signed or Secure Boot is off"
        )
    if builds_module(packages) and observed.get("secure_boot") and not signing_ok and not observed.get("signing"):
        found.append(
            "Secure Boot is on and no key of this host is enrolled, so the kernel would refuse the module that "
            "DKMS builds here. Enrol one with `mokutil --import /var/lib/shim-signed/mok/MOK.der` and a reboot, take "
            "Ubuntu's signed linux-modules-nvidia packages instead (with Ubuntu's own user space: a stack whose "
            "driver comes from ubuntu-archive), turn Secure Boot off, or set nvidia_driver_signing_ok where modules "
            "are signed in another way"
        )
    moves = want is None or not matches(observed.get("installed"), want)
    if moves and observed.get("runfile"):
        found.append(
            f"a driver was installed here by NVIDIA's own installer ({observed['runfile']} is there), expected "
            "it from packages only: their files would overwrite each other. Remove it with `nvidia-uninstall`, "
            "reboot, and run again"
        )
    reboots = moves or observed.get("reboot_required")
    if reboots and builds_module(packages):
        found += [*_unbuildable(observed, want or {}), *_next_kernel(observed)]
    return found


def _unbuildable(observed: Mapping[str, Any], want: Mapping[str, Any]) -> list[str]:
    """Report kernels that the driver's modules are known not to build on: the running one and the next boot's."""
    limit = want.get("kernel_below")
    if not limit:
        return []
    kernels = {
        "the running kernel": observed.get("kernel"),
        "the kernel of the next boot": (observed.get("next_kernel") or {}).get("version"),
    }
    bad = {role: str(version) for role, version in kernels.items() if version and not is_older(str(version), limit)}
    if not bad:
        return []
    there = " and ".join(f"{role} is {version}" for role, version in bad.items())
    told = (
        f"{there}, expected one before {limit}: the modules of driver {wanted_words(want)} are known not to build on "
        f"{limit} and later, and apt would stop halfway. Boot and keep an older kernel (remove linux-image-"
        f"{next(iter(bad.values()))}), take a newer driver of the branch (catalog/rules/driver_build.yml says which), "
        "or set nvidia_driver_kernel_below to nothing if you know better"
    )
    return [told]


def reboot_blockers(observed: Mapping[str, Any]) -> list[str]:
    """Return why a reboot would leave this host without its GPUs, one sentence each.

    The list is empty if the module is proven to be there. If the kernel of the next boot is unknown, as in a container,
    nothing is proven and nothing is blocked.
    """
    after = observed.get("next_kernel") or {}
    installed, kernel = observed.get("installed"), after.get("version")
    if not installed or not kernel or after.get("module") == installed:
        return []
    if after.get("error"):
        found = f"cannot be read ({after['error']})"
    else:
        found = f"of version {after['module']}" if after.get("module") else "missing"
    builds = [str(one) for one in after.get("builds") or ()]
    dkms = f" DKMS says: {'; '.join(builds)}." if builds else ""
    told = (
        f"the next boot starts the kernel {kernel}, whose module nvidia is {found}, expected {installed} there: the "
        f"GPUs would be gone after that boot.{dkms} Install linux-headers-{kernel} and run `dkms autoinstall -k "
        f"{kernel}` (with precompiled modules, install the linux-modules-nvidia package of {kernel}), or remove "
        f"linux-image-{kernel}; `modinfo -k {kernel} -F version nvidia` must print {installed}"
    )
    return [told]


def _next_kernel(observed: Mapping[str, Any]) -> list[str]:
    """Report a next kernel without headers: a reboot for the driver may start it, and it then needs a module too."""
    after = observed.get("next_kernel") or {}
    version = after.get("version")
    if not version or version == observed.get("kernel") or after.get("headers"):
        return []
    told = (
        f"a reboot for the driver would start the kernel {version}, whose headers are not installed, expected the "
        f"running {observed.get('kernel')} or headers: DKMS could build no module for it, and neither the new driver "
        f"nor the former one would load. Install linux-headers-{version}, or remove linux-image-{version}, or reboot "
        "into it before the driver moves"
    )
    return [told]
