# SPDX-License-Identifier: Apache-2.0
"""Parses the driver's state: the loaded module, the library, MIG, and Secure Boot, which may prevent its loading."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass

from . import proc_version, smi_version
from .text import strip_ansi

_KERNEL = "vmlinuz-"
_NO_KERNEL = (".old", ".bak", ".dpkg-tmp", ".dpkg-new", ".dpkg-bak", ".efi.signed")
MIG_QUERY = "mig.mode.current,mig.mode.pending"
"""The --query-gpu fields that `parse_mig` expects, with --format=csv,noheader."""


@dataclass(frozen=True)
class Loaded:
    """The module in the kernel; `flavour` is open or proprietary."""

    version: str | None = None
    flavour: str | None = None


@dataclass(frozen=True)
class Library:
    """The version of nvidia-smi itself; `module` is that of the driver it talks to."""

    version: str | None = None
    module: str | None = None


def newest_kernel(names: Iterable[str], links: Iterable[str | None] = ()) -> str | None:
    """Return the kernel of the next boot: the newest, unless the boot loader is configured otherwise.

    `names` are those of /boot, `links` the targets of /vmlinuz and /boot/vmlinuz. None if there is no kernel, as in a
    container.
    """
    listed = [*names, *((link or "").rpartition("/")[2] for link in links)]
    there = {name.removeprefix(_KERNEL) for name in listed if name.startswith(_KERNEL)}
    return max((one for one in there if one and not one.endswith(_NO_KERNEL)), key=_numbers, default=None)


def _numbers(version: str) -> tuple[list[int], str]:
    """A sort key: 6.8.0-100 is newer than 6.8.0-60."""
    return [int(digits) for digits in re.findall(r"\d+", version)], version


def parse_proc_version(text: str | None) -> Loaded:
    """Parse /proc/driver/nvidia/version; the result is empty if no module is loaded."""
    data, _ = proc_version.parse_proc_version(text or "")
    return Loaded(data.get("driver"), data.get("flavour"))


def parse_smi_version(text: str) -> Library:
    """Parse `nvidia-smi --version`, even if it only complains that library and module differ."""
    data, _ = smi_version.parse_smi_version(text)
    return Library(data.get("tool") or data.get("library"), data.get("driver"))


def parse_mig(text: str) -> dict[str, bool]:
    """Whether MIG is on for any GPU now, and after its next reset; `[N/A]` marks a GPU without MIG."""
    rows = [[cell.strip() for cell in line.split(",")] for line in strip_ansi(text).splitlines()]
    pairs = [row for row in rows if len(row) == 2]
    return {
        "current": any(row[0] == "Enabled" for row in pairs),
        "pending": any(row[1] == "Enabled" for row in pairs),
    }


def parse_secure_boot(variable: str | None, mokutil: str) -> bool | None:
    """Determine Secure Boot by the EFI variable (four bytes of attributes, then the state), else by `mokutil`."""
    if variable:
        return variable[-1] == "\x01"
    if "SecureBoot enabled" in mokutil:
        return True
    return False if "SecureBoot disabled" in mokutil or "not supported" in mokutil else None
